# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodeshare remembers, and the fence that keeps it true when others start services."""

import os
import shutil
import unittest
import unittest.mock

from nodeshare.durable import StoreError
from nodeshare.memory import HELD, OPEN, QUIESCE, STOP, TAKING, Memory, MemoryStore
from simulation import quick_directory

UNITS = ("kubelet.service", "containerd.service")


class Remembering(unittest.TestCase):
    def setUp(self):
        self.directory = quick_directory()
        self.addCleanup(shutil.rmtree, self.directory)
        self.memories = MemoryStore(self.directory)

    def damage(self, content):
        with open(self.memories.path, "w") as stream:
            stream.write(content)

    def test_everything_is_read_back_as_it_was_written(self):
        full = Memory("b", HELD, STOP, UNITS, True, True, 12.5, 2, ("uid",), (("slurm/1/0", 3.0, 60.0),))
        for memory in (Memory("b"), full):
            self.memories.save(memory)
            self.assertEqual(self.memories.load(boot_id="other"), (memory, ""))

    def test_nothing_written_is_an_open_node(self):
        self.assertEqual(self.memories.load(boot_id="b"), (Memory("b", OPEN), ""))

    def test_only_what_a_power_cut_must_not_take_is_waited_for(self):
        quiesced, stopped, off = Memory("b", HELD, QUIESCE), Memory("b", HELD, STOP, UNITS), Memory("b", off=True)
        for before, after, waits in (
            (None, quiesced, False),
            (quiesced, Memory("b"), False),
            (quiesced, off, True),
            (off, quiesced, True),
            (stopped, Memory("b"), True),
        ):
            with self.subTest(before=before, after=after):
                if before is not None:
                    self.memories.save(before)
                self.memories.load(boot_id="b")
                self.memories.raise_fence(after.stopped)
                with unittest.mock.patch("os.fsync") as synced:
                    self.memories.save(after)
                self.assertEqual(synced.called, waits)

    def test_the_fence_is_exactly_what_we_keep_stopped(self):
        for stopped in (UNITS, UNITS[:1], (), UNITS[1:]):
            self.memories.save(Memory("b", HELD, STOP, stopped))
            self.assertEqual(self.memories.fenced(), tuple(sorted(stopped)))

    def test_the_fence_is_up_even_where_the_record_cannot_be_written(self):
        os.mkdir(self.memories.path)
        with self.assertRaises(StoreError) as caught:
            self.memories.save(Memory("b", TAKING, STOP, UNITS))
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
