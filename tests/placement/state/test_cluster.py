# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state after events: charges, promises, the way back, and what cannot be read."""

import pytest
from placement.model.messages.event import Deleted, Relisted, Unreadable, Upserted
from placement.model.messages.refusal import Refusal
from placement.model.objects.node import Node
from placement.model.objects.pod import HostPort, Phase, Pod, PodSpec
from placement.model.objects.workload import Namespace, PriorityClass
from placement.model.rules.selector import ANY_NODE, Effect, NodeSelector, Taint
from placement.policy.framework.feasibility import Feasibility
from placement.policy.queues.reservations import Reservations
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import UNREADABLE
from placement.state.nodes.node_filters import Mask
from placement_kit.builders import amounts, node, pairs, pod
from placement_kit.summary import summary


def usable(cluster: Cluster, selector: NodeSelector = ANY_NODE) -> Mask:
    return Feasibility(cluster, Reservations(cluster.columns)).mask(PodSpec(selector=selector), ())


def cluster_of(*objects: Node | Pod) -> Cluster:
    cluster = Cluster()
    for item in objects:
        cluster.apply(Upserted(item))
    return cluster


def free(cluster: Cluster, name: str = "n1", *, array: str = "free") -> dict[str, int]:
    found: dict[str, int] = summary(cluster)["nodes"][name][array]
    return found


FULL = {"cpu": 4000, "memory": 8 * 2**30, "pods": 10}
LESS_ONE = {**FULL, "cpu": 3000, "pods": 9}


def test_a_bound_pod_is_charged_and_gives_back_when_it_goes() -> None:
    cluster = cluster_of(node(), pod(node="n1"))
    assert free(cluster) == LESS_ONE
    cluster.apply(Deleted(Pod, "uid-p1", 2))
    assert free(cluster) == FULL


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_an_ended_pod_gives_back_before_it_goes(phase: Phase) -> None:
    cluster = cluster_of(node(), pod(node="n1"), pod(node="n1", phase=phase, version=2))
    assert free(cluster) == FULL


def test_a_terminating_pod_is_charged_until_it_is_gone_and_counts_as_releasing() -> None:
    cluster = cluster_of(node(), pod(node="n1", terminating=True))
    assert free(cluster) == LESS_ONE
    assert free(cluster, array="releasing") == {"cpu": 1000, "pods": 1}
    assert free(cluster, array="unpromised") == LESS_ONE


def test_a_pod_on_an_unknown_node_waits_for_it_and_is_charged_whenever_the_node_is_there() -> None:
    cluster = cluster_of(pod(node="n1"))
    assert cluster.pods.waiting() == {"n1": ["uid-p1"]}
    cluster.apply(Upserted(node()))
    assert free(cluster) == LESS_ONE
    cluster.apply(Deleted(Node, "uid-n1", 5))
    assert cluster.pods.waiting() == {"n1": ["uid-p1"]}
    cluster.apply(Upserted(node(uid="again", version=6)))
    assert free(cluster) == LESS_ONE


def test_a_pod_that_was_resized_or_moved_in_the_truth_is_charged_anew() -> None:
    cluster = cluster_of(node(), node("n2"), pod(node="n1"))
    cluster.apply(Upserted(pod(node="n1", version=2, request=amounts(cpu="3"))))
    assert free(cluster)["cpu"] == 1000
    cluster.apply(Upserted(pod(node="n2", version=3)))
    assert free(cluster) == FULL
    assert free(cluster, "n2") == LESS_ONE


def test_an_overfull_node_has_less_than_nothing_and_no_exception() -> None:
    cluster = cluster_of(node(), *(pod(f"p{i}", node="n1", request=amounts(cpu="3")) for i in range(3)))
    assert free(cluster)["cpu"] == -5000
    cluster.apply(Upserted(node(version=2, allocatable=())))
    assert free(cluster)["cpu"] == -9000


def test_an_older_or_repeated_event_changes_nothing() -> None:
    cluster = cluster_of(node(version=5), pod(node="n1", version=5))
    before = summary(cluster)
    for stale in (
        Upserted(pod(version=4)),
        Upserted(pod(version=5)),
        Upserted(node(version=4, unschedulable=True)),
        Deleted(Pod, "x", 9),
    ):
        cluster.apply(stale)
        assert summary(cluster) == before


def test_a_deleted_pod_does_not_rise_again_from_a_late_event() -> None:
    cluster = cluster_of(node(), pod(node="n1"))
    cluster.apply(Deleted(Pod, "uid-p1", 3))
    cluster.apply(Upserted(pod(node="n1", version=2)))
    assert free(cluster) == FULL


def test_a_deletion_is_final_even_if_its_version_looks_old() -> None:
    cluster = cluster_of(node(), pod(node="n1", version=9))
    cluster.apply(Deleted(Pod, "uid-p1", 3))
    cluster.apply(Upserted(pod(node="n1", version=9)))
    assert free(cluster) == FULL


def test_a_new_pod_of_the_same_name_replaces_the_old_one_whose_deletion_was_missed() -> None:
    cluster = cluster_of(node(), pod(node="n1", uid="old"), pod(node="n1", uid="new", version=2))
    assert list(cluster.pods.by_uid) == ["new"]
    assert free(cluster) == LESS_ONE
    # And the old one's last words come too late.
    cluster.apply(Upserted(pod(node="n1", uid="old", version=1)))
    cluster.apply(Deleted(Pod, "old", 2))
    assert list(cluster.pods.by_uid) == ["new"]


def test_a_node_made_again_under_its_name_replaces_the_old_one_and_old_news_of_that_is_ignored() -> None:
    cluster = cluster_of(node(uid="old"), pod(node="n1"), node(uid="new", version=2, allocatable=amounts(cpu="2")))
    assert free(cluster) == {"cpu": 1000, "pods": -1}
    cluster.apply(Upserted(node(uid="old", version=1)))
    cluster.apply(Upserted(node(uid="third", version=1)))
    cluster.apply(Deleted(Node, "old", 2))
    assert free(cluster) == {"cpu": 1000, "pods": -1}


def test_the_deleted_are_remembered_in_bounded_memory() -> None:
    cluster = cluster_of(node())
    cluster.apply(Deleted(Pod, "uid-p1", 3))
    for index in range(40_000):
        cluster.apply(Deleted(Pod, f"gone-{index}", index))
    cluster.apply(Upserted(pod("late", uid="gone-39999", node="n1", version=5)))
    assert free(cluster) == FULL


def test_a_refusal_without_identity_changes_nothing() -> None:
    cluster = cluster_of(node())
    before = summary(cluster)
    cluster.apply(Unreadable(Pod, Refusal(kind="Pod", field="object", reason="not UTF-8")))
    assert summary(cluster) == before


def test_a_list_removes_what_is_not_in_it_and_keeps_what_is_newer_than_it() -> None:
    cluster = cluster_of(node(), pod("a", node="n1"), pod("b", node="n1", version=9))
    cluster.apply(Relisted(Pod, (pod("c", node="n1", version=4),), 5))
    assert sorted(cluster.pods.by_uid) == ["uid-b", "uid-c"]


def test_a_resource_that_appears_later_is_charged_to_pods_that_already_asked_for_it() -> None:
    gpu_pod = pod(node="n1", request=amounts(cpu="1", gpu="2"))
    cluster = cluster_of(node(), gpu_pod, pod("other", node="n1"))
    assert "example.com/gpu" not in cluster.columns.axis.names
    cluster.apply(Upserted(node(version=2, allocatable=amounts(cpu="4", memory="8Gi", pods="10", gpu="8"))))
    assert free(cluster) == {**FULL, "cpu": 2000, "pods": 8, "example.com/gpu": 6}
    cluster.apply(Deleted(Pod, "uid-p1", 3))
    assert free(cluster)["example.com/gpu"] == 8


def test_a_name_that_only_pods_ask_for_never_gets_a_column() -> None:
    cluster = cluster_of(node(), *(pod(f"p{i}", node="n1", request=((f"evil/{i}", 1),)) for i in range(20)))
    assert len(cluster.columns.axis) == 4


def test_promised_room_is_closed_to_others_unless_leaving_pods_cover_it() -> None:
    cluster = cluster_of(node(), pod("big", node="n1", request=amounts(cpu="3")), pod("next"))
    cluster.pods.promise("uid-next", "n1")
    assert free(cluster, array="nominated") == {"cpu": 1000, "pods": 1}
    assert free(cluster)["cpu"] == 1000
    assert "cpu" not in free(cluster, array="unpromised")
    cluster.pods.evict("uid-big")
    assert free(cluster, array="unpromised")["cpu"] == 1000


def test_a_nomination_in_the_truth_promises_room_until_the_pod_is_bound() -> None:
    cluster = cluster_of(node(), node("n2"), pod(nominated_node="n1"))
    assert free(cluster, array="nominated") == {"cpu": 1000, "pods": 1}
    cluster.apply(Upserted(pod(nominated_node="n1", node="n2", version=2)))
    assert free(cluster, array="nominated") == {}
    assert free(cluster, "n2") == LESS_ONE


def test_an_assumption_survives_news_of_the_unbound_pod_and_ends_where_the_truth_says() -> None:
    cluster = cluster_of(node(), node("n2"), pod())
    cluster.pods.assume("uid-p1", "n1")
    cluster.pods.settle()
    cluster.apply(Upserted(pod(version=2)))
    assert free(cluster) == LESS_ONE
    cluster.apply(Upserted(pod(version=3, node="n2")))
    assert free(cluster) == FULL
    assert free(cluster, "n2") == LESS_ONE


def test_an_assumed_pod_that_ends_or_is_forgotten_gives_back() -> None:
    for end in (lambda c: c.apply(Upserted(pod(version=2, phase=Phase.FAILED))), lambda c: c.pods.forget("uid-p1")):
        cluster = cluster_of(node(), pod())
        cluster.pods.assume("uid-p1", "n1")
        end(cluster)
        assert free(cluster) == FULL


def test_an_assumption_waits_for_its_node_like_a_bound_pod() -> None:
    cluster = cluster_of(node(), pod())
    cluster.pods.assume("uid-p1", "n1")
    cluster.apply(Deleted(Node, "uid-n1", 2))
    cluster.apply(Upserted(node(uid="again", version=3)))
    assert free(cluster) == LESS_ONE


def test_rolling_back_undoes_plans_to_the_mark_and_no_further() -> None:
    cluster = cluster_of(node(), pod("a"), pod("b"), pod("c", node="n1"))
    cluster.pods.assume("uid-a", "n1")
    after_first = summary(cluster)
    mark = cluster.pods.mark()
    cluster.pods.assume("uid-b", "n1")
    cluster.pods.evict("uid-c")
    cluster.pods.promise("uid-b", "n1")
    cluster.pods.forget("uid-a")
    cluster.pods.rollback(mark)
    assert summary(cluster) == after_first
    cluster.pods.rollback(0)
    assert free(cluster) == LESS_ONE


def test_an_unreadable_pod_keeps_its_charge() -> None:
    cluster = cluster_of(node(), pod(node="n1"))
    refused = Refusal(kind="Pod", field="x", reason="y", uid="uid-p1", version=2, node="n1")
    cluster.apply(Unreadable(Pod, refused))
    assert free(cluster) == LESS_ONE
    assert not summary(cluster)["nodes"]["n1"]["unreadable"]


def test_a_node_with_a_pod_that_was_never_readable_is_closed_until_it_is_readable_or_gone() -> None:
    refused = Refusal(kind="Pod", field="x", reason="y", uid="u", version=2, node="n1")
    for end in (Upserted(pod("u", uid="u", node="n1", version=3)), Deleted(Pod, "u", 3), Relisted(Pod, (), 9)):
        # Before or after the node is known.
        for first, second in (
            (Upserted(node()), Unreadable(Pod, refused)),
            (Unreadable(Pod, refused), Upserted(node())),
        ):
            cluster = Cluster()
            cluster.apply(first)
            cluster.apply(second)
            assert summary(cluster)["nodes"]["n1"]["unreadable"]
            assert not usable(cluster).allows.any()
            cluster.apply(end)
            assert not summary(cluster)["nodes"]["n1"]["unreadable"]


def test_a_pod_without_a_readable_version_closes_its_node_even_after_a_list() -> None:
    cluster = cluster_of(node())
    cluster.apply(Relisted(Pod, (), 50))
    cluster.apply(Unreadable(Pod, Refusal(kind="Pod", field="x", reason="y", uid="u", node="n1")))
    assert summary(cluster)["nodes"]["n1"]["unreadable"]


def test_what_was_not_in_the_last_list_and_is_older_stays_gone() -> None:
    cluster = cluster_of(node())
    cluster.apply(Relisted(Pod, (), 50))
    cluster.apply(Upserted(pod(node="n1", version=49)))
    assert free(cluster) == FULL
    cluster.apply(Upserted(pod(node="n1", version=51)))
    assert free(cluster) == LESS_ONE


def test_an_unreadable_node_is_closed_and_keeps_its_pods() -> None:
    cluster = cluster_of(node(), pod(node="n1"))
    cluster.apply(Unreadable(Node, Refusal(kind="Node", field="x", reason="y", uid="uid-n1", name="n1", version=2)))
    assert int(cluster.columns.flags[0]) & UNREADABLE
    assert free(cluster) == LESS_ONE
    cluster.apply(Upserted(node(version=3)))
    assert not int(cluster.columns.flags[0]) & UNREADABLE


def test_a_list_with_an_unreadable_pod_does_not_drop_it() -> None:
    cluster = cluster_of(node(), pod(node="n1"))
    cluster.apply(
        Relisted(Pod, (), 5, (Refusal(kind="Pod", field="x", reason="y", uid="uid-p1", version=4, node="n1"),))
    )
    assert free(cluster) == LESS_ONE


def test_a_kubelets_heartbeat_touches_nothing() -> None:
    cluster = cluster_of(node())
    changes = cluster.columns.changes
    cluster.apply(Upserted(node(version=2, leases="slurm 7")))
    assert cluster.columns.changes == changes
    cluster.apply(Upserted(node(version=3, held_by="slurm/7")))
    assert cluster.columns.changes > changes


def test_a_removed_nodes_row_is_a_tombstone_until_another_node_takes_it() -> None:
    cluster = cluster_of(node("a"), node("b"), node("c"))
    row = cluster.columns.rows["b"]
    cluster.apply(Deleted(Node, "uid-b", 2))
    assert len(cluster.columns) == 2
    assert not cluster.columns.allocatable[:, row].any()
    cluster.apply(Upserted(node("d", labels=pairs(zone="x"))))
    assert cluster.columns.rows["d"] == row
    assert {"a", "c", "d"} == set(cluster.columns.rows)


def test_rows_double_and_everything_stays_where_it_was() -> None:
    nodes = [node(f"n{i}", labels=pairs(zone=f"z{i % 3}")) for i in range(200)]
    cluster = cluster_of(*nodes[:3], pod(node="n1"))
    mask = usable(cluster, NodeSelector(pairs(zone="z1")))
    for item in nodes[3:]:
        cluster.apply(Upserted(item))
    assert free(cluster) == LESS_ONE
    assert mask.allows.sum() == 67
    assert {name for name, row in cluster.columns.rows.items() if mask.allows[row]} == {
        f"n{i}" for i in range(200) if i % 3 == 1
    }


def test_ever_new_taints_do_not_pile_up() -> None:
    cluster = cluster_of(node("kept", taints=(Taint("k", "", Effect.NO_SCHEDULE),)))
    for version in range(1, 5000):
        cluster.apply(Upserted(node(version=version, taints=(Taint("t", str(version), Effect.NO_EXECUTE),))))
    assert len(cluster.columns.taint_sets) <= 4096
    assert not cluster.masks.taints(()).allows[:2].any()


def test_other_objects_are_kept_by_kind_and_a_namespaces_labels_by_name() -> None:
    cluster = Cluster()
    cluster.apply(Upserted(PriorityClass(uid="c", name="high", version=1, value=5)))
    cluster.apply(Upserted(Namespace(uid="n", name="team", version=1)))
    assert {kind.__name__: len(items) for kind, items in cluster.objects.items()} == {
        "PriorityClass": 1,
        "Namespace": 1,
    }
    cluster.apply(Deleted(PriorityClass, "c", 2))
    cluster.apply(Deleted(Namespace, "n", 2))
    assert not any(cluster.objects.values())


def test_ports_are_counted_even_when_two_pods_of_others_share_one() -> None:
    web = HostPort("0.0.0.0", "TCP", 80)
    cluster = cluster_of(node(), *(pod(name, node="n1", host_ports=(web,)) for name in ("a", "b")))
    cluster.apply(Deleted(Pod, "uid-a", 2))
    assert cluster.ports.clash((HostPort("10.0.0.1", "TCP", 80),), 0)
    cluster.apply(Deleted(Pod, "uid-b", 2))
    assert cluster.ports.users() == {}
