# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod that needs a feature goes to a node that declares it, as with kube-scheduler's filter NodeDeclaredFeatures."""

from dataclasses import replace

import pytest
from placement.model.messages.action import Evict
from placement.model.objects.pod import Phase
from placement.policy.plugins.configuration import load
from placement_kit.backed import HOSTS, Backed
from placement_kit.builders import amounts, mine, node
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

RESTARTS, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def test_a_pod_goes_to_a_node_that_declares_what_it_needs() -> None:
    simulated = Simulated()
    simulated.see(
        node("n1"), node("n2", declared=frozenset({USERS})), node("n3", declared=frozenset({RESTARTS, USERS}))
    )
    simulated.see(mine("both", features=(RESTARTS, USERS)), mine("one", features=(USERS,)), mine("none"))
    simulated.run()
    placed = simulated.placements()
    assert placed["both"] == "n3"
    assert placed["one"] in ("n2", "n3")
    assert "none" in placed


def test_a_pod_that_no_node_can_run_waits_is_told_for_what_and_goes_when_one_declares_it() -> None:
    simulated = Simulated()
    plain = node("n1")
    simulated.see(plain, node("n2", declared=frozenset({USERS})), mine("p", features=(RESTARTS, USERS)))
    simulated.run()
    assert not simulated.placements()
    said = simulated.conditions()["p"]
    assert f"2 without declared feature {RESTARTS}" in said
    simulated.see(replace(plain, version=2, declared=frozenset({RESTARTS, USERS})))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_nobody_leaves_a_node_that_cannot_run_the_pod() -> None:
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    low = mine("low", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4"))
    simulated.see(node("n1"), low, mine("high", priority=9, request=amounts(cpu="4"), features=(RESTARTS,)))
    simulated.run()
    assert not [action for action in simulated.actions if isinstance(action, Evict)]


def test_a_pod_is_not_bound_where_the_batch_system_chose_a_node_that_cannot_run_it() -> None:
    site = Backed()
    site.see(replace(site.pod("p"), spec=replace(site.pod("p").spec, features=(USERS,))))
    site.settle()
    assert not site.placements()
    assert any(f"does not declare {USERS}" in text for text in site.conditions().values())


@pytest.mark.parametrize(
    ("declared", "lacking"),
    [((), f"{RESTARTS} and {USERS}"), ((RESTARTS,), USERS), ((USERS,), RESTARTS)],
)
def test_a_pod_is_told_all_features_that_the_chosen_node_lacks_and_no_other(
    declared: tuple[str, ...], lacking: str
) -> None:
    site = Backed()
    site.see(*(node(name, declared=frozenset(declared)) for name in HOSTS))
    site.see(replace(site.pod("p"), spec=replace(site.pod("p").spec, features=(RESTARTS, USERS))))
    site.settle()
    assert any(text.endswith(f"does not declare {lacking}") for text in site.conditions().values()), site.conditions()
