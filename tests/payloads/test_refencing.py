# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Behind a start of the kubelet: whenever it gives pods the cores of jobs, they are taken again before a pod runs."""

import os
import shutil
import unittest
import unittest.mock

from nodeshare.host.real_host import RealHost
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease
from nodeshare.model.node.state import HELD, QUIESCE, NodeState
from nodeshare.model.settings import Settings
from nodeshare.run import fence_watch
from nodeshare.store.files import StoreError
from nodeshare.store.lease_store import LeaseStore
from nodeshare.store.lock import Lock
from nodeshare.store.state_store import StateStore
from simulation import quick_directory
from test_placing_calls import PlacingCase

BOOT = "boot.0"
ALL = "0-3"


class Timed(RealHost):
    """A node whose cgroups are files; time passes when somebody sleeps, and things happen when it has come to them."""

    def __init__(self, settings, top):
        RealHost.__init__(self, settings, proc=os.path.join(top, "proc"), cgroup=os.path.join(top, "cgroup"))
        self.time = 0.0
        self.due = []
        self.seen = []
        self.top = top

    def now(self):
        return self.time

    def boot_id(self):
        return BOOT

    def sleep(self, seconds):
        self.seen.append((self.time, self.cores()))
        self.time += seconds
        while self.due and self.due[0][0] <= self.time:
            self.due.pop(0)[1]()

    def cores(self, group="kubepods"):
        path = os.path.join(self.top, "cgroup/cpuset", group, "cpuset.cpus")
        if not os.path.exists(path):
            return ""
        with open(path) as stream:
            return stream.readline().strip()


class RefencingCase(unittest.TestCase):
    def setUp(self):
        self.top = quick_directory()
        self.addCleanup(shutil.rmtree, self.top)
        self.write("cgroup/cpuset/cpuset.cpus", ALL)
        self.write("cgroup/cpuset/pbs_jobs.service/jobid/1.srv/cpuset.cpus", "0-1")
        self.write("proc/meminfo", "MemTotal: 16777216 kB")

    def write(self, path, text):
        path = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text + "\n")

    def kubelet(self):
        """What it does to its groups when it has come so far."""
        self.write("cgroup/cpuset/kubepods/cpuset.cpus", ALL)
        self.write("cgroup/memory/kubepods/memory.limit_in_bytes", str(1 << 33))

    def begin(self, **changes):
        values = dict({"run_dir": os.path.join(self.top, "run"), "mode": "placeholder"}, **changes)
        settings = Settings()._replace(**values)
        self.node = Timed(settings, self.top)
        self.store, self.memories = (
            LeaseStore(settings.run_dir),
            StateStore(settings.run_dir, os.path.join(self.top, "disk")),
        )
        self.store.prepare()
        return fence_watch.Refencing(settings, self.node, self.store, self.memories)

    def lease(self):
        with self.store.locked():
            self.store.begin(Lease(JobKey("pbs", "1.srv", 1), BOOT, 0.0, cores=2, memory=1 << 30), mark_life=0.0)

    def lock(self, seconds):
        return Lock(os.path.join(self.store.directory, "work"), seconds=seconds)


class BesideJobs(RefencingCase):
    def test_whenever_the_kubelet_sets_up_its_groups_pods_are_off_the_jobs_cores_at_once(self):
        again = self.begin()
        self.lease()
        for seconds in (0.0, 3.0, 60.0):
            self.node.due.append((seconds, self.kubelet))
        watched = again.watch(work_lock=self.lock)
        self.assertEqual((watched.drawn, watched.error), (3, ""))
        after = [(time, cores) for time, cores in self.node.seen[1:] if cores != "2-3"]
        self.assertEqual(after, [])
        with open(os.path.join(self.top, "cgroup/memory/kubepods/memory.limit_in_bytes")) as stream:
            self.assertEqual(int(stream.readline()), (1 << 33) - (1 << 30))

    def test_what_the_kubelet_writes_while_the_fence_is_drawn_does_not_count_as_drawn(self):
        again = self.begin()
        self.lease()
        self.kubelet()
        draw_fence, amid = self.node.draw_fence, 3 * [self.kubelet]

        def draw(leases):
            drawn = draw_fence(leases)
            if amid:
                amid.pop()()
            return drawn

        self.node.draw_fence = draw
        again.watch(work_lock=self.lock)
        self.assertEqual((self.node.cores(), amid), ("2-3", []))

    def test_groups_below_that_are_written_alone_are_noticed(self):
        self.kubelet()
        again = self.begin()
        self.lease()
        group = "kubepods/burstable"
        self.node.due.append((3.0, lambda: self.write("cgroup/cpuset/{}/cpuset.cpus".format(group), ALL)))
        again.watch(work_lock=self.lock)
        self.assertEqual((self.node.cores(), self.node.cores(group)), ("2-3", "2-3"))

    def test_a_job_that_begins_meanwhile_is_fenced_when_the_kubelet_comes_late(self):
        self.kubelet()
        again = self.begin()
        self.node.due += [(2.0, self.lease), (4.0, self.kubelet), (4.2, self.kubelet)]
        self.write("cgroup/cpuset/kubepods/cpuset.cpus", "2-3")  # as the job's own begin leaves it
        again.watch(work_lock=self.lock)
        self.assertEqual(self.node.cores(), "2-3")

    def test_where_no_job_is_nothing_is_written(self):
        self.kubelet()
        self.write("cgroup/cpuset/kubepods/pinned/cpuset.cpus", "3")
        self.begin().watch(work_lock=self.lock)
        self.assertEqual((self.node.cores(), self.node.cores("kubepods/pinned")), (ALL, "3"))

    def test_a_split_holds_without_a_job_too(self):
        self.kubelet()
        again = self.begin(fence="split", pod_cpus="0")
        self.node.due.append((3.0, self.kubelet))
        again.watch(work_lock=self.lock)
        self.assertEqual(self.node.cores(), "0")

    def test_what_cannot_be_drawn_is_tried_again_and_said_if_it_never_is(self):
        self.kubelet()
        again = self.begin()
        self.lease()
        os.remove(os.path.join(self.top, "proc/meminfo"))
        self.node.due.append((5.0, lambda: self.write("proc/meminfo", "MemTotal: 16777216 kB")))
        watched = again.watch(work_lock=self.lock)
        self.assertEqual((watched.drawn, watched.error, self.node.cores()), (1, "", "2-3"))
        os.remove(os.path.join(self.top, "proc/meminfo"))
        again = self.begin()
        watched = again.watch(work_lock=self.lock)
        self.assertEqual(watched.drawn, 0)
        self.assertIn("meminfo", watched.error)


class WholeNodes(RefencingCase):
    def confined(self, **more):
        again = self.begin(mode="handover", housekeeping_cpus="0")
        memory = NodeState(BOOT, HELD, QUIESCE, confined=True)._replace(**more)
        with self.store.locked():
            self.memories.save(memory)
        self.node.due.append((3.0, self.kubelet))
        return again

    def test_what_stays_on_a_held_node_keeps_to_the_cores_that_keep_house(self):
        self.kubelet()
        self.confined().watch(work_lock=self.lock)
        self.assertEqual(self.node.cores(), "0")

    def test_an_open_node_or_another_boots_memory_confines_nobody(self):
        for more in ({"confined": False}, {"boot_id": "earlier"}):
            with self.subTest(**more):
                self.kubelet()
                self.confined(**more).watch(work_lock=self.lock)
                self.assertEqual(self.node.cores(), ALL)

    def test_whoever_is_at_work_on_the_node_is_not_disturbed_and_asked_again(self):
        self.kubelet()
        busy = [True, True]

        def lock(seconds):
            if busy and busy.pop():
                raise StoreError("not free")
            return self.lock(seconds)

        watched = self.confined().watch(work_lock=lock)
        self.assertEqual((watched.error, self.node.cores()), ("", "0"))


class Calls(PlacingCase):
    def test_the_call_draws_the_fence_and_says_so(self):
        self.assertEqual(self.begin("--cpus", "2")[0], 0)
        self.write("cgroup/cpuset/kubepods/cpuset.cpus", ALL)
        with unittest.mock.patch("nodeshare.run.fence_watch.WATCHED", 0):
            code, err = self.call("fence")
        self.assertEqual((code, self.pod_cores()), (0, "2-3"), err)
        self.assertRegex(err, r"\Anodeshare: event=fence drawn=1 seconds=\d+\.\d{3}\n\Z")

    def test_a_kubelet_that_the_way_back_starts_keeps_all_cores_until_somebody_uses_the_node_again(self):
        self.assertEqual(self.begin("--cpus", "2")[0], 0)
        self.assertEqual((self.call("forget")[0], self.pod_cores()), (0, ALL))
        with unittest.mock.patch("nodeshare.run.fence_watch.WATCHED", 0):
            self.assertEqual((self.call("fence")[0], self.pod_cores()), (0, ALL))
            self.assertEqual(self.begin("--cpus", "2")[0], 0)
            self.write("cgroup/cpuset/kubepods/cpuset.cpus", ALL)
            self.call("fence")
        self.assertEqual(self.pod_cores(), "2-3")

    def test_a_whole_node_that_is_given_back_keeps_all_cores_too(self):
        for handover in ("quiesce", "stop"):
            with self.subTest(handover):
                self.configure(mode="handover", handover=handover, deadline=0, housekeeping_cpus="0")
                self.begin()
                self.assertTrue(self.state()["confined"])
                self.assertEqual((self.call("forget")[0], self.pod_cores()), (0, ALL))
                with unittest.mock.patch("nodeshare.run.fence_watch.WATCHED", 0):
                    self.assertEqual((self.call("fence")[0], self.pod_cores()), (0, ALL))
                shutil.rmtree(os.path.join(self.top, "run"))

    def test_the_way_back_does_not_need_a_disk_that_takes_its_mark_and_names_it(self):
        self.assertEqual(self.begin("--cpus", "2")[0], 0)
        with self.full_disk(after=0):
            code, err = self.call("forget")
        self.assertEqual((code, self.pod_cores()), (0, "0-3"), err)
        self.assertIn("state.json", err)


if __name__ == "__main__":
    unittest.main()
