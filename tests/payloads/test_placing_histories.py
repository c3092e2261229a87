# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of jobs beside pods: nothing has two owners, and every placeholder comes and goes with its job."""

import unittest

from histories import History, live_through
from nodeshare.decide.handover import RESERVE
from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.node.state import OPEN
from nodeshare.model.pods.placeholder import PRIORITY, name_of
from nodeshare.run.cli import OVERTIME
from simulation import KUBELET, RUNTIME, YEAR
from simulation_beside import GIB, SharedSite


class BesidePods(History):
    """A job has cores and memory of the node. `unheard`: runs whose begin was killed before it could answer.

    `leased`: runs that have had a lease, which are heard of whatever becomes of a further begin.
    """

    WLM = "pbs"
    STEPS = ["begin"] * 4 + ["end"] * 3 + ["tick"] * 3 + ["pod"] * 4
    STEPS += ["begin_again", "requeue", "late_end", "silent_end", "resize", "api", "batch", "reboot", "off", "on"]
    STEPS += ["refuse", "stuck", "critical_leaves", "disk", "memory", "hostile", "hostile", "overload", "overload"]

    def __init__(self, site, chance):
        History.__init__(self, site, chance)
        self.node.wakes_after = 0.5  # to look fifty times a second proves nothing here, and is most of a history
        self.unheard = set()
        self.leased = set()

    def step(self):
        done, off = len(self.node.log), self.site.memory().off
        critical = set(self.node.critical())
        killed = History.step(self)
        if killed:
            self.check_owners()
            self.site.repair()
        self.check_owners()
        self.check_files()
        if not (off or self.site.memory().off):
            self.check_spared(critical, self.node.log[done:])
        return killed

    def begin(self):
        """A batch system gives no core twice."""
        cores = self.chance.choice([0, 1, 2, 4])
        if sum(self.live.values()) + cores <= 8:
            self.next_job += 1
            self.start("{}.srv".format(self.next_job), 1, cores)

    def begin_again(self):
        if self.live:
            job, run = self.any_live()
            self.start(job, run, self.live[job, run])

    def start(self, job, run, cores):
        key = JobKey(self.WLM, job, run)
        self.begun(job, run, cores)
        if key not in self.leased:
            self.unheard.add(key)
        began = self.node.time
        told = self.site.begin(job, run, cores=cores, memory=cores * GIB)
        assert self.node.time - began <= self.site.settings.limit + OVERTIME, "kept waiting: {}".format(told)
        self.unheard.discard(key)
        if key not in {lease.key for lease in self.site.store.leases()}:
            assert self.node.no_room and told.done.outcome != actions.ACCEPT, "a job without a lease: {}".format(told)
            self.over_with(job, run)
            self.site.end(job, run)  # as the hook takes back what it has refused
            return
        if told.done.outcome == actions.ACCEPT and not self.site.memory().off and KUBELET in self.node.active:
            found = self.site.size(job, run)
            leases = self.site.store.leases()
            # what is still thought to run, or to have more, comes first, and the node is not given twice
            ghosts = [one for one in leases if self.live.get((one.key.job, one.key.run)) != one.cores]
            # nor does a pod make room that is as critical as a placeholder
            # or that nothing tells from one of a DaemonSet
            cut = ghosts or self.node.critical() or any(map(self.node.looks_like_a_daemon, self.node.guests))
            cut = cut or not self.node.api_is_well()  # then the last list of pods counts
            assert found == self.size(cores) or (found is not None and cut), (told, found)
            held = self.node.cpusets.get("pbs_jobs.service/jobid/" + job, frozenset())
            left = self.node.cores_of_pods() - frozenset([0])  # core 0 keeps house when jobs have all of them
            assert not held & left, "pods on the job's cores"

    def size(self, cores):
        return {"cpu": str(cores), "memory": str(cores * GIB)} if cores else {}

    def end(self):
        if self.live:
            job, run = self.any_live()
            self.over_with(job, run)
            self.site.end(job, run)

    def requeue(self):
        """The same job again: its next run may begin before the end of the last one is heard."""
        if self.live:
            job, run = self.any_live()
            self.start(job, run + 1, self.over_with(job, run))
            self.site.end(job, run)

    def late_end(self):
        if self.over:
            self.site.end(*self.chance.choice(self.over))

    def silent_end(self):
        if self.live:
            job, run = self.any_live()
            self.over_with(job, run)
            self.node.cpusets.pop("pbs_jobs.service/jobid/" + job, None)

    def resize(self):
        if self.live:
            job, run = self.any_live()
            if self.live[job, run] > 1:
                self.start(job, run, self.live[job, run] - 1)

    def pod(self):
        if KUBELET in self.node.active and self.node.api_up:
            self.node.add_pod(
                "p{}".format(len(self.steps)),
                cpu=self.chance.choice(["500m", "1", "3"]),
                priority=self.chance.choice([0, 0, 10, 10, PRIORITY]),
                gang=self.chance.choice(["", "", "g"]),
                grace=self.chance.choice([0.0, 1.0, 5.0, 600.0, None]),
                protected=self.chance.random() < 0.2,
            )

    def hostile(self):
        """A tenant whose pods do all to stay: a forged owner, a grace of a year, mirrors for all of the node."""
        if KUBELET in self.node.active and self.node.api_up:
            name = "t{}".format(len(self.steps))
            self.node.add_pod(
                name,
                cpu=self.chance.choice(["1", "3"]),
                grace=self.chance.choice([None, YEAR]),
                forged=self.chance.random() < 0.7,
                protected=self.chance.random() < 0.5,
            )
            claimed = self.chance.choice([name, "0123456789abcdef" * 2, *sorted(self.node.let_in)])
            self.node.add_forged_mirror("m" + name, claimed, finalizer=self.chance.random() < 0.5)

    def critical_leaves(self):
        """By its owner's will; whatever else it is, it is no pod that makes room."""
        for name in self.node.critical()[:1]:
            del self.node.guests[name]

    def refuse(self):
        self.node.refuses = not self.node.refuses

    def stuck(self):
        """No placeholder can be removed, or again: then a call removes what was left."""
        self.node.stuck = not self.node.stuck
        if not self.node.stuck:
            self.site.repair()

    @staticmethod
    def check_spared(critical, log):
        for entry in log:
            if entry[0] in ("evict", "delete", "terminate", "kill", "preempt"):
                asked = set(entry[1] if isinstance(entry[1], tuple) else entry[1:])
                assert not asked & critical, "a critical pod was to make room: {}".format(entry)

    def check_owners(self):
        for name, amount in self.node.used().items():
            assert amount <= self.node.allocatable[name], "{} has two owners".format(name)
        leased = {lease.key for lease in self.site.store.leases()}
        for job, run in self.live:
            key = JobKey(self.WLM, job, run)
            assert key in leased or key in self.unheard - self.leased, "a lease is lost"
        self.leased |= leased

    def check_files(self):
        """One file for each lease and no other. Runs whose begin was killed have none while pods have time to leave.

        A repair gives them the time of the last of these runs.
        """
        if self.site.memory().off:
            return
        files = set(self.node.files)
        patience = min(self.site.settings.deadline, self.site.settings.limit - RESERVE)
        leases = self.site.store.leases()
        waiting = [lease for lease in leases if name_of(lease.key) not in files]
        assert {lease.key for lease in waiting} <= self.unheard, "no placeholder: {}".format(waiting)
        now, boot = self.node.time, self.node.boot
        young = [lease for lease in waiting if lease.boot_id == boot and now - lease.began < patience]
        assert young or not waiting, "these wait for too long: {}".format(waiting)
        if not self.node.stuck:
            assert files <= {name_of(lease.key) for lease in leases}, "placeholders of nobody: {}".format(files)


class RandomHistories(unittest.TestCase):
    def test_every_history_ends_with_every_job_served_and_all_of_the_node_with_pods(self):
        live_through(self, "placing_histories", self.make, self.settle)

    @staticmethod
    def make(directory, chance):
        deadline = chance.choice([0.0, 5.0, 60.0])
        # what fails is not accepted: so what is accepted must be whole
        return BesidePods(SharedSite(directory, deadline=deadline, limit=20.0, on_failure="requeue"), chance)

    def settle(self, history):
        """After the last fault every live job is shown as it is; and when all have ended, nothing is left of them."""
        site, node = history.site, history.node
        history.all_is_well_again()
        node.refuses = node.stuck = False
        site.act(actions.ON)
        while node.critical():
            history.critical_leaves()
        for job, run in sorted(history.live):
            history.start(job, run, history.live[job, run])
        for _unused in range(5):
            site.later(3700.0)
        self.assertEqual(len(node.let_in), len(history.live))
        for (job, run), cores in history.live.items():
            self.assertEqual(site.size(job, run), history.size(cores))
        while history.live:
            history.end()
        site.later(3700.0)
        self.assertEqual((site.store.leases(), node.files, node.let_in, node.pod_cpus), ((), {}, {}, None))
        memory = site.memory()
        self.assertEqual((memory.phase, memory.stopped, memory.off), (OPEN, (), False))
        self.assertEqual(node.active, {KUBELET, RUNTIME})
        before = list(node.log)
        site.repair()
        self.assertEqual(node.log, before, "a repair of a node in order must do nothing")


if __name__ == "__main__":
    unittest.main()
