# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Full, read-only, busy and damaged disks: no job waits for one, none starts beside pods, and no lease is lost."""

import contextlib
import errno
import json
import os
import shutil
import stat
import time
import unittest
import unittest.mock

from handover_case import HandoverCase
from nodeshare.host.real_host import RealHost
from nodeshare.model import actions
from nodeshare.model.answer import Answer
from nodeshare.model.node.state import STOP
from nodeshare.model.settings import Settings
from nodeshare.store import files, lock
from nodeshare.store.state_store import StateStore
from simulated_host import Systemd
from simulation import KUBELET, RUNTIME, quick_directory
from test_cli import CliCase
from test_placing_calls import PlacingCase

UNITS = {KUBELET, RUNTIME}
# whether the API answers, whether the taint is there, and what the site has chosen
WAYS = ((True, True, "quiesce"), (True, False, "quiesce"), (True, True, "stop"), (False, False, "quiesce"))


class InTheSimulation(HandoverCase):
    def at(self, api_up, tainted, handover):
        site = self.site(handover=handover, on_failure="requeue")
        site.node.api_up, site.node.tainted = api_up, tainted
        site.node.add("web")
        return site

    def test_a_full_or_busy_disk_neither_lets_a_job_in_beside_pods_nor_keeps_it_out(self):
        for way in WAYS:
            for fault in ("disk_full", "disk_hangs"):
                site = self.at(*way)
                setattr(site, fault, True)
                with self.subTest(way=way, fault=fault), site.faulty():
                    self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
                    self.assert_free(site)
                    self.assertEqual(len(site.store.leases()), 1)
                    site.end()
                    self.assertEqual(site.store.leases(), ())

    def test_memory_without_room_neither_lets_a_job_in_beside_pods_nor_loses_its_lease(self):
        for way in WAYS:
            site = self.at(*way)
            site.node.no_room = True
            with self.subTest(way=way), site.faulty():
                told = site.begin()
                self.assertEqual(told.done.outcome, actions.ACCEPT)
                self.assert_free(site)
                self.assertEqual([str(one.key) for one in site.store.leases()], ["slurm/1/0"], "held by its name")
                if told.way == STOP:
                    self.assertEqual((site.node.active, len(site.memories.fenced())), (set(), 2))
                site.later(60.0)
                self.assert_free(site)
                site.node.no_room, site.node.api_up, site.node.tainted = False, True, True
                site.begin()
                self.assertFalse(site.store.leases()[0].corrupt, "its begin puts it right")
                site.end()
                site.later(31.0)
                self.assert_back(site)

    def test_memory_without_room_for_any_file_frees_the_node_and_ends_in_the_sites_outcome(self):
        for way in WAYS:
            site = self.at(*way)
            site.node.no_room = True
            with self.subTest(way=way), site.faulty(), unittest.mock.patch.object(files, "claim", lambda path: False):
                told = site.begin()
                self.assertEqual((told.done.outcome, site.node.ordinary_running()), ("requeue", []))
                if told.way == STOP:
                    self.assertEqual(site.node.active, set())
                    self.assertIn("stopped without a fence: ", " ".join(told.remarks))
                site.node.no_room, site.node.api_up, site.node.tainted = False, True, True
                for _unused in range(2):
                    site.later(31.0)
                self.assert_back(site)

    def test_a_repair_sends_pods_away_from_a_job_although_it_cannot_write_that_down(self):
        site = self.at(True, True, "quiesce")
        site.begin()
        site.node.add("bound-late")
        with unittest.mock.patch.object(site.memories, "save", side_effect=files.StoreError("no room")):
            site.later(60.0)
        self.assertEqual(site.node.ordinary_running(), [])

    def test_a_node_held_by_stop_stays_so_through_a_reboot_once_a_repair_has_kept_it(self):
        site = self.at(True, True, "stop")
        site.begin()
        site.repair()
        site.node.reboot()
        self.assertEqual((site.node.active, site.store.leases()), (set(), ()))
        site.later(31.0)
        self.assert_back(site)

    def test_a_switch_outlives_the_boot_and_a_disk_that_is_full_then_is_asked_again(self):
        for full in (False, True):
            site = self.at(True, True, "quiesce")
            with self.subTest(full=full), site.faulty():
                site.disk_full = full
                site.act(actions.OFF)
                site.disk_full = False
                site.repair()
                site.node.reboot()
                site.repair()
                self.assertEqual((site.node.active, site.memory().off), (set(), True))
                site.act(actions.ON)
                site.node.reboot()
                self.assertFalse(site.memory().off)
                site.repair()
                self.assert_back(site)


@contextlib.contextmanager
def read_only(directory):
    """Nothing below this directory can be written or removed."""

    def refusing(act):
        def acted(path, *rest, **how):
            writes = act is not os.open or rest[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and isinstance(path, str) and path.startswith(directory):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
            return act(path, *rest, **how)

        return acted

    names = ("open", "unlink", "rename", "mkdir", "chmod")
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(unittest.mock.patch("os." + name, refusing(getattr(os, name))))
        yield


@contextlib.contextmanager
def full(directory):
    """What is written below this directory finds no room."""

    def write(fd, data):
        if os.readlink("/proc/self/fd/{}".format(fd)).startswith(directory):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return really(fd, data)

    really = os.write
    with unittest.mock.patch("os.write", write):
        yield


@contextlib.contextmanager
def hanging(directory):
    """Nothing below this directory may be asked for: it would never answer."""

    def unasked(act):
        def acted(path, *rest, **how):
            assert not str(path).startswith(directory), "asked for " + str(path)
            return act(path, *rest, **how)

        return acted

    with contextlib.ExitStack() as stack:
        for name in ("open", "listdir", "scandir", "lstat", "stat", "unlink", "rename", "mkdir"):
            stack.enter_context(unittest.mock.patch("os." + name, unasked(getattr(os, name))))
        yield


class WholeCalls(CliCase):
    def setUp(self):
        CliCase.setUp(self)
        self.memory = os.path.join(self.top, "run")
        self.disk = os.path.join(self.top, "disk")

    def test_on_a_read_only_disk_jobs_start_and_end_and_only_the_switch_says_what_it_costs(self):
        os.mkdir(self.disk)
        for handover in ("quiesce", "stop"):
            with self.subTest(handover=handover), read_only(self.disk):
                self.configure(handover=handover, on_failure="requeue")
                self.api.add_pod("web")
                code, err = self.call(*self.job("begin"))
                self.assertEqual((code, self.api.pods, "error=" in err), (0, {}, False), err)
                self.assertEqual(self.call(*self.job("end"))[0], 0)
                self.assertEqual(self.call("repair")[0], 0)
                self.assertEqual((self.state()["phase"], self.active()), ("open", UNITS))
                code, err = self.call("off")
                self.assertEqual((code, self.active()), (0, set()))
                self.assertIn("will not outlive a reboot: ", err)
                self.assertIn("Read-only file system", err)
                self.assertEqual(self.call("on")[0], 0)
                self.assertEqual(self.active(), UNITS)

    def test_neither_a_begin_nor_an_end_waits_for_a_disk(self):
        os.mkdir(self.disk)
        for handover in ("quiesce", "stop"):
            with self.subTest(handover=handover):
                self.configure(handover=handover)
                waits = AssertionError("a job waits for a disk")
                with unittest.mock.patch("os.fsync", side_effect=waits), read_only(self.disk):
                    self.assertEqual(self.call(*self.job("begin"))[0], 0)
                    self.assertEqual(self.call(*self.job("end"))[0], 0)
                self.call("repair")

    def test_after_the_first_repair_of_a_boot_no_job_asks_a_disk_for_anything(self):
        os.mkdir(self.disk)
        self.call("repair")

        for handover in ("quiesce", "stop"):
            self.configure(handover=handover)
            with self.subTest(handover=handover), hanging(self.disk):
                self.assertEqual(self.call(*self.job("begin"))[0], 0)
                self.assertEqual(self.call(*self.job("begin", "5"))[0], 0)
                self.assertEqual(self.call(*self.job("end"))[0], 0)
                self.assertEqual(self.call(*self.job("end", "5"))[0], 0)
            self.call("repair")

    def test_a_call_that_hangs_with_the_lock_is_waited_for_as_long_as_the_job_may_wait(self):
        self.configure(limit=60, on_failure="requeue")
        self.api.add_pod("web")
        os.mkdir(self.memory, 0o700)
        hangs = lock.Lock(os.path.join(self.memory, "lock"), seconds=1)

        class Clock:
            """Time passes as it is slept, and the other call is through after half a minute."""

            def __init__(self):
                self.now = 0.0
                self.held = True

            def monotonic(self):
                return self.now

            def sleep(self, seconds):
                self.now += seconds
                if self.held and self.now > 30.0:
                    self.held = False
                    hangs.__exit__(None, None, None)

        clock = Clock()
        hangs.__enter__()
        # a lock takes its clock when it is made
        waiting = unittest.mock.patch.object(lock.Lock.__init__, "__kwdefaults__", {"clock": clock.monotonic})
        with waiting, unittest.mock.patch.object(lock, "time", clock):
            code, err = self.call(*self.job("begin"))
        self.assertEqual((code, self.api.pods, len(self.state()["leases"])), (0, {}, 1), err)
        self.assertFalse(clock.held)

    def test_what_a_lock_has_cost_is_not_there_for_pods(self):
        for waited, polite in ((0.0, True), (59.0, False)):
            with self.subTest(waited=waited):
                self.configure(limit=60, deadline=40, after_deadline="job_wins")
                self.api.add_pod("web")
                self.api.calls.clear()
                ago = [waited]  # the first look at the clock is the beginning of the call

                def now(_node, ago=ago):
                    return time.monotonic() - (ago.pop() if ago else 0.0)

                with unittest.mock.patch("nodeshare.host.real_host.RealHost.now", now):
                    self.assertEqual(self.call(*self.job("begin"))[0], 0)
                self.assertEqual(any(path.endswith("/eviction") for _, path, _ in self.api.calls), polite)
                self.call(*self.job("end"))
                self.call("repair")

    def test_a_switch_that_cannot_be_recorded_is_a_failure_as_the_next_repair_does_not_know_of_it(self):
        for then in ("repair", "off"):
            with self.saves_fail():
                code, err = self.call("off")
            self.assertEqual((code, self.active()), (1, set()), err)
            self.assertRegex(err, 'error="the next repair opens the node, as this is not recorded: .*no room"')
            with self.subTest(then=then):
                self.assertEqual(self.call(then)[0], 0)
                if then == "off":
                    self.assertEqual((self.state()["off"], self.state()["phase"]), (True, "held"))
                    self.assertEqual(self.call("on")[0], 0)
                self.assertEqual((self.state()["off"], self.active()), (False, UNITS), "what was stopped runs again")

    def test_a_switch_back_that_cannot_be_recorded_is_a_failure(self):
        for job in (False, True):
            self.call("off")
            if job:
                self.call(*self.job("begin"))
            with self.subTest(job=job):
                with self.saves_fail():
                    code, err = self.call("on")
                self.assertEqual((code, self.state()["off"]), (1, True), err)
                self.assertRegex(err, 'error="still switched off: .*no room')
                self.assertEqual((self.call("on")[0], self.state()["off"]), (0, False))
                self.call(*self.job("end"))
                self.call("repair")
                self.assertEqual(self.active(), UNITS)

    def test_a_switch_of_which_only_the_wish_is_recorded_says_that_the_repair_goes_on(self):
        with self.saves_fail(after=1):
            code, err = self.call("off")
        self.assertEqual((code, self.state()["off"]), (1, True), err)
        self.assertIn('error="the next repair goes on, as this is not recorded: ', err)
        self.assertEqual((self.call("repair")[0], self.state()["phase"], self.active()), (0, "held", set()))
        self.call("on")
        self.assertEqual(self.active(), UNITS)

    def test_a_begin_without_room_does_not_undo_a_switch_that_comes_meanwhile(self):
        self.api.add_pod("web")
        off = []

        def evicted(*_arguments):
            store = StateStore(self.memory, self.disk)
            really(store, store.load(boot_id="")[0]._replace(off=True))
            off.append(True)

        really = StateStore.save
        with self.saves_fail(1), unittest.mock.patch.object(RealHost, "evict", evicted):
            self.call(*self.job("begin"))
        self.assertEqual((off[:1], self.state()["off"]), ([True], True))

    def test_what_only_its_fence_names_is_started_until_it_runs(self):
        run = Systemd.run

        def stuck(systemd, argv, seconds):
            return Answer(0, "", "") if "start" in argv else run(systemd, argv, seconds)

        self.call("repair")  # there is a record, which names nothing as stopped
        with self.saves_fail():
            self.call("off")
        with unittest.mock.patch.object(Systemd, "run", stuck):
            self.call("repair")
        self.assertEqual(self.active(), set())
        self.call("repair")
        self.assertEqual((self.active(), self.state()["phase"]), (UNITS, "open"))

    def test_what_only_its_fence_names_gets_its_cores_back(self):
        self.configure(handover="stop")
        self.call("repair")
        with self.saves_fail():
            self.call(*self.job("begin"))
        self.call(*self.job("end"))
        with unittest.mock.patch.object(RealHost, "release", autospec=True, side_effect=RealHost.release) as release:
            self.call("repair")
        self.assertEqual((self.active(), release.called), (UNITS, True))

    def test_a_switch_that_waits_for_a_lock_in_vain_says_so(self):
        self.call("off")
        busy = files.StoreError("work: not free within 90 s")
        with unittest.mock.patch("nodeshare.run.cli.Call.act", side_effect=busy):
            code, err = self.call("on")
        self.assertEqual(code, 1)
        self.assertIn('error="still switched off: work: not free within 90 s"', err)

    def test_what_finds_room_before_the_call_ends_is_recorded(self):
        saves = (("off", "quiesce", 2), ("off", "stop", 3), ("begin", "quiesce", 1), ("begin", "stop", 2))
        for verb, way, times in saves:
            self.configure(handover=way)
            for fails in range(1, times + 1):
                with self.subTest(verb=verb, way=way, fails=fails):
                    with self.saves_fail(fails):
                        code, err = self.call(*(self.job("begin") if verb == "begin" else ("off",)))
                    found = self.state()
                    self.assertEqual((code, found["phase"], found["off"]), (0, "held", verb == "off"), err)
                    self.call("on")
                    self.call(*self.job("end"))
                    self.call("repair")
                    self.assertEqual((self.state()["phase"], self.active()), ("open", UNITS))

    @staticmethod
    @contextlib.contextmanager
    def saves_fail(times=1000, after=0):
        """Let the next saves of the node's state fail."""
        left, good = [times], [after]

        def save(store, memory):
            if good[0]:
                good[0] -= 1
            elif left[0]:
                left[0] -= 1
                raise files.StoreError("{}: no room".format(store.path))
            return really(store, memory)

        really = StateStore.save
        with unittest.mock.patch.object(StateStore, "save", save):
            yield

    def test_an_end_removes_its_lease_although_its_mark_cannot_be_written(self):
        self.configure(on_failure="drain")
        self.call(*self.job("begin"))
        with self.no_marks():
            code, err = self.call(*self.job("end"))
            self.assertEqual((code, self.state()["leases"]), (0, []), err)
            self.assertIn("lease=unmarked", err)
            code, err = self.call(*self.job("end", "5"))
        self.assertEqual(code, 69, "a begin that comes late would not be told")
        self.assertIn("No space left", err)

    @staticmethod
    def no_marks():
        def write(path, content, **how):
            if path.endswith(".ended"):
                raise files.StoreError("{}: cannot write: {}".format(path, os.strerror(errno.ENOSPC)))
            really(path, content, **how)

        really = files.write
        return unittest.mock.patch.object(files, "write", write)

    def test_leases_and_marks_that_are_cut_in_the_middle_have_the_outcome_that_the_guide_states(self):
        self.configure(squeue="")  # nothing says whether the job lives
        self.call(*self.job("begin"))
        self.call(*self.job("end", "5"))
        lease, mark = (os.path.join(self.memory, name) for name in ("slurm.4711.r0.lease", "slurm.5.r0.ended"))
        whole = {}
        for path in (lease, mark):
            with open(path, "rb") as stream:
                whole[path] = stream.read()
        for path in (lease, mark):
            for length in range(0, len(whole[path]), 7):
                with self.subTest(path=os.path.basename(path), length=length):
                    for other, content in whole.items():
                        with open(other, "wb") as stream:
                            stream.write(content[:length] if other == path else content)
                    code, err = self.call("repair")
                    self.assertEqual((code, "Traceback" in err), (0, False), err)
                    found = {row["job"]: row["unreadable"] for row in self.state()["leases"]}
                    if path == lease:
                        self.assertEqual(found, {"4711": True}, "a lease that cannot be read holds")
                        self.assertIn("unreadable=slurm/4711/0", err)
                        self.assertEqual(self.state()["phase"], "held")
                    else:
                        self.assertFalse(os.path.exists(mark), "a mark that says nothing goes")
                        self.assertEqual(self.call(*self.job("begin", "5"))[0], 0)
                        self.assertIn("5", [row["job"] for row in self.state()["leases"]], "its begin holds")
                        self.call(*self.job("end", "5"))
        with open(lease, "wb") as stream:
            stream.write(whole[lease][:20])
        self.assertEqual(self.call(*self.job("end"))[0], 0)
        self.assertEqual(self.state()["leases"], [])


class BesidePods(PlacingCase):
    """A node as the role makes it, below one directory: what is not in its /run is on the disk."""

    def setUp(self):
        PlacingCase.setUp(self)
        self.disk = os.path.join(self.top, "var")
        self.api.directory = self.top + Settings().manifests
        os.makedirs(self.api.directory, mode=0o700)
        self.configure(
            mode="placeholder",
            manifests=self.api.directory,
            run_dir=self.top + Settings().run_dir,
            state_dir=self.top + Settings().state_dir,
            deadline=0,
            on_failure="requeue",
        )
        self.call("repair")

    def test_a_job_begins_and_ends_whatever_the_disk_does(self):
        for fault in (full, read_only, hanging):
            with self.subTest(fault=fault.__name__), fault(self.disk):
                code, err = self.begin("--cpus", "2")
                self.assertEqual(code, 0, err)
                self.assertIn('reason="1 held by placeholders"', err)
                self.assertEqual((len(os.listdir(self.api.directory)), self.pod_cores()), (1, "2-3"))
                code, err = self.call(*self.job("end"))
                self.assertEqual((code, os.listdir(self.api.directory), self.pod_cores()), (0, [], "0-3"), err)


class Folders(unittest.TestCase):
    def setUp(self):
        self.top = quick_directory()
        self.addCleanup(shutil.rmtree, self.top)

    def mode(self, path):
        return stat.S_IMODE(os.stat(path).st_mode)

    def test_the_directory_in_memory_is_for_root_alone_whatever_the_callers_umask(self):
        for number, mask in enumerate((0o000, 0o022, 0o077)):
            parent = os.path.join(self.top, str(number))
            path = os.path.join(parent, "nodeshare")
            before = os.umask(mask)
            try:
                files.make_private_dir(path)
            finally:
                os.umask(before)
            self.assertEqual((self.mode(path), self.mode(parent)), (0o700, 0o755))

    def test_a_parent_in_which_all_may_write_is_closed_to_them(self):
        parent = os.path.join(self.top, "converged")
        os.mkdir(parent)
        os.chmod(parent, 0o777)
        files.make_private_dir(os.path.join(parent, "nodeshare"))
        self.assertEqual(self.mode(parent), 0o755)

    def test_what_is_no_directory_of_ours_is_refused(self):
        target = os.path.join(self.top, "target")
        os.mkdir(target)
        link = os.path.join(self.top, "link")
        os.symlink(target, link)
        file = os.path.join(self.top, "file")
        open(file, "w").close()
        for path in (link, file):
            with self.subTest(path=path), self.assertRaises(files.StoreError):
                files.make_private_dir(path)
        with unittest.mock.patch("os.geteuid", lambda: os.getuid() + 1), self.assertRaises(files.StoreError) as caught:
            files.make_private_dir(target)
        self.assertIn("belongs to user", str(caught.exception))

    def test_the_memory_has_room_for_its_next_version_set_aside(self):
        path = os.path.join(self.top, "state.json")
        files.write_with_room(path, b"{}")
        inode = os.stat(os.path.join(self.top, ".new.state.json"))
        self.assertEqual(inode.st_size, files.PAGE)
        files.write_with_room(path, b"[]")
        with open(path, "rb") as stream:
            self.assertEqual(json.loads(stream.read().decode("ascii")), [])
        self.assertEqual(os.stat(path).st_ino, inode.st_ino, "the pages that were there before")


if __name__ == "__main__":
    unittest.main()
