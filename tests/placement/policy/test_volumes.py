# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods with claims: which nodes their volumes allow, and how a volume is made for one."""

import random
from dataclasses import replace
from typing import Any

import pytest
from placement.model.messages.action import Bind, SelectNode
from placement.model.objects.node import Node
from placement.model.objects.pod import HostPort, Phase, Pod
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from placement.model.rules.selector import Effect, NodeSelectorTerm, Operator, Requirement, Taint
from placement_kit.builders import amounts, gang, mine, near, node, pairs, pod
from placement_kit.simulated import Simulated

ZONE_A, ZONE_B, ZONE_C = ((NodeSelectorTerm((Requirement("zone", Operator.IN, (zone,)),)),) for zone in "abc")
OUTSIDE_A = (NodeSelectorTerm((Requirement("zone", Operator.NOT_IN, ("a",)),)),)

NODES = ("n1", "n2")
PORT = HostPort("0.0.0.0", "TCP", 80)


def claim(name: str = "data", **more: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(uid=f"claim-{name}", namespace="team", name=name, version=1, **more)


def volume(name: str = "pv", **more: Any) -> PersistentVolume:
    return PersistentVolume(uid=f"volume-{name}", name=name, version=1, handle=f"handle-{name}", **more)


def storage(name: str = "fast", **more: Any) -> StorageClass:
    return StorageClass(uid=f"class-{name}", name=name, version=1, **more)


def room(name: str, **more: Any) -> StorageCapacity:
    return StorageCapacity(uid=f"room-{name}", namespace="csi", name=name, version=1, storage_class="fast", **more)


def two_zones() -> Simulated:
    simulated = Simulated()
    simulated.see(node("n1", labels=pairs(zone="a")), node("n2", labels=pairs(zone="b")))
    return simulated


@pytest.mark.parametrize(
    ("said", "nodes"),
    [
        ((), set()),
        ((room("a", largest=10),), {"n1", "n2"}),
        ((room("a", largest=9),), set()),
        ((room("a", largest=10, topology=()),), set()),
        ((room("a", largest=10, topology=ZONE_B), room("b", largest=9)), {"n2"}),
        ((room("a", largest=10, topology=OUTSIDE_A),), {"n2"}),
        ((room("a", largest=10, topology=ZONE_C),), set()),
        ((room("a", largest=10, topology=ZONE_B), room("b", largest=10, topology=ZONE_A)), {"n1", "n2"}),
    ],
)
@pytest.mark.parametrize("tells_capacity", [True, False])
def test_a_volume_is_made_where_its_driver_has_room(
    said: tuple[StorageCapacity, ...], nodes: set[str], tells_capacity: bool
) -> None:
    simulated = two_zones()
    driver = CSIDriver(uid="driver", name="csi.example.com", version=1, tells_capacity=tells_capacity)
    made_by = storage(waits=True, provisioner=driver.name)
    simulated.see(driver, made_by, claim(storage_class="fast", size=10), mine("p", volume_claims=("data",)), *said)
    simulated.run()
    chosen = {action.node for action in simulated.actions if isinstance(action, SelectNode)}
    assert chosen <= (nodes if tells_capacity else {"n1", "n2"})
    assert bool(chosen) is (bool(nodes) or not tells_capacity)
    if not chosen:
        assert "the room that driver csi.example.com has for its claim data" in simulated.conditions()["p"]


def test_a_bound_volume_ties_the_pod_to_its_nodes() -> None:
    simulated = two_zones()
    simulated.see(volume(node_terms=ZONE_B), claim(volume="pv"), mine("p", volume_claims=("data",)))
    simulated.run()
    assert simulated.placements() == {"p": "n2"}


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ((), "its claim data, which does not exist"),
        ((claim(),), "its claim data, which is not bound"),
        ((claim(storage_class="fast"), storage()), "its claim data, which is not bound"),
        ((claim(volume="pv"),), "volume pv of its claim data, which does not exist"),
        ((claim(volume="pv", binding=True), volume()), "its claim data, which is not bound"),
        ((claim(volume="pv", lost=True),), "its claim data, which has lost its volume pv"),
        ((claim(volume="pv", terminating=True), volume()), "its claim data, which is being deleted"),
        (
            (claim(storage_class="fast"), storage(waits=True, provisioner="kubernetes.io/no-provisioner")),
            "its claim data, for which there is no volume",
        ),
        (
            (
                claim(volume="pv", modes=("ReadWriteOncePod",)),
                volume(),
                pod("other", node="n1", volume_claims=("data",)),
            ),
            "its claim data, which another pod uses (ReadWriteOncePod)",
        ),
    ],
)
def test_a_claim_that_cannot_be_served_is_named(objects: tuple[Any, ...], reason: str) -> None:
    simulated = two_zones()
    simulated.see(*objects, mine("p", volume_claims=("data",)))
    simulated.run()
    assert "p" not in simulated.placements()
    assert reason in simulated.conditions()["p"]


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"volume_claims": ("data",)}, "2 refused by its claim data, which does not exist"),
        ({"affinity": (near("zone", app="web"),)}, "2 refused by pod affinity"),
    ],
)
def test_what_no_node_has_is_said_of_full_nodes_too(wish: dict[str, Any], reason: str) -> None:
    simulated = two_zones()
    simulated.see(pod("full", node="n1", request=amounts(cpu="4")), mine("p", **wish))
    simulated.run()
    assert simulated.conditions()["p"] == f"0/2 nodes are available: {reason}"


def test_what_others_have_is_said_beside_the_room_that_full_nodes_lack() -> None:
    simulated = two_zones()
    simulated.see(*(CSINode(uid=f"csi-{name}", name=name, version=1, limits=(("csi.example", 1),)) for name in NODES))
    simulated.see(volume("pv", driver="csi.example"), claim("one", volume="pv"), claim("two", volume="pv2"))
    simulated.see(volume("pv2", driver="csi.example"), volume("pv3", driver="csi.example"), claim("six", volume="pv3"))
    simulated.see(pod("full", node="n1", request=amounts(cpu="4"), volume_claims=("one",)))
    simulated.see(pod("half", node="n2", request=amounts(cpu="2"), volume_claims=("six",)))
    simulated.see(mine("p", volume_claims=("two",)))
    simulated.run()
    said = "1 Insufficient cpu, 1 refused by the number of volumes that a node can attach"
    assert simulated.conditions()["p"] == f"0/2 nodes are available: {said}"


@pytest.mark.parametrize(("owner", "placed"), [("uid-p", True), ("uid-other", False), ("", False)])
def test_the_claim_of_an_ephemeral_volume_is_that_of_its_own_pod(owner: str, placed: bool) -> None:
    simulated = two_zones()
    simulated.see(volume(), claim("p-data", volume="pv", owner=owner))
    simulated.see(mine("p", volume_claims=("p-data",), ephemeral_claims=("p-data",)))
    simulated.run()
    assert bool(simulated.placements()) is placed
    assert placed or "its claim p-data, which was not made for this pod" in simulated.conditions()["p"]


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
ZONED_NODES = {
    "in-a": ((REGION, "r"), (ZONE, "a")),
    "in-b": ((REGION, "s"), (ZONE, "b")),
    "once-in-a": ((OLD_ZONE, "a"),),
    "in-r": ((REGION, "r"),),
    "anywhere": (("zone", "a"),),
}


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [
        ((), {*ZONED_NODES}),
        (((ZONE, "a"),), {"in-a", "anywhere"}),
        (((ZONE, "a__b"),), {"in-a", "in-b", "anywhere"}),
        (((ZONE, "a__ b"),), {"in-a", "in-b", "anywhere"}),
        (((ZONE, "a__"),), {*ZONED_NODES}),
        (((OLD_ZONE, "a"),), {"in-a", "once-in-a", "anywhere"}),
        (((REGION, "r"), (ZONE, "a")), {"in-a", "anywhere"}),
        (((REGION, "r"),), {"in-a", "in-r", "anywhere"}),
    ],
)
@pytest.mark.parametrize("ephemeral", [True, False])
def test_a_volume_is_in_the_zones_of_its_labels(
    labels: tuple[tuple[str, str], ...], nodes: set[str], ephemeral: bool
) -> None:
    simulated = Simulated()
    simulated.see(*(node(name, labels=tuple(sorted(where))) for name, where in ZONED_NODES.items()))
    simulated.see(volume(labels=labels), claim(volume="pv", owner="uid-p"))
    one = mine("p", volume_claims=("data",), ephemeral_claims=("data",) if ephemeral else ())
    allowed = simulated.scheduler.cluster.volumes.allowed(one)
    assert allowed is not None
    rows = simulated.scheduler.cluster.columns.rows
    # kube-scheduler does not ask for the zone of an ephemeral volume.
    assert {name for name, row in rows.items() if allowed[row]} == ({*ZONED_NODES} if ephemeral else nodes)


def test_a_claim_that_waits_for_its_consumer_gets_its_volume_first() -> None:
    simulated = two_zones()
    simulated.see(storage(waits=True, provisioner="csi.example", topology=ZONE_B), claim(storage_class="fast"))
    simulated.see(mine("p", volume_claims=("data",)))
    decided = simulated.run_once()
    assert [(action.name, action.node) for action in decided if isinstance(action, SelectNode)] == [("data", "n2")]
    assert not any(isinstance(action, Bind) for action in decided)
    simulated.see(volume(node_terms=ZONE_B), claim(storage_class="fast", volume="pv"))
    simulated.run()
    assert simulated.placements() == {"p": "n2"}


def test_a_provisioner_that_does_not_come_to_an_end_is_not_waited_for_for_ever() -> None:
    simulated = two_zones()
    simulated.see(storage(waits=True, provisioner="csi.example"), claim(storage_class="fast"))
    simulated.see(mine("p", volume_claims=("data",)))
    assert any(isinstance(action, SelectNode) for action in simulated.run_once())
    simulated.now = 599
    assert not simulated.run()
    # Nothing else happens meanwhile.
    simulated.now = 600
    assert any(isinstance(action, SelectNode) for action in simulated.run())


@pytest.mark.parametrize(
    "change",
    [
        node("n1", held_by="slurm/17/0"),
        node("n1", unschedulable=True),
        node("n1", taints=(Taint("key", "value", Effect.NO_SCHEDULE),)),
        pod("foreign", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4")),
        pod("foreign", node="n1", phase=Phase.RUNNING, request=(), host_ports=(PORT,)),
    ],
    ids=["held", "cordoned", "tainted", "filled", "port"],
)
@pytest.mark.parametrize("group", ["", "g"])
def test_a_pod_that_waited_for_its_volume_is_bound_only_where_it_could_still_be_placed(
    change: Node | Pod, group: str
) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), gang("g", 2), storage(waits=True, provisioner="csi.example"))
    simulated.see(claim(storage_class="fast"))
    simulated.see(mine("p", volume_claims=("data",), host_ports=(PORT,), group=group))
    simulated.see(*(mine("other", group=group) for _unused in group))
    assert any(isinstance(action, SelectNode) for action in simulated.run())
    before = simulated.placements()
    simulated.see(change)
    simulated.see(volume(), claim(storage_class="fast", volume="pv", selected_node="n1"))
    assert not any(isinstance(action, Bind) for action in simulated.run())
    simulated.see(node("n2"))
    simulated.run()
    assert before == {}
    assert simulated.placements()["p"] == "n2"


def test_a_pod_does_not_wait_for_a_volume_on_a_node_that_is_gone() -> None:
    simulated = two_zones()
    simulated.see(storage(waits=True, provisioner="csi.example"), claim(storage_class="fast"))
    simulated.see(mine("p", volume_claims=("data",)))
    (first,) = [action for action in simulated.run_once() if isinstance(action, SelectNode)]
    simulated.gone(node(first.node, uid=f"uid-{first.node}"))
    (second,) = [action for action in simulated.run_once() if isinstance(action, SelectNode)]
    assert [first.node, second.node] == ["n1", "n2"]


def test_a_volume_that_cannot_be_made_for_the_chosen_node_has_the_pod_wait_for_another() -> None:
    simulated = two_zones()
    simulated.see(storage(waits=True, provisioner="csi.example"), claim(storage_class="fast"))
    simulated.see(mine("p", volume_claims=("data",)))
    (first,) = [action for action in simulated.run_once() if isinstance(action, SelectNode)]
    simulated.see(claim(storage_class="fast", selected_node=first.node))
    assert not simulated.run()
    # The provisioner takes the node back.
    simulated.see(claim(storage_class="fast"), node("n1", unschedulable=True))
    (second,) = [action for action in simulated.run_once() if isinstance(action, SelectNode)]
    assert [first.node, second.node] == ["n1", "n2"]


def test_a_provisioner_that_makes_nothing_anywhere_is_asked_again_after_longer_and_longer() -> None:
    simulated = two_zones()
    simulated.see(storage(waits=True, provisioner="csi.example"), claim(storage_class="fast"))
    simulated.see(mine("p", volume_claims=("data",)))
    asked = []
    for _unused in range(20):
        for action in simulated.run_once():
            if isinstance(action, SelectNode):
                asked.append(simulated.now)
                simulated.see(claim(storage_class="fast", selected_node=action.node), claim(storage_class="fast"))
            else:
                simulated.actions.append(action)
        simulated.now += 0.5
    # What was taken back is seen half a second later.
    assert asked == [0.0, 0.5, 2.0, 4.5, 9.0]
    assert simulated.conditions()["p"] == "the volume of claim team/data could not be made for node n1"


def test_a_volume_that_is_being_made_ties_its_pods_to_its_node() -> None:
    simulated = two_zones()
    simulated.see(storage(waits=True, provisioner="csi.example"))
    simulated.see(claim(storage_class="fast", selected_node="n2"), mine("p", volume_claims=("data",)))
    assert [action.node for action in simulated.run_once() if isinstance(action, SelectNode)] == ["n2"]
    simulated.see(claim("other", storage_class="fast", selected_node="n3"), mine("q", volume_claims=("other",)))
    simulated.run()
    assert "its claim other, whose volume is being made for node n3" in simulated.conditions()["q"]


def test_a_node_attaches_no_more_volumes_than_its_driver_can() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), CSINode(uid="csi", name="n1", version=1, limits=(("csi.example", 1),)))
    simulated.see(volume("pv1", driver="csi.example"), volume("pv2", driver="csi.example"))
    simulated.see(claim("one", volume="pv1"), claim("two", volume="pv2"))
    simulated.see(mine("a", volume_claims=("one",)))
    simulated.run()
    simulated.see(mine("b", volume_claims=("two",)), mine("c", volume_claims=("one",)))
    simulated.run()
    assert sorted(simulated.placements()) == ["a", "c"]
    assert "the number of volumes that a node can attach" in simulated.conditions()["b"]


def test_pods_that_share_a_volume_fit_on_a_node_that_has_too_many_already() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), CSINode(uid="csi", name="n1", version=1, limits=(("csi.example", 1),)))
    simulated.see(*(volume(name, driver="csi.example") for name in ("pv1", "pv2")))
    simulated.see(claim("one", volume="pv1"), claim("two", volume="pv2"))
    simulated.see(pod("others", node="n1", volume_claims=("one", "two")), mine("p", volume_claims=("one",)))
    simulated.run()
    assert simulated.placements()["p"] == "n1"


def attached(name: str, to: str = "n1", **more: Any) -> VolumeAttachment:
    """The volume is attached to the node."""
    return VolumeAttachment(uid=f"at-{name}-{to}", name=f"at-{name}-{to}", version=1, node=to, volume=name, **more)


@pytest.fixture
def limited() -> Simulated:
    """One node that can attach one volume, and two volumes with a claim each."""
    simulated = Simulated()
    simulated.see(node("n1"), CSINode(uid="csi", name="n1", version=1, limits=(("csi.example", 1),)))
    simulated.see(*(volume(name, driver="csi.example") for name in ("pv1", "pv2")))
    simulated.see(claim("one", volume="pv1"), claim("two", volume="pv2"))
    return simulated


def test_a_volume_that_is_still_attached_counts_although_its_pod_has_gone(limited: Simulated) -> None:
    limited.see(attached("pv1"), mine("a", volume_claims=("one",)))
    limited.run()
    limited.gone(limited.named("a"))
    limited.see(mine("b", volume_claims=("two",)))
    limited.run()
    assert not limited.placements()
    assert "the number of volumes that a node can attach" in limited.conditions()["b"]
    # It is attached to this node alone, and goes with it only once.
    limited.see(mine("c", volume_claims=("one",)))
    limited.run()
    assert set(limited.placements()) == {"c"}
    limited.gone(limited.named("c"))
    limited.gone(attached("pv1"))
    limited.run()
    assert set(limited.placements()) == {"b"}


def test_a_volume_that_is_attached_elsewhere_does_not_count(limited: Simulated) -> None:
    limited.see(attached("pv1", "n2"), attached("unknown"), mine("b", volume_claims=("two",)))
    limited.run()
    assert set(limited.placements()) == {"b"}


@pytest.mark.parametrize("seed", range(20))
def test_attachments_count_in_whatever_order_they_their_nodes_and_their_volumes_come(seed: int) -> None:
    simulated = Simulated()
    limits = [CSINode(uid=f"csi{one}", name=one, version=1, limits=(("csi.example", 2),)) for one in ("n1", "n2")]
    things = [
        *(node(one) for one in ("n1", "n2")),
        *limits,
        *(volume(name, driver="csi.example") for name in ("pv1", "pv2", "pv3")),
        attached("pv1"),
        attached("pv2"),
        attached("pv2", "n2"),
    ]
    random.Random(seed).shuffle(things)
    simulated.see(*things)
    claims = simulated.scheduler.cluster.claims
    rows = simulated.scheduler.cluster.columns.rows
    assert [int(claims.count("csi.example")[rows[one]]) for one in ("n1", "n2")] == [2, 1]
    for item in random.Random(seed).sample(things, 4):
        simulated.gone(item)
        simulated.see(replace(item, uid=f"{item.uid}-again", version=simulated.scheduler.cluster.columns.changes + 50))
    assert [int(claims.count("csi.example")[rows[one]]) for one in ("n1", "n2")] == [2, 1]


def test_a_volume_that_is_yet_to_be_made_counts_for_its_driver() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), CSINode(uid="csi", name="n1", version=1, limits=(("csi.example", 0),)))
    simulated.see(storage(provisioner="csi.example", waits=True), claim(storage_class="fast"))
    simulated.see(mine("a", volume_claims=("data",)))
    simulated.run()
    assert simulated.placements() == {}
    assert "the number of volumes that a node can attach" in simulated.conditions()["a"]


def test_a_pod_goes_where_its_new_volume_is_although_another_node_was_chosen() -> None:
    simulated = two_zones()
    simulated.see(storage(waits=True, provisioner="csi.example"), claim(storage_class="fast"))
    simulated.see(mine("p", volume_claims=("data",)))
    (chosen,) = [action.node for action in simulated.run_once() if isinstance(action, SelectNode)]
    assert chosen == "n1"
    # The claim may be known before the volume is.
    simulated.see(claim(storage_class="fast", volume="pv"))
    simulated.run()
    assert simulated.placements() == {}
    simulated.see(volume(node_terms=ZONE_B))
    simulated.run()
    assert simulated.placements() == {"p": "n2"}


def gang_of_two(**more: Any) -> Simulated:
    simulated = two_zones()
    simulated.see(gang("g", 2), storage(waits=True, provisioner="csi.example", **more), claim(storage_class="fast"))
    simulated.see(mine("a", group="g"), mine("b", group="g", volume_claims=("data",)))
    return simulated


def test_a_gang_is_bound_when_all_of_its_volumes_are_there() -> None:
    simulated = gang_of_two()
    simulated.run()
    simulated.see(mine("one more", group="g"))
    simulated.run()
    assert simulated.placements() == {}
    simulated.see(volume(), claim(storage_class="fast", volume="pv"))
    simulated.run()
    assert sorted(simulated.placements()) == ["a", "b", "one more"]


def test_a_gang_of_which_one_volume_is_not_made_leaves_no_member_behind() -> None:
    simulated = gang_of_two()
    simulated.run()
    simulated.gone(claim())
    simulated.run()
    assert simulated.placements() == {}
    assert not any(simulated.scheduler.cluster.pods.at_node(name) for name in ("n1", "n2"))


def test_a_gang_whose_group_is_deleted_while_its_volume_is_made_leaves_no_member_behind() -> None:
    simulated = gang_of_two()
    simulated.run()
    simulated.gone(gang("g", 2))
    simulated.run()
    assert simulated.placements() == {}
    assert not any(simulated.scheduler.cluster.pods.at_node(name) for name in ("n1", "n2"))
    simulated.see(gang("g", 2), volume(), claim(storage_class="fast", volume="pv"))
    simulated.run()
    assert sorted(simulated.placements()) == ["a", "b"]


def test_pods_of_one_job_that_is_no_gang_do_not_wait_for_each_others_volumes() -> None:
    simulated = gang_of_two()
    simulated.see(gang("g", 1))
    simulated.run()
    assert list(simulated.placements()) == ["a"]
