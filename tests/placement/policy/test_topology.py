# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups that ask for a rack: placed in one, in step with what others place, and told what is missing."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from placement.graph.tree.fits import KEPT
from placement.model.messages.action import Bind, GroupStatus, PodCondition
from placement.model.rules.affinity import PodAffinityTerm
from placement.model.rules.selector import Effect, NodeSelector, Taint
from placement.model.rules.topology import TopologyRequest
from placement.policy.backing.foreign.foreign_jobs import holders_of
from placement_kit.builders import amounts, gang, mine, near, node, pairs, pod, queue
from placement_kit.racks import RACK, Site
from placement_kit.simulated import Simulated

NEAR = TopologyRequest(preferred=("rack",), field="converged.hpc/preferred-topology")


def test_a_gang_that_asks_for_a_rack_is_placed_in_one() -> None:
    site = Site(2, 3, 4)
    site.ask("g", 3, RACK)
    site.run()
    assert site.where("g") == {"r1": 3}


def test_a_gang_that_asks_for_nothing_is_placed_as_before() -> None:
    site = Site(2, 2)
    site.ask("g", 4, None)
    site.run()
    assert site.where("g") == {"r0": 2, "r1": 2}
    assert all(not action.selection for action in site.actions if isinstance(action, Bind))


def test_variation_reads_the_performance_class_of_a_label_and_takes_nodes_without_one_last() -> None:
    wish = replace(RACK, policy="variation")
    for classes in ({"r0n1": "3", "r0n2": "1"}, {"r0n2": "20", "r0n1": "100"}):
        site = Site(3)
        for name, number in classes.items():
            site.see(
                node(
                    name,
                    labels=pairs(**{"converged.hpc/perf-class": number, "example.com/rack": "r0", "zone": "a"}),
                )
            )
        site.ask("g", 2, wish)
        site.run()
        assert {item.node for item in site.of("g")} == {"r0n1", "r0n2"}
        site.ask("last", 1, wish)
        site.run()
        assert {item.node for item in site.of("last")} == {"r0n0"}


def test_variation_is_by_name_where_no_node_has_a_class() -> None:
    site = Site(3)
    site.ask("g", 2, replace(RACK, policy="variation"))
    site.run()
    assert {item.node for item in site.of("g")} == {"r0n0", "r0n1"}


def test_the_binding_carries_the_domains_of_the_node() -> None:
    site = Site(1, 2)
    site.ask("g", 2, RACK)
    site.run()
    assert {action.selection for action in site.actions if isinstance(action, Bind)} == {"a/r1"}


def test_a_gang_goes_to_another_rack_where_a_foreign_pod_takes_room() -> None:
    site = Site(2, 2)
    site.fill("r0n1", cores=1)
    site.ask("g", 2, RACK)
    site.run()
    assert site.where("g") == {"r1": 2}


def test_a_gang_keeps_off_a_rack_with_a_cordoned_node() -> None:
    site = Site(2, 2)
    site.see(
        replace(
            node("r0n0", labels=pairs(zone="a")), labels=(("example.com/rack", "r0"), ("zone", "a")), unschedulable=True
        )
    )
    site.ask("g", 2, RACK)
    site.run()
    assert site.where("g") == {"r1": 2}


def test_a_gang_keeps_off_a_rack_with_a_node_that_is_not_ready_until_it_is_ready_again() -> None:
    site = Site(2)
    ready = node("r0n0", labels=pairs(zone="a", **{"example.com/rack": "r0"}))
    not_ready = "node.kubernetes.io/not-ready"
    taints = tuple(Taint(not_ready, "", effect) for effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE))
    site.see(replace(ready, taints=taints))
    site.ask("g", 2, RACK)
    site.run()
    assert not site.where("g")
    assert "rack: at most 1 of 2 pods fit, in a/r0" in site.limit("g-0")
    site.see(ready)
    site.run()
    assert site.where("g") == {"r0": 2}
    assert site.drift() == []


@pytest.mark.parametrize("number", [200, pytest.param(100_000, marks=pytest.mark.soak)])
def test_gangs_that_can_never_fit_keep_no_other_from_its_rack_and_no_memory_of_the_graph(number: int) -> None:
    site = Site(2, 2)
    for index in range(number):
        site.see(gang(f"vast{index}", 3, topology=RACK))
        request = amounts(cpu=f"{3001 + index % 1000}m")
        site.see(*(mine(f"vast{index}-{member}", group=f"vast{index}", request=request) for member in range(3)))
    site.run()
    site.ask("g", 2, RACK)
    site.run()
    assert site.where("g") == {"r0": 2}
    assert "NeverFits: " in site.limit("vast0-0")
    assert "NeverFits: " in site.limit(f"vast{number - 1}-0")
    graph = site.scheduler.graph.graph
    assert graph is not None
    assert len(graph.fits) <= KEPT


def test_a_gang_waits_where_no_rack_has_room_and_the_reason_names_level_and_rack() -> None:
    site = Site(2, 2, 2)
    site.fill("r0n0", "r1n0", "r2n0", "r2n1")
    site.ask("g", 2, RACK)
    decided = site.run()
    assert not site.where("g")
    told = next(action for action in decided if isinstance(action, PodCondition))
    assert "rack: at most 1 of 2 pods fit, in a/r0" in told.message
    assert "rack: at most 1 of 2 pods fit, in a/r0" in site.limit("g-0")
    status = next(action for action in decided if isinstance(action, GroupStatus) and action.reason)
    assert "rack: at most 1 of 2" in status.message
    assert not status.scheduled
    site.gone(site.named("foreign-r1n0"))
    site.run()
    assert site.where("g") == {"r1": 2}


def test_a_preferred_rack_is_left_where_none_has_room() -> None:
    site = Site(2, 2)
    site.ask("g", 3, NEAR)
    site.run()
    assert sum(site.where("g").values()) == 3


def test_a_preferred_rack_is_taken_where_one_has_room() -> None:
    site = Site(2, 3)
    site.ask("g", 3, NEAR)
    site.run()
    assert site.where("g") == {"r1": 3}


def test_the_best_level_that_fits_is_taken() -> None:
    site = Site(2, 2, 3)
    site.fill("r2n0", "r2n1")
    site.ask("g", 3, TopologyRequest(required=("rack", "zone")))
    site.run()
    assert site.where("g") == {"r0": 2, "r1": 1}


def test_a_level_may_be_called_by_its_label() -> None:
    site = Site(1, 2)
    site.ask("g", 2, TopologyRequest(required=("example.com/rack",)))
    site.run()
    assert site.where("g") == {"r1": 2}


@pytest.mark.parametrize(("tier", "racks"), [(1, {}), (2, {"r0": 2, "r1": 1})])
def test_a_tier_is_a_level_counted_from_the_innermost(tier: int, racks: dict[str, int]) -> None:
    site = Site(2, 2)
    site.ask("g", 3, TopologyRequest(tier=tier, tier_required=True, field="spec.networkTopology.highestTierAllowed"))
    site.run()
    assert site.where("g") == racks


def test_an_unknown_level_is_refused_by_field_found_and_expected() -> None:
    site = Site(2)
    site.ask("g", 1, replace(RACK, required=("block",)))
    decided = site.run()
    assert not site.where("g")
    said = "converged.hpc/required-topology: found 'block', expected one of the levels cluster, zone, rack, node"
    assert any(said in action.message for action in decided if isinstance(action, PodCondition))
    assert any(said in action.message for action in decided if isinstance(action, GroupStatus))


def test_a_gang_larger_than_every_rack_is_told_at_once_that_it_never_fits() -> None:
    site = Site(2, 2)
    site.fill("r0n0")
    site.ask("g", 3, RACK)
    site.run()
    assert "NeverFits" in site.limit("g-0")
    assert "rack: at most 2 of 3 pods fit" in site.limit("g-0")
    site.add("r1n9", 1)
    site.run()
    assert site.where("g") == {"r1": 3}


def test_a_member_that_is_made_again_goes_to_the_rack_of_the_others() -> None:
    site = Site(2, 2)
    site.fill("r0n0")
    site.ask("g", 2, RACK)
    site.run()
    assert site.where("g") == {"r1": 2}
    site.gone(site.named("foreign-r0n0"), site.named("g-1"))
    site.members("g", range(2, 3))
    site.run()
    assert site.where("g") == {"r1": 2}


def test_a_member_that_is_made_again_waits_for_room_in_the_rack_of_the_others() -> None:
    site = Site(2, 2)
    site.ask("g", 2, RACK)
    site.run()
    site.gone(site.named("g-1"))
    there = next(item.node for item in site.of("g") if item.node)
    site.fill(*({"r0n0", "r0n1"} - {there}))
    site.members("g", range(2, 3))
    site.run()
    assert site.where("g") == {"r0": 1}
    assert "rack: too little room in a/r0, where others of the group are" in site.limit("g-2")


def test_a_gang_whose_rack_is_lost_starts_in_another() -> None:
    site = Site(2, 2)
    site.ask("g", 2, RACK)
    site.run()
    assert site.where("g") == {"r0": 2}
    site.gone(*(node(name) for name in ("r0n0", "r0n1")))
    site.gone(*site.of("g"))
    site.members("g", range(2, 4))
    site.run()
    assert site.where("g") == {"r1": 2}


def test_pods_beyond_the_minimum_go_to_the_same_rack_if_one_holds_them() -> None:
    site = Site(2, 4)
    site.see(gang("g", 2, topology=RACK))
    site.members("g", range(4))
    site.run()
    assert site.where("g") == {"r1": 4}


def test_the_minimum_starts_alone_where_no_rack_holds_all() -> None:
    site = Site(2, 3)
    site.see(gang("g", 2, topology=RACK))
    site.members("g", range(4))
    site.run()
    (racks,) = site.where("g").items()
    assert racks[1] >= 2


def test_sub_groups_get_racks_of_their_own() -> None:
    site = Site(2, 2)
    site.see(gang("g", 4))
    for name in ("left", "right"):
        wish = TopologyRequest(required=("rack",), sub_group=name)
        site.members("g", range(*((0, 2) if name == "left" else (2, 4))), topology=wish)
    site.run()
    assert site.where("g") == {"r0": 2, "r1": 2}
    assert {site.racks[site.named(f"g-{index}").node] for index in (0, 1)} != {
        site.racks[site.named(f"g-{index}").node] for index in (2, 3)
    }


def test_a_driver_and_its_workers_share_the_rack_of_their_group() -> None:
    site = Site(1, 3)
    site.see(gang("g", 4, topology=RACK))
    site.members("g", range(1), cores=2)
    site.members("g", range(1, 3))
    site.members("g", range(3, 4), cores=2)
    site.run()
    assert site.where("g") == {"r1": 4}


def test_pods_without_a_group_object_ask_by_themselves() -> None:
    site = Site(1, 2)
    for index in range(2):
        annotations = (("scheduling.k8s.io/group-min-member", "2"), ("scheduling.k8s.io/group-name", "g"))
        one = mine(f"g-{index}", request=amounts(cpu="4"), topology=RACK)
        site.see(replace(one, annotations=annotations))
    site.run()
    assert site.where("g") == {"r1": 2}


def test_so_many_pods_go_on_each_node() -> None:
    site = Site(3)
    site.ask("g", 4, TopologyRequest(per_node=2), cores=1)
    site.run()
    assert sorted(Counter(item.node for item in site.of("g")).values()) == [2, 2]


def test_pods_are_spread_evenly_over_the_rack() -> None:
    site = Site(3)
    site.ask("g", 6, replace(RACK, even=True), cores=1)
    site.run()
    assert sorted(Counter(item.node for item in site.of("g")).values()) == [2, 2, 2]


def test_exclusive_nodes_are_empty_when_the_group_starts() -> None:
    site = Site(3)
    site.fill("r0n0", cores=1)
    site.ask("g", 2, TopologyRequest(exclusive=True), cores=1)
    site.run()
    assert "r0n0" not in {item.node for item in site.of("g")}


def test_exclusive_nodes_may_have_pods_of_daemon_sets() -> None:
    site = Site(3)
    site.see(*(pod(f"proxy-{name}", node=name, daemon=True, request=amounts(cpu="100m")) for name in site.racks))
    site.fill("r0n0", cores=1)
    site.ask("g", 2, TopologyRequest(exclusive=True), cores=1)
    site.run()
    assert {item.node for item in site.of("g")} <= {"r0n1", "r0n2"}
    assert not site.drift()


def test_rules_about_other_pods_hold_in_the_rack_too() -> None:
    site = Site(1, 2)
    apart: PodAffinityTerm = near("kubernetes.io/hostname", app="g")
    for name, rack in site.racks.items():
        labels = (("example.com/rack", rack), ("kubernetes.io/hostname", name), ("zone", "a"))
        site.see(node(name, labels=labels))
    site.see(gang("g", 2, topology=RACK))
    site.members("g", range(2), cores=1, labels=pairs(app="g"), anti_affinity=(apart,))
    site.run()
    assert site.where("g") == {"r1": 2}
    assert len({item.node for item in site.of("g")}) == 2


def test_a_queue_of_the_graph_keeps_groups_together_that_ask_for_nothing() -> None:
    site = Site(2, 3)
    site.see(queue("near", placed_by="graph"))
    site.ask("g", 3, None, queue="near")
    site.run()
    assert site.where("g") == {"r1": 3}
    site.ask("h", 3, None, queue="near", cores=1)
    site.run()
    assert sum(site.where("h").values()) == 3


def test_a_queue_of_the_graph_has_a_match_policy() -> None:
    site = Site(2, 2, 2)
    site.see(queue("near", placed_by="graph", match_policy="high"))
    site.ask("g", 2, None, queue="near")
    site.run()
    assert site.where("g") == {"r2": 2}


def test_what_is_undone_leaves_no_charge_and_the_graph_has_not_drifted() -> None:
    site = Site(2, 2)
    site.ask("g", 2, RACK)
    cut = iter(range(100))
    site.decide(lambda: next(cut) == 0)
    site.finish_what_is_under_way()
    site.scheduler.follow()
    free = site.scheduler.cluster.columns.free.copy()
    site.run()
    assert site.where("g") == {"r0": 2}
    site.gone(*site.of("g"))
    site.run()
    assert (site.scheduler.cluster.columns.free >= free).all()
    assert site.drift() == []


def test_a_daemon_without_levels_says_so_to_who_asks_for_a_rack() -> None:
    plain = Simulated()
    plain.see(queue("default"), node("n1"), gang("g", 1, topology=RACK), mine("g-0", group="g"))
    decided = plain.run()
    assert not any(isinstance(action, Bind) for action in decided)
    said = "found 'rack', expected one of the levels cluster, node"
    assert any(said in action.message for action in decided if isinstance(action, PodCondition))


def test_a_pod_that_asks_for_an_unknown_level_in_a_group_that_waits_for_its_rack_stops_no_cycle() -> None:
    site = Site(1, reserve_after=10.0)
    site.fill("r0n0")
    site.ask("g", 1, RACK)
    site.run()
    # The group has been refused for room, and room is kept for what is its next pod now.
    site.gone(site.named("g-0"))
    site.members("g", range(1, 2), topology=replace(RACK, required=("block",)))
    site.now += 20
    site.see(mine("small", request=amounts(cpu="1")))
    site.run()
    assert site.limit("g-1")
    site.finish("foreign-r0n0")
    site.run()
    assert site.named("small").node == "r0n0"
    assert "found 'block', expected one of the levels" in site.limit("g-1")


def test_why_says_what_would_have_to_end_in_the_rack_that_lacks_the_least() -> None:
    site = Site(3, 3)
    site.fill("r0n0", "r0n1", "r1n2")
    site.ask("g", 3, RACK)
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.must_end == ("in rack a/r1, on node r1n2: team/foreign-r1n2",)


def test_why_names_the_rack_and_the_pods_of_it_that_keep_so_many_from_each_node() -> None:
    site = Site(3, 3)
    site.fill("r0n0", "r0n1", "r0n2", cores=3)
    site.fill("r1n1", "r1n2", cores=3)
    site.ask("g", 4, replace(RACK, per_node=2), cores=1)
    site.run()
    assert "rack: at most 1 of 2 nodes have room for 2 pods, in a/r1" in site.limit("g-0")
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.must_end == ("in rack a/r1, on node r1n1: team/foreign-r1n1",)


def test_why_names_the_batch_job_of_a_placeholder_in_the_way() -> None:
    site = Site(1)
    lease = '{"wlm": "slurm", "job": "4711", "run": 1}'
    site.see(
        pod(
            "job-4711",
            namespace="kube-system",
            node="r0n0",
            mirror=True,
            request=amounts(cpu="3"),
            annotations=(("converged.hpc/lease", lease),),
        )
    )
    site.ask("g", 1, RACK)
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.must_end == ("in rack a/r0, on node r0n0: job 4711 of slurm",)


def test_why_names_the_jobs_that_hold_whole_nodes_of_the_rack_that_lacks_the_least() -> None:
    site = Site(2, 2)
    site.fill("r0n0", "r0n1")
    held = next(item for item in site.scheduler.cluster.columns.nodes if item is not None and item.name == "r1n0")
    site.see(replace(held, held_by="slurm/4711/1"))
    site.ask("g", 2, RACK)
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.must_end == ("in rack a/r1, on node r1n0: job 4711 of slurm",)
    assert found.batch == ("on node r1n0 job 4711 of slurm",)


@pytest.mark.parametrize(("jobs", "said"), [(64, " and 59 more"), (65, " and at least 59 more")])
def test_why_says_where_it_has_not_read_all_jobs_of_a_node(jobs: int, said: str) -> None:
    site = Site(2, 2)
    site.fill("r0n0", "r0n1")
    held = next(item for item in site.scheduler.cluster.columns.nodes if item is not None and item.name == "r1n0")
    site.see(replace(held, held_by=",".join(f"slurm/{number}/1" for number in range(jobs))))
    site.ask("g", 2, RACK)
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.must_end[0].endswith(f"job 4 of slurm{said}")


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("slurm/4711/1=2026-11-27T05:00:00Z", "job 4711 of slurm ends in 0:40:00 at the latest, job 4712 of slurm"),
        (
            "slurm/4711/0=2026-11-27T05:00:00Z,slurm/4712/0=2026-11-27T04:00:00Z",
            "job 4711 of slurm, job 4712 of slurm ends in 0:00:00 at the latest",
        ),
        ("slurm/4711/1=2026-11-27T05:00:00,slurm/4712/0=soon,x", "job 4711 of slurm, job 4712 of slurm"),
    ],
)
def test_why_says_when_jobs_of_slurm_end_that_hold_a_node_of_the_rack(until: str, said: str) -> None:
    site = Site(2, 2, epoch=datetime(2026, 11, 27, 4, 20, tzinfo=UTC).timestamp())
    site.fill("r0n0", "r0n1")
    held = next(item for item in site.scheduler.cluster.columns.nodes if item is not None and item.name == "r1n0")
    site.see(replace(held, held_by="slurm/4711/1,slurm/4712/0", held_until=until))
    site.ask("g", 2, RACK)
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.must_end == (f"in rack a/r1, on node r1n0: {said}",)
    assert len(found.batch) == 2


@pytest.mark.parametrize(
    "wanted",
    [
        {"selector": NodeSelector((("disk", "ssd"),))},
        {"request": amounts(cpu="64")},
        {"request": amounts(cpu="1", gpu="1")},
        {"features": ("RestartAllContainersOnContainerExits",)},
    ],
)
def test_why_names_no_job_of_a_node_that_the_pod_can_never_use(wanted: dict[str, Any]) -> None:
    simulated = Simulated()
    simulated.see(node("n1", held_by="slurm/4711/1"), mine("fits"), mine("never", **wanted))
    simulated.run()
    fits, never = (simulated.explain("team", name) for name in ("fits", "never"))
    assert fits is not None
    assert fits.batch == ("on node n1 job 4711 of slurm",)
    assert never is not None
    assert never.batch == ()


def test_what_is_named_of_jobs_that_hold_a_node_is_bounded_and_printable() -> None:
    keys = ["slurm/\x1b[2J/1", f"slurm/{'7' * 1_000_000}/1", *(f"slurm/{number}/1" for number in range(100_000))]
    found = [text for _left, text in holders_of(node("n1", held_by=",".join(keys)), now=None)]
    assert len(found) == 64
    assert found[0] == "job ?[2J of slurm"
    assert all(text.isprintable() and len(text) <= 150 for text in found)
    assert found[-1] == "job 61 of slurm"


def test_news_of_when_jobs_end_is_no_news_for_what_waits() -> None:
    site = Site(1)
    held = next(item for item in site.scheduler.cluster.columns.nodes if item is not None)
    site.see(replace(held, held_by="slurm/4711/1"))
    before = site.scheduler.cluster.columns.generation
    site.see(replace(held, held_by="slurm/4711/1", held_until="slurm/4711/1=2026-11-27T05:00:00Z"))
    node_now = site.scheduler.cluster.columns.nodes[0]
    assert node_now is not None
    assert node_now.held_until
    assert site.scheduler.cluster.columns.generation == before


def test_why_names_no_rack_where_nothing_that_ends_would_help() -> None:
    site = Site(1, 1)
    site.fill("r0n0")
    site.ask("g", 2, RACK)
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert not any(text.startswith("in rack") for text in found.must_end)


def test_nodes_are_kept_in_one_rack_for_a_group_that_has_waited_long() -> None:
    site = Site(2, 2, reserve_after=10.0)
    for name in site.racks:
        site.see(mine(f"old-{name}", node=name, request=amounts(cpu="3")))
    site.ask("g", 2, RACK)
    site.run()
    site.now += 20
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.kept[0].startswith("nodes r0n0, r0n1 are kept for team/g")
    # One node of each rack becomes free: others may have that of the other rack only.
    site.finish("old-r0n0", "old-r1n0")
    site.see(mine("small", request=amounts(cpu="4")))
    site.run()
    assert site.named("small").node == "r1n0"
    site.finish("old-r0n1")
    site.run()
    assert site.where("g") == {"r0": 2}


@pytest.mark.parametrize("by", ["group", "sub-group"])
def test_nodes_are_kept_for_no_more_pods_on_each_than_the_group_asks_for(by: str) -> None:
    site = Site(2, reserve_after=10.0)
    for name in site.racks:
        site.see(mine(f"old-{name}", node=name, request=amounts(cpu="3")))
    field = "converged.hpc/pods-per-node"
    wish = replace(RACK, per_node=1) if by == "group" else RACK
    own = TopologyRequest(per_node=1, sub_group="workers", field=field) if by == "sub-group" else None
    site.see(gang("g", 2, topology=wish))
    site.members("g", range(2), cores=2, topology=own)
    site.run()
    site.now += 15
    site.run()
    found = site.explain("team", "g-0")
    assert found is not None
    assert found.kept[0].startswith("nodes r0n0, r0n1 are kept for team/g")
    site.finish("old-r0n0", "old-r0n1")
    site.run()
    assert Counter(item.node for item in site.of("g")) == {"r0n0": 1, "r0n1": 1}


def test_a_group_known_by_the_labels_of_fluence_starts_as_a_whole() -> None:
    site = Site(1, 2)
    labels = (("fluence.group-size", "2"), ("scheduling.x-k8s.io/pod-group", "g"))
    site.see(mine("g-0", labels=labels, topology=RACK, request=amounts(cpu="4")))
    site.run()
    assert not site.where("g")
    site.see(mine("g-1", labels=labels, topology=RACK, request=amounts(cpu="4")))
    site.run()
    assert site.where("g") == {"r1": 2}
    site.see(mine("h-0", labels=(("fluence.group-size", "two"), ("scheduling.x-k8s.io/pod-group", "h"))))
    site.run()
    assert "label fluence.group-size: 'two' is not a number from 1" in site.limit("h-0")
