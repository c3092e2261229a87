# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a pod may go, decided node by node and pod by pod, as kube-scheduler's documentation describes it.

Slow and plain on purpose: the columns are tested against it.
"""

from collections.abc import Mapping, Sequence

from placement.model.amounts.quantity import is_extended
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher, TopologySpread
from placement.model.rules.selector import UNSCHEDULABLE_TAINT, Effect, Taint, untolerated

CORDON = Taint(UNSCHEDULABLE_TAINT, "", Effect.NO_SCHEDULE)


class NaiveCluster:
    """Nodes, and the pods on them; namespaces with their labels."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods = [pod for pod in pods if pod.charged and pod.node in self.nodes]
        self._namespaces = namespaces

    def used(self, node: str) -> dict[str, int]:
        """Return what the pods on a node hold; its kubelet ignores extended resources that the node has not got."""
        total: dict[str, int] = {"pods": 0}
        offered = dict(self.nodes[node].allocatable)
        for pod in self.pods:
            if pod.node == node:
                total["pods"] += 1
                for name, amount in pod.request:
                    if name in offered or not is_extended(name):
                        total[name] = total.get(name, 0) + amount
        return total

    def fits_alone(self, pod: Pod, node: Node) -> bool:
        """Whether Node object, room and ports allow the pod."""
        offered, used = dict(node.allocatable), self.used(node.name)
        if used["pods"] + 1 > offered.get("pods", 0):
            return False
        if any(amount > offered.get(name, 0) - used.get(name, 0) for name, amount in pod.request):
            return False
        if any(
            mine.clashes(theirs)
            for other in self.pods
            if other.node == node.name
            for mine in pod.spec.host_ports
            for theirs in other.spec.host_ports
        ):
            return False
        return self.accepts(pod, node)

    def accepts(self, pod: Pod, node: Node) -> bool:
        """Whether the Node object alone allows the pod."""
        if node.held_by.strip() or untolerated(node.taints, pod.spec.tolerations):
            return False
        if node.unschedulable and untolerated([CORDON], pod.spec.tolerations):
            return False
        return pod.spec.selector.matches(node.name, dict(node.labels))

    def allowed(self, pod: Pod, node: Node) -> bool:
        """Whether all rules about other pods allow the pod here."""
        labels = dict(node.labels)
        hard = [constraint for constraint in pod.spec.spread if constraint.hard]
        return (
            self._near(pod, labels)
            and not any(self._same_domain(term, labels, self._about(term.matcher)) for term in pod.spec.anti_affinity)
            and not any(
                self._same_domain(term, labels, [other])
                for other in self.pods
                for term in other.spec.anti_affinity
                if self._matches(term.matcher, pod)
            )
            and all(self._even(pod, constraint, hard, labels) for constraint in hard)
        )

    def _matches(self, matcher: PodMatcher, pod: Pod) -> bool:
        return matcher.matches(pod.namespace, dict(pod.labels), lambda name: self._namespaces.get(name, {}))

    def _about(self, matcher: PodMatcher) -> list[Pod]:
        return [pod for pod in self.pods if self._matches(matcher, pod)]

    def _labels_of(self, pod: Pod) -> dict[str, str]:
        return dict(self.nodes[pod.node].labels)

    def _same_domain(self, term: PodAffinityTerm, labels: Mapping[str, str], pods: Sequence[Pod]) -> bool:
        value = labels.get(term.topology_key)
        return value is not None and any(self._labels_of(pod).get(term.topology_key) == value for pod in pods)

    def _near(self, pod: Pod, labels: Mapping[str, str]) -> bool:
        terms = pod.spec.affinity
        if any(term.topology_key not in labels for term in terms):
            return False
        peers = [other for other in self.pods if all(self._matches(term.matcher, other) for term in terms)]
        if all(self._same_domain(term, labels, peers) for term in terms):
            return True
        nowhere = not any(term.topology_key in self._labels_of(other) for other in peers for term in terms)
        return nowhere and all(self._matches(term.matcher, pod) for term in terms)

    def _even(
        self, pod: Pod, constraint: TopologySpread, hard: Sequence[TopologySpread], labels: Mapping[str, str]
    ) -> bool:
        key, selector = constraint.topology_key, constraint.matcher.selector
        if key not in labels:
            return False
        counts: dict[str, int] = {}
        for node in self.nodes.values():
            found = dict(node.labels)
            if any(other.topology_key not in found for other in hard):
                continue
            if constraint.honor_node_affinity and not pod.spec.selector.matches(node.name, found):
                continue
            if constraint.honor_node_taints and untolerated(node.taints, pod.spec.tolerations):
                continue
            matching = [
                other
                for other in self.pods
                if other.node == node.name and not other.terminating and self._matches(constraint.matcher, other)
            ]
            counted = len(matching) if selector is not None and selector.requirements else 0
            counts[found[key]] = counts.get(found[key], 0) + counted
        least = min(counts.values()) if counts and len(counts) >= constraint.min_domains else 0
        itself = selector is not None and selector.matches(dict(pod.labels))
        return counts.get(labels[key], 0) + itself - least <= constraint.max_skew
