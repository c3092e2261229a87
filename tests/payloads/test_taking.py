# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking a node: what a job finds there, whatever pods, API and services do; in the simulated world."""

import unittest
import unittest.mock

from handover_case import HandoverCase
from nodeshare.host.host import HostError
from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.node import observed
from nodeshare.model.node.state import HELD, QUIESCE, STOP
from nodeshare.run.executor import MOST_UNSEEN
from simulation import COLLECTED, KUBELET, RUNTIME, YEAR, Killed


class Taking(HandoverCase):
    def test_quiesce_sends_ordinary_pods_away_and_leaves_services_and_daemons_alone(self):
        site = self.site()
        site.node.add("web", respawns=True)
        site.node.add("logger", stays=True)
        told = site.begin()
        self.assertEqual((told.done.outcome, told.way, told.counts.get("evicted")), (actions.ACCEPT, QUIESCE, 1))
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

    def test_pods_that_have_left_do_not_stay_at_the_api_where_their_kubelet_is_stopped_too_soon_to_say_so(self):
        for grace in (1.0, None):
            with self.subTest(grace=grace):
                site = self.site(handover="stop", deadline=5.0)
                site.node.confirms = False
                site.node.add("web", grace=grace, respawns=True)
                site.node.add("final", finalizer=True)
                site.node.add("logger", stays=True)
                site.begin()
                self.assert_free(site)
                self.assertEqual(site.did("confirm"), [("confirm", ("web", "final"))])
                self.assertEqual(set(site.node.guests), {"final", "logger"})

    def test_a_pod_whose_volume_is_still_mounted_here_is_left_to_its_kubelet(self):
        site = self.site(handover="stop")
        site.node.confirms = False
        site.node.add("web")
        site.node.add("database", mounts=True)
        site.begin()
        self.assert_free(site)
        self.assertEqual(site.did("confirm"), [("confirm", ("web",))])
        self.assertEqual(set(site.node.guests), {"database"})

    def test_a_node_is_held_before_the_api_hears_of_ends_and_it_hears_only_while_the_caller_waits(self):
        for stopping, expected in ((0.0, [HELD]), (4.0, [])):
            with self.subTest(stopping=stopping):
                site = self.site(handover="stop", deadline=600.0, limit=20.0)
                site.node.confirms = False
                site.node.add("web", grace=None)
                phases = []
                site.node.confirm = lambda pods, site=site, phases=phases: phases.append(site.memory().phase)

                def stop_units(units, *, force, node=site.node, known=site.node.stop_units, seconds=stopping):
                    node.sleep(seconds)
                    known(units, force=force)

                site.node.stop_units = stop_units
                self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
                self.assert_free(site)
                self.assertEqual(phases, expected)

    def test_an_api_that_does_not_take_it_holds_no_job_up(self):
        site = self.site(handover="stop")
        site.node.confirms = False
        site.node.add("web")
        site.node.confirm = unittest.mock.Mock(side_effect=HostError("403"))
        self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
        self.assertEqual(site.node.confirm.call_count, 1)
        self.assert_free(site)

    def test_a_repair_says_the_end_of_pods_that_the_begin_did_not_come_to(self):
        def away(site):
            site.node.api_up = False
            site.begin()
            site.node.api_up = True
            site.node.guests["web"].leaving = True  # evicted for a node that is not ready

        def killed(site):
            with unittest.mock.patch.object(site.node, "confirm", side_effect=Killed), self.assertRaises(Killed):
                site.begin()

        def refused(site):
            with unittest.mock.patch.object(site.node, "confirm", side_effect=HostError("403")):
                site.begin()

        for trouble in (away, killed, refused):
            with self.subTest(trouble.__name__):
                site = self.site(handover="stop", deadline=5.0)
                site.node.confirms = False
                site.node.add("web", grace=1.0)
                site.node.add("logger", stays=True)
                trouble(site)
                self.assertEqual((site.memory().phase, set(site.node.guests)), (HELD, {"web", "logger"}))
                self.assertEqual(site.act(actions.TICK).done.reason, "held by stop")
                self.assertEqual(set(site.node.guests), {"logger"})
                site.later(400.0)
                with unittest.mock.patch.object(site.node, "ask_api", side_effect=AssertionError("asked for nothing")):
                    self.assertEqual(site.act(actions.TICK).done.reason, "held by stop")

    def test_what_stays_is_confined_in_stop_too_and_released_before_the_services_start(self):
        site = self.site(handover="stop", linger=0.0)
        site.node.add("logger", stays=True)
        site.begin()
        self.assertTrue(site.node.guests["logger"].running)
        self.assertTrue(site.node.confined)
        site.end()
        site.repair()
        kinds = [entry[0] for entry in site.node.log]
        self.assertLess(kinds.index("release"), kinds.index("start"))
        self.assertFalse(site.node.confined)

    def test_without_the_api_a_lease_is_served_by_stop_whatever_is_set(self):
        site = self.site()
        site.node.api_up = False
        site.node.add("web")
        told = site.begin()
        self.assertEqual((told.done.outcome, told.way), (actions.ACCEPT, STOP))
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
        self.assertEqual((told.done.outcome, told.way, told.counts["killed"]), (actions.ACCEPT, QUIESCE, 1))
        self.assert_free(site)

    def test_a_pod_with_the_owner_of_a_daemonset_that_does_not_exist_is_killed_however_long_its_grace_is(self):
        for handover in ("quiesce", "stop"):
            for grace in (None, YEAR):
                with self.subTest(handover=handover, grace=grace):
                    site = self.site(deadline=10.0, handover=handover)
                    site.node.add("miner", grace=grace, forged=True)
                    site.node.add("logger", stays=True)
                    site.node.sleep(COLLECTED)
                    told = site.begin()
                    self.assertEqual((told.done.outcome, told.counts["killed"]), (actions.ACCEPT, 1))
                    self.assert_free(site)
                    self.assertTrue(site.node.guests["logger"].running)
                    self.assertNotIn("miner", site.memory().keep)

    def test_a_pod_whose_forged_owner_is_found_out_after_the_begin_leaves_by_a_repair(self):
        site = self.site(deadline=10.0)
        site.node.add("miner", grace=None, forged=True)
        site.begin()
        self.assertEqual(site.node.ordinary_running(), ["miner"])
        site.later(60.0)
        self.assert_free(site)

    def test_a_forged_owner_that_the_collector_finds_late_is_found_out_although_the_kubelet_is_stopped(self):
        site = self.site(handover="stop")
        site.node.add("miner", grace=None, forged=True).collected_at = site.node.time + 100.0
        site.begin()
        self.assertEqual((site.later(60.0).done.reason, site.node.ordinary_running()), ("held by stop", ["miner"]))
        site.later(60.0)
        self.assert_free(site)

    def test_a_forged_mirror_pod_shields_no_pod_from_a_job(self):
        site = self.site(deadline=10.0, handover="stop")
        site.node.add("miner", grace=None)
        site.node.add("mirror", claims="miner")
        self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
        self.assert_free(site)

    def test_a_pod_of_a_daemonset_that_is_deleted_has_to_go_and_the_one_that_replaces_it_stays(self):
        site = self.site()
        site.node.add("logger", stays=True, grace=5.0)
        site.node.delete((observed.Pod("ns", "logger", "logger"),))
        site.node.add("logger-2", stays=True)
        site.begin()
        self.assert_free(site)
        self.assertEqual((list(site.node.guests), site.memory().keep), (["logger-2"], ("logger-2",)))

    def test_the_time_that_pods_had_from_the_controllers_for_this_job_counts(self):
        for holders, since, expected in (
            ((), 955.0, 60.0),
            (("slurm/1/0",), 955.0, 15.0),
            (("slurm/7/0", "slurm/1/0"), 955.0, 15.0),
            (("slurm/7/0",), 955.0, 60.0),
            (("slurm/1/0",), 100.0, 1.0),
            (("slurm/1/0",), 1000.0, 60.0),
        ):
            with self.subTest(holders=holders, since=since):
                site = self.site(deadline=60.0)
                site.node.holders = (holders, since)
                site.node.add("quorum", protected=True)
                told = site.begin()
                self.assert_free(site)
                self.assertAlmostEqual(site.node.time - 1000.0, expected, delta=3.0 + 2.0)
                self.assertIn("did not leave within 60 s", " ".join(told.remarks))

    def test_pods_that_come_to_a_held_node_have_ten_seconds_and_come_again_only_once(self):
        site = self.site(deadline=60.0)
        site.begin()
        for number, way in ((1, QUIESCE), (2, STOP)):
            site.node.add("rogue-{}".format(number), grace=YEAR, protected=True, tolerates=True)
            before = site.node.time
            site.repair()
            self.assert_free(site)
            self.assertLess(site.node.time - before, 15.0)
            self.assertEqual(site.memory().way, way)

    def test_a_pod_that_came_to_a_held_node_ends_although_the_api_has_fallen_silent(self):
        site = self.site()
        site.node.add("logger", stays=True)
        site.begin()
        site.node.add("rogue", grace=None, protected=True, tolerates=True)
        site.node.api_up = False
        told = site.later(60.0)
        self.assert_free(site)
        self.assertEqual((told.way, site.node.guests["logger"].running, site.did("evict")), (STOP, True, []))

    def test_a_budget_that_a_site_lets_jobs_wait_for_keeps_no_pod_that_came_beside_a_job(self):
        site = self.site(after_deadline="job_waits")
        site.begin()
        site.node.add("rogue", grace=None, protected=True, tolerates=True)
        site.repair()
        self.assert_free(site)

    def test_a_daemonset_that_is_rolled_out_again_and_again_during_a_job_does_not_stop_the_kubelet(self):
        site = self.site()
        site.node.add("logger-0", stays=True, grace=30.0)
        site.begin()
        for number in range(5):
            name = "logger-{}".format(number)
            site.node.delete((observed.Pod("ns", name, name),))
            site.node.add("logger-{}".format(number + 1), stays=True, grace=30.0)
            site.repair()
            self.assert_free(site)
        self.assertEqual((site.memory().way, site.did("stop")), (QUIESCE, []))

    def test_a_repair_confines_again_what_a_kubelet_has_given_all_cores(self):
        for api_up in (True, False):
            with self.subTest(api_up=api_up):
                site = self.site()
                site.begin()
                site.node.confined, site.node.api_up = False, api_up
                site.repair()
                self.assertTrue(site.node.confined)
                self.assertEqual(site.memory().phase, HELD)

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
        self.assertEqual((told.done.outcome, told.counts["deleted"]), (actions.ACCEPT, 1))
        self.assertEqual(site.did("report"), [("report", "DeadlinePassed")])
        self.assert_free(site)

    def test_the_nodes_of_a_large_job_look_ever_less_often_and_not_all_in_the_same_moment(self):
        looks = {}
        for name in ("n1", "n2", "n3"):
            site = self.site(node=name)
            site.node.add("quorum", protected=True)
            looks[name] = []
            site.node.on_sleep = lambda site=site, name=name: looks[name].append(round(site.node.time - 1000.0, 3))
            self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
            early = [at for at in looks[name] if at <= 1.0]
            self.assertGreaterEqual(len(early), 4, "pods that leave at once are seen at once")
            self.assertLess(len(looks[name]), 80, "sixty seconds at five looks a second were three hundred")
            gaps = [late - early for early, late in zip(looks[name], looks[name][1:])]
            self.assertLessEqual(max(gaps), 2.001)
        moments = [at for each in looks.values() for at in each if at > 20.0]
        self.assertGreater(len(set(moments)), len(moments) * 3 // 4)

    def test_a_protected_pod_and_a_job_that_waits(self):
        site = self.site(deadline=10.0, after_deadline="job_waits")
        site.node.add("quorum", protected=True)
        told = site.begin()
        self.assertEqual(told.done.outcome, actions.REQUEUE)
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
        for outcome in (actions.ACCEPT, actions.REQUEUE, actions.DRAIN):
            with self.subTest(outcome=outcome):
                site = self.site(on_failure=outcome, handover="stop")
                site.node.stop_units = lambda units, *, force: None
                told = site.begin()
                self.assertEqual(told.done.outcome, outcome)
                self.assertIn("cannot be stopped", told.done.reason)

    def test_a_service_manager_that_is_late_now_and_then_lets_no_job_in_beside_pods(self):
        for name, limit, late, looks in (
            ("twice", 90.0, lambda look: look <= 2, None),
            ("every other time", 90.0, lambda look: look % 2 == 1, None),
            ("always", 90.0, lambda look: True, MOST_UNSEEN),
            ("as long as there is time", 8.0, lambda look: True, 2),
        ):
            with self.subTest(name):
                site = self.site(handover="stop", limit=limit)
                site.node.add("web")
                asked = []

                def active_units(units, node=site.node, late=late, asked=asked, known=site.node.active_units):
                    asked.append(units)
                    if late(len(asked)):
                        node.sleep(5.0)
                        raise HostError("systemctl is-active: no end within 5 s")
                    return known(units)

                site.node.active_units = active_units
                if looks is None:
                    site.begin()
                    self.assert_free(site)
                    self.assertGreater(len(asked), MOST_UNSEEN)
                else:
                    self.assertRaises(HostError, site.begin)
                    self.assertEqual(len(asked), looks)

    def test_shims_that_outlive_their_kubelet_are_found_and_killed(self):
        site = self.site(deadline=5.0)
        site.node.active = set()
        site.node.admin_stopped = {KUBELET, RUNTIME}
        site.node.add("left", grace=None)
        site.begin()
        self.assert_free(site)
        self.assertEqual(site.did("stop"), [])


class Cancelled(HandoverCase):
    """A job that ends while its Prolog still takes the node: Slurm lifts the taint first, and pods may come."""

    KEY = JobKey("slurm", "1", 0)

    def lift(self, site):
        """The controllers have given the node up, and a scheduler has bound a pod at once."""
        node = site.node
        if node.tainted and not node.announced:
            node.tainted, node.holders = False, ((), 0.0)
            node.add("new", respawns=True)

    def cancelled(self, answer):
        site = self.site()
        site.node.holders = (("slurm/1/0",), site.node.time)
        site.node.batch[self.KEY] = answer
        site.node.on_look = lambda: self.lift(site)
        return site

    def test_a_pod_bound_after_the_release_is_never_evicted_for_a_job_that_ends(self):
        site = self.cancelled(actions.ENDING)
        told = site.begin()
        self.assertEqual((told.done.outcome, "ends" in told.done.reason), (actions.ACCEPT, True), told)
        self.assertEqual(site.did("evict") + site.did("delete") + site.did("kill") + site.did("stop"), [])
        self.assertTrue(site.node.guests["new"].running)
        self.assertEqual(site.node.announced, "")
        site.end()
        site.repair()
        self.assert_back(site)
        self.assertTrue(site.node.guests["new"].running)

    def test_a_repair_before_the_epilog_takes_nothing_for_a_job_that_ends(self):
        site = self.cancelled(actions.ENDING)
        site.begin()
        site.node.alive[self.KEY] = False  # its tasks have not started
        told = site.repair()
        self.assertEqual((len(site.store.leases()), "ends" in told.done.reason), (1, True), told)
        self.assertEqual(site.did("evict") + site.did("delete") + site.did("kill") + site.did("stop"), [])
        site.node.batch[self.KEY] = actions.LIVE
        site.later(60.0)
        self.assert_free(site)  # had Slurm changed its mind

    def test_a_job_that_goes_on_has_the_node_although_the_taint_was_lifted(self):
        for answer in (actions.LIVE, actions.GONE, None):
            with self.subTest(answer):
                site = self.cancelled(answer)
                if answer is None:
                    del site.node.batch[self.KEY]  # Slurm does not say
                told = site.begin()
                self.assertEqual((told.done.outcome, len(site.did("ask"))), (actions.ACCEPT, 1), told)
                self.assert_free(site)
                self.assertEqual(site.node.announced, '["slurm/1/0"]')

    def test_pods_are_asked_no_longer_to_leave_for_a_job_that_was_cancelled_meanwhile(self):
        site = self.site()
        node = site.node
        node.holders, node.batch[self.KEY] = (("slurm/1/0",), node.time), actions.LIVE
        node.add("web", protected=True)

        def cancel():
            if node.time > 1010.0:  # the controllers keep the taint for as long as the node announces a lease
                node.holders, node.batch[self.KEY] = ((), 0.0), actions.ENDING

        node.on_sleep = cancel
        told = site.begin()
        self.assertIn("ends", told.done.reason)
        self.assertLess(node.time, 1020.0)
        self.assertTrue(node.guests["web"].running)
        self.assertEqual(site.did("delete") + site.did("kill") + site.did("stop"), [])
        site.end()
        site.later(60.0)
        self.assert_back(site)

    def test_slurm_is_asked_about_no_job_that_the_controllers_name(self):
        site = self.site()
        site.node.holders = (("slurm/1/0",), site.node.time)
        site.node.add("web")
        site.begin()
        self.assert_free(site)
        self.assertEqual(site.did("ask"), [])


class Sharing(HandoverCase):
    def test_a_second_job_on_a_held_node_touches_nothing(self):
        site = self.site()
        site.begin("1")
        del site.node.log[:]
        told = site.begin("2")
        self.assertEqual((told.done.outcome, site.node.log), (actions.ACCEPT, []))

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


class Switch(HandoverCase):
    def test_off_needs_no_api_spares_no_pod_and_holds_through_a_reboot(self):
        site = self.site()
        site.node.add("web", grace=None)
        site.node.add("logger", stays=True)
        site.node.api_up = False
        before = site.node.time
        site.act(actions.OFF)
        self.assertLess(site.node.time - before, 60.0)
        self.assertEqual((site.node.active, site.node.local_pods()), (set(), frozenset()))
        site.node.api_up = True
        site.node.reboot()
        site.repair()
        self.assertEqual(site.node.active, set())

    def test_that_it_is_off_is_announced_last_and_taken_back_before_anything_starts(self):
        site = self.site()
        site.act(actions.OFF)
        self.assertEqual(site.node.announced, observed.SWITCHED_OFF)
        self.assertEqual([entry[0] for entry in site.node.log][-2:], ["stop", "announce"])
        site.begin()
        site.end()
        self.assertEqual(site.node.announced, observed.SWITCHED_OFF)
        del site.node.log[:]
        site.act(actions.ON)
        first = next(entry for entry in site.node.log if entry[0] in ("announce", "start"))
        self.assertEqual(first, ("announce", ""))
        self.assert_back(site)

    def test_an_api_that_is_silent_at_the_switch_is_told_by_the_next_repair(self):
        site = self.site()
        site.node.api_up = False
        site.act(actions.OFF)
        self.assertEqual(site.node.announced, "")
        site.node.api_up = True
        site.repair()
        site.repair()
        self.assertEqual(site.did("announce"), [("announce", observed.SWITCHED_OFF)])

    def test_jobs_come_and_go_while_off_and_nothing_returns(self):
        site = self.site()
        site.act(actions.OFF)
        self.assertEqual(site.begin().done.outcome, actions.ACCEPT)
        site.end()
        site.later(3600.0)
        self.assertEqual((site.node.active, site.did("start")), (set(), []))

    def test_on_brings_the_node_back_at_once_or_after_the_jobs(self):
        site = self.site()
        site.act(actions.OFF)
        site.act(actions.ON)
        self.assert_back(site)
        site.begin()
        site.act(actions.OFF)
        site.act(actions.ON)
        self.assertEqual(site.node.active, set())
        site.end()
        site.later(31.0)
        self.assert_back(site)

    def test_on_without_the_api_waits_for_it(self):
        site = self.site()
        site.act(actions.OFF)
        site.node.api_up = False
        site.act(actions.ON)
        self.assertEqual(site.node.active, set())
        site.node.api_up = True
        site.later(60.0)
        self.assert_back(site)

    def test_off_does_not_make_the_administrators_stop_ours(self):
        site = self.site()
        site.node.active = {RUNTIME}
        site.node.admin_stopped = {KUBELET}
        site.act(actions.OFF)
        site.act(actions.ON)
        self.assertEqual(site.node.active, {RUNTIME})


if __name__ == "__main__":
    unittest.main()
