# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fence between pods and jobs: what is drawn, and what stands in the files of both cgroup versions."""

import contextlib
import errno
import io
import os
import shutil
import tempfile
import unittest
from unittest import mock

from nodeshare.decide.fence import Fence, draw
from nodeshare.host.cgroups.cpuset import Cpuset
from nodeshare.host.cgroups.fence_writer import Fencing
from nodeshare.host.cgroups.limits import CACHE, SECONDS, STEP, Limits, LimitsError
from nodeshare.model.cpu_list import CpusetError, format_cpus, parse_cpus
from nodeshare.model.jobs import job_key
from nodeshare.model.jobs.lease import Lease
from nodeshare.model.settings import Settings

GIB = 1 << 30
JOBS = "pbs_jobs.service/jobid/"


def lease(job="1.srv", wlm="pbs", **share):
    return Lease(job_key.JobKey(wlm, job, 1), "boot", 100.0, **share)


class Lists(unittest.TestCase):
    def test_lists_of_cpus_are_read_and_written_as_the_kernel_does(self):
        for text in ("", "0", "0-1", "0,2-3,64-127"):
            self.assertEqual(format_cpus(parse_cpus(text)), text)
        self.assertEqual(format_cpus(parse_cpus("3,1,0,2")), "0-3")
        for text in ("a", "0-", "1;2", "0-1-2"):
            with self.assertRaises(CpusetError):
                parse_cpus(text)


class Drawing(unittest.TestCase):
    def drawn(self, *leases, held=(), **settings):
        groups = {JOBS + job: parse_cpus(cpus) for job, cpus in held}
        chosen = Settings(node="n1", housekeeping_cpus="0-1", **settings)
        return draw(leases, chosen, online=parse_cpus("0-15"), held=groups)

    def test_pods_get_what_the_cpusets_of_all_jobs_leave(self):
        jobs = (lease("1", cores=4, memory=GIB), lease("2", cores=2, memory=2 * GIB))
        drawn = self.drawn(*jobs, held=(("1", "0-3"), ("2", "8,12")))
        self.assertEqual(drawn, Fence("4-7,9-11,13-15", 3 * GIB, 10, 16))

    def test_without_jobs_there_is_no_fence(self):
        self.assertEqual(self.drawn(), Fence(None, 0, 16, 16))

    def test_what_stays_beside_a_job_of_all_cores_keeps_house(self):
        for jobs, held in (
            ((lease("1", cores=16),), (("1", "0-15"),)),
            ((lease("1", cores=4, exclusive=True),), (("1", "2-5"),)),
            ((lease("1"),), ()),
        ):
            self.assertEqual(self.drawn(*jobs, held=held)[0], "0-1")

    def test_a_cgroup_that_tells_nothing_is_named_and_pods_have_none_of_the_cores_that_its_job_may_be_on(self):
        drawn = self.drawn(lease("1", cores=4), lease("2", cores=1, cgroup="other/2"), lease("3", cores=0))
        self.assertEqual((drawn.cpus, drawn.missing), ("0-1", (JOBS + "1", "other/2")))
        self.assertEqual(self.drawn(lease("1", wlm="slurm", cores=4)).missing, ("slurm/1/1",))

    def test_beside_a_cgroup_that_tells_nothing_pods_are_on_no_core_that_another_is_known_to_have(self):
        jobs = (lease("1", cores=1), lease("2", cores=4))
        for held, cpus in (("0", "1"), ("0-3", "4-5"), ("2-15", "0-1"), ("0-14", "15"), ("0-15", "0-1")):
            self.assertEqual(self.drawn(*jobs, held=(("2", held),)).cpus, cpus, held)

    def test_a_split_is_the_sites_and_counts_keep_nobody_apart(self):
        job = lease("1", cores=4, memory=GIB)
        split = {"fence": "split", "pod_cpus": "8-15"}
        self.assertEqual(self.drawn(job, **split), Fence("8-15", GIB, 16, 16))
        self.assertEqual(self.drawn(**split), Fence("8-15", 0, 16, 16))
        self.assertEqual(self.drawn(job, fence="counts"), Fence(None, GIB, 12, 16))


class Machine(unittest.TestCase):
    """A machine's cgroups as files, with 16 CPUs and 64 GiB. Its steps of a limit are done in time, however slow."""

    SECONDS = float("inf")

    def setUp(self):
        bound = mock.patch("nodeshare.host.cgroups.limits.SECONDS", self.SECONDS)
        bound.start()
        self.addCleanup(bound.stop)
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.write("proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 1 kB")

    def write(self, path, text):
        path = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as stream:
            stream.write(text + "\n")

    def read(self, path):
        with open(os.path.join(self.top, path)) as stream:
            return stream.readline().strip()

    def draw(self, *leases, **settings):
        """A process of its own each time: nothing but the files is remembered."""
        chosen = Settings(node="n1", run_dir=self.top, **settings)
        cpuset = Cpuset(cgroup=self.top, saved=os.path.join(self.top, "cpuset.json"))
        proc = os.path.join(self.top, "proc")
        return Fencing(chosen, proc=proc, cgroup=self.top, cpuset=cpuset).draw(leases)


class MachineOfV1(Machine):
    KUBEPODS = ("kubepods", "kubepods/burstable", "kubepods/burstable/pod1", "kubepods/pod2")

    def setUp(self):
        Machine.setUp(self)
        self.write("cpuset/cpuset.cpus", "0-15")
        for group in self.KUBEPODS:
            self.write("cpuset/{}/cpuset.cpus".format(group), "0-15")
        self.write("memory/kubepods/memory.limit_in_bytes", str(60 * GIB))
        self.write("memory/kubepods/memory.usage_in_bytes", str(GIB))
        self.write("cpu/kubepods/cpu.shares", "16384")

    def job(self, job, cpus):
        self.write("cpuset/{}{}/cpuset.cpus".format(JOBS, job), cpus)

    def pods(self):
        found = {self.read("cpuset/{}/cpuset.cpus".format(group)) for group in self.KUBEPODS}
        self.assertEqual(len(found), 1, found)
        return found.pop()

    def caps(self):
        return int(self.read("memory/kubepods/memory.limit_in_bytes")), int(self.read("cpu/kubepods/cpu.shares"))

    def limits(self):
        return Limits(cgroup=self.top, saved=os.path.join(self.top, "limits.json"), total=lambda: 64 * GIB)

    def stat(self, **fields):
        lines = ["{} {}".format(name, value) for name, value in fields.items()]
        self.write("memory/kubepods/memory.stat", "\n".join(lines))


class V1(MachineOfV1):
    def test_the_fence_follows_jobs_as_they_come_and_go_and_leaves_all_as_it_was(self):
        one, two = lease("1[7].srv", cores=4, memory=16 * GIB), lease("2.srv", cores=8, memory=GIB)
        self.job("1[7].srv", "0-3")
        self.assertEqual(self.draw(one), ())
        self.assertEqual((self.pods(), self.caps()), ("4-15", (44 * GIB, 12288)))
        self.job("2.srv", "4-11")
        self.draw(one, two)
        self.assertEqual((self.pods(), self.caps()), ("12-15", (43 * GIB, 4096)))
        self.draw(two)
        self.assertEqual((self.pods(), self.caps()), ("0-3,12-15", (59 * GIB, 8192)))
        self.draw()
        self.assertEqual((self.pods(), self.caps()), ("0-15", (60 * GIB, 16384)))
        self.assertFalse({"cpuset.json", "limits.json"} & set(os.listdir(self.top)))

    def test_a_pod_that_pinned_its_cores_keeps_those_that_are_left(self):
        self.write("cpuset/kubepods/pod2/cpuset.cpus", "2-5")
        self.job("1.srv", "0-3")
        self.draw(lease(cores=4))
        self.assertEqual(self.read("cpuset/kubepods/pod2/cpuset.cpus"), "4-5")
        self.draw()
        self.assertEqual(self.read("cpuset/kubepods/pod2/cpuset.cpus"), "2-5")

    def test_a_group_made_under_one_fence_gets_the_next_one_and_then_all(self):
        self.job("1.srv", "0-3")
        self.draw(lease(cores=4))
        self.write("cpuset/kubepods/new/cpuset.cpus", "4-15")
        self.job("2.srv", "4-7")
        self.draw(lease(cores=4), lease("2.srv", cores=4))
        self.assertEqual(self.read("cpuset/kubepods/new/cpuset.cpus"), "8-15")
        self.draw()
        self.assertEqual(self.read("cpuset/kubepods/new/cpuset.cpus"), "0-15")

    def test_memory_is_never_capped_below_what_is_used_and_is_when_that_has_shrunk(self):
        self.job("1.srv", "0")
        self.write("memory/kubepods/memory.usage_in_bytes", str(50 * GIB))
        self.draw(lease(cores=1, memory=30 * GIB))
        self.assertEqual(self.caps()[0], 50 * GIB)
        self.write("memory/kubepods/memory.usage_in_bytes", str(GIB))
        self.draw(lease(cores=1, memory=30 * GIB))
        self.assertEqual(self.caps()[0], 30 * GIB)

    def test_what_the_kubelet_writes_meanwhile_counts_from_then_on(self):
        self.job("1.srv", "0")
        self.draw(lease(cores=1, memory=10 * GIB))
        self.write("memory/kubepods/memory.limit_in_bytes", str(40 * GIB))
        self.draw(lease(cores=1, memory=10 * GIB))
        self.assertEqual(self.caps()[0], 30 * GIB)
        self.draw()
        self.assertEqual(self.caps()[0], 40 * GIB)

    def test_a_machine_without_a_limit_of_its_own_is_capped_by_its_memory(self):
        self.job("1.srv", "0")
        self.write("memory/kubepods/memory.limit_in_bytes", "9223372036854771712")
        self.draw(lease(cores=1, memory=4 * GIB))
        self.assertEqual(self.caps()[0], 60 * GIB)

    def test_pods_that_stay_beside_a_whole_job_have_what_they_use_and_a_margin_and_later_all_again(self):
        self.limits().hold(margin=GIB)
        self.assertEqual(self.caps()[0], 2 * GIB)
        for used in (3 * GIB // 2, GIB // 2, 0):
            self.write("memory/kubepods/memory.usage_in_bytes", str(used))
            self.limits().hold(margin=GIB)
            self.assertEqual(self.caps()[0], 2 * GIB, "what they use later neither widens nor narrows it")
        self.write("memory/kubepods/memory.limit_in_bytes", str(50 * GIB))  # a kubelet has started
        self.limits().hold(margin=GIB)
        self.assertEqual(self.caps()[0], 2 * GIB)
        self.limits().release()
        self.assertEqual((self.caps()[0], os.path.exists(os.path.join(self.top, "limits.json"))), (50 * GIB, False))

    def test_memory_is_never_held_below_what_is_used_nor_above_what_pods_had(self):
        self.write("memory/kubepods/memory.usage_in_bytes", str(60 * GIB - 1))
        self.limits().hold(margin=GIB)
        self.assertEqual(self.caps()[0], 60 * GIB)
        self.write("memory/kubepods/memory.usage_in_bytes", str(GIB))
        self.limits().hold(margin=GIB)
        self.write("memory/kubepods/memory.usage_in_bytes", str(5 * GIB))
        self.write("memory/kubepods/memory.limit_in_bytes", str(60 * GIB))
        self.limits().hold(margin=GIB)
        self.assertEqual(self.caps()[0], 5 * GIB)

    def test_page_cache_that_ended_pods_have_left_is_nothing_that_a_pod_may_have(self):
        self.write("memory/kubepods/memory.usage_in_bytes", str(50 * GIB))
        self.stat(cache=49 * GIB, total_inactive_file=40 * GIB, total_active_file=9 * GIB)
        self.job("1.srv", "0")
        self.draw(lease(cores=1, memory=30 * GIB))
        self.assertEqual(self.caps()[0], 30 * GIB)
        self.draw(lease(cores=1, memory=60 * GIB))
        self.assertEqual(self.caps()[0], GIB + CACHE)
        self.draw()
        self.limits().hold(margin=CACHE)
        self.assertEqual(self.caps()[0], GIB + CACHE)

    def test_page_cache_that_is_not_on_disk_yet_counts_as_used(self):
        """To write it may take minutes, and a kernel of cgroup v2 that finds nothing to take back ends a process."""
        self.write("memory/kubepods/memory.usage_in_bytes", str(50 * GIB))
        fields = {"total_inactive_file": 40 * GIB, "total_dirty": 10 * GIB, "total_writeback": 5 * GIB}
        self.stat(**fields)
        self.limits().hold(margin=CACHE)
        self.assertEqual(self.caps()[0], 25 * GIB + CACHE)

    def test_what_memory_stat_does_not_tell_counts_as_used(self):
        self.write("memory/kubepods/memory.usage_in_bytes", str(50 * GIB))
        for fields in ({}, {"inactive_file": GIB}, {"total_inactive_file": "many"}, {"total_dirty": GIB}):
            with self.subTest(fields=fields):
                self.stat(**fields)
                self.limits().hold(margin=GIB)
                self.assertEqual(self.caps()[0], 51 * GIB)
                self.limits().release()
        self.stat(total_inactive_file=90 * GIB)
        self.limits().hold(margin=GIB)
        self.assertEqual(self.caps()[0], GIB, "never below nothing")

    def test_pods_that_run_keep_some_page_cache_whatever_a_job_needs(self):
        self.write("memory/kubepods/memory.usage_in_bytes", str(50 * GIB))
        self.job("1.srv", "0")
        for cache, least in ((10 * GIB, 40 * GIB + CACHE), (CACHE, 50 * GIB), (CACHE // 2, 50 * GIB)):
            self.stat(total_inactive_file=0, total_active_file=cache)
            self.draw(lease(cores=1, memory=60 * GIB))
            self.assertEqual(self.caps()[0], least)

    def test_a_job_without_a_cpuset_is_told_and_pods_keep_house(self):
        self.assertEqual(self.draw(lease(cores=1)), (JOBS + "1.srv",))
        self.assertEqual(self.pods(), "0")

    def test_a_refusal_names_the_file(self):
        path = os.path.join(self.top, "memory/kubepods/memory.limit_in_bytes")
        os.unlink(path)
        os.mkdir(path)
        self.job("1.srv", "0")
        with self.assertRaises(LimitsError) as caught:
            self.draw(lease(cores=1, memory=GIB))
        self.assertIn(path, str(caught.exception))


class OfV1(io.TextIOWrapper):
    """A memory.limit_in_bytes: the kernel takes page cache back until the limit fits, or refuses the limit."""

    def __init__(self, path, kernel):
        super().__init__(io.FileIO(path, "r+"), encoding="ascii", write_through=True)
        self.kernel = kernel

    def write(self, text):
        self.kernel.limit(int(text))
        return super().write(text)


class Kernel:
    """What pods use, of which `firm` bytes cannot be taken back; each write of a limit takes a second."""

    def __init__(self, machine, *, whole, cache, firm):
        self.machine, self.whole, self.cache, self.firm = machine, whole, cache, firm
        self.time = 0.0
        self.taken = []
        self.killed_at = None
        self.show()

    def show(self):
        self.machine.write("memory/kubepods/memory.usage_in_bytes", str(self.whole))
        self.machine.stat(total_inactive_file=self.cache, total_active_file=0)

    def limit(self, value):
        if len(self.taken) == self.killed_at:
            raise KeyboardInterrupt
        self.time += 1.0
        left = min(self.whole, max(value, self.firm))
        self.taken.append(self.whole - left)
        self.whole, self.cache = left, self.cache - (self.whole - left)
        self.show()
        if value < left:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    @contextlib.contextmanager
    def runs(self):
        def opened(path, mode="r", **how):
            if mode == "r+" and path.endswith("memory.limit_in_bytes"):
                return OfV1(path, self)
            return open(path, mode, **how)

        with mock.patch("nodeshare.host.cgroups.limits.open", opened, create=True):
            yield

    def hold(self):
        saved = os.path.join(self.machine.top, "limits.json")
        limits = Limits(cgroup=self.machine.top, saved=saved, total=lambda: 64 * GIB, clock=lambda: self.time)
        with self.runs():
            limits.hold(margin=CACHE)


class TakenBack(MachineOfV1):
    """A limit below what is used: the kernel takes page cache back before it answers the write."""

    SECONDS = SECONDS

    def kernel(self, whole=50 * GIB, *, cache=49 * GIB, firm=0):
        return Kernel(self, whole=whole, cache=cache, firm=firm)

    def cap_now(self):
        return self.caps()[0]

    def test_it_is_taken_back_in_steps_for_a_few_seconds_and_later_calls_go_on(self):
        kernel = self.kernel()
        kernel.hold()
        self.assertEqual((len(kernel.taken), max(kernel.taken)), (3, STEP))
        self.assertEqual(self.cap_now(), kernel.whole)
        for _repair in range(50):
            kernel.time = 0.0
            kernel.hold()
            self.assertLessEqual(kernel.time, 3.0)
        self.assertEqual((self.cap_now(), kernel.whole), (GIB + CACHE, GIB + CACHE))
        writes = len(kernel.taken)
        kernel.hold()
        self.assertEqual(len(kernel.taken), writes)
        self.limits().release()
        self.assertEqual(self.cap_now(), 60 * GIB)

    def test_what_the_kernel_cannot_take_back_counts_as_used(self):
        kernel = self.kernel(4 * GIB, cache=3 * GIB, firm=3 * GIB - 1)
        for _repair in range(3):
            kernel.hold()
            self.assertEqual((self.cap_now(), kernel.whole), (3 * GIB, 3 * GIB - 1))
        self.write("memory/kubepods/memory.limit_in_bytes", str(50 * GIB))  # a kubelet has started
        kernel.hold()
        self.assertEqual(self.cap_now(), 3 * GIB)
        self.limits().release()
        self.assertEqual(self.cap_now(), 50 * GIB)

    def test_where_no_limit_at_all_is_taken_the_refusal_names_the_file(self):
        kernel = self.kernel(4 * GIB, cache=3 * GIB, firm=4 * GIB)
        kernel.show()
        kernel.firm = 5 * GIB
        kernel.whole = 5 * GIB  # more than was read
        with self.assertRaisesRegex(LimitsError, "memory/kubepods/memory.limit_in_bytes: cannot set"):
            kernel.hold()
        self.assertEqual(self.cap_now(), 60 * GIB)

    def test_a_call_that_is_killed_on_the_way_costs_pods_nothing_for_good(self):
        for killed_at in range(3):
            for again in (False, True):
                with self.subTest(killed_at=killed_at, again=again):
                    kernel = self.kernel()
                    kernel.killed_at = killed_at
                    with self.assertRaises(KeyboardInterrupt):
                        kernel.hold()
                    if again:
                        kernel.killed_at = None
                        kernel.hold()
                    self.limits().release()
                    self.assertEqual(self.cap_now(), 60 * GIB)

    def test_a_record_of_an_earlier_release_is_read(self):
        path = os.path.join(self.top, "memory/kubepods/memory.limit_in_bytes")
        self.write("limits.json", '{{"{}": ["{}", "{}"]}}'.format(path, 60 * GIB, 2 * GIB))
        self.write("memory/kubepods/memory.limit_in_bytes", str(2 * GIB))
        self.limits().hold(margin=CACHE)
        self.assertEqual(self.cap_now(), 2 * GIB)
        self.limits().release()
        self.assertEqual(self.cap_now(), 60 * GIB)


class V2(Machine):
    """The pods' slice bounds everything below it; a job's own cpuset may be empty, and what it comes to is told."""

    def setUp(self):
        Machine.setUp(self)
        self.write("cpuset.cpus.effective", "0-15")
        for name, value in (
            ("cgroup.controllers", "cpuset cpu memory"),
            ("cpuset.cpus", ""),
            ("memory.max", str(60 * GIB)),
            ("memory.current", str(GIB)),
            ("cpu.weight", "626"),
        ):
            self.write("kubepods.slice/" + name, value)
        self.write("kubepods.slice/pod1.slice/cpuset.cpus", "")

    def values(self):
        return [self.read("kubepods.slice/" + name) for name in ("cpuset.cpus", "memory.max", "cpu.weight")]

    def test_the_slice_alone_is_set_and_gets_back_what_it_had(self):
        self.write(JOBS + "1.srv/cpuset.cpus", "")
        self.write(JOBS + "1.srv/cpuset.cpus.effective", "0-3,8")
        self.assertEqual(self.draw(lease(cores=5, memory=20 * GIB)), ())
        self.assertEqual(self.values(), ["4-7,9-15", str(40 * GIB), str(626 * 11 // 16)])
        self.assertEqual(self.read("kubepods.slice/pod1.slice/cpuset.cpus"), "")
        self.draw()
        self.assertEqual(self.values(), ["", str(60 * GIB), "626"])

    def test_page_cache_that_ended_pods_have_left_is_nothing_that_a_pod_may_have(self):
        self.write("kubepods.slice/memory.current", str(50 * GIB))
        fields = ("inactive_file", 30), ("active_file", 19), ("file_dirty", 1), ("file_writeback", 1)
        lines = ["{} {}".format(name, count * GIB) for name, count in fields]
        self.write("kubepods.slice/memory.stat", "\n".join(lines))
        self.write(JOBS + "1.srv/cpuset.cpus", "0")
        self.draw(lease(cores=1, memory=30 * GIB))
        self.assertEqual(self.values()[1], str(30 * GIB))
        self.draw(lease(cores=1, memory=60 * GIB))
        self.assertEqual(self.values()[1], str(3 * GIB + CACHE))

    def test_all_cores_of_a_job_without_a_cpuset_of_its_own_are_no_answer(self):
        self.write(JOBS + "1.srv/cpuset.cpus.effective", "0-15")
        for own, expected in ((None, (JOBS + "1.srv",)), ("", (JOBS + "1.srv",)), ("0-15", ())):
            if own is not None:
                self.write(JOBS + "1.srv/cpuset.cpus", own)
            self.assertEqual(self.draw(lease(cores=5)), expected, own)
            self.assertEqual(self.values()[0], "0")

    def test_a_slice_without_a_limit_gets_back_none(self):
        self.write("kubepods.slice/memory.max", "max")
        self.write(JOBS + "1.srv/cpuset.cpus", "0")
        self.draw(lease(cores=1, memory=4 * GIB))
        self.assertEqual(self.values()[1], str(60 * GIB))
        self.draw()
        self.assertEqual(self.values()[1], "max")
        limits = Limits(cgroup=self.top, saved=os.path.join(self.top, "limits.json"), total=lambda: 64 * GIB)
        limits.hold(margin=GIB)
        self.assertEqual(self.values()[1], str(2 * GIB))
        limits.release()
        self.assertEqual(self.values()[1], "max")


class WithoutPods(Machine):
    def test_a_machine_without_pods_has_nothing_to_fence(self):
        self.write("cpuset/cpuset.cpus", "0-15")
        self.assertEqual(self.draw(lease(cores=0)), ())
        self.draw()


if __name__ == "__main__":
    unittest.main()
