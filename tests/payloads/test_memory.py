# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodeshare remembers, and the fence that keeps it true when others start services."""

import os
import shutil
import unittest
import unittest.mock

from nodeshare.model.node.state import HELD, OPEN, QUIESCE, STOP, TAKING, NodeState
from nodeshare.store import files
from nodeshare.store.files import StoreError
from nodeshare.store.state_store import StateStore
from simulation import quick_directory

UNITS = ("kubelet.service", "containerd.service")


class Remembering(unittest.TestCase):
    def setUp(self):
        self.directory = quick_directory()
        self.addCleanup(shutil.rmtree, self.directory)
        self.disk = os.path.join(self.directory, "disk")
        self.memories = StateStore(os.path.join(self.directory, "run"), self.disk)
        os.mkdir(os.path.dirname(self.memories.path))

    def damage(self, content):
        with open(self.memories.path, "w") as stream:
            stream.write(content)

    def test_everything_is_read_back_as_it_was_written(self):
        full = NodeState("b", HELD, STOP, UNITS, True, True, 12.5, 2, ("uid",), (("slurm/1/0", 3.0, 60.0),))
        for memory in (NodeState("b"), full):
            self.memories.save(memory)
            self.assertEqual(self.memories.load(boot_id="other"), (memory, ""))

    def test_nothing_written_is_an_open_node(self):
        self.assertEqual(self.memories.load(boot_id="b"), (NodeState("b", OPEN), ""))

    def reboot(self):
        shutil.rmtree(os.path.dirname(self.memories.path))
        os.mkdir(os.path.dirname(self.memories.path))

    def test_nothing_that_a_job_waits_for_is_written_to_the_disk_or_waits_for_it(self):
        for memory in (NodeState("b", HELD, QUIESCE), NodeState("b", HELD, STOP, UNITS, off=True), NodeState("b")):
            with self.subTest(memory=memory), unittest.mock.patch("os.fsync") as synced:
                self.memories.raise_fence(memory.stopped)
                self.memories.save(memory)
                self.assertFalse(synced.called or os.path.exists(self.disk))

    def test_what_was_stopped_and_the_switch_outlive_the_boot_once_they_are_kept(self):
        for stopped, off in ((UNITS, False), (UNITS, True), ((), True), ((), False), (UNITS[:1], False)):
            with self.subTest(stopped=stopped, off=off):
                self.memories.save(NodeState("b", HELD, STOP, stopped, off=off))
                with unittest.mock.patch("os.fsync", wraps=os.fsync) as synced:
                    self.memories.keep(boot_id="b")
                    self.assertTrue(synced.called)
                with unittest.mock.patch("os.fsync") as synced:
                    self.memories.keep(boot_id="b")
                    self.assertFalse(synced.called, "it is on disk already")
                self.reboot()
                memory, remark = self.memories.load(boot_id="c")
                self.assertEqual((memory.stopped, memory.off, remark), (tuple(sorted(stopped)), off, ""))
                self.assertEqual(memory.phase == OPEN, not stopped and not off)
                self.assertEqual(self.memories.kept(), tuple(sorted(stopped)))

    def test_a_unit_that_may_start_is_fenced_neither_here_nor_on_disk(self):
        self.memories.save(NodeState("b", HELD, STOP, UNITS))
        self.memories.keep(boot_id="b")
        self.memories.lift(UNITS)
        self.assertEqual(self.memories.fenced() + self.memories.kept(), ())

    def test_a_switch_that_is_turned_while_the_disk_is_written_is_on_disk_in_the_end(self):
        self.memories.save(NodeState("b", off=True))
        really = files.write

        def write(path, content, **how):
            really(path, content, **how)
            if path == self.memories.disk_off:
                self.memories.save(NodeState("b", off=False))

        with unittest.mock.patch.object(files, "write", write):
            self.memories.keep(boot_id="b")
        self.assertFalse(os.path.exists(self.memories.disk_off))

    def test_the_fence_is_exactly_what_we_keep_stopped(self):
        for stopped in (UNITS, UNITS[:1], (), UNITS[1:]):
            self.memories.save(NodeState("b", HELD, STOP, stopped))
            self.assertEqual(self.memories.fenced(), tuple(sorted(stopped)))

    def test_the_fence_is_up_even_where_the_record_cannot_be_written(self):
        os.mkdir(self.memories.path)
        with self.assertRaises(StoreError) as caught:
            self.memories.save(NodeState("b", TAKING, STOP, UNITS))
        self.assertIn("state.json", str(caught.exception))
        self.assertEqual(self.memories.fenced(), tuple(sorted(UNITS)))

    def test_an_unreadable_memory_is_judged_by_the_fence_and_never_taken_for_open(self):
        for content in ("", "{", "[]", "{}", '{"phase": "open"}', '{"phase": "x", "way": ""}'):
            with self.subTest(content=content):
                self.damage(content)
                memory, remark = self.memories.load(boot_id="b")
                self.assertEqual((memory.phase, memory.way, memory.stopped), (TAKING, QUIESCE, ()))
                self.assertIn("unreadable", remark)
                self.memories.raise_fence(UNITS[:1])
                memory, _ = self.memories.load(boot_id="b")
                self.assertEqual((memory.way, memory.stopped), (STOP, UNITS[:1]))
                self.memories.lift(UNITS)


if __name__ == "__main__":
    unittest.main()
