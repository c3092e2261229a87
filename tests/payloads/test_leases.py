# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: twice, in any order, at the same time, or never; through kills, full disks and damaged files."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from nodeshare.model.jobs import job_key
from nodeshare.model.jobs.lease import Ended, Lease
from nodeshare.store import files
from nodeshare.store.lease_store import LeaseStore
from seeds import seeds

BOOT = "boot-1"
LIFE = 300.0


def key(job="4711", run=0):
    return job_key.JobKey("slurm", job, run)


def lease(job="4711", run=0, *, began=100.0, start=None, boot=BOOT):
    return Lease(key(job, run), boot, began, start)


def ended(job="4711", run=0, *, at=200.0, start=None, boot=BOOT):
    return Ended(key(job, run), boot, at, start)


class StoreCase(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        self.store = LeaseStore(os.path.join(self.directory, "state"))
        self.store.prepare()

    def begin(self, one):
        return self.store.begin(one, mark_life=LIFE)

    def keys(self):
        return [one.key for one in self.store.leases()]


class Histories(StoreCase):
    def test_a_lease_is_kept_with_all_that_its_caller_knew(self):
        full = Lease(key(), BOOT, 100.0, 1795251600, 8, 16 << 30, ("gpu:0", "gpu:1"), True, cgroup="jobs/1")
        self.assertEqual(self.begin(full), "new")
        self.assertEqual(self.store.leases(), (full,))

    def test_begin_twice_is_one_lease_and_end_twice_is_harmless(self):
        self.assertEqual([self.begin(lease()), self.begin(lease(began=101.0))], ["new", "known"])
        self.assertEqual(self.keys(), [key()])
        self.assertEqual([self.store.end(ended()), self.store.end(ended())], ["ended", "unknown"])
        self.assertEqual(self.keys(), [])

    def test_a_share_that_is_told_later_replaces_what_was_known_and_nothing_else(self):
        self.begin(lease())
        told = Lease(key(), BOOT, 150.0, cores=4, memory=1 << 30, cgroup="jobs/1")
        self.assertEqual([self.begin(told), self.begin(told), self.begin(lease())], ["changed", "known", "known"])
        self.assertEqual(self.store.leases(), (told._replace(began=100.0),))

    def test_a_late_end_of_an_earlier_run_does_not_free_the_next(self):
        self.begin(lease(run=0))
        self.begin(lease(run=1))
        self.store.end(ended(run=0))
        self.store.end(ended(run=0))
        self.assertEqual(self.keys(), [key(run=1)])

    def test_an_end_of_an_earlier_start_does_not_free_a_reused_id(self):
        self.begin(lease(start=2000))
        self.assertEqual(self.store.end(ended(start=1000)), "later")
        self.assertEqual(self.keys(), [key()])

    def test_a_late_begin_of_a_run_that_is_known_to_be_over_holds_nothing(self):
        self.assertEqual(self.store.end(ended(start=1000, at=50.0)), "unknown")
        self.assertEqual(self.begin(lease(start=1000)), "ended")
        self.assertEqual(self.keys(), [])

    def test_a_begin_that_met_a_mark_without_start_holds_and_is_doubtful(self):
        self.store.end(ended(at=50.0))
        self.assertEqual(self.begin(lease(start=1000)), "doubtful")
        self.assertTrue(self.store.leases()[0].doubtful)
        self.assertEqual(self.store.end(ended(at=120.0)), "ended")
        self.assertEqual(self.keys(), [])

    def test_a_used_id_with_a_later_start_is_a_job_like_any_other(self):
        self.store.end(ended(at=50.0, start=1000))
        self.assertEqual(self.begin(lease(start=2000)), "new")
        self.assertFalse(self.store.leases()[0].doubtful)

    def test_a_mark_that_is_too_old_or_of_another_boot_does_not_count(self):
        self.store.end(ended(at=50.0))
        self.assertEqual(self.begin(lease(began=50.0 + LIFE)), "new")
        self.store.end(ended("5", at=50.0, boot="boot-0"))
        self.assertEqual(self.begin(lease("5")), "new")

    def test_tidy_removes_dead_marks_and_leftovers_and_nothing_alive(self):
        self.store.end(ended("1", at=50.0))
        self.store.end(ended("2", at=250.0))
        self.begin(lease("3"))
        with open(os.path.join(self.store.directory, ".new.x.lease"), "w") as stream:
            stream.write("half")
        being_written = os.path.join(self.store.directory, ".new.cpuset.json")  # by another process, without our lock
        open(being_written, "w").close()
        self.store.tidy(boot_id=BOOT, now=350.0, mark_life=LIFE)
        self.assertTrue(os.path.exists(being_written))
        os.unlink(being_written)
        self.assertEqual(sorted(os.listdir(self.store.directory)), ["slurm.2.r0.ended", "slurm.3.r0.lease"])

    def test_any_order_of_begins_and_ends_of_many_runs_frees_exactly_the_ended_ones(self):
        for seed in seeds("lease_orders", 60):
            chance = random.Random(seed)
            shutil.rmtree(self.store.directory)
            self.store.prepare()
            runs = [(str(job), run) for job in range(3) for run in range(2)]
            over = [one for one in runs if chance.random() < 0.5]
            events = [("begin", one) for one in runs for _ in range(chance.randint(1, 2))]
            events += [("end", one) for one in over for _ in range(chance.randint(1, 3))]
            chance.shuffle(events)
            for at, (what, (job, run)) in enumerate(events, start=100):
                start = 1000 + run
                if what == "begin":
                    self.begin(lease(job, run, began=float(at), start=start))
                else:
                    self.store.end(ended(job, run, at=float(at), start=start))
            with self.subTest(seed=seed, events=events):
                self.assertEqual({(one.job, one.run) for one in self.keys()}, set(runs) - set(over))


class Damage(StoreCase):
    def test_an_unreadable_lease_holds_until_its_own_end(self):
        for content in (b"", b"{", b"[]", b"\xff\xfe", b'{"boot_id": 1}', b'{"began": "x", "boot_id": "b"}'):
            with self.subTest(content=content):
                self.begin(lease())
                with open(os.path.join(self.store.directory, "slurm.4711.r0.lease"), "wb") as stream:
                    stream.write(content)
                self.assertEqual([(one.key, one.corrupt) for one in self.store.leases()], [(key(), True)])
                self.store.tidy(boot_id=BOOT, now=1e9, mark_life=LIFE)
                self.assertEqual(self.keys(), [key()])
                self.store.end(ended())
                self.assertEqual(self.keys(), [])

    def test_a_lease_file_with_a_foreign_name_holds_too(self):
        with open(os.path.join(self.store.directory, "odd.lease"), "w") as stream:
            stream.write("{}")
        self.assertTrue(self.store.leases()[0].corrupt)

    def test_a_begin_repairs_an_unreadable_lease_of_its_own_run(self):
        with open(os.path.join(self.store.directory, "slurm.4711.r0.lease"), "w") as stream:
            stream.write("{")
        self.begin(lease())
        self.assertEqual(self.store.leases(), (lease(),))

    def test_the_directory_is_for_root_alone_and_never_a_link(self):
        self.assertEqual(os.stat(self.store.directory).st_mode & 0o777, 0o700)
        link = os.path.join(self.directory, "link")
        os.symlink(self.store.directory, link)
        with self.assertRaises(files.StoreError):
            files.make_private_dir(link)

    def test_a_link_in_place_of_a_file_is_not_followed(self):
        target = os.path.join(self.directory, "target")
        with open(target, "w") as stream:
            json.dump({}, stream)
        os.symlink(target, os.path.join(self.store.directory, ".new.slurm.4711.r0.lease"))
        with self.assertRaises(files.StoreError):
            self.begin(lease())
        with open(target) as stream:
            self.assertEqual(stream.read(), "{}")

    def test_a_full_disk_is_told_and_leaves_no_half_lease(self):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
                self.begin(lease())
            except files.StoreError as error:
                status = 0 if "cannot write" in str(error) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(os.listdir(self.store.directory), [])
        self.assertEqual(self.keys(), [])


class Processes(StoreCase):
    SCRIPT = textwrap.dedent("""
        import os, signal, sys
        from nodeshare.model.jobs import job_key
        from nodeshare.store.lease_store import Ended, Lease, LeaseStore
        directory, what, job, point, start = sys.argv[1:]
        def at_point(name):
            if name == point:
                os.kill(os.getpid(), signal.SIGKILL)
        # Who has written what counts here; how long a busy machine keeps a writer from its turn does not.
        store = LeaseStore(directory, lock_seconds=100, at_point=at_point)
        start = int(start) or None
        with store.locked():
            key = job_key.JobKey("slurm", job, 0)
            if what == "begin":
                store.begin(Lease(key, "boot-1", 100.0, start), mark_life=300.0)
            else:
                store.end(Ended(key, "boot-1", 200.0, start))
        """)

    def start(self, what, job="4711", point="", start=0):
        return subprocess.Popen(
            [
                sys.executable,
                "-B",
                "-c",
                self.SCRIPT,
                self.store.directory,
                what,
                job,
                point,
                str(start),
            ]
        )

    def test_killed_at_every_point_a_begin_is_there_or_not_and_can_be_repeated(self):
        for point, left in (("begin:before-write", []), ("begin:after-write", [key()])):
            with self.subTest(point=point):
                self.assertEqual(self.start("begin", point=point).wait(300), -signal.SIGKILL)
                self.assertEqual(self.keys(), left)
                self.assertEqual(self.start("begin").wait(300), 0)
                self.assertEqual(self.keys(), [key()])
                self.store.drop(lease())

    def test_killed_at_every_point_an_end_is_done_or_can_be_repeated(self):
        for point, left in (("end:before-mark", [key()]), ("end:after-mark", []), ("end:after-remove", [])):
            with self.subTest(point=point):
                self.begin(lease(start=7))
                self.assertEqual(self.start("end", point=point).wait(300), -signal.SIGKILL)
                self.assertEqual(self.keys(), left)
                self.assertEqual(self.start("end").wait(300), 0)
                self.assertEqual(self.keys(), [])
                self.store.tidy(boot_id=BOOT, now=1e9, mark_life=LIFE)
                self.assertEqual([name for name in os.listdir(self.store.directory) if name != "lock"], [])

    def test_many_processes_at_once_leave_exactly_what_has_not_ended(self):
        jobs = [str(number) for number in range(8)]
        begins = [self.start("begin", job, start=5) for job in jobs for _ in range(2)]
        ends = [self.start("end", job, start=5) for job in jobs[:4] for _ in range(2)]
        self.assertEqual([process.wait(300) for process in begins + ends], [0] * 24)
        self.assertEqual(sorted(one.job for one in self.keys()), jobs[4:])

    def test_a_lock_that_is_never_freed_is_waited_for_only_so_long(self):
        store = LeaseStore(self.store.directory, lock_seconds=0.2)
        with self.store.locked(), self.assertRaises(files.StoreError) as caught, store.locked():
            self.fail("two holders of one lock")
        self.assertIn("not free within 0.2 s", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
