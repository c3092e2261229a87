# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of jobs, pods, faults, kills and reboots: never two owners, and always a way back."""

import unittest

from histories import History, live_through
from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.node.state import HELD, OPEN
from nodeshare.run.cli import OVERTIME
from nodeshare.store.files import StoreError
from simulation import KUBELET, RUNTIME, YEAR, Site


class HandOver(History):
    """A job has the whole node."""

    WLM = "slurm"
    STEPS = ["begin"] * 4 + ["end"] * 4 + ["tick"] * 4 + ["pod"] * 3
    STEPS += ["begin_again", "end_again", "api", "taint", "reboot", "off", "on", "silent_end", "batch", "administrator"]
    STEPS += ["disk", "memory"]
    STEPS += ["hostile", "overload", "cancelled"] * 2

    def step(self):
        killed = History.step(self)
        if killed:
            self.pod()
            self.node.settle()
        self.check()
        return killed

    def begin(self):
        self.next_job += 1
        self.start(str(self.next_job), 0)

    def begin_again(self):
        if self.live:
            self.start(*self.any_live())

    def start(self, job, run):
        """A batch system repeats or gives up a job whose prolog was killed; here it repeats it."""
        self.begun(job, run)
        began = self.node.time
        told = self.site.begin(job, run, start=int(job) * 10 + run)
        assert self.node.time - began <= self.site.settings.limit + OVERTIME, "kept waiting: {}".format(told)
        assert self.ordinary_there() == [], "a job beside pods: {}".format(told)
        assert told.done.outcome == actions.ACCEPT, "a job was kept out: {}".format(told)
        assert self.site.memory().phase == HELD, told
        assert self.node.memory_of_the_dead() == [], told
        assert JobKey(self.WLM, job, run) in {lease.key for lease in self.site.store.leases()}, "a lease is lost"

    def ordinary_there(self):
        """Return the ordinary pods that run here, and that nodeshare could know of.

        A pod with a forged owner looks like one that stays until the collector has come, and until a repair after it.
        """
        keep = self.site.memory().keep
        return [name for name in self.node.ordinary_running() if not (self.node.guests[name].forged and name in keep)]

    def tick(self):
        History.tick(self)
        memory = self.site.memory()
        if memory.phase == HELD and self.site.store.leases() and not memory.off:
            there = self.node.ordinary_running() if self.node.api_is_well() else self.ordinary_there()
            left = [name for name in there if not self.node.looks_like_a_daemon(name)]
            assert left == [], "a repair has left pods beside a job: {}".format(left)

    def end(self):
        if self.live:
            job, run = self.any_live()
            self.over_with(job, run)
            self.site.end(job, run, start=int(job) * 10 + run)

    def cancelled(self):
        """A job is cancelled while its Prolog takes the node: the taint goes, a pod comes, and it stays."""
        node, idle = self.node, not self.site.store.leases()
        self.next_job += 1
        key = JobKey(self.WLM, str(self.next_job), 0)
        if not (idle and node.tainted and node.batch_up and node.api_up and KUBELET in node.active):
            return
        new = []

        def lift():
            if node.tainted and not node.announced:
                node.tainted, node.holders = False, ((), 0.0)
                self.next_pod += 1
                new.append("p{}".format(self.next_pod))
                node.add(new[0])

        open_before = self.site.memory().phase == OPEN and not self.site.memory().off
        node.holders, node.batch[key], node.on_look = ((str(key),), node.time), actions.ENDING, lift
        since = len(node.log)
        try:
            self.site.begin(key.job, key.run)
        finally:
            node.on_look, node.holders, node.alive[key] = (lambda: None), ((), 0.0), False
            node.batch[key] = actions.GONE
            self.over.append((key.job, key.run))
        if open_before and node.overload is None:
            asked = [entry for entry in node.log[since:] if entry[0] in ("evict", "delete", "kill", "stop")]
            assert not new or asked == [], "for a job that is cancelled: {}".format(asked)
        self.site.end(key.job, key.run)

    def end_again(self):
        if self.over:
            self.site.end(*self.chance.choice(self.over))

    def silent_end(self):
        if self.live:
            self.over_with(*self.any_live())

    def pod(self):
        node = self.node
        if KUBELET in node.active and node.api_up and not node.tainted:
            self.next_pod += 1  # no uid is given twice
            node.add(
                "p{}".format(self.next_pod),
                respawns=self.chance.random() < 0.3,
                grace=self.chance.choice([0.0, 1.0, 5.0, None]),
                protected=self.chance.random() < 0.2,
                stays=self.chance.random() < 0.2,
                finalizer=self.chance.random() < 0.1,
                in_memory=self.chance.random() < 0.5,
            )

    def hostile(self):
        """A tenant whose pods name their node, and so care for no taint, do all to stay: alone, or behind a mirror."""
        node = self.node
        if KUBELET in node.active and node.api_up:
            name = "t{}x{}".format(len(node.guests), node.time)
            node.add(
                name,
                grace=self.chance.choice([None, YEAR]),
                forged=self.chance.random() < 0.5,
                protected=self.chance.random() < 0.5,
                finalizer=self.chance.random() < 0.2,
                respawns=self.chance.random() < 0.3,
                tolerates=True,
            )
            if self.chance.random() < 0.5:
                node.add("m" + name, claims=name, finalizer=self.chance.random() < 0.3)

    def taint(self):
        self.node.tainted = not self.node.tainted

    def administrator(self):
        """The administrator stops the kubelet, or starts the one that is his."""
        node = self.node
        if KUBELET in node.active and KUBELET not in self.site.memory().stopped:
            node.active.discard(KUBELET)
            node.admin_stopped.add(KUBELET)
        elif KUBELET in node.admin_stopped:
            node.admin_stopped.discard(KUBELET)
            node.active.add(KUBELET)

    def check(self):
        stored = self.site.store.leases()
        memory = self.site.memory()
        unsure = {"killed", "failed", "memory"}.intersection(self.steps)
        if stored and memory.phase == OPEN:
            assert unsure, "an open node with a lease"
        if stored and not unsure:
            assert all(self.node.fenced(unit) for unit in memory.stopped), "stopped without a fence"


class AmidRepairs(HandOver):
    """Other calls come while a repair asks the batch system or the API."""

    STEPS = HandOver.STEPS + ["amid"] * 8

    def amid(self):
        name = self.chance.choice(["begin", "begin_again", "end", "end_again", "tick", "off", "on", "cancelled"])
        before = [self.chance.randrange(3)]  # so many questions

        def come(_what):
            before[0] -= 1
            if before[0] < 0 and self.is_free():
                self.node.amid = nothing
                self.steps.append(name)
                getattr(self, name)()

        def nothing(_what):
            pass

        self.node.amid = come
        try:
            History.tick(self)
        finally:
            self.node.amid = nothing

    def is_free(self):
        """Whether the repair has let go of its lock: else a call would wait for its end."""
        try:
            with self.site.carrier().work_lock(0.0):
                return True
        except StoreError:
            return False


class RandomHistories(unittest.TestCase):
    def test_every_history_ends_with_every_job_served_and_the_node_given_back(self):
        live_through(self, "handover_histories", self.make, self.settle)

    def test_so_does_every_history_in_which_calls_come_while_a_repair_asks(self):
        def make(directory, chance):
            return self.make(directory, chance, kind=AmidRepairs)

        live_through(self, "amid_repairs_histories", make, self.settle)

    @staticmethod
    def make(directory, chance, kind=HandOver):
        site = Site(
            directory,
            handover=chance.choice(["quiesce", "stop"]),
            deadline=chance.choice([0.0, 5.0, 60.0]),
            linger=chance.choice([0.0, 30.0]),
            on_failure="requeue",  # what fails is not accepted
        )
        site.node.confirms = chance.random() < 0.7
        site.node.unmounts = chance.random() < 0.5
        return kind(site, chance)

    def settle(self, history):
        """After the last fault: ends arrive or repair finds out; within a few periods the node is as it was."""
        site, node = history.site, history.node
        history.all_is_well_again()
        node.tainted = True
        while history.live:
            history.end()
        site.act(actions.ON)
        for _unused in range(4):
            site.later(3700.0)
        self.assertEqual(site.store.leases(), ())
        memory = site.memory()
        self.assertEqual((memory.phase, memory.stopped, memory.off), (OPEN, (), False))
        self.assertEqual(node.announced, "")
        self.assertFalse(node.confined)
        self.assertEqual(node.active | node.admin_stopped, {KUBELET, RUNTIME})
        before = list(node.log)
        site.repair()
        self.assertEqual(node.log, before, "a repair of a node in order must do nothing")


if __name__ == "__main__":
    unittest.main()
