# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of jobs, pods, faults, kills and reboots: never two owners, and always a way back.

The seed is printed with a failure; CONVERGED_SEED repeats a run, NODESHARE_HISTORIES makes it longer.
"""

import os
import random
import shutil
import unittest

import payload_path  # noqa: F401
from nodeshare import view
from nodeshare.jobid import JobKey
from nodeshare.memory import HELD, OPEN
from simulation import KUBELET, RUNTIME, Killed, Site, quick_directory

SEED = int(os.environ.get("CONVERGED_SEED", random.SystemRandom().randrange(1 << 32)))
HISTORIES = int(os.environ.get("NODESHARE_HISTORIES", "25"))


class History:
    """One node's random life. `live` is what a batch system would say that runs here."""

    def __init__(self, site, chance):
        self.site = site
        self.chance = chance
        self.live = {}
        self.over = []
        self.steps = []
        self.next_job = 0

    def step(self):
        name = self.chance.choice(
            ["begin"] * 4
            + ["end"] * 4
            + ["tick"] * 4
            + ["pod"] * 3
            + [
                "begin_again",
                "end_again",
                "api",
                "taint",
                "reboot",
                "off",
                "on",
                "silent_end",
                "batch",
                "administrator",
            ]
        )
        self.steps.append(name)
        node = self.site.node
        self.site.points = self.maybe_kill() if self.chance.random() < 0.25 else (lambda point: None)
        try:
            getattr(self, name)()
        except Killed:
            self.steps.append("killed")
            self.pod()
        self.site.points = lambda point: None
        node.settle()

    def maybe_kill(self):
        left = [self.chance.randrange(12)]

        def point(_name):
            left[0] -= 1
            if left[0] < 0:
                raise Killed()

        return point

    def begin(self):
        self.next_job += 1
        self.start(str(self.next_job), 0)

    def begin_again(self):
        if self.live:
            self.start(*self.chance.choice(sorted(self.live)))

    def start(self, job, run):
        """A batch system repeats or gives up a job whose prolog was killed; here it repeats it."""
        key = JobKey("slurm", job, run)
        self.live[job, run] = True
        self.site.node.alive[key] = True
        self.site.node.batch[key] = view.LIVE
        told = self.site.begin(job, run, start=int(job) * 10 + run)
        if told.done.outcome == view.ACCEPT:
            assert self.site.node.ordinary_running() == [], "a job beside pods: {}".format(told)
            assert self.site.memory().phase == HELD, told

    def finish(self):
        job, run = self.chance.choice(sorted(self.live))
        del self.live[job, run]
        self.over.append((job, run))
        key = JobKey("slurm", job, run)
        self.site.node.alive[key] = False
        self.site.node.batch[key] = view.GONE
        return job, run

    def end(self):
        if self.live:
            job, run = self.finish()
            self.site.end(job, run, start=int(job) * 10 + run)

    def end_again(self):
        if self.over:
            job, run = self.chance.choice(self.over)
            self.site.end(job, run)

    def silent_end(self):
        if self.live:
            self.finish()

    def tick(self):
        self.site.node.sleep(self.chance.choice([1.0, 31.0, 60.0]))
        self.site.repair()

    def pod(self):
        node = self.site.node
        if KUBELET in node.active and node.api_up and not node.tainted:
            node.add(
                "p{}x{}".format(len(node.guests), node.time),
                respawns=self.chance.random() < 0.3,
                grace=self.chance.choice([0.0, 1.0, 5.0, None]),
                protected=self.chance.random() < 0.2,
                stays=self.chance.random() < 0.2,
                finalizer=self.chance.random() < 0.1,
            )

    def api(self):
        self.site.node.api_up = not self.site.node.api_up

    def taint(self):
        self.site.node.tainted = not self.site.node.tainted

    def batch(self):
        self.site.node.batch_up = not self.site.node.batch_up

    def reboot(self):
        for job, run in sorted(self.live):
            self.over.append((job, run))
            self.site.node.batch[JobKey("slurm", job, run)] = view.GONE
        self.live = {}
        self.site.node.reboot()
        self.site.repair()

    def off(self):
        self.site.act(view.OFF)
        assert self.site.node.local_pods() == frozenset()

    def on(self):
        self.site.act(view.ON)

    def administrator(self):
        """The administrator stops the kubelet, or starts the one that is his."""
        node = self.site.node
        if KUBELET in node.active and KUBELET not in self.site.memory().stopped:
            node.active.discard(KUBELET)
            node.admin_stopped.add(KUBELET)
        elif KUBELET in node.admin_stopped:
            node.admin_stopped.discard(KUBELET)
            node.active.add(KUBELET)

    def check(self):
        stored = {(lease.key.job, lease.key.run) for lease in self.site.store.leases()}
        memory = self.site.memory()
        if stored and memory.phase == OPEN:
            assert "killed" in self.steps, "an open node with a lease"
        if stored and "killed" not in self.steps:
            assert all(self.site.node.fenced(unit) for unit in memory.stopped), "stopped without a fence"


class RandomHistories(unittest.TestCase):
    def test_every_history_ends_with_every_job_served_and_the_node_given_back(self):
        for number in range(HISTORIES):
            chance = random.Random(SEED + number)
            directory = quick_directory()
            try:
                site = Site(
                    os.path.join(directory, "s"),
                    handover=chance.choice(["quiesce", "stop"]),
                    deadline=chance.choice([0.0, 5.0, 60.0]),
                    linger=chance.choice([0.0, 30.0]),
                )
                history = History(site, chance)
                with self.subTest(seed=SEED + number, steps=history.steps):
                    for _ in range(chance.randrange(5, 60)):
                        history.step()
                        history.check()
                    self.settle(history)
            finally:
                shutil.rmtree(directory)

    def settle(self, history):
        """After the last fault: ends arrive or repair finds out; within a few periods the node is as it was."""
        site = history.site
        site.node.api_up, site.node.batch_up, site.node.tainted = True, True, True
        while history.live:
            history.end()
        site.act(view.ON)
        for _ in range(4):
            site.later(3700.0)
        self.assertEqual(site.store.leases(), ())
        memory = site.memory()
        self.assertEqual((memory.phase, memory.stopped, memory.off), (OPEN, (), False))
        self.assertEqual(site.node.announced, "")
        self.assertFalse(site.node.confined)
        self.assertEqual(site.node.active | site.node.admin_stopped, {KUBELET, RUNTIME})
        before = list(site.node.log)
        site.repair()
        self.assertEqual(site.node.log, before, "a repair of a node in order must do nothing")


if __name__ == "__main__":
    unittest.main()
