# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand-over: what a job finds on its node, and what the node becomes afterwards, in the simulated world."""

import os
import shutil
import unittest

import payload_path  # noqa: F401
from nodeshare import view
from nodeshare.jobid import JobKey
from nodeshare.memory import HELD, OPEN, QUIESCE, STOP
from simulation import KUBELET, RUNTIME, Killed, Site, quick_directory


class HandoverCase(unittest.TestCase):

    def site(self, **settings):
        directory = quick_directory()
        self.addCleanup(shutil.rmtree, directory)
        return Site(os.path.join(directory, "state"), **settings)

    def assert_free(self, site):
        self.assertEqual(site.node.ordinary_running(), [])
        self.assertEqual(site.memory().phase, HELD)

    def assert_back(self, site):
        self.assertEqual(site.node.active, {KUBELET, RUNTIME})
        self.assertFalse(site.node.confined)
        self.assertEqual(site.node.announced, "")
        memory = site.memory()
        self.assertEqual((memory.phase, memory.stopped, memory.way), (OPEN, (), ""))
        self.assertEqual(site.memories.fenced(), ())


class Taking(HandoverCase):

    def test_quiesce_sends_ordinary_pods_away_and_leaves_services_and_daemons_alone(self):
        site = self.site()
        site.node.add("web", respawns=True)
        site.node.add("logger", stays=True)
        told = site.begin()
        self.assertEqual((told.done.outcome, told.way, told.counts.get("evicted")), (view.ACCEPT, QUIESCE, 1))
        self.assert_free(site)
        self.assertTrue(site.node.guests["logger"].running)
        self.assertEqual(site.node.active, {KUBELET, RUNTIME})
        self.assertTrue(site.node.confined)

    def test_the_lease_is_announced_before_anything_is_evicted(self):
        site = self.site()
        site.node.add("web")
        site.begin()
        kinds = [entry[0] for entry in site.node.log]
        self.assertLess(kinds.index("announce"), kinds.index("evict"))
        self.assertEqual(site.node.announced, '["slurm/1/0"]')

    def test_stop_sends_pods_away_politely_and_then_stops_kubelet_before_the_runtime(self):
        site = self.site(handover="stop")
        site.node.add("web")
        told = site.begin()
        self.assertEqual(told.way, STOP)
        self.assert_free(site)
        self.assertEqual(site.did("stop"), [("stop", (KUBELET, RUNTIME), False)])
        self.assertEqual(site.did("kill"), [])

    def test_without_the_api_a_lease_is_served_by_stop_whatever_is_set(self):
        site = self.site()
        site.node.api_up = False
        site.node.add("web")
        told = site.begin()
        self.assertEqual((told.done.outcome, told.way), (view.ACCEPT, STOP))
        self.assert_free(site)
        self.assertEqual(site.node.active, set())
        self.assertEqual(len(site.did("terminate")), 1)

    def test_without_the_api_daemons_are_known_from_the_last_time_it_answered(self):
        site = self.site()
        site.node.add("logger", stays=True)
        site.repair()
        site.node.api_up = False
        site.begin()
        self.assertTrue(site.node.guests["logger"].running)

    def test_without_our_taint_a_lease_is_served_by_stop_and_replacements_are_not_waited_for(self):
        site = self.site()
        site.node.tainted = False
        site.node.add("web", respawns=True)
        before = site.node.time
        site.node.on_sleep = lambda: [setattr(guest, "grace", None) for guest in site.node.guests.values()]
        told = site.begin()
        self.assertEqual(told.way, STOP)
        self.assert_free(site)
        self.assertLess(site.node.time - before, 5.0)

    def test_an_api_that_falls_silent_in_the_middle_ends_in_stop(self):
        site = self.site()
        site.node.add("web", grace=30.0)
        site.node.on_sleep = lambda: setattr(site.node, "api_up", site.node.time < 1003.0)
        told = site.begin()
        self.assertEqual(told.way, STOP)
        self.assert_free(site)

    def test_pods_that_tolerate_the_taint_and_keep_coming_back_end_in_stop(self):
        site = self.site()
        site.node.add("web", respawns=True, tolerates=True)
        told = site.begin()
        self.assertEqual(told.way, STOP)
        self.assert_free(site)

    def test_a_pod_that_ignores_its_grace_is_killed_after_the_deadline(self):
        site = self.site(deadline=10.0)
        site.node.add("deaf", grace=None)
        told = site.begin()
        self.assertEqual((told.done.outcome, told.way, told.counts["killed"]), (view.ACCEPT, QUIESCE, 1))
        self.assert_free(site)

    def test_a_finalizer_does_not_hold_a_node_without_processes(self):
        site = self.site()
        site.node.add("final", finalizer=True)
        before = site.node.time
        site.begin()
        self.assert_free(site)
        self.assertLess(site.node.time - before, 5.0)

    def test_a_protected_pod_stays_until_the_deadline_and_then_the_job_wins(self):
        site = self.site(deadline=10.0)
        site.node.add("quorum", protected=True, respawns=True)
        before = site.node.time
        told = site.begin()
        self.assertGreaterEqual(site.node.time - before, 10.0)
        self.assertEqual((told.done.outcome, told.counts["deleted"]), (view.ACCEPT, 1))
        self.assertEqual(site.did("report"), [("report", "DeadlinePassed")])
        self.assert_free(site)

    def test_a_protected_pod_and_a_job_that_waits(self):
        site = self.site(deadline=10.0, after_deadline="job_waits")
        site.node.add("quorum", protected=True)
        told = site.begin()
        self.assertEqual(told.done.outcome, view.REQUEUE)
        self.assertEqual(site.node.ordinary_running(), ["quorum"])
        self.assertEqual(site.did("report"), [("report", "BatchJobWaits")])
        site.end()
        site.later(31.0)
        self.assert_back(site)

    def test_a_pod_that_can_be_neither_evicted_nor_deleted_ends_in_stop(self):
        site = self.site(deadline=5.0)
        site.node.add("stuck", protected=True, undeletable=True)
        told = site.begin()
        self.assertEqual(told.way, STOP)
        self.assert_free(site)

    def test_the_limit_bounds_the_politeness_whatever_the_deadline(self):
        site = self.site(deadline=600.0, limit=20.0)
        site.node.add("quorum", protected=True)
        before = site.node.time
        site.begin()
        self.assertLess(site.node.time - before, 20.0)
        self.assert_free(site)

    def test_services_that_do_not_stop_are_forced(self):
        site = self.site(handover="stop")
        site.node.stubborn_units = True
        site.begin()
        self.assertEqual([entry[2] for entry in site.did("stop")], [False, True])
        self.assert_free(site)

    def test_what_cannot_be_done_ends_in_the_outcome_that_the_site_chose(self):
        for outcome in (view.ACCEPT, view.REQUEUE, view.DRAIN):
            with self.subTest(outcome=outcome):
                site = self.site(on_failure=outcome, handover="stop")
                site.node.stop_units = lambda units, *, force: None
                told = site.begin()
                self.assertEqual(told.done.outcome, outcome)
                self.assertIn("cannot be stopped", told.done.reason)

    def test_shims_that_outlive_their_kubelet_are_found_and_killed(self):
        site = self.site(deadline=5.0)
        site.node.active = set()
        site.node.admin_stopped = {KUBELET, RUNTIME}
        site.node.add("left", grace=None)
        site.begin()
        self.assert_free(site)
        self.assertEqual(site.did("stop"), [])


class Sharing(HandoverCase):

    def test_a_second_job_on_a_held_node_touches_nothing(self):
        site = self.site()
        site.begin("1")
        del site.node.log[:]
        told = site.begin("2")
        self.assertEqual((told.done.outcome, site.node.log), (view.ACCEPT, []))

    def test_the_first_of_two_jobs_to_end_gives_nothing_back(self):
        site = self.site()
        site.begin("1")
        site.begin("2")
        site.end("1")
        site.later(120.0)
        self.assert_free(site)
        site.end("2")
        site.later(31.0)
        self.assert_back(site)

    def test_an_end_returns_at_once_and_wakes_the_returner(self):
        site = self.site()
        site.begin()
        before = site.node.time
        site.end()
        self.assertEqual((site.node.time, site.did("wake")), (before, [("wake",)]))
        self.assertEqual(site.memory().phase, HELD)

    def test_back_to_back_jobs_within_the_linger_do_not_flap(self):
        site = self.site(handover="stop")
        for number in range(5):
            site.begin(str(number))
            site.end(str(number))
            told = site.later(10.0)
            self.assertGreater(told.done.again_in, 0)
        self.assertEqual((len(site.did("stop")), site.did("start")), (1, []))

    def test_a_late_end_of_run_0_does_not_free_run_1(self):
        site = self.site()
        site.begin("1", 0)
        site.begin("1", 1)
        site.end("1", 0)
        site.later(3600.0)
        self.assert_free(site)


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


class Repair(HandoverCase):

    KEY = JobKey("slurm", "1", 0)

    def held(self, **settings):
        site = self.site(**settings)
        site.begin()
        return site

    def test_a_job_with_processes_is_never_asked_about_and_never_dropped(self):
        site = self.held()
        site.node.batch = {self.KEY: view.GONE}
        site.later(60.0)
        self.assertEqual((site.did("ask"), len(site.store.leases())), ([], 1))

    def test_cannot_tell_is_never_gone(self):
        for alive, batch_up in ((None, True), (False, False), (False, True)):
            with self.subTest(alive=alive, batch_up=batch_up):
                site = self.held()
                site.node.alive = {self.KEY: alive}
                site.node.batch_up = batch_up
                for _ in range(100):
                    site.later(600.0)
                self.assert_free(site)

    def test_a_job_whose_epilog_never_ran_is_put_right_within_one_period(self):
        site = self.held(linger=0.0)
        site.node.alive = {self.KEY: False}
        site.node.batch = {self.KEY: view.GONE}
        site.later(60.0)
        self.assert_back(site)

    def test_a_silent_job_that_lives_is_asked_about_less_and_less(self):
        site = self.held()
        site.node.alive = {self.KEY: False}
        site.node.batch = {self.KEY: view.LIVE}
        for _ in range(24 * 60):
            site.later(60.0)
        self.assertLess(len(site.did("ask")), 35)
        self.assert_free(site)

    def test_a_lease_of_an_earlier_boot_is_dropped_unless_the_batch_system_says_that_it_lives(self):
        for answer, left in ((None, 0), (view.GONE, 0), (view.LIVE, 1)):
            with self.subTest(answer=answer):
                site = self.held()
                site.node.batch = {self.KEY: answer} if answer else {}
                site.node.reboot()
                site.repair()
                self.assertEqual(len(site.store.leases()), left)

    def test_a_node_rebooted_under_stop_comes_back_only_through_repair(self):
        site = self.held(handover="stop")
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


class Switch(HandoverCase):

    def test_off_needs_no_api_spares_no_pod_and_holds_through_a_reboot(self):
        site = self.site()
        site.node.add("web", grace=None)
        site.node.add("logger", stays=True)
        site.node.api_up = False
        before = site.node.time
        site.act(view.OFF)
        self.assertLess(site.node.time - before, 60.0)
        self.assertEqual((site.node.active, site.node.local_pods()), (set(), frozenset()))
        site.node.api_up = True
        site.node.reboot()
        site.repair()
        self.assertEqual(site.node.active, set())

    def test_jobs_come_and_go_while_off_and_nothing_returns(self):
        site = self.site()
        site.act(view.OFF)
        self.assertEqual(site.begin().done.outcome, view.ACCEPT)
        site.end()
        site.later(3600.0)
        self.assertEqual((site.node.active, site.did("start")), (set(), []))

    def test_on_brings_the_node_back_at_once_or_after_the_jobs(self):
        site = self.site()
        site.act(view.OFF)
        site.act(view.ON)
        self.assert_back(site)
        site.begin()
        site.act(view.OFF)
        site.act(view.ON)
        self.assertEqual(site.node.active, set())
        site.end()
        site.later(31.0)
        self.assert_back(site)

    def test_on_without_the_api_waits_for_it(self):
        site = self.site()
        site.act(view.OFF)
        site.node.api_up = False
        site.act(view.ON)
        self.assertEqual(site.node.active, set())
        site.node.api_up = True
        site.later(60.0)
        self.assert_back(site)

    def test_off_does_not_make_the_administrators_stop_ours(self):
        site = self.site()
        site.node.active = {RUNTIME}
        site.node.admin_stopped = {KUBELET}
        site.act(view.OFF)
        site.act(view.ON)
        self.assertEqual(site.node.active, {RUNTIME})


class Adoption(HandoverCase):

    def test_adopted_jobs_hold_a_node_whose_kubelet_joins_later(self):
        site = self.site()
        site.node.active = set()
        site.node.api_up = False
        with site.store.locked():
            from nodeshare.leases import Lease
            site.store.begin(Lease(JobKey("slurm", "1", 0), "boot-1", 1.0), mark_life=1.0)
        site.node.alive = {JobKey("slurm", "1", 0): True}
        site.act(view.ADOPT)
        self.assertEqual(site.memories.fenced(), ())
        site.node.active, site.node.api_up = {KUBELET, RUNTIME}, True
        site.later(60.0)
        self.assert_free(site)
        self.assertEqual((site.memory().way, site.node.active), (QUIESCE, {KUBELET, RUNTIME}))


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
                    self.assertEqual(told.done.outcome, view.ACCEPT)
                    self.assert_free(site)
                    for job in ("1", "2"):
                        site.end(job)
                    site.later(1.0)
                    site.later(31.0)
                    self.assert_back(site)

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
