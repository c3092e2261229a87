# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Giving a node back, and repairing what was missed or killed half-way; in the simulated world."""

import shutil
import unittest
import unittest.mock

from handover_case import HandoverCase
from marks import oldest_python_only
from nodeshare.host.host import HostError
from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease
from nodeshare.model.node.state import HELD, OPEN, QUIESCE, STOP
from simulation import KUBELET, RUNTIME, Killed


class Returning(HandoverCase):
    def test_after_stop_the_runtime_starts_before_the_kubelet(self):
        site = self.site(handover="stop")
        site.begin()
        site.end()
        site.later(31.0)
        self.assertEqual(site.did("start"), [("start", (RUNTIME, KUBELET))])
        self.assert_back(site)

    def test_a_node_does_not_come_back_while_the_api_is_silent(self):
        site = self.site()
        site.node.api_up = False
        site.begin()
        site.end()
        for _ in range(5):
            site.later(60.0)
        self.assertEqual(site.node.active, set())
        site.node.api_up = True
        site.later(60.0)
        self.assert_back(site)

    def test_the_api_back_in_the_middle_of_a_job_starts_nothing(self):
        site = self.site()
        site.node.api_up = False
        site.begin()
        site.node.api_up = True
        site.later(60.0)
        self.assertEqual((site.node.active, site.did("start")), (set(), []))

    def test_a_kubelet_that_the_administrator_stopped_is_not_started(self):
        site = self.site(handover="stop")
        site.node.active = {RUNTIME}
        site.node.admin_stopped = {KUBELET}
        site.begin()
        site.end()
        site.later(31.0)
        self.assertEqual(site.node.active, {RUNTIME})
        self.assertEqual(site.memory().phase, OPEN)

    def test_a_kubelet_that_somebody_starts_during_a_job_is_stopped_again(self):
        site = self.site(handover="stop")
        site.begin()
        site.node.active = {KUBELET}
        site.node.add("new")
        site.later(60.0)
        self.assert_free(site)
        self.assertEqual(site.node.active, set())

    def test_a_pod_that_appears_in_the_middle_of_a_job_is_sent_away_within_one_repair(self):
        site = self.site()
        site.begin()
        site.node.add("bound-late")
        site.later(60.0)
        self.assert_free(site)

    def test_a_taint_that_vanishes_in_the_middle_of_a_job_ends_in_stop(self):
        site = self.site()
        site.begin()
        site.node.tainted = False
        site.later(60.0)
        self.assert_free(site)
        self.assertEqual(site.node.active, set())

    def test_a_stale_announcement_of_an_open_node_is_taken_back(self):
        site = self.site()
        site.node.announced = '["slurm/9/0"]'
        site.repair()
        self.assertEqual(site.node.announced, "")

    def test_a_job_that_ends_while_pods_leave_takes_nothing_more_and_the_node_comes_back(self):
        site = self.site()
        site.node.add("slow", grace=20.0)
        site.node.on_sleep = lambda: site.store.leases() and site.end()
        done = site.begin().done
        self.assertEqual((done.outcome, site.node.ordinary_running()), (actions.ACCEPT, ["slow"]))
        site.node.on_sleep = lambda: None
        site.later(31.0)
        self.assert_back(site)

    def test_a_repair_that_meets_an_idle_node_sees_to_its_return_after_the_linger(self):
        site = self.site(linger=30.0)
        site.begin()
        site.node.log.clear()
        site.store.drop(site.store.leases()[0])  # an end that was killed before it could note the time
        site.later(1.0)
        self.assertEqual(site.did("wake"), [("wake",)])
        site.later(30.0)
        self.assert_back(site)


class Repair(HandoverCase):
    KEY = JobKey("slurm", "1", 0)

    def held(self, **settings):
        site = self.site(**settings)
        site.begin()
        return site

    def test_a_job_with_processes_is_never_asked_about_and_never_dropped(self):
        site = self.held()
        site.node.batch = {self.KEY: actions.GONE}
        site.later(60.0)
        self.assertEqual((site.did("ask"), len(site.store.leases())), ([], 1))

    def test_cannot_tell_is_never_gone(self):
        for alive, batch_up in ((None, True), (False, False), (False, True)):
            with self.subTest(alive=alive, batch_up=batch_up):
                site = self.held()
                site.node.alive = {self.KEY: alive}
                site.node.batch_up = batch_up
                for _ in range(100):
                    told = site.later(600.0)
                self.assert_free(site)
                if alive is False and batch_up:
                    self.assertIn("did not say whether this goes on: slurm/1/0", told.remarks[0])

    def test_a_job_whose_epilog_never_ran_is_put_right_within_one_period(self):
        site = self.held(linger=0.0)
        site.node.alive = {self.KEY: False}
        site.node.batch = {self.KEY: actions.GONE}
        site.later(60.0)
        self.assert_back(site)

    def test_a_job_that_ran_between_two_repairs_is_put_right_at_the_second(self):
        for interval in (5.0, 60.0):
            with self.subTest(interval):
                site = self.held(linger=0.0)
                site.node.alive = {self.KEY: False}  # not begun yet: the first process comes after the begin
                site.node.batch = {self.KEY: actions.LIVE}
                site.repair()
                site.node.batch = {self.KEY: actions.GONE}
                site.later(interval)
                self.assert_back(site)

    def test_a_job_that_lived_in_silence_is_put_right_after_as_long_again(self):
        for silent in (5.0, 50.0, 500.0):
            with self.subTest(silent):
                site = self.held(linger=0.0)
                site.node.alive = {self.KEY: False}
                site.node.batch = {self.KEY: actions.LIVE}
                for _ in range(round(silent / 5.0) + 1):
                    site.later(5.0)
                site.node.batch = {self.KEY: actions.GONE}
                for _ in range(round(silent / 5.0) + 1):
                    site.later(5.0)
                self.assert_back(site)

    @oldest_python_only
    def test_a_silent_job_that_lives_is_asked_about_less_and_less(self):
        for interval, hours in ((5.0, 2), (60.0, 24)):
            with self.subTest(interval):
                site = self.held()
                site.node.alive = {self.KEY: False}
                site.node.batch = {self.KEY: actions.LIVE}
                for _ in range(round(hours * 3600 / interval)):
                    site.later(interval)
                # Every ten minutes in the end, and more often only at first.
                self.assertLess(len(site.did("ask")), 6 * hours + 16)
                self.assert_free(site)

    def test_a_job_that_is_just_ending_is_asked_about_again_at_the_next_repair(self):
        for first in ((), (actions.LIVE,)):
            with self.subTest(first):
                site = self.held(linger=0.0)
                site.node.alive = {self.KEY: False}
                for answer in first:
                    site.node.batch = {self.KEY: answer}
                    site.repair()
                site.node.batch = {self.KEY: actions.ENDING}
                site.later(70.0)
                self.assert_free(site)
                site.node.batch = {self.KEY: actions.GONE}
                site.later(5.0)
                self.assertEqual(site.store.leases(), ())

    def test_a_lease_of_an_earlier_boot_is_dropped_unless_the_batch_system_says_that_it_lives(self):
        for answer, left in ((None, 0), (actions.GONE, 0), (actions.LIVE, 1)):
            with self.subTest(answer=answer):
                site = self.held()
                site.node.batch = {self.KEY: answer} if answer else {}
                aside = site.store.directory + ".aside"
                shutil.copytree(site.store.directory, aside)
                site.node.reboot()
                shutil.rmtree(site.store.directory)
                shutil.move(aside, site.store.directory)  # a directory that has outlived the boot
                site.repair()
                self.assertEqual(len(site.store.leases()), left)

    def test_a_silent_run_is_over_once_a_later_one_has_begun_here_whatever_the_batch_system_says(self):
        site = self.held()
        later = JobKey("slurm", "1", 1)
        site.node.alive, site.node.batch = {self.KEY: False}, {self.KEY: actions.LIVE, later: actions.LIVE}
        site.store.begin(Lease(later, site.node.boot_id(), site.node.now()), mark_life=300.0)
        site.later(60.0)
        self.assertEqual([lease.key for lease in site.store.leases()], [later])

    def test_a_node_rebooted_under_stop_comes_back_only_through_repair(self):
        site = self.held(handover="stop")
        site.repair()
        site.node.reboot()
        self.assertEqual(site.node.active, set())
        site.repair()
        self.assert_back(site)

    def test_a_doubtful_lease_ends_with_the_life_of_its_mark(self):
        site = self.site(mark_life=300.0)
        site.end("1")
        site.begin("1")
        site.node.alive = {self.KEY: False}
        site.node.batch_up = False
        site.later(100.0)
        self.assertEqual(len(site.store.leases()), 1)
        site.later(250.0)
        self.assertEqual(len(site.store.leases()), 0)

    def test_a_doubtful_lease_that_lived_when_it_was_last_asked_about_is_held(self):
        site = self.site(mark_life=300.0)
        site.end("1")
        site.begin("1")
        site.node.alive, site.node.batch = {self.KEY: False}, {self.KEY: actions.LIVE}
        for seconds in (200.0, 60.0, 60.0, 60.0, 60.0):
            site.later(seconds)
            self.assertEqual(len(site.store.leases()), 1)
        site.node.batch = {self.KEY: actions.GONE}
        site.later(700.0)
        self.assertEqual(site.store.leases(), ())

    def test_cores_that_could_not_be_given_back_are_tried_again_by_each_repair_of_the_open_node(self):
        site = self.held()
        release = site.node.release
        failing = unittest.mock.Mock(side_effect=HostError("cpuset.cpus: cannot set 0-7: Invalid argument"))
        site.node.release = failing
        site.end()
        told = site.later(31.0)
        self.assertEqual((site.memory().phase, site.memory().confined, failing.call_count), (OPEN, True, 1))
        self.assertEqual(
            (site.did("report"), "Invalid argument" in str(told.remarks)), ([("report", "ReleaseFailed")], True)
        )
        site.later(60.0)
        self.assertEqual((failing.call_count, site.memory().confined), (2, True))
        site.node.release = release
        site.later(60.0)
        self.assertFalse(site.node.confined)
        self.assertEqual((site.memory().confined, len(site.did("release"))), (False, 1))
        site.later(60.0)
        self.assertEqual(len(site.did("release")), 1)

    def test_an_unreadable_memory_is_judged_by_the_fence(self):
        for handover in ("stop", "quiesce"):
            with self.subTest(handover=handover):
                site = self.held(handover=handover)
                with open(site.memories.path, "w") as stream:
                    stream.write("{")
                site.end()
                site.later(0.0)
                site.later(31.0)
                self.assert_back(site)


class Adoption(HandoverCase):
    def test_adopted_jobs_hold_a_node_whose_kubelet_joins_later(self):
        site = self.site()
        site.node.active = set()
        site.node.api_up = False
        with site.store.locked():
            site.store.begin(Lease(JobKey("slurm", "1", 0), "boot-1", 1.0), mark_life=1.0)
        site.node.alive = {JobKey("slurm", "1", 0): True}
        site.act(actions.ADOPT)
        self.assertEqual(site.memories.fenced(), ())
        site.node.active, site.node.api_up = {KUBELET, RUNTIME}, True
        site.later(60.0)
        self.assert_free(site)
        self.assertEqual((site.memory().way, site.node.active), (QUIESCE, {KUBELET, RUNTIME}))

    def test_a_repair_in_the_middle_of_a_join_stops_nothing(self):
        for api_up in (False, True):  # before it has an identity, and before it has a Node object
            with self.subTest(api_up):
                site = self.site()
                with site.store.locked():
                    site.store.begin(Lease(JobKey("slurm", "1", 0), "boot-1", 1.0), mark_life=1.0)
                site.node.alive = {JobKey("slurm", "1", 0): True}
                site.node.registered, site.node.api_up = False, api_up
                for event in (actions.ADOPT, actions.TICK):
                    site.act(event)
                    self.assertEqual((site.node.active, site.memories.fenced()), ({KUBELET, RUNTIME}, ()))
                site.begin("2")
                self.assertEqual(site.memory().way, STOP, "a job that starts just then still comes first")


class Kills(HandoverCase):
    """kill -9 at every point of a whole life; whatever comes next must put it right."""

    def life(self, site):
        site.begin("1")
        site.end("1")
        site.later(31.0)

    def points_of(self, **settings):
        seen = []
        site = self.site(**settings)
        site.node.add("web")
        site.points = seen.append
        self.life(site)
        return len(seen)

    def test_killed_anywhere_the_next_job_finds_a_free_node_and_the_node_comes_back(self):
        for handover in ("quiesce", "stop"):
            count = self.points_of(handover=handover)
            self.assertGreater(count, 20)
            for victim in range(count):
                with self.subTest(handover=handover, victim=victim):
                    site = self.site(handover=handover)
                    site.node.add("web")
                    self.kill_at(site, victim)
                    with self.assertRaises(Killed):
                        self.life(site)
                    site.points = lambda point: None
                    if KUBELET in site.node.active and (handover == "stop" or site.memory().phase != HELD):
                        site.node.add("newcomer")
                    told = site.begin("2")
                    self.assertEqual(told.done.outcome, actions.ACCEPT)
                    self.assert_free(site)
                    if told.way == STOP:
                        self.assertEqual(site.node.active, set())
                        self.assertEqual(site.memories.fenced(), tuple(sorted(site.memory().stopped)))
                    for job in ("1", "2"):
                        site.end(job)
                    site.later(1.0)
                    site.later(31.0)
                    self.assert_back(site)

    def test_a_return_killed_after_the_start_does_not_leave_services_to_the_next_job(self):
        site = self.site(handover="stop")
        site.begin("1")
        site.end("1")

        def point(name):
            if name == "after:StartUnits":
                raise Killed()

        site.points = point
        with self.assertRaises(Killed):
            site.later(31.0)
        self.assertEqual(site.node.active, {KUBELET, RUNTIME})
        site.begin("2")
        self.assertEqual(site.node.active, set())

    @staticmethod
    def kill_at(site, victim):
        left = [victim]

        def point(_name):
            left[0] -= 1
            if left[0] < 0:
                raise Killed()

        site.points = point


if __name__ == "__main__":
    unittest.main()
