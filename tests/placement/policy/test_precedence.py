# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What counts where several things could: what ties a pod to a group, and which queue is served first."""

import pytest
from placement.model.messages.action import PodCondition
from placement.model.messages.event import Deleted, Unreadable
from placement.model.messages.refusal import Refusal
from placement.model.objects.workload import COSCHEDULING, INCUBATOR, UPSTREAM, PodGroup
from placement.model.rules.selector import Toleration
from placement_kit.builders import gang, mine, node, pairs, queue
from placement_kit.simulated import Simulated

# What names a group in a pod, the first that counts first, and the API of such groups.
TIES = {
    "upstream": ({"scheduling_group": "g-upstream"}, UPSTREAM),
    "annotation": ({"annotations": pairs(**{"scheduling.k8s.io/group-name": "g-annotation"})}, INCUBATOR),
    "label": ({"labels": pairs(**{"scheduling.x-k8s.io/pod-group": "g-label"})}, COSCHEDULING),
    "owner": ({"owner": "set"}, ""),
}


@pytest.mark.parametrize("first", range(len(TIES)))
def test_of_several_ties_the_first_in_the_stated_order_counts(first: int) -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    names = list(TIES)[first:]
    ties: dict[str, object] = {}
    for name in names:
        fields, dialect = TIES[name]
        ties |= fields
        if dialect:
            # Only the group that counts lets a pod start alone.
            simulated.see(gang(f"g-{name}", 1 if name == names[0] else 2, dialect=dialect))
    simulated.see(mine("p", **ties))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


@pytest.mark.parametrize(("priorities", "served"), [((0, 0), "a"), ((0, 1), "b"), ((1, 0), "a")])
def test_a_queue_of_higher_priority_is_served_first(priorities: tuple[int, int], served: str) -> None:
    simulated = Simulated()
    for name, priority in zip("ab", priorities, strict=True):
        simulated.see(queue(name, priority=priority), gang(name, 4, queue=name))
        simulated.see(*(mine(f"{name}{index}", group=name) for index in range(4)))
    simulated.see(node("n1"))
    simulated.run()
    assert {pod[0] for pod in simulated.placements()} == {served}


def test_what_a_batch_job_holds_is_closed_to_pods_that_tolerate_everything() -> None:
    simulated = Simulated()
    simulated.see(node("n1", held_by="slurm:7"), mine("p", tolerations=(Toleration(operator="Exists"),)))
    simulated.run()
    assert simulated.placements() == {}
    assert simulated.conditions()["p"].endswith("0/1 nodes are available: 1 held by batch jobs")
    simulated.see(node("n1"))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_a_group_that_turns_out_to_be_unreadable_after_its_pods_is_named_and_so_is_its_absence() -> None:
    simulated = Simulated()
    simulated.see(node(), mine("p", group="odd"))

    def said() -> str:
        simulated.now += 4
        simulated.run()
        return [action for action in simulated.actions if isinstance(action, PodCondition)][-1].message

    assert said() == "there is no PodGroup team/odd"
    about = {"kind": "PodGroup", "namespace": "team", "name": "odd", "uid": "group-odd"}
    refusal = Refusal(**about, version=7, field="spec.minMember", reason="no number")
    simulated.tell(Unreadable(PodGroup, refusal))
    assert "spec.minMember: no number" in said()
    simulated.tell(Deleted(PodGroup, "group-odd", 8))
    assert said() == "there is no PodGroup team/odd"
