# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of jobs beside pods: nothing has two owners, and every placeholder comes and goes with its job.

The seed is printed with a failure; CONVERGED_SEED repeats a run, NODESHARE_HISTORIES makes it longer.
"""

import os
import random
import shutil
import unittest

import payload_path  # noqa: F401
from nodeshare import view
from nodeshare.jobid import JobKey
from nodeshare.memory import OPEN
from nodeshare.placeholder import name_of
from simulation import KUBELET, RUNTIME, Killed, quick_directory
from simulation_beside import GIB, SharedSite

SEED = int(os.environ.get("CONVERGED_SEED", random.SystemRandom().randrange(1 << 32)))
HISTORIES = int(os.environ.get("NODESHARE_HISTORIES", "25"))
STEPS = ["begin"] * 4 + ["end"] * 3 + ["tick"] * 3 + ["pod"] * 4
STEPS += ["begin_again", "requeue", "late_end", "silent_end", "resize", "api", "batch", "reboot", "off", "on", "refuse"]


class History:
    """One node's random life. `live` is what a batch system would say that runs here: cores by job and run."""

    def __init__(self, site, chance):
        self.site = site
        self.node = site.node
        self.chance = chance
        self.live = {}
        self.over = []
        self.steps = []
        self.next_job = 0

    def step(self):
        name = self.chance.choice(STEPS)
        self.steps.append(name)
        self.site.points = self.maybe_kill() if self.chance.random() < 0.25 else (lambda point: None)
        killed = False
        try:
            getattr(self, name)()
        except Killed:
            self.steps.append("killed")
            killed = True
        self.site.points = lambda point: None
        self.node.settle()
        self.check()
        if killed:
            self.site.repair()
            self.check()

    def maybe_kill(self):
        left = [self.chance.randrange(12)]

        def point(_name):
            left[0] -= 1
            if left[0] < 0:
                raise Killed()

        return point

    def begin(self):
        """A batch system gives no core twice."""
        cores = self.chance.choice([0, 1, 2, 4])
        if sum(self.live.values()) + cores <= 8:
            self.next_job += 1
            self.start("{}.srv".format(self.next_job), 1, cores)

    def begin_again(self):
        if self.live:
            job, run = self.chance.choice(sorted(self.live))
            self.start(job, run, self.live[job, run])

    def start(self, job, run, cores):
        key = JobKey("pbs", job, run)
        self.live[job, run] = cores
        self.node.alive[key], self.node.batch[key] = True, view.LIVE
        told = self.site.begin(job, run, cores=cores, memory=cores * GIB)
        if told.done.outcome == view.ACCEPT and not self.site.memory().off and KUBELET in self.node.active:
            found = self.site.size(job, run)
            ghosts = {(lease.key.job, lease.key.run) for lease in self.site.store.leases()} - set(self.live)
            # what is still thought to run comes first, and the node is not given twice
            assert found == self.size(cores) or (found is not None and ghosts), (told, found)
            held = self.node.cpusets.get("pbs_jobs.service/jobid/" + job, frozenset())
            left = self.node.cores_of_pods() - frozenset([0])  # core 0 keeps house when jobs have all of them
            assert not held & left, "pods on the job's cores"

    def size(self, cores):
        return {"cpu": str(cores), "memory": str(cores * GIB)} if cores else {}

    def finish(self):
        job, run = self.chance.choice(sorted(self.live))
        del self.live[job, run]
        self.over.append((job, run))
        key = JobKey("pbs", job, run)
        self.node.alive[key], self.node.batch[key] = False, view.GONE
        return job, run

    def end(self):
        if self.live:
            self.site.end(*self.finish())

    def requeue(self):
        """The same job again: its next run may begin before the end of the last one is heard."""
        if self.live:
            job, run = self.chance.choice(sorted(self.live))
            cores = self.live.pop((job, run))
            self.over.append((job, run))
            self.node.alive[JobKey("pbs", job, run)] = False
            self.node.batch[JobKey("pbs", job, run)] = view.GONE
            self.start(job, run + 1, cores)
            self.site.end(job, run)

    def late_end(self):
        if self.over:
            self.site.end(*self.chance.choice(self.over))

    def silent_end(self):
        if self.live:
            job, _run = self.finish()
            self.node.cpusets.pop("pbs_jobs.service/jobid/" + job, None)

    def resize(self):
        if self.live:
            job, run = self.chance.choice(sorted(self.live))
            if self.live[job, run] > 1:
                self.start(job, run, self.live[job, run] - 1)

    def tick(self):
        self.node.sleep(self.chance.choice([1.0, 31.0, 60.0]))
        self.site.repair()

    def pod(self):
        if KUBELET in self.node.active and self.node.api_up:
            self.node.add_pod(
                "p{}".format(len(self.steps)),
                cpu=self.chance.choice(["500m", "1", "3"]),
                priority=self.chance.choice([0, 10]),
                gang=self.chance.choice(["", "", "g"]),
                grace=self.chance.choice([0.0, 1.0, 5.0, None]),
                protected=self.chance.random() < 0.2,
            )

    def api(self):
        self.node.api_up = not self.node.api_up

    def batch(self):
        self.node.batch_up = not self.node.batch_up

    def refuse(self):
        self.node.refuses = not self.node.refuses

    def reboot(self):
        for job, run in sorted(self.live):
            self.over.append((job, run))
            self.node.batch[JobKey("pbs", job, run)] = view.GONE
        self.live = {}
        self.node.reboot()
        self.site.repair()

    def off(self):
        self.site.act(view.OFF)
        assert self.node.local_pods() == frozenset()

    def on(self):
        self.site.act(view.ON)

    def check(self):
        for name, amount in self.node.used().items():
            assert amount <= self.node.allocatable[name], "{} has two owners".format(name)
        wanted = {name_of(lease.key) for lease in self.site.store.leases()}
        if self.steps[-1] in ("begin", "end", "tick", "reboot") and not self.site.memory().off:
            assert set(self.node.files) == wanted, (set(self.node.files) ^ wanted, self.steps[-1])
        for job, run in self.live:
            assert "killed" in self.steps or name_of(JobKey("pbs", job, run)) in wanted, "a lease is lost"


class RandomHistories(unittest.TestCase):
    def test_every_history_ends_with_every_job_served_and_all_of_the_node_with_pods(self):
        for number in range(HISTORIES):
            chance = random.Random(SEED + number)
            directory = quick_directory()
            try:
                # what fails is not accepted: so what is accepted must be whole
                deadline = chance.choice([0.0, 5.0, 60.0])
                site = SharedSite(os.path.join(directory, "s"), deadline=deadline, limit=20.0, on_failure="requeue")
                history = History(site, chance)
                with self.subTest(seed=SEED + number, steps=history.steps):
                    for _unused in range(chance.randrange(5, 60)):
                        history.step()
                    self.settle(history)
            finally:
                shutil.rmtree(directory)

    def settle(self, history):
        """After the last fault every live job is shown as it is; and when all have ended, nothing is left of them."""
        site, node = history.site, history.node
        node.api_up, node.batch_up, node.refuses = True, True, False
        site.act(view.ON)
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
