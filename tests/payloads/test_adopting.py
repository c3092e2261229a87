# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that run when a node is converted: those of which it is known what they have stand as exactly that."""

import contextlib
import errno
import json
import os
import unittest.mock

from nodeshare.model.settings import Settings
from nodeshare.run import recover_leases
from nodeshare.store import files
from nodeshare.store.lease_store import LeaseStore
from test_placing_calls import PlacingCase

WORD = "1.srv/1 --cpus=2 --mem=1gb --device=nvidia.com/gpu=1 --cgroup=pbs_jobs.service/jobid/1.srv"


class AdoptingCase(PlacingCase):
    def adopt(self, *words):
        return self.call("adopt", "--wlm", "pbs", *words)

    def repair(self, *words):
        return self.call("repair", "--wlm=pbs", *words)

    def sizes(self):
        found = []
        for name in sorted(os.listdir(self.api.directory)):
            with open(os.path.join(self.api.directory, name)) as stream:
                found.append(json.load(stream)["spec"]["containers"][0]["resources"]["requests"])
        return found


class Adopting(AdoptingCase):
    def test_a_job_of_known_size_has_its_place_before_there_is_a_kubelet(self):
        with open(self.units, "w") as stream:
            stream.write("[]")
        code, err = self.adopt(WORD)
        self.assertEqual(code, 0)
        self.assertIn("jobs=1 new=1", err)
        self.assertEqual(self.sizes(), [{"cpu": "2", "memory": str(1 << 30), "nvidia.com/gpu": "1"}])

    def test_pods_stay_off_its_cores_from_then_on_and_what_the_hook_tells_later_is_no_news(self):
        self.api.node["status"]["allocatable"]["nvidia.com/gpu"] = "1"
        self.assertEqual(self.adopt(WORD)[0], 0)
        self.assertEqual(self.pod_cores(), "2-3")
        self.assertIn("lease=known", self.begin(*WORD.split()[1:])[1])
        self.assertIn("new=0", self.adopt(WORD)[1])

    def test_what_the_hook_has_told_is_newer_than_the_list_and_a_share_that_nobody_told_is_filled(self):
        self.begin("--cpus", "1", "--mem", "64mb")
        self.assertEqual((self.adopt(WORD)[0], self.sizes()), (0, [{"cpu": "1", "memory": str(64 << 20)}]))
        self.call(*self.job("end"))
        for word in ("2.srv/1", "2.srv/1 --cpus=2 --mem=1gb --cgroup=pbs_jobs.service/jobid/1.srv"):
            self.assertEqual(self.adopt(word)[0], 0)
        self.assertEqual(self.sizes(), [{"cpu": "2", "memory": str(1 << 30)}])

    def test_what_cannot_be_meant_is_refused_and_nothing_is_recorded(self):
        for word in (
            "1.srv/1 --cpus=many",
            "1.srv/1 --job=2.srv",
            "1.srv --cgroup=../..",
            "1.srv 2.srv",
            "",
            "1.srv/x",
        ):
            with self.subTest(word):
                self.assertNotEqual(self.adopt(WORD, word)[0], 0)
                self.assertEqual(self.sizes(), [])


class MakingUp(AdoptingCase):
    """Jobs that the batch system says to run here, at a repair."""

    def setUp(self):
        AdoptingCase.setUp(self)
        self.configure(mode="placeholder", manifests=self.api.directory, deadline=0, pbs_home=self.top)
        for job in ("1.srv", "2.srv"):
            self.write("mom_priv/jobs/{}.JB".format(job), "")

    def test_a_job_that_the_mom_does_not_have_is_somebody_s_word(self):
        self.assertEqual(self.repair("77.srv/1 --exclusive")[0], 0)
        self.assertEqual((self.sizes(), self.pod_cores()), ([], "0-3"))

    def test_a_job_that_goes_on_has_its_cores_again_though_nobody_told(self):
        self.begin("--cpus", "0", "--mem", "1gb")
        self.assertEqual(self.sizes(), [{"memory": str(1 << 30)}])
        self.assertEqual(self.repair(WORD.replace("--device=nvidia.com/gpu=1 ", ""))[0], 0)
        self.assertEqual(self.sizes(), [{"cpu": "2", "memory": str(1 << 30)}])

    def test_a_lease_that_a_full_disk_has_lost_at_begin_is_back_at_the_next_repair_that_hears_of_its_job(self):
        with self.full_disk(after=0):
            self.assertEqual(self.begin(*WORD.split()[1:])[0], 0, "the site has chosen that jobs start")
        self.assertEqual(self.call("repair")[0], 0)
        self.assertEqual((self.sizes(), self.pod_cores()), ([], "0-3"))
        self.api.node["status"]["allocatable"]["nvidia.com/gpu"] = "1"
        code, err = self.repair(WORD)
        self.assertEqual((code, self.pod_cores()), (0, "2-3"))
        self.assertIn(" new=1 ", err)
        self.assertEqual(self.sizes(), [{"cpu": "2", "memory": str(1 << 30), "nvidia.com/gpu": "1"}])
        again = self.repair(WORD)[1]
        self.assertNotIn("new=", again)
        self.assertEqual(len(self.sizes()), 1)

    def test_what_begin_has_told_stays_and_a_job_that_has_ended_since_the_list_was_made_is_over(self):
        self.begin("--cpus", "1", "--mem", "64mb")
        self.assertEqual((self.repair(WORD)[0], self.sizes()), (0, [{"cpu": "1", "memory": str(64 << 20)}]))
        self.assertEqual(self.call(*self.job("end"))[0], 0)
        self.assertEqual((self.repair(WORD)[0], self.sizes()), (0, []))

    @staticmethod
    @contextlib.contextmanager
    def no_lease_written(name=""):
        """A disk that has room for all but leases."""

        def write(path, content, **how):
            if path.endswith(name + ".lease"):
                raise files.StoreError("{}: cannot write: {}".format(path, os.strerror(errno.ENOSPC)))
            really(path, content, **how)

        really = files.write
        with unittest.mock.patch.object(files, "write", write):
            yield

    def test_a_repair_that_hears_of_a_job_keeps_its_place_and_its_fence_though_its_lease_cannot_be_written(self):
        word = WORD.replace("--device=nvidia.com/gpu=1 ", "")
        with self.no_lease_written():
            self.assertEqual(self.begin(*word.split()[1:])[0], 0, "the site has chosen that jobs start")
            placed = os.listdir(self.api.directory)
            self.assertEqual((len(placed), self.pod_cores()), (1, "2-3"))
            for _time in range(2):
                code, err = self.repair(word)
                self.assertEqual(
                    (code, self.sizes(), self.pod_cores()), (0, [{"cpu": "2", "memory": str(1 << 30)}], "2-3")
                )
                self.assertIn("No space left", err)
        code, err = self.repair(word)
        self.assertIn(" new=1 ", err)
        self.assertEqual((code, len(self.sizes()), self.pod_cores()), (0, 1, "2-3"))
        self.assertEqual(self.call(*self.job("end"))[0], 0)
        self.assertEqual((self.sizes(), self.pod_cores()), ([], "0-3"))

    def test_a_lease_in_memory_is_over_with_its_job(self):
        word = WORD.replace("--device=nvidia.com/gpu=1 ", "")
        with self.no_lease_written():
            self.assertEqual(self.begin(*word.split()[1:])[0], 0)
            self.assertEqual(self.call(*self.job("end"))[0], 0)
            self.assertEqual(self.repair(word)[0], 0)
        self.assertEqual((self.sizes(), self.pod_cores()), ([], "0-3"))

    def test_a_word_that_means_nothing_is_named_and_all_others_are_done(self):
        bad = ("7.srv/1 --device=nvidia.com/gpu=1234567", "8.srv/1 --cpus=", "9.srv/1 --job=1.srv", "", "3.srv/x")
        code, err = self.repair("1.srv/1 --cpus=2", *bad, "2.srv/1 --cpus=1")
        self.assertEqual((code, len(self.sizes())), (0, 2), err)
        for word in ("7.srv/1", "8.srv/1", "9.srv/1", "'x'"):
            self.assertIn(word, err)

    def test_many_jobs_are_made_up_with_one_lock_unless_others_would_wait_for_it(self):
        words = ["{}/1 --cpus=1".format(number) for number in range(1, 31)]
        locks = []
        world = unittest.mock.Mock(boot_id=lambda: "boot", now=lambda: float(len(locks)))
        locked = LeaseStore.locked
        for longest, most in ((0.5, 1), (-1.0, 30)):
            store = LeaseStore(os.path.join(self.top, "leases{}".format(most)))
            store.prepare()
            del locks[:]
            hold = unittest.mock.patch.object(recover_leases, "LONGEST_HOLD", longest)
            lock = unittest.mock.patch.object(LeaseStore, "locked", lambda one: (locks.append(one), locked(one))[1])
            with hold, lock:
                facts = recover_leases.recover_leases(words, "slurm", store=store, settings=Settings(), world=world)
            self.assertEqual((dict(facts)["new"], len(store.leases()), len(locks)), (30, 30, most))

    def test_neither_an_id_that_is_none_nor_a_full_disk_stops_the_repair(self):
        code, err = self.repair("1_srv/1 --cpus=1", "../x --cpus=1", WORD.replace("--device=nvidia.com/gpu=1 ", ""))
        self.assertEqual((code, len(self.sizes())), (0, 1), err)
        self.assertIn("not a pbs job id", err)
        with self.full_disk(after=0):
            code, err = self.repair("2.srv/1 --cpus=1")
        self.assertEqual((code, len(self.sizes())), (0, 1), err)
        self.assertIn("No space left", err)
