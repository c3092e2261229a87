# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share mode `placeholder` in simulated time: jobs have exactly their part of the node, and pods all the rest."""

import os
import shutil
import unittest
import unittest.mock

from nodeshare.decide import handover
from nodeshare.host.host import HostError
from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease
from nodeshare.model.node import observed
from nodeshare.model.pods.placeholder import PRIORITY, name_of
from nodeshare.run.executor import MOST_UNSEEN
from simulation import COLLECTED, KUBELET, RUNTIME, YEAR, Killed, quick_directory
from simulation_beside import GIB, SharedSite


class SharedCase(unittest.TestCase):
    def site(self, **settings):
        directory = quick_directory()
        self.addCleanup(shutil.rmtree, directory)
        return SharedSite(os.path.join(directory, "state"), **settings)

    def names(self, site, what):
        return [name for entry in site.did(what) for name in (entry[1] if isinstance(entry[1], tuple) else entry[1:])]


class Lives(SharedCase):
    def test_a_job_beside_pods_that_leave_it_room_disturbs_nobody(self):
        site = self.site()
        site.node.add_pod("web", cpu="2")
        told = site.begin(cores=4, memory=16 * GIB)
        self.assertEqual(told.done, actions.Done("accept", "1 held by placeholders"))
        self.assertEqual(site.size(), {"cpu": "4", "memory": str(16 * GIB)})
        self.assertEqual((site.node.names(), site.free_cores()), (["web"], "4-7"))
        self.assertEqual(site.node.held_memory, 16 * GIB)
        self.assertIn(KUBELET, site.node.active)
        site.end()
        self.assertEqual((site.node.files, site.node.let_in, site.node.pod_cpus), ({}, {}, None))
        self.assertEqual((site.did("evict"), site.did("preempt"), site.did("announce")), ([], [], []))

    def test_several_jobs_have_a_placeholder_each_and_their_cores_together_are_fenced(self):
        site = self.site()
        for number in range(3):
            self.assertEqual(site.begin("{}.srv".format(number), cores=2).done.outcome, "accept")
        self.assertEqual(site.free_cores(), "6-7")
        site.end("1.srv")
        self.assertEqual((site.size("0.srv")["cpu"], site.size("1.srv"), site.size("2.srv")["cpu"]), ("2", None, "2"))
        self.assertEqual(site.free_cores(), "2-3,6-7")

    def test_a_late_end_of_an_earlier_run_frees_nothing_of_the_next(self):
        site = self.site()
        site.begin(run=1, cores=2)
        site.begin(run=2, cores=2)
        site.end(run=1)
        site.end(run=1)
        self.assertEqual((site.size(run=1), site.size(run=2)["cpu"]), (None, "2"))
        self.assertEqual(site.free_cores(), "2-7")

    def test_a_share_that_is_told_later_replaces_the_whole_node_that_was_assumed(self):
        site = self.site()
        with site.store.locked():
            site.store.begin(Lease(JobKey("pbs", "1.srv", 1), "boot-1", 1000.0), mark_life=0.0)
        site.node.alive[JobKey("pbs", "1.srv", 1)] = True
        site.act(actions.ADOPT)
        self.assertEqual(site.size(), {"cpu": "8", "memory": str(64 * GIB)})
        self.assertEqual(site.free_cores(), "0", "only what stays has a core")
        site.begin(cores=2)
        self.assertEqual((site.size()["cpu"], site.free_cores()), ("2", "2-7"))

    def test_a_forged_mirror_pod_takes_no_room_from_a_job_and_holds_none_up(self):
        for claims in ("0123456789abcdef" * 2, "web"):
            with self.subTest(claims=claims):
                site = self.site()
                site.node.add_forged_mirror("mirror", claims, finalizer=True)
                before = site.node.time
                site.begin(cores=8)
                self.assertEqual((site.size()["cpu"], site.did("evict")), ("8", []))
                self.assertLess(site.node.time - before, 1.0)

    def test_a_forged_mirror_of_a_static_pod_that_runs_takes_no_room_from_a_job_and_keeps_no_pod_beside_it(self):
        for finalizer in (True, False):
            with self.subTest(finalizer=finalizer):
                site = self.site(deadline=5.0)
                site.begin("1.srv", cores=1)
                site.node.add_pod("tenant", cpu="6", memory="50Gi")
                runs = site.node.files[name_of(JobKey("pbs", "1.srv", 1))].uid
                site.node.add_forged_mirror("mirror", runs, finalizer=finalizer)
                told = site.begin("2.srv", cores=6, memory=40 * GIB)
                self.assertEqual(told.done, actions.Done("accept", "2 held by placeholders"))
                self.assertEqual(site.size("2.srv"), {"cpu": "6", "memory": str(40 * GIB)})
                self.assertEqual((site.node.ordinary_running(), site.size("1.srv")["cpu"]), ([], "1"))
                self.assertEqual(site.did("kill"), [])

    def test_a_deleted_pod_with_a_forged_owner_and_a_long_grace_is_killed_for_a_placeholder(self):
        site = self.site(deadline=5.0)
        site.node.add_pod("miner", cpu="6", grace=YEAR, forged=True)
        site.node.sleep(COLLECTED)
        self.assertEqual(site.begin(cores=8).done.outcome, actions.ACCEPT)
        self.assertEqual((site.size()["cpu"], site.node.names()), ("8", []))

    def test_an_exclusive_job_has_all_but_what_stays(self):
        site = self.site()
        site.node.add_pod("logger", stays=True, cpu="500m")
        site.node.add_pod("web")
        site.begin(cores=2, exclusive=True)
        self.assertEqual(site.size(), {"cpu": "7500m", "memory": str(63 * GIB)})
        self.assertEqual((site.node.names(), site.free_cores()), (["logger"], "0"))
        self.assertEqual(self.names(site, "preempt"), [])

    def test_a_pod_as_critical_as_a_placeholder_stays_and_the_job_has_what_it_leaves(self):
        for settings, size in (
            ({}, {"cpu": "7", "memory": str(8 * GIB)}),
            ({"fence": "split"}, {"memory": str(8 * GIB)}),
        ):
            site = self.site(pod_cpus="6-7" if settings else "", **settings)
            site.node.add_pod("agent", priority=PRIORITY, grace=600.0)
            site.node.add_pod("cluster", cpu="2", memory="60Gi", priority=PRIORITY - 1000)
            told = site.begin(cores=8, memory=8 * GIB)
            self.assertEqual((told.done.outcome, site.size()), ("accept", size))
            self.assertEqual((site.node.names(), self.names(site, "evict")), (["agent"], ["cluster"]))
            self.assertEqual((site.did("delete"), site.did("kill"), site.did("preempt")), ([], [], []))
            site.later(60.0)
            self.assertEqual((site.node.names(), site.size()), (["agent"], size))

    def test_what_a_critical_pod_has_left_free_a_job_of_the_whole_node_has_at_the_next_repair(self):
        site = self.site()
        guest = site.node.add_pod("agent", cpu="2", priority=PRIORITY)
        site.begin(cores=8, exclusive=True)
        self.assertEqual(site.size()["cpu"], "6")
        site.node.evict((observed.Pod("ns", guest.name, guest.name),))
        site.later(60.0)
        self.assertEqual((site.size()["cpu"], site.node.critical()), ("8", []))

    def test_without_the_api_the_kubelet_itself_spares_a_critical_pod_and_the_job_has_what_it_left_before(self):
        site = self.site()
        site.node.add_pod("agent", priority=PRIORITY)
        site.begin("1.srv", cores=1)
        site.node.add_pod("web", cpu="3")
        site.node.api_up = False
        self.assertEqual(site.begin("2.srv", cores=7).done.outcome, "accept")
        self.assertEqual((site.node.names(), site.size("2.srv")["cpu"]), (["agent"], "6"))
        self.assertEqual(self.names(site, "preempt"), ["web"])

    def test_a_job_of_all_cores_has_what_the_kubelet_can_give(self):
        site = self.site()
        site.node.allocatable["cpu"] = 7500
        self.assertEqual(site.begin(cores=8).done.outcome, "accept")
        self.assertEqual(site.size()["cpu"], "7500m")

    def test_a_job_without_cores_needs_no_cpuset(self):
        site = self.site()
        self.assertEqual(site.begin(cores=0, cpus="").done.outcome, "accept")
        self.assertEqual(site.size(), {"memory": str(GIB)})


class MakingRoom(SharedCase):
    def test_the_lowest_priority_goes_first_and_no_more_than_must(self):
        site = self.site()
        for name, cpu, priority in (("low", "2", 1), ("high", "3", 9), ("tiny", "500m", 1), ("middle", "2", 5)):
            site.node.add_pod(name, cpu=cpu, priority=priority)
        site.begin(cores=2)
        self.assertEqual(self.names(site, "evict"), ["low"])
        self.assertEqual(self.names(site, "preempt"), [])

    def test_a_gang_is_spared_while_others_of_its_priority_can_go(self):
        site = self.site()
        for name, gang in (("a-gang", "g"), ("b-gang", "g"), ("c", ""), ("d", "")):
            site.node.add_pod(name, cpu="2", gang=gang)
        site.begin(cores=4)
        self.assertEqual(sorted(self.names(site, "evict")), ["c", "d"])

    def test_the_placeholder_comes_when_the_evicted_have_left(self):
        site = self.site()
        site.node.add_pod("slow", cpu="8", grace=20.0)
        told = site.begin(cores=2)
        self.assertEqual((told.done.outcome, self.names(site, "preempt")), ("accept", []))
        self.assertTrue(1020.0 <= site.node.time <= 1020.0 + handover.LONGEST_POLL, site.node.time)

    def test_what_a_budget_protects_is_deleted_at_the_deadline(self):
        site = self.site(deadline=10.0)
        site.node.add_pod("kept", cpu="8", protected=True)
        told = site.begin(cores=2)
        self.assertEqual((told.done.outcome, self.names(site, "delete")), ("accept", ["kept"]))
        self.assertEqual((self.names(site, "report"), self.names(site, "preempt")), (["DeadlinePassed"], []))

    def test_a_pod_that_takes_ten_minutes_to_leave_is_killed_after_the_deadline_before_the_placeholder_comes(self):
        for settings, asked_at in (({"deadline": 10.0}, 1010.0), ({"deadline": 60.0, "limit": 20.0}, 1012.0)):
            site = self.site(on_failure="drain", **settings)
            site.node.add_pod("deaf", cpu="8", grace=600.0)
            site.node.add_pod("deaf-elsewhere", cpu="0", memory="0", grace=600.0)
            told = site.begin(cores=2)
            self.assertEqual((told.done.outcome, site.size()["cpu"]), ("accept", "2"), settings)
            done = [entry[0] for entry in site.node.log if entry[0] != "fence"]
            self.assertEqual(done, ["evict", "report", "delete", "kill", "place"], settings)
            self.assertEqual(self.names(site, "kill"), ["deaf"])
            self.assertEqual((self.names(site, "delete"), site.node.names()), (["deaf"], ["deaf-elsewhere"]))
            self.assertGreaterEqual(site.node.time, asked_at + 3.0)
            self.assertLess(site.node.time, asked_at + 4.0)

    def test_of_those_that_leave_already_and_take_their_time_no_more_are_hurried_than_must(self):
        site = self.site(deadline=10.0, after_deadline="job_waits")
        for name, cpu in (("a", "3"), ("b", "2"), ("c", "3")):
            site.node.add_pod(name, cpu=cpu, grace=600.0)
        site.node.evict(tuple(observed.Pod("ns", name, name) for name in "abc"))
        del site.node.log[:]
        self.assertEqual(site.begin(cores=3).done.outcome, "accept", "they have been allowed to leave")
        self.assertEqual((self.names(site, "evict"), len(self.names(site, "delete"))), ([], 1))
        self.assertNotIn("b", self.names(site, "delete"))

    def test_what_cannot_be_deleted_is_left_to_the_kubelet(self):
        site = self.site(deadline=10.0)
        site.node.add_pod("kept", cpu="8", protected=True, undeletable=True)
        told = site.begin(cores=2)
        self.assertEqual((told.done.outcome, self.names(site, "preempt")), ("accept", ["kept"]))
        self.assertEqual(len(site.did("delete")), 1)
        site = self.site(deadline=10.0, limit=30.0, on_failure="requeue")
        site.node.add_pod("kept", cpu="8", grace=600.0, protected=True, undeletable=True)
        self.assertEqual(site.begin(cores=2).done.outcome, "requeue")
        self.assertLessEqual(site.node.time, 1030.0)

    def test_where_no_time_is_left_to_wait_for_it_a_deaf_pod_is_killed_at_once(self):
        for waited, deleted in ((17.5, ["deaf"]), (18.5, ["deaf"]), (19.5, [])):
            site = self.site(deadline=60.0, limit=20.0, on_failure="requeue")
            site.node.add_pod("deaf", cpu="8", grace=600.0)
            site.give_cores("1.srv", 2)
            lease = Lease(JobKey("pbs", "1.srv", 1), site.node.boot, site.node.time, None, 2, GIB, ())
            with site.store.locked():
                site.store.begin(lease, mark_life=300.0)
            site.node.alive[lease.key] = True
            began = site.node.time
            site.node.time += waited
            told = site.carrier(key=lease.key).run(actions.BEGIN, began=began)
            self.assertLessEqual(site.node.time - began, 20.0)
            self.assertEqual((self.names(site, "delete"), len(site.did("place"))), (deleted, 1), waited)
            self.assertEqual(told.done.outcome, "accept" if deleted else "requeue")
            site.later(1.5)
            site.later(5.0)
            self.assertEqual(site.size()["cpu"], "2", waited)

    def test_a_repair_ends_what_keeps_a_refused_placeholder_out(self):
        site = self.site(deadline=10.0)
        site.node.refuses = True
        site.begin(cores=2)
        site.node.refuses = False
        site.node.add_pod("deaf", cpu="8", grace=600.0)
        site.later(60.0)
        self.assertEqual((site.size()["cpu"], self.names(site, "delete")), ("2", ["deaf"]))
        self.assertEqual(self.names(site, "preempt"), [])

    def refused_beside(self, **settings):
        site = self.site(deadline=10.0, limit=90.0, **settings)
        site.node.refuses = True
        site.begin(cores=2)
        site.node.refuses = False
        return site

    def test_a_repair_waits_for_no_pod_that_not_even_a_kill_ends(self):
        site = self.refused_beside()
        site.node.add_pod("deaf", cpu="8", grace=600.0)
        site.node.kill = lambda uids: site.node.log.append(("kill", uids))
        site.node.time += 60.0
        began = site.node.time
        site.repair()
        self.assertEqual(self.names(site, "kill"), ["deaf"])
        self.assertLess(site.node.time - began, 20.0)

    def test_a_repair_asks_before_it_makes_room_for_a_refused_placeholder_and_job_waits_counts_there_too(self):
        for after, ended in (("job_waits", []), ("job_wins", ["kept"])):
            site = self.refused_beside(after_deadline=after)
            site.node.add_pod("kept", cpu="8", protected=True)
            site.later(60.0)
            self.assertIn("kept", self.names(site, "evict"), after)
            self.assertEqual((self.names(site, "delete"), self.names(site, "preempt")), (ended, []), after)

    def test_where_jobs_wait_a_protected_pod_stays_and_the_job_is_given_back(self):
        site = self.site(deadline=10.0, after_deadline="job_waits")
        site.node.add_pod("kept", cpu="8", protected=True)
        told = site.begin(cores=2)
        self.assertEqual((told.done.outcome, site.node.names(), site.node.files), ("requeue", ["kept"], {}))

    def test_without_the_api_the_kubelet_makes_room(self):
        site = self.site()
        site.node.add_pod("web", cpu="8")
        site.node.api_up = False
        told = site.begin(cores=2)
        self.assertEqual((told.done.outcome, site.size()["cpu"], self.names(site, "preempt")), ("accept", "2", ["web"]))

    def test_pods_that_leave_already_are_waited_for_and_nobody_else_is_asked(self):
        site = self.site()
        site.node.add_pod("going", cpu="4", grace=5.0)
        site.node.add_pod("web", cpu="4")
        site.node.evict((observed.Pod("ns", "going", "going"),))
        del site.node.log[:]
        self.assertEqual(site.begin(cores=4).done.outcome, "accept")
        self.assertEqual((self.names(site, "evict"), site.node.names()), ([], ["web"]))


class Failures(SharedCase):
    def test_b12_a_placeholder_that_is_refused_is_reported_and_ends_in_the_sites_outcome(self):
        site = self.site(on_failure="requeue")
        site.node.refuses = True
        told = site.begin(cores=2)
        self.assertEqual(told.done.outcome, "requeue")
        self.assertIn("the kubelet has not admitted lease-pbs-1-srv-", told.done.reason)
        self.assertEqual((self.names(site, "report"), site.free_cores()), (["PlaceholderRefused"], "2-7"))

    def test_a_repair_tries_a_refused_one_again_under_another_uid(self):
        site = self.site()
        site.node.refuses = True
        site.begin(cores=2)
        site.node.refuses = False
        site.repair()
        self.assertEqual(site.size()["cpu"], "2")
        before = list(site.node.log)
        site.repair()
        self.assertEqual(site.node.log, before, "a repair of a node in order must do nothing")

    def test_a_job_whose_cgroup_tells_no_cores_is_a_failure_that_names_the_choice(self):
        site = self.site(on_failure="requeue")
        told = site.begin(cores=2, cpus="")
        self.assertEqual(told.done.outcome, "requeue")
        self.assertIn("cgroup pbs_jobs.service/jobid/1.srv; without it only the fences split", told.done.reason)
        site = self.site(fence="counts")
        self.assertEqual(site.begin(cores=2, cpus="").done.outcome, "accept")
        self.assertIsNone(site.node.pod_cpus)

    def test_a_job_whose_cgroup_tells_no_cores_keeps_pods_off_all_of_them_and_every_line_names_it(self):
        site = self.site()
        with site.store.locked():
            site.store.begin(Lease(JobKey("pbs", "1.srv", 1), "boot-1", 1000.0, None, 2, GIB), mark_life=0.0)
        site.node.alive[JobKey("pbs", "1.srv", 1)] = True
        said = "; no cores are told by the cgroup pbs_jobs.service/jobid/1.srv: pods have no more CPUs than keep house"
        for call, cores in (
            (lambda: site.act(actions.ADOPT), "0"),
            (site.repair, "0"),
            (lambda: site.begin("2.srv", cores=2), "2"),  # which has the other two
            (lambda: site.end("2.srv"), "0"),
        ):
            told = call()
            self.assertEqual((told.done.outcome, site.free_cores()), ("accept", cores))
            self.assertTrue(told.done.reason.endswith(said), told.done.reason)
        site.give_cores("1.srv", 2)
        self.assertEqual(site.repair().done.reason, "1 held by placeholders")
        self.assertEqual(site.free_cores(), "2-7")

    def test_a_full_disk_ends_in_the_sites_outcome_and_repair_makes_it_good(self):
        site = self.site(on_failure="drain")
        site.node.disk_full = True
        self.assertEqual(site.begin(cores=2).done.outcome, "drain")
        self.assertEqual(site.free_cores(), "2-7", "the job's cores are its own all the same")
        site.node.disk_full = False
        site.repair()
        self.assertEqual(site.size()["cpu"], "2")

    def test_a_placeholder_that_cannot_be_removed_is_tried_twice_and_named_and_the_next_job_has_its_cores(self):
        site = self.site(on_failure="accept")
        site.begin("1.srv", cores=2)
        stuck = name_of(JobKey("pbs", "1.srv", 1))
        said = "; placeholders of ended jobs cannot be removed: " + stuck
        site.node.stuck = True
        for call, cores in (
            (lambda: site.end("1.srv"), "0-7"),
            (lambda: site.begin("2.srv", cores=4, cpus="4-7"), "0-3"),
            (site.repair, "0-3"),
        ):
            del site.node.log[:]
            told = call()
            self.assertEqual((told.done.outcome, site.free_cores(), len(site.did("unplace"))), ("accept", cores, 2))
            self.assertTrue(told.done.reason.endswith(said), told.done.reason)
        site.node.stuck = False
        site.repair()
        self.assertEqual((set(site.node.files), site.size("2.srv")["cpu"]), ({name_of(JobKey("pbs", "2.srv", 1))}, "4"))

    def test_where_a_look_fails_time_and_again_a_call_fails_and_jobs_have_their_cores_until_they_end(self):
        for looked in ("placed", "active_units", "admitted"):
            with self.subTest(looked):
                site = self.site(on_failure="requeue")
                failing = unittest.mock.Mock(side_effect=HostError("cannot tell: Input/output error"))
                setattr(site.node, looked, failing)
                calls = [lambda site=site: site.begin(cores=2), site.repair]
                if looked != "admitted":  # of which the other calls want to know nothing
                    calls += [lambda site=site, event=event: site.act(event) for event in (actions.ADOPT, actions.ON)]
                for call in calls:
                    with self.assertRaisesRegex(HostError, "cannot tell"):
                        call()
                    self.assertEqual((site.free_cores(), failing.call_count), ("2-7", MOST_UNSEEN))
                    failing.reset_mock()
                self.assertEqual((site.end().done.outcome, site.free_cores()), ("accept", "0-7"))
                if looked == "active_units":
                    self.assertRaises(HostError, site.act, actions.OFF)

    def test_a_kubelet_that_the_administrator_has_stopped_stays_so_and_the_job_starts(self):
        site = self.site()
        site.node.active, site.node.admin_stopped = {RUNTIME}, {KUBELET}
        told = site.begin(cores=2)
        self.assertEqual((told.done.outcome, site.did("start")), ("accept", []))
        self.assertIn(name_of(JobKey("pbs", "1.srv", 1)), site.node.files, "it counts as soon as the kubelet comes")

    def test_the_whole_node_cannot_be_held_before_the_api_has_told_what_it_has(self):
        site = self.site(on_failure="requeue")
        site.node.api_up = False
        self.assertEqual(site.begin(exclusive=True).done.outcome, "requeue")
        site.node.api_up = True
        site.repair()
        self.assertEqual(site.size()["cpu"], "8")


class Repair(SharedCase):
    def test_a_missed_begin_of_the_kubelet_directory_is_made_good(self):
        site = self.site()
        site.begin(cores=2)
        site.node.files.clear()
        site.repair()
        self.assertEqual(site.size()["cpu"], "2")

    def test_it_does_not_keep_the_next_job_waiting_for_pods_that_leave_slowly(self):
        site = self.site(deadline=30.0)
        site.begin(cores=2)
        site.node.files.clear()
        site.node.let_in.clear()
        site.node.add_pod("slow", cpu="8", grace=20.0)
        began = site.node.time
        site.repair()
        self.assertLess(site.node.time - began, 5.0)
        self.assertEqual((site.node.files, self.names(site, "evict"), self.names(site, "preempt")), ({}, ["slow"], []))
        site.later(20.0)
        self.assertEqual((site.size()["cpu"], self.names(site, "preempt")), ("2", []))

    def test_what_does_not_leave_is_deleted_once_the_deadline_of_the_job_is_over(self):
        site = self.site(deadline=30.0)
        site.begin(cores=2)
        site.node.files.clear()
        site.node.let_in.clear()
        site.node.add_pod("kept", cpu="8", protected=True)
        site.repair()
        self.assertEqual(self.names(site, "delete"), [])
        site.later(30.0)
        self.assertEqual((site.size()["cpu"], self.names(site, "delete")), ("2", ["kept"]))

    def test_an_end_after_the_killed_begin_of_another_leaves_pods_the_time_that_they_were_given(self):
        """History 223739088: only a repair places what the killed call did not, and not before the deadline."""
        site = self.site(deadline=60.0, limit=20.0)
        site.node.add_pod("kept", cpu="1", protected=True)
        for job, cores in (("1.srv", 6), ("2.srv", 0)):
            site.begin(job, cores=cores)
        site.points = self.kill_at("before:Evict")
        with self.assertRaises(Killed):
            site.begin("3.srv", cores=2)
        site.points = lambda point: None
        site.repair()
        site.end("2.srv")
        placed = [name_of(JobKey("pbs", job, 1)) for job in ("1.srv", "3.srv")]
        self.assertEqual((sorted(site.node.files), self.names(site, "delete")), (placed[:1], []))
        site.later(20.0)
        self.assertEqual((sorted(site.node.files), self.names(site, "delete")), (sorted(placed), ["kept"]))

    @staticmethod
    def kill_at(last):
        def at_point(point):
            if point == last:
                raise Killed()

        return at_point

    def test_the_time_that_a_begin_has_waited_for_others_is_a_part_of_its_time(self):
        site = self.site(deadline=60.0, limit=20.0)
        site.node.add_pod("kept", cpu="8", protected=True)
        lease = Lease(JobKey("pbs", "1.srv", 1), site.node.boot, site.node.time, None, 2, GIB, ())
        site.give_cores("1.srv", 2)
        with site.store.locked():
            site.store.begin(lease, mark_life=300.0)
        began = site.node.time
        site.node.time += 15.0
        told = site.carrier(key=lease.key).run(actions.BEGIN, began=began)
        self.assertEqual((told.done.outcome, site.size()["cpu"]), ("accept", "2"))
        self.assertLess(site.node.time - began, 20.0)

    def test_what_nobody_holds_any_more_goes(self):
        site = self.site()
        site.begin(cores=2)
        key = JobKey("pbs", "1.srv", 1)
        site.node.alive[key], site.node.batch[key] = False, actions.GONE
        site.repair()
        self.assertEqual((site.node.files, site.node.pod_cpus), ({}, None))

    def test_what_cannot_be_told_is_not_gone(self):
        site = self.site()
        site.begin(cores=2)
        site.node.alive[JobKey("pbs", "1.srv", 1)] = None
        site.node.batch_up = False
        for _unused in range(3):
            site.later(3600.0)
        self.assertEqual((site.size()["cpu"], site.free_cores()), ("2", "2-7"))

    def test_b8_a_boot_takes_dead_jobs_and_their_placeholders(self):
        site = self.site()
        site.begin(cores=2)
        site.node.reboot()
        self.assertEqual(len(site.node.let_in), 1, "the file has outlived the boot, on the safe side")
        site.repair()
        self.assertEqual((site.store.leases(), site.node.files, site.node.pod_cpus), ((), {}, None))

    def test_off_ends_all_pods_and_on_brings_them_back_beside_the_job(self):
        site = self.site()
        site.node.add_pod("web")
        site.begin(cores=2)
        site.act(actions.OFF)
        self.assertEqual((site.node.local_pods(), site.node.active), (frozenset(), set()))
        site.begin("2.srv", cores=1)
        site.act(actions.ON)
        self.assertEqual((site.size("1.srv")["cpu"], site.size("2.srv")["cpu"]), ("2", "1"))
        self.assertEqual((site.node.active, site.free_cores()), ({KUBELET, RUNTIME}, "3-7"))

    def test_a_node_that_a_job_holds_as_a_whole_is_open_again_once_the_mode_is_changed(self):
        for fault in ("", "silent", "refuses"):
            with self.subTest(fault=fault):
                site = self.site(mode="handover")
                site.node.tainted = True
                site.begin(cores=2)
                self.assertNotEqual((site.memory().phase, site.node.announced), ("open", ""))
                site.settings = site.node.settings = site.settings._replace(mode="placeholder")
                announce, site.node.api_up = site.node.announce, fault != "silent"
                if fault == "refuses":
                    site.node.announce = unittest.mock.Mock(side_effect=HostError("403"))
                site.act(actions.ADOPT)
                self.assertEqual((site.size()["cpu"], site.memory().phase), ("2", "open"))
                site.node.announce, site.node.api_up = announce, True
                site.repair()
                self.assertEqual((site.memory().phase, site.node.announced, site.free_cores()), ("open", "", "2-7"))

    def test_a_node_stays_announced_until_its_kubelet_has_let_in_every_placeholder(self):
        site = self.site(mode="handover")
        site.node.tainted = True
        for job in ("1.srv", "2.srv"):
            site.begin(job, cores=2)
        site.settings = site.node.settings = site.settings._replace(mode="placeholder")
        site.node.reads = False
        for call in (lambda: site.act(actions.ADOPT), site.repair, lambda: site.begin("3.srv", cores=2)):
            call()
            self.assertNotEqual(site.node.announced, "")
        site.node.reads = True
        site.repair()
        self.assertEqual((site.node.announced, len(site.node.let_in)), ("", 3))

    def test_a_split_leaves_cores_out_of_placeholders_and_is_there_without_jobs(self):
        site = self.site(fence="split", pod_cpus="4-7")
        site.repair()
        self.assertEqual(site.free_cores(), "4-7")
        site.begin(cores=2, memory=8 * GIB, cpus="")
        self.assertEqual(site.size(), {"memory": str(8 * GIB)})
        site.end()
        self.assertEqual((site.free_cores(), site.node.files), ("4-7", {}))


if __name__ == "__main__":
    unittest.main()
