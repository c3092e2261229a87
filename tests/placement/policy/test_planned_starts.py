# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod is not put where the batch system plans to start a job before the pod has ended."""

from dataclasses import replace

from placement.graph.topology import Topology
from placement.model.objects.node import Node
from placement.model.objects.pod import GRACE, Pod
from placement.model.rules.topology import TopologyRequest
from placement.policy.plugins.filters.planned_starts import MISSED, PLANNED
from placement_kit.builders import amounts, gang, mine, node
from placement_kit.simulated import Simulated

# Seconds since 1970 when the clock of these tests begins.
EPOCH = 1_000_000.0


def simulated(topology: Topology | None = None) -> Simulated:
    return Simulated(epoch=EPOCH, topology=topology)


def planned(name: str, after: float | None, rack: str = "r1") -> Node:
    """A node on which a job begins so many seconds from the start of the test."""
    at = None if after is None else EPOCH + after
    offered = amounts(cpu="4", memory="8Gi", pods="10")
    return node(name, labels=(("rack", rack),), allocatable=offered, planned=at)


def lasting(name: str, deadline: int | None, **more: object) -> Pod:
    """A pod that ends after so many seconds at the latest."""
    pod = mine(name, request=amounts(cpu="1"), **more)
    return replace(pod, spec=replace(pod.spec, deadline=deadline))


def test_a_pod_that_ends_before_the_planned_start_may_use_the_node() -> None:
    site = simulated()
    site.see(planned("n1", 600 + GRACE), lasting("p", 600))
    site.run()
    assert site.named("p").node == "n1"


def test_a_pod_that_would_run_into_the_planned_start_waits_and_is_told_why() -> None:
    site = simulated()
    pod = lasting("p", 600)
    site.see(planned("n1", 600 + GRACE - 1), pod)
    site.run()
    assert site.named("p").node == ""
    assert PLANNED in str(site.explain(pod.namespace, "p"))


def test_a_pod_with_a_long_grace_waits_where_it_may_run_into_the_planned_start() -> None:
    for grace, expected in ((1, "n1"), (60, "n1"), (61, "")):
        site = simulated()
        pod = lasting("p", 600, grace=grace)
        site.see(planned("n1", 600 + 60), pod)
        site.run()
        assert site.named("p").node == expected


def test_a_pod_goes_to_the_node_without_a_plan() -> None:
    site = simulated()
    site.see(planned("n1", 60), planned("n2", None), *(lasting(f"p{index}", 600) for index in range(4)))
    site.run()
    assert {site.named(f"p{index}").node for index in range(4)} == {"n2"}


def test_a_pod_without_a_deadline_is_kept_away_by_the_taint_and_not_by_the_plan() -> None:
    site = simulated()
    site.see(planned("n1", 60), lasting("p", None))
    site.run()
    assert site.named("p").node == "n1"


def test_a_start_that_was_missed_keeps_no_pod_away() -> None:
    for late, expected in ((MISSED, ""), (MISSED + 1, "n1")):
        site = simulated()
        site.now = 1000.0
        site.see(planned("n1", 1000.0 - late), lasting("p", 600))
        site.run()
        assert site.named("p").node == expected


def test_a_pod_that_waits_behind_a_start_that_was_missed_needs_no_other_news() -> None:
    site = simulated()
    site.see(planned("n1", 60), lasting("p", 600))
    while not site.placements() and site.now < 3_600:
        site.run()
        site.now += 1
    # All that wait are tried every five minutes.
    assert 60 + MISSED < site.now <= 60 + MISSED + 300 + 2


def test_a_waiting_pod_starts_when_the_plan_moves_or_goes() -> None:
    for after in (5000.0, None):
        site = simulated()
        site.see(planned("n1", 60), lasting("p", 600))
        site.run()
        assert site.named("p").node == ""
        site.see(planned("n1", after))
        site.run()
        assert site.named("p").node == "n1"


def test_time_that_passes_makes_a_plan_count() -> None:
    site = simulated()
    site.see(planned("n1", 1000), lasting("early", 600))
    site.run()
    site.now = 500.0
    site.see(lasting("late", 600))
    site.run()
    assert (site.named("early").node, site.named("late").node) == ("n1", "")


def test_a_gang_that_needs_a_rack_gets_one_without_an_early_start() -> None:
    site = simulated(Topology(levels=("rack",), labels=("rack",)))
    site.see(*(planned(f"a{index}", 60 if index == 0 else None, "r1") for index in range(2)))
    site.see(*(planned(f"b{index}", None, "r2") for index in range(2)))
    site.see(gang("g", 8, topology=TopologyRequest(required=("rack",), field="required")))
    site.see(*(lasting(f"p{index}", 600, group="g") for index in range(8)))
    site.run()
    assert {site.named(f"p{index}").node for index in range(8)} == {"b0", "b1"}


def test_a_node_of_the_same_row_does_not_inherit_the_plan() -> None:
    site = simulated()
    old = planned("n1", 60)
    site.see(old)
    site.gone(old)
    site.see(planned("n2", None), lasting("p", 600))
    site.run()
    assert site.named("p").node == "n2"
