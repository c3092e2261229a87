# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room that enqueue keeps for groups that are in and do not begin: for how long, and what comes then."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from placement.model.messages.action import GroupPhase
from placement.model.objects.pod import HostPort, Pod
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from placement.model.objects.workload import VOLCANO, PodGroup
from placement.model.rules.selector import Effect, Taint, Toleration
from placement.policy.cache.scheduling_queue.scheduling_queue import CLAIM_SECONDS
from placement.policy.jobs.group_key import VOLCANO_SCHEDULER
from placement.policy.plugins.configuration import load
from placement.state.nodes.node_columns import UNKNOWN
from placement_kit.builders import amounts, gang, near, node, pairs, pod, queue, spread
from placement_kit.kube_batch import policy
from placement_kit.racks import RACK, ZONES
from placement_kit.simulated import Simulated


def volcanos(**more: Any) -> Simulated:
    """One node, and enqueue before allocate."""
    configuration = load(policy("enqueue, allocate, backfill"), "test")
    simulated = Simulated(configuration, scheduler_name=VOLCANO_SCHEDULER, **more)
    simulated.see(node("n1"))
    return simulated


def group(name: str, cores: str, *, min_member: int = 1, **more: Any) -> Any:
    """A group of Volcano's that needs so many cores."""
    return gang(name, min_member, dialect=VOLCANO, min_resources=amounts(cpu=cores), **more)


def member(name: str, of: str, cores: str = "1", **more: Any) -> Pod:
    """A pod of a group."""
    names = (("scheduling.k8s.io/group-name", of),)
    return pod(name, scheduler_name=VOLCANO_SCHEDULER, annotations=names, request=amounts(cpu=cores), **more)


def claimed(name: str = "data", mode: str = "ReadWriteOnce") -> tuple[PersistentVolume, PersistentVolumeClaim]:
    """A claim, which is bound to a volume."""
    like: dict[str, Any] = {"version": 1, "storage_class": "disks", "modes": (mode,), "size": 10}
    uid = f"claim-{name}"
    volume = PersistentVolume(
        uid=name, name=name, claim=("team", name), claim_uid=uid, driver="csi.example", handle=name, **like
    )
    return volume, PersistentVolumeClaim(uid=uid, namespace="team", name=name, volume=name, **like)


def unbound() -> PersistentVolumeClaim:
    """The claim `data`, which gets a volume once a node is chosen."""
    like: dict[str, Any] = {"storage_class": "disks", "modes": ("ReadWriteOnce",), "size": 10}
    return PersistentVolumeClaim(uid="claim-data", namespace="team", name="data", version=1, **like)


def disks(provisioner: str = "kubernetes.io/no-provisioner") -> StorageClass:
    """The class of all these claims."""
    return StorageClass(uid="disks", name="disks", version=1, waits=True, provisioner=provisioner)


def phases(simulated: Simulated) -> dict[str, GroupPhase | None]:
    return {name: status.phase for name, status in simulated.groups().items()}


def report(simulated: Simulated) -> None:
    """The API has what groups were told."""
    for name, status in simulated.groups().items():
        known = simulated.scheduler.cluster.objects.find(PodGroup, name, "team")
        assert known is not None
        simulated.see(replace(known, phase=str(status.phase)))


def later(simulated: Simulated, seconds: float) -> None:
    """So much time passes, with a look every ten seconds."""
    end = simulated.now + seconds
    while simulated.now < end:
        simulated.now = min(end, simulated.now + 10.0)
        simulated.run()


def stays_kept(simulated: Simulated, name: str, *, cores: int) -> None:
    """However long the group waits, another that asks for so many cores of what is free is not let in."""
    later(simulated, 3 * CLAIM_SECONDS)
    simulated.see(group("next", str(cores), created="2026-01-02T00:00:00Z"))
    simulated.run()
    told = phases(simulated)
    assert (told["next"], told[name]) == (GroupPhase.PENDING, GroupPhase.INQUEUE)


def test_room_that_is_kept_for_a_group_without_pods_is_free_again_after_a_while() -> None:
    simulated = volcanos()
    simulated.see(group("empty", "4", created="2026-01-01T00:00:00Z"))
    simulated.run()
    report(simulated)
    simulated.see(group("real", "1", created="2026-01-01T00:00:01Z"), member("r0", "real"))
    later(simulated, CLAIM_SECONDS - 10)
    assert not simulated.placements()
    later(simulated, 20)
    assert simulated.placements() == {"r0": "n1"}
    assert phases(simulated) == {"empty": GroupPhase.PENDING, "real": GroupPhase.RUNNING}


def test_a_group_whose_room_has_lapsed_comes_after_all_others_and_is_let_in_when_there_is_room() -> None:
    simulated = volcanos()
    simulated.see(group("empty", "4", created="2026-01-01T00:00:00Z"))
    simulated.run()
    report(simulated)
    simulated.see(*(group(f"real{index}", "4", created=f"2026-01-01T00:00:0{index}Z") for index in (1, 2)))
    later(simulated, CLAIM_SECONDS + 10)
    report(simulated)
    assert phases(simulated)["real1"] == GroupPhase.INQUEUE
    for name in ("real1", "real2"):
        simulated.see(member(name, name, "4"))
        later(simulated, 10)
        report(simulated)
        assert simulated.placements() == {name: "n1"}
        assert phases(simulated)["empty"] == GroupPhase.PENDING
        simulated.finish(name)
        later(simulated, 10)
        report(simulated)
    assert phases(simulated)["empty"] == GroupPhase.INQUEUE


def test_room_is_kept_for_a_group_that_has_its_pods_however_long_they_wait() -> None:
    simulated = volcanos()
    simulated.see(node("n2"), *(pod(f"theirs{name}", node=name, request=amounts(cpu="2")) for name in ("n1", "n2")))
    # Four cores are free, and nowhere all of them.
    simulated.see(group("large", "4"), member("l0", "large", "4"))
    simulated.run()
    report(simulated)
    stays_kept(simulated, "large", cores=1)


def test_room_of_a_gang_that_gets_too_few_pods_lapses_too() -> None:
    simulated = volcanos()
    simulated.see(group("partial", "4", min_member=2), member("p0", "partial", "2"))
    simulated.run()
    report(simulated)
    simulated.see(group("real", "4"), member("r0", "real", "4"))
    later(simulated, CLAIM_SECONDS + 20)
    assert simulated.placements() == {"r0": "n1"}


def test_a_new_policy_without_enqueue_does_not_wait_for_room_to_lapse() -> None:
    simulated = volcanos()
    simulated.see(group("empty", "4"))
    simulated.run()
    simulated.scheduler.configure(
        load(policy("allocate, backfill"), "test"), partial_gang_seconds=120.0, reserve_after=300.0
    )
    simulated.run()
    simulated.now += 2 * CLAIM_SECONDS
    # Nothing has happened, so there is nothing to decide.
    assert not simulated.decide().more
    assert simulated.scheduler.cache.queue.next_lapse == inf


TAINT = Taint("theirs", "", Effect.NO_SCHEDULE)
# What a pod has because of which no node takes it, although all have room.
REFUSED: dict[str, dict[str, Any]] = {
    "a claim that does not exist": {"volume_claims": ("data",)},
    "a claim of a class without volumes": {"volume_claims": ("data",)},
    "company that is nowhere": {"affinity": (near("kubernetes.io/hostname", app="web"),)},
    "spread over a label that no node has": {"spread": (spread("rack", labels={"app": "web"}),)},
    "no toleration": {},
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("crowded", [False, True])
def test_room_lapses_that_is_kept_for_a_group_whose_pods_are_refused_for_another_reason(
    why: str, crowded: bool
) -> None:
    # Nobody is let in for having waited long enough.
    simulated = volcanos(reserve_after=10 * CLAIM_SECONDS)
    tolerating = {"tolerations": (Toleration(key=TAINT.key),)} if why == "no toleration" else {}
    taints = (TAINT,) if tolerating else ()
    simulated.see(node("n1", taints=taints, labels=(("kubernetes.io/hostname", "n1"),)))
    if crowded:
        simulated.see(node("n2", taints=taints), pod("full", node="n2", request=amounts(cpu="4")))
    # Nodes that no pod of ours tolerates do not count as free.
    ours: dict[str, Any] = {"scheduler_name": VOLCANO_SCHEDULER, "request": amounts(memory="1Mi"), **tolerating}
    simulated.see(pod("ours", node="n1", **ours))
    if why == "a claim of a class without volumes":
        simulated.see(disks(), unbound())
    simulated.see(group("stuck", "4", created="2026-01-01T00:00:00Z"), member("p", "stuck", **REFUSED[why]))
    simulated.run()
    report(simulated)
    simulated.see(group("next", "1", created="2026-01-02T00:00:00Z"), member("q", "next", **tolerating))
    later(simulated, CLAIM_SECONDS - 10)
    assert "q" not in simulated.placements()
    later(simulated, 20)
    assert simulated.placements().get("q") == "n1"
    # From now on nothing is kept for the group, which is in as before.
    simulated.see(group("third", "1", created="2026-01-03T00:00:00Z"), member("r", "third", **tolerating))
    simulated.run()
    assert simulated.placements().get("r") == "n1"
    assert phases(simulated)["stuck"] == GroupPhase.INQUEUE


HOST = "kubernetes.io/hostname"
WEB: dict[str, Any] = {"labels": pairs(app="web")}
# What a pod lacks because another pod on the node has it: of the one pod, of the other, and what is there besides.
HELD_BY_OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]]] = {
    "refused by the number of volumes that a node can attach": (
        {"volume_claims": ("data",)},
        {"volume_claims": ("other",)},
        (*claimed(), *claimed("other"), CSINode(uid="csi", name="n1", version=1, limits=(("csi.example", 1),))),
    ),
    "refused by its claim data, which another pod uses (ReadWriteOncePod)": (
        {"volume_claims": ("data",)},
        {"volume_claims": ("data",)},
        claimed(mode="ReadWriteOncePod"),
    ),
    "refused by the room that driver csi.example has for its claim data": (
        {"volume_claims": ("data",)},
        {"volume_claims": ("other",)},
        (
            *(disks("csi.example"), unbound(), *claimed("other")),
            CSIDriver(uid="driver", name="csi.example", version=1, tells_capacity=True),
        ),
    ),
    "refused by its claim data, for which there is no volume now": (
        {"volume_claims": ("data",)},
        {"volume_claims": ("other",)},
        (disks(), unbound(), *claimed("other")),
    ),
    "without free host ports": (
        {"host_ports": (HostPort("0.0.0.0", "TCP", 80),)},
        {"host_ports": (HostPort("0.0.0.0", "TCP", 80),)},
        (),
    ),
    "refused by pod anti-affinity": ({"anti_affinity": (near(HOST, app="web"),)}, WEB, ()),
    "refused by anti-affinity of other pods": (WEB, {"anti_affinity": (near(HOST, app="web"),)}, ()),
    "refused by topology spread": (
        WEB | {"spread": (spread(HOST, labels={"app": "web"}, min_domains=2),)},
        WEB,
        (),
    ),
}


@pytest.mark.parametrize("why", HELD_BY_OTHERS)
def test_room_is_kept_for_a_group_that_lacks_what_another_pod_has(why: str) -> None:
    wish, theirs, there = HELD_BY_OTHERS[why]
    simulated = volcanos()
    simulated.see(node("n1", labels=((HOST, "n1"),)), *there)
    simulated.see(pod("other", node="n1", request=amounts(memory="1Mi"), **theirs))
    simulated.see(group("waits", "4", created="2026-01-01T00:00:00Z"), member("p", "waits", "4", **wish))
    simulated.run()
    report(simulated)
    assert simulated.conditions()["p"] == f"0/1 nodes are available: 1 {why}"
    stays_kept(simulated, "waits", cores=1)


def test_room_is_kept_for_a_group_that_waits_for_room_within_one_rack() -> None:
    simulated = volcanos(topology=ZONES)
    simulated.gone(node("n1"))
    for name, rack in (("a1", "r1"), ("a2", "r1"), ("b1", "r2"), ("b2", "r2")):
        simulated.see(node(name, labels=(("example.com/rack", rack), ("zone", "a"))))
        simulated.see(pod(f"theirs-{name}", node=name, request=amounts(cpu="2")))
    # Each node has room for one of the three, and each rack for two.
    members = (member(f"p{index}", "near", "2") for index in range(3))
    simulated.see(group("near", "6", min_member=3, topology=RACK, created="2026-01-01T00:00:00Z"), *members)
    simulated.run()
    report(simulated)
    assert "4 would do alone, but not for all that must be together" in simulated.conditions()["p0"]
    stays_kept(simulated, "near", cores=3)


def test_room_is_kept_for_a_group_that_a_limit_of_its_queue_keeps_away() -> None:
    simulated = volcanos()
    simulated.see(queue("small", capability=amounts(cpu="2")))
    simulated.see(group("limited", "2", queue="small", created="2026-01-01T00:00:00Z"))
    simulated.run()
    report(simulated)
    # Another has the queue's cores before the pods come.
    simulated.see(gang("other", 1, dialect=VOLCANO, queue="small", phase="Inqueue"), member("o", "other"))
    simulated.run()
    simulated.see(member("p", "limited", "2"))
    simulated.run()
    assert phases(simulated)["limited"] == GroupPhase.INQUEUE
    assert "o" in simulated.placements()
    stays_kept(simulated, "limited", cores=2)


def test_room_is_kept_for_a_group_behind_the_head_of_its_queue() -> None:
    simulated = volcanos()
    ours: dict[str, Any] = {"scheduler_name": VOLCANO_SCHEDULER}
    simulated.see(pod("runs", node="n1", request=amounts(cpu="2"), **ours))
    simulated.see(pod("head", request=amounts(cpu="4"), priority=1, **ours))
    later(simulated, simulated.scheduler.session.reservations.reserve_after + 10)
    simulated.see(group("behind", "2", created="2026-01-01T00:00:00Z"), member("p", "behind", "2"))
    simulated.run()
    report(simulated)
    assert simulated.conditions()["p"].endswith("1 kept for a job that comes before")
    stays_kept(simulated, "behind", cores=2)


def test_room_is_kept_for_a_group_while_it_is_not_known_whether_batch_jobs_have_the_nodes() -> None:
    simulated = volcanos()
    simulated.see(group("waiting", "4", created="2026-01-01T00:00:00Z"))
    simulated.run()
    report(simulated)
    simulated.scheduler.cluster.close("n1", UNKNOWN, closed=True)
    simulated.see(member("p", "waiting", "4"))
    simulated.run()
    assert simulated.conditions()["p"].endswith("1 of which it is not known whether batch jobs have them")
    stays_kept(simulated, "waiting", cores=1)


def without_kept_room() -> Simulated:
    """A group of four cores waits for a claim for so long that nothing is kept for it; another runs on one core."""
    simulated = volcanos(reserve_after=10 * CLAIM_SECONDS)
    lost = member("p", "stuck", "4", volume_claims=("data",))
    simulated.see(group("stuck", "4", created="2026-01-01T00:00:00Z"), lost)
    simulated.run()
    simulated.see(group("next", "1", created="2026-01-02T00:00:00Z"), member("q", "next"))
    later(simulated, CLAIM_SECONDS + 10)
    assert simulated.placements() == {"q": "n1"}
    return simulated


def test_a_group_for_which_nothing_is_kept_any_more_begins_when_it_can() -> None:
    simulated = without_kept_room()
    simulated.see(node("n2"), *claimed())
    simulated.run()
    assert simulated.placements() == {"p": "n2", "q": "n1"}
    assert phases(simulated)["stuck"] == GroupPhase.RUNNING


def test_room_is_kept_again_once_a_group_waits_for_room() -> None:
    simulated = without_kept_room()
    simulated.see(*claimed())
    simulated.run()
    simulated.see(group("third", "1", created="2026-01-03T00:00:00Z"), member("r", "third"))
    later(simulated, CLAIM_SECONDS - 10)
    assert simulated.placements() == {"q": "n1"}
    simulated.finish("q")
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_a_group_for_which_nothing_is_kept_waits_behind_the_others_once_its_pods_are_gone() -> None:
    simulated = without_kept_room()
    simulated.gone(simulated.named("p"))
    later(simulated, CLAIM_SECONDS - 10)
    assert phases(simulated)["stuck"] == GroupPhase.INQUEUE
    later(simulated, 20)
    assert phases(simulated)["stuck"] == GroupPhase.PENDING


def test_nothing_is_decided_for_a_group_for_which_nothing_is_kept() -> None:
    simulated = without_kept_room()
    simulated.run()
    simulated.now += 1.0
    before = simulated.scheduler.session.slice
    assert not simulated.decide().more
    assert simulated.scheduler.session.slice == before + 1
