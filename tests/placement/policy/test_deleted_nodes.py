# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of a node that is deleted count for no rule until they are gone, or the node is back.

kube-scheduler does the same: its snapshot has only nodes that exist, and it counts claims in use, affinity and
anti-affinity by their pods (`removeDeletedNodesFromSnapshot` and `usedPVCRefCounts` of its cache).
"""

import pytest
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim
from placement_kit.builders import mine, near, node, pairs
from placement_kit.simulated import Simulated

LABELS = pairs(app="db")
ALONE = near("zone", app="db")
CLAIM = PersistentVolumeClaim(
    uid="c", namespace="team", name="data", version=1, volume="pv", modes=("ReadWriteOncePod",)
)
VOLUME = PersistentVolume(uid="v", name="pv", version=1, modes=("ReadWriteOncePod",))

RULES = {
    "a claim of one pod": {"volume_claims": ("data",)},
    "anti-affinity": {"labels": LABELS, "anti_affinity": (ALONE,)},
}


def in_zone(name: str) -> Node:
    return node(name, labels=pairs(zone="a"))


def site(**rule: object) -> tuple[Simulated, Node, Pod]:
    """A pod that runs on one of two nodes, and another like it that must wait for its end."""
    simulated = Simulated()
    first = in_zone("n1")
    simulated.see(first, CLAIM, VOLUME, mine("old", node="n1", phase=Phase.RUNNING, **rule))
    simulated.see(in_zone("n2"), mine("new", **rule))
    simulated.run()
    assert simulated.placements() == {"old": "n1"}
    return simulated, first, simulated.named("old")


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_pod_of_a_deleted_node_keeps_no_other_away(rule: dict[str, object]) -> None:
    simulated, first, _old = site(**rule)
    simulated.gone(first)
    simulated.run()
    assert simulated.placements() == {"old": "n1", "new": "n2"}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_pod_of_a_node_that_is_back_counts_again(rule: dict[str, object]) -> None:
    simulated, first, _old = site(**rule)
    simulated.see(mine("third", **rule))
    simulated.gone(first, simulated.named("new"))
    simulated.see(in_zone("n1"))
    simulated.run()
    assert simulated.placements() == {"old": "n1"}


def test_a_pod_of_a_deleted_node_draws_no_other_near() -> None:
    simulated = Simulated()
    first = in_zone("n1")
    simulated.see(first, in_zone("n2"), mine("old", node="n1", phase=Phase.RUNNING, labels=LABELS))
    simulated.gone(first)
    simulated.see(mine("friend", affinity=(ALONE,)))
    simulated.run()
    assert simulated.placements() == {"old": "n1"}
    simulated.see(in_zone("n1"))
    simulated.run()
    assert set(simulated.placements()) == {"old", "friend"}
