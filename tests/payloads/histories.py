# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random histories of one node: jobs, faults, reboots, and calls that are killed at any of their points.

A failure prints its seed, and CONVERGED_SEED repeats it. NODESHARE_HISTORIES says how many histories there are.
"""

import os
import random
import shutil

from nodeshare.model import actions
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.store.files import StoreError
from seeds import seeds
from simulation import BUSY, LATE, PROXY, Killed, quick_directory

HISTORIES = int(os.environ.get("NODESHARE_HISTORIES", "25"))


class History:
    """One node's random life. `live` is what a batch system would say that runs here, by job and run."""

    WLM = ""
    STEPS = ()

    def __init__(self, site, chance):
        self.site = site
        self.node = site.node
        self.chance = chance
        self.live = {}
        self.over = []
        self.steps = []
        self.next_job = self.next_pod = 0

    def step(self):
        """One thing happens, and now and then nodeshare is killed in the middle of it: then the answer is True."""
        name = self.chance.choice(self.STEPS)
        self.steps.append(name)
        self.site.points = self.killer() if self.chance.random() < 0.25 else (lambda point: None)
        try:
            getattr(self, name)()
        except Killed:
            self.steps.append("killed")
        except StoreError as error:
            assert self.node.no_room or self.site.disk_full, error
            self.steps.append("failed")
        self.site.points = lambda point: None
        self.node.settle()
        return self.steps[-1] in ("killed", "failed")

    def killer(self):
        left = [self.chance.randrange(12)]

        def point(_name):
            left[0] -= 1
            if left[0] < 0:
                raise Killed()

        return point

    def begun(self, job, run, cores=None):
        """The batch system starts a run, which lives whatever becomes of the call."""
        key = JobKey(self.WLM, job, run)
        self.live[job, run] = cores
        self.node.alive[key], self.node.batch[key] = True, actions.LIVE

    def over_with(self, job, run):
        key = JobKey(self.WLM, job, run)
        self.over.append((job, run))
        self.node.alive[key], self.node.batch[key] = False, actions.GONE
        return self.live.pop((job, run))

    def any_live(self):
        return self.chance.choice(sorted(self.live))

    def tick(self):
        self.node.sleep(self.chance.choice([1.0, 31.0, 60.0]))
        self.site.repair()

    def api(self):
        self.node.api_up = not self.node.api_up

    def overload(self):
        """Make the API answer some requests, turn others away, and be late or stand behind a proxy; or end that."""
        node = self.node
        kinds = [*self.chance.choice([[BUSY], [LATE], [PROXY], [BUSY, LATE, PROXY]]), ""]
        node.overload = None if node.overload else lambda: self.chance.choice(kinds)
        node.arrives = lambda: self.chance.random() < 0.5

    def batch(self):
        self.node.batch_up = not self.node.batch_up

    def reboot(self):
        for job, run in sorted(self.live):
            self.over_with(job, run)
        self.node.reboot()
        self.site.repair()

    def disk(self):
        """It is full, or a write to it takes longer than any job may wait."""
        self.site.disk_full, self.site.disk_hangs = self.chance.choice([(False, False), (True, False), (False, True)])

    def memory(self):
        """There is no room in /run, or again."""
        self.node.no_room = not self.node.no_room

    def all_is_well_again(self):
        """The last fault is over."""
        self.node.api_up, self.node.batch_up, self.node.no_room = True, True, False
        self.node.overload = None
        self.site.disk_full = self.site.disk_hangs = False

    def off(self):
        self.site.act(actions.OFF)
        assert self.node.local_pods() == frozenset()

    def on(self):
        self.site.act(actions.ON)


def live_through(case, name, make, settle):
    """Live the histories of this name, each on a node of its own: `make` begins one, `settle` ends and judges it."""
    for seed in seeds(name, HISTORIES):
        chance = random.Random(seed)
        directory = quick_directory()
        try:
            history = make(os.path.join(directory, "s"), chance)
            with case.subTest(seed=seed, steps=history.steps), history.site.faulty():
                for _unused in range(chance.randrange(5, 60)):
                    history.step()
                settle(history)
        finally:
            shutil.rmtree(directory)
