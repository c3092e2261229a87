# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims whose volumes are there before any pod asks for one, such as the disks of nodes."""

from dataclasses import replace
from typing import Any

import pytest
from placement.model.messages.action import BindVolume, SelectNode
from placement.model.messages.event import BindFailed
from placement.model.objects.volume import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
)
from placement.model.rules.selector import NodeSelector, NodeSelectorTerm, Operator, Requirement
from placement_kit.builders import gang, labelled, mine, node, pairs
from placement_kit.simulated import Simulated

RWO = ("ReadWriteOnce",)


def at(*names: str, key: str = "host") -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm((Requirement(key, Operator.IN, names),)),)


def claim(name: str = "data", **more: Any) -> PersistentVolumeClaim:
    given = {"storage_class": "disks", "modes": RWO, "size": 10, **more}
    return PersistentVolumeClaim(uid=f"claim-{name}", namespace="team", name=name, version=1, **given)


def disk(name: str, host: str = "", **more: Any) -> PersistentVolume:
    given = {"storage_class": "disks", "modes": RWO, "size": 10, "available": True, **more}
    given.setdefault("node_terms", at(host) if host else None)
    return PersistentVolume(uid=f"volume-{name}", name=name, version=1, **given)


def disks(provisioner: str = "kubernetes.io/no-provisioner") -> StorageClass:
    return StorageClass(uid="class", name="disks", version=1, provisioner=provisioner, waits=True)


class Disks(Simulated):
    """Three nodes, and a volume controller that lets claims have what they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.see(disks(), *(node(name, labels=pairs(host=name)) for name in ("n1", "n2", "n3")))

    def chosen(self) -> list[tuple[str, str]]:
        """Claims and volumes of the next slice, neither of which is heard of again."""
        return [(action.claim, action.volume) for action in self.run_once() if isinstance(action, BindVolume)]

    def bound(self, volume: PersistentVolume, name: str = "data", **more: Any) -> None:
        """The volume controller has done its part."""
        given = {"available": False, "claim": ("team", name), "claim_uid": f"claim-{name}", **more}
        self.see(disk(volume.name, node_terms=volume.node_terms, **given), claim(name, volume=volume.name))


def test_a_pod_goes_to_a_disk_and_is_bound_when_its_claim_is() -> None:
    there, simulated = disk("pv", "n2"), Disks()
    simulated.see(there, claim(), mine("p", volume_claims=("data",)))
    (given,) = [action for action in simulated.run_once() if isinstance(action, BindVolume)]
    assert (given.uid, given.node, given.volume_uid, given.claim_uid) == ("uid-p", "n2", "volume-pv", "claim-data")
    known = next(iter(simulated.scheduler.cluster.objects.every(PersistentVolume)))
    assert (given.version, given.chosen) == (known.version, True)
    simulated.run()
    assert simulated.placements() == {}
    simulated.bound(there)
    simulated.run()
    assert simulated.placements() == {"p": "n2"}


SMALLEST = (disk("a", "n1", size=30), disk("b", "n1", size=20), disk("c", "n1", size=5))
NO_MATTER = (disk("a", "n1"),)


@pytest.mark.parametrize(
    ("more", "volumes", "wanted"),
    [
        ({}, SMALLEST, "b"),
        ({}, NO_MATTER, "a"),
        ({}, (disk("a"),), "a"),
        ({}, (disk("a", node_terms=at("n9", "n3")),), "a"),
        ({}, (disk("a", node_terms=(*at("n9"), *at("n3"))),), "a"),
        ({}, (disk("a", node_terms=at("n9")),), ""),
        ({}, (disk("a", node_terms=at("n1", key="rack")),), ""),
        ({"size": 11}, NO_MATTER, ""),
        ({"modes": (*RWO, "ReadOnlyMany")}, NO_MATTER, ""),
        ({"block": True}, NO_MATTER, ""),
        ({"block": True}, (disk("a", block=True),), "a"),
        ({"storage_class": "other"}, NO_MATTER, ""),
        ({"attributes_class": "gold"}, NO_MATTER, ""),
        ({}, (disk("a", attributes_class="gold"),), ""),
        ({"selector": labelled(kind="ssd")}, (disk("a"), disk("b", labels=pairs(kind="ssd"))), "b"),
        ({}, (disk("a", available=False),), ""),
        ({}, (disk("a", terminating=True),), ""),
        # Somebody made it for another claim, or for this one of another time, or for this one.
        ({}, (disk("a", claim=("team", "other")),), ""),
        ({}, (disk("a", claim=("team", "data"), claim_uid="claim-data of yore"),), ""),
        ({}, (disk("a"), disk("b", "n2", claim=("team", "data"), available=False)), "b"),
        ({}, (disk("a"), disk("b", node_terms=at("n9"), claim=("team", "data"))), ""),
    ],
)
def test_a_claim_gets_the_smallest_volume_that_will_do(
    more: dict[str, Any], volumes: tuple[PersistentVolume, ...], wanted: str
) -> None:
    simulated = Disks()
    simulated.see(*volumes, claim(**more), mine("p", volume_claims=("data",)))
    assert [volume for _unused, volume in simulated.chosen()] == ([wanted] if wanted else [])


def test_a_volume_that_was_made_for_the_claim_is_not_said_to_be_chosen() -> None:
    simulated = Disks()
    simulated.see(disk("pv", claim=("team", "data")), claim(), mine("p", volume_claims=("data",)))
    (given,) = [action for action in simulated.run_once() if isinstance(action, BindVolume)]
    assert not given.chosen


def test_a_pod_with_two_claims_needs_two_volumes_on_one_node() -> None:
    simulated = Disks()
    simulated.see(disk("a", "n1"), disk("b", "n2"), claim("one"), claim("two", size=20))
    simulated.see(mine("p", volume_claims=("two", "one")))
    simulated.run()
    assert "its claim two, for which there is no volume" in simulated.conditions()["p"]
    simulated.see(disk("c", "n1", size=20), disk("d", size=10))
    assert sorted(simulated.chosen()) == [("one", "a"), ("two", "c")]


def test_two_claims_that_want_the_same_volume_are_told_so() -> None:
    simulated = Disks()
    simulated.see(disk("a", "n1"), claim("one"), claim("two"), mine("p", volume_claims=("one", "two")))
    simulated.run()
    assert "its claims one and two, for which there are not enough volumes" in simulated.conditions()["p"]


@pytest.mark.parametrize(
    ("volumes", "largest", "wanted"),
    [
        ((), 20, True),
        ((disk("a", "n1", size=20),), 10, False),
        ((disk("a", "n1", size=10),), 10, False),
        ((disk("a", "n1", size=20), disk("b", "n1", size=20)), 10, True),
        ((disk("a", "n1", size=10), disk("b", "n1", size=20)), 0, True),
        ((disk("a", "n1", size=10),), 20, True),
        # The smaller claim would take the only one.
        ((disk("a", "n1", size=20),), 20, True),
    ],
)
def test_of_two_claims_one_may_get_a_volume_and_the_other_have_one_made(
    volumes: tuple[PersistentVolume, ...], largest: int, wanted: bool
) -> None:
    simulated = Disks()
    simulated.see(disks("csi.example"), CSIDriver(uid="d", name="csi.example", version=1, tells_capacity=True))
    room = StorageCapacity(uid="r", namespace="csi", name="r", version=1, storage_class="disks", topology=at("n1"))
    simulated.see(replace(room, largest=largest), *volumes, claim("one"), claim("two", size=20))
    simulated.see(mine("p", volume_claims=("two", "one")))
    decided = simulated.run_once()
    assert {item.node for item in decided if isinstance(item, BindVolume | SelectNode)} == ({"n1"} if wanted else set())


def gang_of_two(*volumes: PersistentVolume) -> Disks:
    simulated = Disks()
    simulated.see(gang("g", 2), claim("one"), claim("two"), *volumes)
    simulated.see(*(mine(name, group="g", volume_claims=(name,)) for name in ("one", "two")))
    return simulated


def test_two_pods_of_a_gang_never_get_one_volume() -> None:
    assert gang_of_two(disk("a", "n1")).chosen() == []
    simulated = gang_of_two(disk("a", "n1"), disk("b", "n1"))
    assert sorted(volume for _unused, volume in simulated.chosen()) == ["a", "b"]


def test_a_gang_waits_until_every_claim_of_its_members_is_bound() -> None:
    a, b = disk("a", "n1"), disk("b", "n2")
    simulated = gang_of_two(a, b)
    chosen = dict(simulated.chosen())
    volumes = {"a": a, "b": b}
    simulated.bound(volumes[chosen["one"]], "one")
    simulated.run()
    assert simulated.placements() == {}
    simulated.bound(volumes[chosen["two"]], "two")
    simulated.run()
    assert sorted(simulated.placements()) == ["one", "two"]


def test_a_gang_of_which_one_volume_went_to_another_leaves_no_member_behind() -> None:
    simulated = gang_of_two(disk("a", "n1"), disk("b", "n2"))
    (lost,) = [volume for name, volume in simulated.chosen() if name == "two"]
    simulated.see(disk(lost, claim=("elsewhere", "x"), claim_uid="claim-x", available=False))
    simulated.run()
    pods = simulated.scheduler.cluster.pods
    assert simulated.placements() == {}
    assert not any(pods.at_node(name) for name in ("n1", "n2", "n3"))
    # What was spoken for can be had again.
    (kept,) = {"a", "b"} - {lost}
    simulated.see(claim("three"), mine("alone", volume_claims=("three",)))
    assert ("three", kept) in simulated.chosen()


def test_a_race_that_was_lost_is_told_and_another_volume_chosen() -> None:
    simulated = Disks()
    simulated.see(disk("a", "n1"), disk("b", "n2", size=20), claim(), mine("p", volume_claims=("data",)))
    assert simulated.chosen() == [("data", "a")]
    simulated.see(disk("a", "n1", claim=("elsewhere", "x"), claim_uid="claim-x", available=False))
    simulated.scheduler.apply(BindFailed("uid-p", "n1", "volume a: Conflict"))
    chosen: list[tuple[str, str]] = []
    for _unused in range(20):
        simulated.now += 0.5
        chosen += simulated.chosen()
    assert chosen == [("data", "b")]


def test_a_claim_that_is_made_again_while_it_waits_gets_a_volume_as_a_new_one() -> None:
    simulated = Disks()
    simulated.see(disk("a", "n1"), claim(), mine("p", volume_claims=("data",)))
    assert simulated.chosen() == [("data", "a")]
    simulated.gone(claim())
    simulated.see(replace(claim(), uid="another"))
    given = []
    for _unused in range(20):
        simulated.now += 0.5
        given += [action.claim_uid for action in simulated.run() if isinstance(action, BindVolume)]
    assert given == ["another"]


def test_pods_that_share_a_claim_share_its_volume() -> None:
    simulated = Disks()
    simulated.see(disk("a", "n2"), disk("b", "n1", size=20), claim())
    simulated.see(gang("g", 2), *(mine(name, group="g", volume_claims=("data",)) for name in ("p", "q")))
    decided = [action for action in simulated.run_once() if isinstance(action, BindVolume)]
    assert [(action.volume, action.node) for action in decided] == [("b", "n1")] * 2


def test_pods_that_share_a_claim_go_to_the_node_for_which_its_volume_is_to_be_made() -> None:
    simulated = Disks()
    simulated.see(disks("csi.example"), claim())
    simulated.see(gang("g", 2), *(mine(name, group="g", volume_claims=("data",)) for name in ("p", "q")))
    asked = [action.node for action in simulated.run_once() if isinstance(action, SelectNode)]
    assert asked == ["n1", "n1"]


def test_a_class_that_can_make_volumes_makes_one_where_none_is_left() -> None:
    simulated = Disks()
    simulated.see(disks("csi.example"), disk("a", "n1"), claim("one"), claim("two"))
    simulated.see(
        *(mine(name, volume_claims=(name,), selector=NodeSelector((("host", "n1"),))) for name in ("one", "two"))
    )
    decided = simulated.run_once()
    given = [action.claim for action in decided if isinstance(action, BindVolume)]
    made = [action.name for action in decided if isinstance(action, SelectNode)]
    assert sorted([*given, *made]) == ["one", "two"]
    assert len(given) == 1
