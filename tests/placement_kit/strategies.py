# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random clusters for hypothesis: few names, labels and values, so that rules meet each other often."""

from hypothesis import strategies as st
from placement.model.device_slices import Device, DeviceSlice
from placement.model.objects.node import Node
from placement.model.objects.pod import HostPort, Phase, Pod, PodSpec
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher, TopologySpread
from placement.model.rules.selector import (
    Effect,
    LabelPairs,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
)

NODE_NAMES = ("n1", "n2", "n3", "n4", "n5")
NAMESPACES = ("team", "other")
NAMESPACE_LABELS = {"team": {"kind": "batch"}, "other": {}}
TOPOLOGY_KEYS = ("zone", "rack")


def _pairs(keys: tuple[str, ...], values: tuple[str, ...]) -> st.SearchStrategy[LabelPairs]:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(values)).map(lambda d: tuple(sorted(d.items())))


node_labels = _pairs(("zone", "rack", "cores"), ("a", "b", "8", ""))
# The last is a label that numbers pods, and that few rules read.
pod_labels = _pairs(("app", "rev", "index"), ("x", "y"))

taints = st.builds(Taint, st.sampled_from("tu"), st.sampled_from(["", "v"]), st.sampled_from(list(Effect)))
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "t", "u", "node.kubernetes.io/unschedulable"]),
    operator=st.sampled_from(["", "Equal", "Exists"]),
    value=st.sampled_from(["", "v"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
)

node_requirements = st.builds(
    Requirement,
    st.sampled_from(("zone", "rack", "cores", "none")),
    st.sampled_from(list(Operator)),
    st.lists(st.sampled_from(["a", "b", "7", "8", ""]), max_size=2).map(tuple),
)
name_fields = st.builds(
    Requirement,
    st.sampled_from(["metadata.name", "metadata.name", "metadata.uid"]),
    st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS]),
    st.lists(st.sampled_from([*NODE_NAMES, ""]), max_size=2).map(tuple),
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(node_requirements, max_size=2).map(tuple),
    st.lists(name_fields, max_size=1).map(tuple),
)
node_selectors = st.builds(
    NodeSelector,
    st.just(()) | _pairs(("zone", "none"), ("a", "b")),
    st.none() | st.lists(terms, max_size=2).map(tuple),
)

label_selectors = st.none() | st.builds(
    LabelSelector,
    st.lists(
        st.one_of(
            st.builds(Requirement, st.sampled_from(("app", "rev")), st.just(Operator.IN), st.just(("x",))),
            st.builds(Requirement, st.sampled_from(("app", "rev")), st.just(Operator.NOT_IN), st.just(("y",))),
            st.builds(Requirement, st.just("app"), st.just(Operator.EXISTS)),
            st.builds(Requirement, st.just("index"), st.just(Operator.IN), st.just(("x",))),
        ),
        max_size=2,
    ).map(tuple),
)
matchers = st.builds(
    PodMatcher,
    st.frozensets(st.sampled_from(NAMESPACES), max_size=2),
    label_selectors,
    st.sampled_from([None, None, LabelSelector(), LabelSelector((Requirement("kind", Operator.EXISTS),))]),
)
affinity_terms = st.builds(PodAffinityTerm, matchers, st.sampled_from((*TOPOLOGY_KEYS, "none")))
spreads = st.builds(
    TopologySpread,
    topology_key=st.sampled_from(TOPOLOGY_KEYS),
    matcher=st.builds(PodMatcher, st.just(frozenset({"team"})), label_selectors),
    max_skew=st.integers(1, 2),
    min_domains=st.integers(1, 3),
    hard=st.booleans(),
    honor_node_affinity=st.booleans(),
    honor_node_taints=st.booleans(),
)
host_ports = st.builds(
    HostPort, st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]), st.just("TCP"), st.sampled_from([80, 81])
)
requests = st.sampled_from(
    [
        (),
        (("cpu", 500),),
        (("cpu", 1000), ("memory", 1)),
        (("cpu", 3000),),
        (("example.com/gpu", 1),),
        (("nobody/has-it", 1),),
    ]
)

specs = st.builds(
    PodSpec,
    selector=st.just(NodeSelector()) | node_selectors,
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    affinity=st.lists(affinity_terms, max_size=2).map(tuple),
    anti_affinity=st.lists(affinity_terms, max_size=2).map(tuple),
    spread=st.lists(spreads, max_size=2).map(tuple),
    host_ports=st.lists(host_ports, max_size=1).map(tuple),
)


# A few whole specs, for tests that are about something else and need many pods.
few_specs = st.sampled_from(
    [
        PodSpec(),
        PodSpec(host_ports=(HostPort("0.0.0.0", "TCP", 80),)),
        PodSpec(selector=NodeSelector((("zone", "a"),))),
        PodSpec(anti_affinity=(PodAffinityTerm(PodMatcher(frozenset({"team"}), LabelSelector()), "zone"),)),
    ]
)


# Built once: Hypothesis looks through every new strategy, which takes longer than to draw from it.
_rarely = st.sampled_from([False, False, True])
_offers = st.sampled_from(
    [
        (("cpu", 4000), ("memory", 8), ("pods", 10)),
        (("cpu", 4000), ("example.com/gpu", 2), ("memory", 8), ("pods", 10)),
        (("cpu", 1000), ("pods", 1)),
        (),
    ]
)
_taints_of_node = st.just(()) | st.lists(taints, max_size=2).map(tuple)
_holders = st.sampled_from(["", "", "", " ", "slurm/7"])
_namespaces = st.sampled_from(NAMESPACES)
_places = st.sampled_from(["", *NODE_NAMES])
_nominations = st.sampled_from(["", "", *NODE_NAMES])
_phases = st.sampled_from([Phase.PENDING, Phase.RUNNING, Phase.RUNNING, Phase.FAILED])
_names_of_nodes = st.lists(st.sampled_from(NODE_NAMES), unique=True)
_nodes_of_slices = st.sampled_from(("", *NODE_NAMES[:2]))
_pools = st.sampled_from("pq")
_one_or_two = st.integers(1, 2)


def _devices_on(nodes: st.SearchStrategy[str]) -> st.SearchStrategy[list[Device]]:
    return st.lists(st.builds(Device, st.sampled_from("ab"), numa=st.integers(-1, 1), node=nodes), max_size=2)


_devices_of_a_node, _devices_of_many = _devices_on(st.just("")), _devices_on(_nodes_of_slices)


@st.composite
def nodes(draw: st.DrawFn, name: str, *, uid: str = "", version: int = 1) -> Node:
    """A node of this name."""
    offered = draw(_offers)
    return Node(
        uid=uid or f"uid-{name}",
        name=name,
        version=version,
        labels=draw(node_labels),
        taints=draw(_taints_of_node),
        unschedulable=draw(_rarely),
        allocatable=offered,
        held_by=draw(_holders),
    )


@st.composite
def pods(
    draw: st.DrawFn,
    name: str,
    *,
    uid: str = "",
    version: int = 1,
    spec: st.SearchStrategy[PodSpec] = specs,
) -> Pod:
    """A pod of this name, on a node or not."""
    return Pod(
        uid=uid or f"uid-{name}",
        namespace=draw(_namespaces) if not uid else "team",
        name=name,
        version=version,
        spec=draw(spec),
        labels=draw(pod_labels),
        request=draw(requests),
        node=draw(_places),
        nominated_node=draw(_nominations),
        phase=draw(_phases),
        terminating=draw(_rarely),
        daemon=draw(_rarely),
    )


@st.composite
def clusters(draw: st.DrawFn, *, max_pods: int = 8) -> tuple[list[Node], list[Pod]]:
    """A handful of nodes and pods."""
    names = draw(_names_of_nodes)
    return (
        [draw(nodes(name)) for name in names],
        [draw(pods(f"p{index}")) for index in range(draw(st.integers(0, max_pods)))],
    )


@st.composite
def slices(draw: st.DrawFn, name: str, *, uid: str, version: int) -> DeviceSlice:
    """A slice of one of few pools, whole or not, of one node or with devices of several."""
    node = draw(_nodes_of_slices)
    return DeviceSlice(
        uid=uid,
        name=name,
        version=version,
        driver="gpu.example.com",
        pool=draw(_pools),
        generation=draw(_one_or_two),
        of=draw(_one_or_two),
        node=node,
        devices=tuple(draw(_devices_of_a_node if node else _devices_of_many)),
    )
