# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod that waits has a condition, also where it had no reason yet when its job was first reported."""

from placement.model.objects.pod import Phase
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, mine, node
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated


def test_jobs_that_are_never_tried_get_the_reason_of_their_queue_when_that_fills_up() -> None:
    simulated = Simulated(load(policy("allocate, backfill, preempt"), "test"))
    low = mine("low", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4"))
    simulated.see(node("n1", allocatable=amounts(cpu="4", memory="8Gi", pods="10")), low)
    simulated.run()
    singles = (mine(f"s{index}", created=f"2026-01-0{index + 1}T00:00:00Z") for index in range(3))
    simulated.see(mine("high", priority=9, request=amounts(cpu="3")), *singles)
    # The queue is full, so no single is tried; then preemption leaves it less than it deserves, and none has a reason.
    simulated.run()
    assert simulated.placements() == {"high": "n1", "s0": "n1"}
    conditions = simulated.conditions()
    assert all("has all that it deserves" in conditions[name] for name in ("s1", "s2"))
