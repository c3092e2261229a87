# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The columns allow exactly the nodes that the naive reference allows, one by one."""

from hypothesis import given
from hypothesis import strategies as st
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.objects.workload import Namespace
from placement.model.rules.selector import LabelPairs
from placement.policy.framework.feasibility import Feasibility
from placement.policy.queues.reservations import Reservations
from placement.state.affinity.topology_rules import DomainRules
from placement.state.cluster import Cluster
from placement.state.nodes.score_table import INFEASIBLE, ScoreTable
from placement_kit import strategies
from placement_kit.naive import NaiveCluster
from placement_kit.scorers import least_allocated


class Columns:
    """A state with everything that answers where a pod may go."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        for name, labels in strategies.NAMESPACE_LABELS.items():
            self.label_namespace(name, tuple(labels.items()), 1)
        feasibility = Feasibility(self.cluster, Reservations(self.cluster.columns))
        self.shapes = ScoreTable(self.cluster.columns, self.cluster.masks, feasibility, least_allocated)
        self.rules = DomainRules(self.cluster.columns, self.cluster.masks, self.cluster.labelsets)

    def label_namespace(self, name: str, labels: LabelPairs, version: int) -> None:
        self.cluster.apply(Upserted(Namespace(uid=f"ns-{name}", name=name, version=version, labels=labels)))

    def see(self, *items: Node | Pod) -> None:
        for item in items:
            self.cluster.apply(Upserted(item))

    def fitting(self, pod: Pod) -> set[str]:
        scores = self.shapes.row(pod.spec, pod.request).scores
        return {name for name, row in self.cluster.columns.rows.items() if scores[row] > INFEASIBLE}

    def allowed(self, pod: Pod) -> set[str]:
        labelset = self.cluster.labelsets.obtain(pod.namespace, pod.labels)
        allowed = self.rules.allowed(pod.spec, labelset)
        return {name for name, row in self.cluster.columns.rows.items() if allowed is None or allowed[row]}


def naive_answers(naive: NaiveCluster, pod: Pod) -> tuple[set[str], set[str]]:
    fitting = {node.name for node in naive.nodes.values() if naive.fits_alone(pod, node)}
    return fitting, {node.name for node in naive.nodes.values() if naive.allowed(pod, node)}


def no_promises(pods: list[Pod]) -> list[Pod]:
    """Promised room is not part of the reference."""
    return [pod for pod in pods if pod.node or not pod.nominated_node]


@given(strategies.clusters(), strategies.pods("new"))
def test_a_pod_may_go_where_the_reference_says(cluster: tuple[list[Node], list[Pod]], pod: Pod) -> None:
    nodes, pods = cluster[0], no_promises(cluster[1])
    columns = Columns()
    columns.see(*nodes, *pods)
    naive = NaiveCluster(nodes, pods, strategies.NAMESPACE_LABELS)
    assert (columns.fitting(pod), columns.allowed(pod)) == naive_answers(naive, pod)
    for name, row in columns.cluster.columns.rows.items():
        used = columns.cluster.columns.allocatable[:, row] - columns.cluster.columns.free[:, row]
        named = dict(zip(columns.cluster.columns.axis.names, used.tolist(), strict=True))
        held = naive.used(name)
        assert {key: amount for key, amount in named.items() if amount} == {
            key: amount for key, amount in held.items() if amount and key in named
        }


# Built once: Hypothesis looks through every new strategy, which takes longer than to draw from it.
versions = st.integers(3, 14)
changes = st.sampled_from(["node", "pod", "pod", "delete", "namespace"])
node_names = st.sampled_from(strategies.NODE_NAMES)
numbers = st.integers(0, 4)
namespace_labels = st.sampled_from([(), (("kind", "batch"),)])


@given(st.data())
def test_answers_stay_true_while_nodes_pods_and_namespaces_change(data: st.DataObject) -> None:
    columns = Columns()
    namespaces = {name: dict(labels) for name, labels in strategies.NAMESPACE_LABELS.items()}
    asked = [data.draw(strategies.pods(f"asked{index}")) for index in range(2)]
    known: dict[str, Node | Pod] = {}
    for version in range(2, data.draw(versions)):
        change = data.draw(changes)
        if change == "node":
            item: Node | Pod = data.draw(strategies.nodes(data.draw(node_names), version=version))
        elif change == "pod":
            name = f"p{data.draw(numbers)}"
            item = data.draw(strategies.pods(name, uid=f"uid-{name}", version=version))
        elif change == "delete" and known:
            gone = known.pop(data.draw(st.sampled_from(sorted(known))))
            columns.cluster.apply(Deleted(type(gone), gone.uid, version))
            continue
        else:
            labels = data.draw(namespace_labels)
            namespaces["other"] = dict(labels)
            columns.label_namespace("other", labels, version)
            continue
        columns.see(item)
        known[item.uid] = item
        nodes = [item for item in known.values() if isinstance(item, Node)]
        pods = [item for item in known.values() if isinstance(item, Pod)]
        if no_promises(pods) != pods:
            continue
        for pod in asked:
            naive = NaiveCluster(nodes, pods, namespaces)
            assert (columns.fitting(pod), columns.allowed(pod)) == naive_answers(naive, pod)
