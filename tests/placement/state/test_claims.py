# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counts of volumes by node are those of whoever walks through all claims in use."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.event import Deleted, Object, Upserted
from placement.model.objects.pod import Pod
from placement.model.objects.volume import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from placement.state.cluster import Cluster
from placement_kit.builders import node, pod

DRIVERS = ("fast", "slow")
NODES, CLAIMS, VOLUMES, CLASSES = ("n1", "n2"), ("a", "b", "c"), ("v", "w"), ("x", "y")

names = st.sampled_from
OBJECTS: st.SearchStrategy[Object] = st.one_of(
    st.builds(node, names(NODES)),
    st.builds(
        lambda number, on, claims: pod(f"p{number}", node=on, volume_claims=tuple(sorted(claims))),
        st.integers(0, 3),
        names(("", *NODES)),
        st.sets(names(CLAIMS)),
    ),
    st.builds(
        lambda name, volume, made_by: PersistentVolumeClaim(
            uid=name, namespace="team", name=name, version=1, volume=volume, storage_class=made_by
        ),
        names(CLAIMS),
        names(("", *VOLUMES)),
        names(("", *CLASSES)),
    ),
    st.builds(
        lambda name, driver, handle: PersistentVolume(uid=name, name=name, version=1, driver=driver, handle=handle),
        names(VOLUMES),
        names(("", *DRIVERS)),
        names(("", "h", "i")),
    ),
    st.builds(
        lambda name, driver: StorageClass(uid=name, name=name, version=1, provisioner=driver),
        names(CLASSES),
        names(("", *DRIVERS)),
    ),
    st.builds(
        lambda name, limits: CSINode(uid=name, name=name, version=1, limits=tuple(limits.items())),
        names(NODES),
        st.dictionaries(names(DRIVERS), st.integers(0, 3)),
    ),
)


def attachment(cluster: Cluster, name: str) -> tuple[str, str] | None:
    """As documented, without any table."""
    find = cluster.objects.find
    claim = find(PersistentVolumeClaim, name, "team")
    if claim is None:
        return None
    volume = find(PersistentVolume, claim.volume) if claim.volume else None
    if volume is not None:
        return (volume.driver, volume.handle) if volume.driver and volume.handle else None
    made_by = find(StorageClass, claim.storage_class)
    return (made_by.provisioner, f"claim {name}") if made_by is not None and made_by.provisioner else None


def attached(cluster: Cluster, on: str, driver: str) -> set[tuple[str, str]]:
    entries = [entry for entry in cluster.pods.at_node(on) if entry.charged]
    found = {attachment(cluster, name) for entry in entries for name in entry.pod.volume_claims}
    return {item for item in found if item is not None and item[0] == driver}


def check(cluster: Cluster) -> None:
    rows = cluster.columns.rows
    for driver in DRIVERS:
        assert {name: int(cluster.claims.count(driver)[row]) for name, row in rows.items()} == {
            name: len(attached(cluster, name, driver)) for name in rows
        }
    limits = {item.name: dict(item.limits) for item in cluster.objects.every(CSINode)}
    for claim in cluster.objects.every(PersistentVolumeClaim):
        wanted, naive = cluster.claims.attachment(claim), attachment(cluster, claim.name)
        assert (wanted is None) == (naive is None)
        if wanted is None or naive is None:
            continue
        allowed = cluster.claims.attachable([wanted])
        for name, row in rows.items():
            there = attached(cluster, name, naive[0])
            fits = naive in there or len(there) < limits.get(name, {}).get(naive[0], 99)
            assert (allowed is None or bool(allowed[row])) is fits


# Something is in use from the beginning, for most of what can come is of no concern otherwise.
BEGIN: tuple[Object, ...] = (
    *(node(name) for name in NODES),
    *(pod(f"p{number}", node="n1", volume_claims=CLAIMS) for number in (0, 1)),
    *(
        PersistentVolumeClaim(uid=name, namespace="team", name=name, version=1, volume=volume, storage_class="x")
        for name, volume in zip(CLAIMS, ("v", "w", ""), strict=True)
    ),
    StorageClass(uid="x", name="x", version=1, provisioner="fast"),
    PersistentVolume(uid="v", name="v", version=1, driver="fast", handle="h"),
)


@given(st.lists(st.tuples(OBJECTS, st.sampled_from((True, True, False))), max_size=30))
def test_after_any_history_the_counts_are_the_naive_ones(history: list[tuple[Object, bool]]) -> None:
    cluster = Cluster()
    generation: dict[str, int] = {}
    for version, (item, stays) in enumerate([*((item, True) for item in BEGIN), *history], 1):
        # Whoever is deleted does not come back; a namesake may.
        key = f"{type(item).__name__}-{item.uid}"
        uid = f"{key}-{generation.get(key, 0)}"
        if stays:
            cluster.apply(Upserted(replace(item, uid=uid, version=version)))
        else:
            cluster.apply(Deleted(type(item), uid, version))
            generation[key] = generation.get(key, 0) + 1
        check(cluster)


def moved(cluster: Cluster, do: Callable[[], None]) -> int:
    """The count on n1 after a tentative move, which is taken back."""
    mark = cluster.pods.mark()
    do()
    number = int(cluster.claims.count("fast")[cluster.columns.rows["n1"]])
    cluster.pods.rollback(mark)
    return number


def test_a_tentative_move_counts_until_it_is_taken_back() -> None:
    cluster = Cluster()
    made_by = StorageClass(uid="x", name="x", version=1, provisioner="fast")
    claim = PersistentVolumeClaim(uid="a", namespace="team", name="a", version=2, storage_class="x")
    for item in (node("n1"), made_by, claim, pod("p", volume_claims=("a",))):
        cluster.apply(Upserted(item))
    assert isinstance(cluster.pods.by_uid["uid-p"].pod, Pod)
    assert moved(cluster, lambda: cluster.pods.assume("uid-p", "n1")) == 1
    assert moved(cluster, lambda: None) == 0


def test_of_pods_that_share_a_claim_and_mean_different_volumes_the_last_holds_and_none_keeps_its_own() -> None:
    claim = PersistentVolumeClaim(uid="a", namespace="team", name="a", version=1)
    cluster = Cluster()
    for item in (node("n1"), node("n2"), claim, *(pod(name, volume_claims=("a",)) for name in ("p", "q"))):
        cluster.apply(Upserted(item))
    meant = cluster.claims

    def known() -> tuple[str, str, str]:
        return meant.volume_for("a"), meant.owner_of("v"), meant.owner_of("w")

    cluster.pods.assume("uid-p", "n1", (("a", "v"),))
    assert known() == ("v", "a", "")
    before = cluster.pods.mark()
    cluster.pods.assume("uid-q", "n2", (("a", "w"),))
    assert known() == ("w", "a", "a")
    cluster.pods.rollback(before)
    assert known() == ("v", "a", "")
    cluster.pods.assume("uid-q", "n2", (("a", "w"),))
    cluster.pods.forget("uid-p")
    assert known() == ("w", "", "a")
    cluster.pods.forget("uid-q")
    assert known() == ("", "", "")
