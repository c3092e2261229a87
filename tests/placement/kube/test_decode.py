# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""API JSON becomes records or refusals that name the field, and never an exception."""

import itertools
import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement.kube.decode.decoder import Bookmark, Decoder, Page, WatchFailed, relisted
from placement.model.amounts.quantity import MAX_AMOUNT
from placement.model.device_slices import DeviceSlice
from placement.model.messages.event import Deleted, Relisted, Unreadable, Upserted
from placement.model.messages.refusal import Refusal
from placement.model.node_zones import NodeZones, NumaNode
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.node import Node
from placement.model.objects.pod import JOB_TAG, HostPort, Phase, Pod
from placement.model.objects.volume import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageCapacity
from placement.model.objects.workload import Namespace, PriorityClass
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher, TopologySpread
from placement.model.rules.selector import (
    Effect,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
)
from placement.policy.jobs.group_key import GANG_NAMES
from placement.shared.victims import MIRROR
from placement_kit.decoded import Json, accepted, decode, meta, pod

ALL_KINDS = (
    *(Pod, Node, Namespace, PriorityClass, PersistentVolume, PersistentVolumeClaim, CSINode, CSIDriver),
    StorageCapacity,
    NodeZones,
    DeviceSlice,
)


OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": True}


def owned(*owners: Json) -> Json:
    return {"ownerReferences": list(owners)}


DAEMON = owned(OWNER)


@pytest.mark.parametrize(("deadline", "started"), [(60, "2026-01-01T00:00:07Z"), (None, "")])
def test_when_a_pod_has_started_is_read_if_its_end_follows_from_that(deadline: int | None, started: str) -> None:
    status = {"phase": "Running", "startTime": "2026-01-01T00:00:07Z"}
    read = accepted(pod(status=status, **({"activeDeadlineSeconds": deadline} if deadline else {})))
    assert isinstance(read, Pod)
    assert (read.spec.deadline, read.started) == (deadline, started)


@pytest.mark.parametrize(("grace", "longest"), [(86_400, 86_460), (None, 90), (1, 90)])
def test_the_longest_that_a_pod_takes_has_its_grace_in_it(grace: int | None, longest: int) -> None:
    read = accepted(pod(activeDeadlineSeconds=60, terminationGracePeriodSeconds=grace))
    assert isinstance(read, Pod)
    assert read.spec.longest == longest


def test_a_pod_is_read_with_identity_place_and_request() -> None:
    seen = accepted(
        pod(
            metadata={
                "labels": {"app": "x"},
                "annotations": {"scheduling.k8s.io/group-name": "g", "other": "dropped", JOB_TAG: "t" * 100_000},
                **DAEMON,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z",
            },
            status={"phase": "Running", "nominatedNodeName": "n2"},
            nodeName="n1",
            schedulerName="ours",
            priority=5,
            priorityClassName="high",
            preemptionPolicy="Never",
            schedulingGates=[{"name": "wait"}],
            schedulingGroup={"podGroupName": "gang"},
            containers=[{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
            initContainers=[{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}}],
            overhead={"cpu": 1},
        )
    )
    assert (seen.uid, seen.namespace, seen.name, seen.version) == ("u1", "team", "a", 7)
    assert (seen.node, seen.nominated_node, seen.phase) == ("n1", "n2", Phase.RUNNING)
    assert (seen.terminating, seen.gated, seen.daemon, seen.mirror) == (True, True, False, False)
    assert (seen.owner, seen.scheduling_group, seen.created) == ("ds", "gang", "2026-01-01T00:00:00Z")
    assert seen.labels == (("app", "x"),)
    assert (seen.annotations, seen.tag) == ((("scheduling.k8s.io/group-name", "g"),), "t" * 64)
    assert seen.request == (("cpu", 1750), ("memory", 2**30))
    assert (seen.spec.scheduler_name, seen.spec.priority, seen.spec.priority_class) == ("ours", 5, "high")
    assert seen.spec.preempts is False
    assert seen.charged


@pytest.mark.parametrize(
    ("metadata", "daemon", "mirror"),
    [
        (DAEMON, True, False),
        # The collector deletes no pod with an owner that it cannot look up: the look-up ends in an error for ever.
        (owned({**OWNER, "apiVersion": "no.such/v1"}), False, False),
        (owned({**OWNER, "apiVersion": "apps/v9"}), False, False),
        (owned({**OWNER, "name": "%zz"}), False, False),
        (owned({**OWNER, "name": "../../../../../../readyz"}), False, False),
        (owned({**OWNER, "name": "a" * 1_000_000}), False, False),
        (owned(OWNER, {"apiVersion": "no.such/v1", "kind": "Thing", "name": "t", "uid": "t"}), False, False),
        (owned({**OWNER, "controller": None}), False, False),
        (owned({**OWNER, "kind": "ReplicaSet"}), False, False),
        # The garbage collector deletes a pod of a DaemonSet that does not exist, whatever its own grace is.
        ({**DAEMON, "deletionTimestamp": "2026-01-02T00:00:00Z"}, False, False),
        # No kubelet runs a pod that has the annotation, whatever its value is.
        ({"annotations": {MIRROR: "0123456789abcdef" * 2}}, False, True),
        ({"annotations": {MIRROR: ""}}, False, True),
        ({"annotations": {"kubernetes.io/config.hash": "0123456789abcdef" * 2}}, False, False),
    ],
)
def test_a_pod_of_a_daemon_set_and_a_mirror_are_known_as_the_api_knows_them(
    metadata: Json, daemon: bool, mirror: bool
) -> None:
    seen = accepted(pod(metadata=metadata, nodeName="n1"))
    assert isinstance(seen, Pod)
    assert (seen.daemon, seen.mirror) == (daemon, mirror)


def test_an_ended_pod_holds_nothing() -> None:
    assert not accepted(pod(status={"phase": "Succeeded"}, nodeName="n1")).charged
    assert not accepted(pod()).charged


@pytest.mark.parametrize(
    ("phase", "reason", "rejected"),
    [
        ("Failed", "OutOfcpu", True),
        ("Failed", "OutOfexample.com/gpu", True),
        ("Failed", "UnexpectedAdmissionError", True),
        ("Failed", "OutOfpods", True),
        ("Failed", "NodeShutdown", True),
        ("Failed", "TopologyAffinityError", True),
        ("Failed", "SMTAlignmentError", True),
        ("Failed", "EmptyPodSharedPoolError", True),
        ("Failed", "VolumeAttachmentLimitExceeded", True),
        ("Failed", "PodFeatureUnsupported", True),
        ("Failed", "SysctlForbidden", True),
        ("Failed", "AppArmor", True),
        ("Failed", "NodeAffinity", True),
        ("Failed", "TaintToleration", True),
        ("Failed", "Evicted", False),
        ("Failed", "Terminated", False),
        ("Failed", "Preempting", False),
        ("Failed", "DeadlineExceeded", False),
        ("Failed", None, False),
        ("Running", "OutOfcpu", False),
    ],
)
def test_a_pod_that_its_kubelet_did_not_take_is_told_from_one_that_failed(
    phase: str, reason: str | None, rejected: bool
) -> None:
    assert accepted(pod(status={"phase": phase, "reason": reason}, nodeName="n1")).rejected is rejected


@pytest.mark.parametrize("reason", ["Evicted", "SomethingNew"])
def test_a_rejection_for_a_reason_that_others_use_too_is_known_by_its_message(reason: str) -> None:
    status = {
        "phase": "Failed",
        "reason": reason,
        "message": "Pod was rejected: The node had condition: [DiskPressure]",
    }
    assert accepted(pod(status=status, nodeName="n1")).rejected
    assert not accepted(pod(status={**status, "message": "The node was low on resource"}, nodeName="n1")).rejected


@pytest.mark.parametrize(
    ("reason", "unsuited"),
    [("OutOfcpu", False), ("NodeShutdown", False), ("TopologyAffinityError", True), ("SysctlForbidden", True)],
)
def test_a_rejection_says_whether_it_is_for_what_the_pod_asks_for(reason: str, unsuited: bool) -> None:
    assert accepted(pod(status={"phase": "Failed", "reason": reason}, nodeName="n1")).unsuited is unsuited


def test_the_rules_of_a_pod_are_read() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    peers = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    seen = accepted(
        pod(
            metadata={"labels": {"rev": "2"}},
            nodeSelector={"disk": "ssd"},
            tolerations=[{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [zone]}, {}]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 3, "preference": {"matchExpressions": [zone]}},
                        {"weight": 0, "preference": {"matchExpressions": [zone]}},
                    ],
                },
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [peers]},
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{**peers, "namespaces": ["other"]}],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 4, "podAffinityTerm": peers}],
                },
            },
            topologySpreadConstraints=[
                {
                    "maxSkew": 2,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                    "matchLabelKeys": ["rev", "absent"],
                    "minDomains": 3,
                    "nodeTaintsPolicy": "Honor",
                }
            ],
        )
    ).spec
    term = NodeSelectorTerm((Requirement("zone", Operator.IN, ("a", "b")),))
    app = LabelSelector((Requirement("app", Operator.IN, ("x",)),))
    peers_here = PodAffinityTerm(PodMatcher(frozenset({"team"}), app), "zone")
    assert seen.selector == NodeSelector((("disk", "ssd"),), (term, NodeSelectorTerm()))
    assert [(item.term, item.weight) for item in seen.preferred_nodes] == [(term, 3)]
    assert seen.tolerations == (Toleration(key="batch", operator="Exists", effect="NoSchedule"),)
    assert seen.affinity == (peers_here,)
    assert seen.anti_affinity == (PodAffinityTerm(PodMatcher(frozenset({"other"}), app), "zone"),)
    assert [(item.term, item.weight) for item in seen.preferred_pods] == [(peers_here, -4)]
    revision = LabelSelector((Requirement("app", Operator.EXISTS), Requirement("rev", Operator.IN, ("2",))))
    assert seen.spread == (
        TopologySpread(
            topology_key="zone",
            matcher=PodMatcher(frozenset({"team"}), revision),
            max_skew=2,
            min_domains=3,
            honor_node_taints=True,
        ),
    )


@pytest.mark.parametrize(
    ("term", "namespaces", "namespace_selector"),
    [
        ({}, {"team"}, None),
        ({"namespaces": ["x", "y"]}, {"x", "y"}, None),
        ({"namespaceSelector": {}}, set(), LabelSelector()),
        ({"namespaces": ["x"], "namespaceSelector": {}}, {"x"}, LabelSelector()),
        ({"namespaces": [], "namespaceSelector": None}, {"team"}, None),
    ],
)
def test_a_pod_term_without_namespaces_means_its_own(
    term: Json, namespaces: set[str], namespace_selector: LabelSelector | None
) -> None:
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}}
    (read,) = accepted(pod(affinity=affinity)).spec.affinity
    # No label selector at all: about no pod.
    assert read.matcher == PodMatcher(frozenset(namespaces), None, namespace_selector)


def test_host_ports_are_those_of_containers_that_keep_running() -> None:
    port = {"hostPort": 80, "containerPort": 80}
    seen = accepted(
        pod(
            containers=[{"name": "c", "ports": [{**port, "hostIP": "10.0.0.1", "protocol": "UDP"}, {"hostPort": 0}]}],
            initContainers=[
                {"name": "i", "ports": [{"hostPort": 81}]},
                {"name": "s", "restartPolicy": "Always", "ports": [port, port]},
            ],
        )
    )
    assert seen.spec.host_ports == (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "UDP", 80))


def test_claims_are_named_directly_or_after_pod_and_ephemeral_volume() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "kube-api-access-x2x4z", "projected": {}},
    ]
    assert accepted(pod(volumes=volumes)).volume_claims == ("mine", "a-scratch")


def test_what_is_not_supported_is_named_and_not_ignored() -> None:
    seen = accepted(pod(resourceClaims=[{"name": "gpu"}], volumes=[{"name": "d", "rbd": {"image": "x"}}]))
    assert len(seen.spec.unsupported) == 2
    assert accepted(pod(resourceClaims=[], volumes=None)).spec.unsupported == ()


RESTART_ALL = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]


RESTARTS, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({"containers": [{"name": "c", "restartPolicyRules": RESTART_ALL}]}, (RESTARTS,)),
        ({"initContainers": [{"name": "c", "restartPolicyRules": RESTART_ALL}]}, (RESTARTS,)),
        ({"hostNetwork": True, "hostUsers": False}, (USERS,)),
        (
            {"containers": [{"name": "c", "restartPolicyRules": RESTART_ALL}], "hostNetwork": True, "hostUsers": False},
            (RESTARTS, USERS),
        ),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostNetwork": False, "hostUsers": False}, ()),
        ({"hostNetwork": True}, ()),
        ({"containers": [{"name": "RestartAllContainers", "restartPolicyRules": [{"action": "Restart"}]}]}, ()),
        ({"containers": [{"name": "c", "restartPolicyRules": None}]}, ()),
    ],
)
def test_a_pod_needs_what_its_node_has_to_declare(spec: Json, features: tuple[str, ...]) -> None:
    seen = accepted(pod(**spec)).spec
    assert (seen.features, seen.unsupported) == (features, ())


@pytest.mark.parametrize("declared", [None, [], [USERS, RESTARTS]])
def test_a_node_declares_what_its_kubelet_can_do(declared: list[str] | None) -> None:
    raw = {
        "metadata": {"uid": "n", "name": "n", "resourceVersion": "1"},
        "status": {"declaredFeatures": declared, "allocatable": {"cpu": "4"}},
    }
    seen = Decoder().decode_object(Node, json.dumps(raw).encode())
    assert isinstance(seen, Node)
    assert seen.declared == frozenset(declared or ())


def test_a_resize_in_place_counts_what_is_promised_and_in_force() -> None:
    wish = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}
    container = {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}
    assert accepted(pod(status={"containerStatuses": [container]}, **wish)).request == (("cpu", 4000),)
    refused = {"type": "PodResizePending", "reason": "Infeasible"}
    assert accepted(pod(status={"containerStatuses": [container], "conditions": [refused]}, **wish)).request == (
        ("cpu", 3000),
    )


def test_pods_of_one_template_share_what_is_equal() -> None:
    decoder = Decoder()
    first, second = (
        decoder.decode_object(
            Pod,
            json.dumps(
                pod(
                    metadata={"uid": uid, "labels": {"app": "x"}},
                    volumes=[{"name": f"kube-api-access-{uid}"}],
                    containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
                )
            ).encode(),
        )
        for uid in ("u1", "u2")
    )
    assert isinstance(first, Pod)
    assert isinstance(second, Pod)
    assert first.spec is second.spec
    assert first.labels is second.labels
    assert first.request is second.request


def test_names_are_shared_and_not_kept_by_the_interpreter() -> None:
    decoder, number = Decoder(), itertools.count()
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": f"owner-{id(decoder)}", "controller": True}
    tag, group = f"tag-{id(decoder)}", f"group-{id(decoder)}"
    more = {"nodeName": f"node-{id(decoder)}", "schedulingGroup": {"podGroupName": group}}

    def read() -> Pod:
        metadata = {"uid": f"u{next(number)}", "annotations": {JOB_TAG: tag}, **owned(owner)}
        found = decoder.decode_object(Pod, json.dumps(pod(metadata=metadata, **more)).encode())
        assert isinstance(found, Pod)
        return found

    first, second = read(), read()
    for name in ("namespace", "owner", "node", "scheduling_group", "tag"):
        assert getattr(first, name) is getattr(second, name), name
    for text in (owner["uid"], more["nodeName"], group, tag):
        # Were it interned, interning an equal string would give that one.
        fresh = "".join(list(str(text)))
        assert sys.intern(fresh) is fresh


def test_null_is_read_as_absent_everywhere() -> None:
    value = pod(
        metadata=dict.fromkeys(["labels", "annotations", "ownerReferences", "creationTimestamp", "deletionTimestamp"]),
        status=dict.fromkeys(
            ["phase", "nominatedNodeName", "conditions", "containerStatuses", "initContainerStatuses", "resources"]
        ),
        **dict.fromkeys(
            ["initContainers", "overhead", "resources", "nodeName", "schedulerName", "priority", "priorityClassName"]
        ),
        **dict.fromkeys(["preemptionPolicy", "schedulingGroup", "volumes", "nodeSelector", "affinity", "containers"]),
        **dict.fromkeys(["tolerations", "topologySpreadConstraints", "schedulingGates", "resourceClaims"]),
    )
    assert accepted(value) == accepted(pod(containers=[]))


REFUSED_PODS = [
    (pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "1x"}}}]), "spec.containers[0].resources"),
    (pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]), "spec.containers[0].resources"),
    (pod(containers=[{"name": "c", "resources": {"requests": {"cpu": True}}}]), "spec.containers[0].resources"),
    (pod(containers=[{"name": "c", "resources": {"requests": {"cpu": 10**400}}}]), "spec.containers[0].resources"),
    (pod(containers=[{"name": "c", "resources": {"requests": {"memory": "1Ei"}}}]), "spec: requests[memory]"),
    (pod(overhead={"cpu": ""}), "spec.overhead[cpu]"),
    (pod(resources={"requests": {"cpu": "NaN"}}), "spec.resources.requests[cpu]"),
    (pod(status={"phase": "Dancing"}), "status.phase"),
    (pod(nodeName=5), "spec.nodeName"),
    (pod(priority="high"), "spec.priority"),
    (pod(containers={"name": "c"}), "spec.containers"),
    (pod(tolerations=[7]), "[0]"),
    (pod(metadata={"labels": ["x"]}), "metadata.labels"),
    (pod(metadata={"resourceVersion": "0x7"}), "metadata.resourceVersion"),
    (pod(metadata={"uid": ""}), "metadata.uid"),
    (
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
                    }
                }
            }
        ),
        "nodeSelectorTerms.matchExpressions",
    ),
    (
        pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "", "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints.topologyKey",
    ),
    (
        pod(
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": "z",
                            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
                        }
                    ]
                }
            }
        ),
        "spec.affinity.podAffinity.labelSelector",
    ),
    (pod(metadata={"namespace": None}), "metadata.namespace"),
    (
        pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
        "spec.topologySpreadConstraints.maxSkew",
    ),
    (
        pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "Maybe"}]),
        "spec.topologySpreadConstraints.whenUnsatisfiable",
    ),
    (
        pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}),
        "spec.affinity.podAffinity.topologyKey",
    ),
    (
        pod(
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}
                    ]
                }
            }
        ),
        "spec.affinity.podAffinity.labelSelector",
    ),
]


@pytest.mark.parametrize(("value", "field"), REFUSED_PODS)
def test_a_bad_pod_is_refused_by_the_name_of_its_field(value: Json, field: str) -> None:
    refusal = decode(Pod, value)
    assert isinstance(refusal, Refusal), refusal
    assert refusal.field.startswith(field), refusal
    assert 0 < len(refusal.reason) < 400


def test_a_refusal_keeps_the_identity_and_the_node_as_far_as_they_can_be_read() -> None:
    bad = pod(nodeName="n1", overhead={"cpu": "x"}, metadata={"labels": 5})
    refusal = decode(Pod, bad)
    assert (refusal.uid, refusal.namespace, refusal.name, refusal.version) == ("u1", "team", "a", 7)
    assert refusal.node == "n1"
    assert str(refusal).startswith("Pod team/a: ")
    assert decode(Pod, {**bad, "status": {"phase": "Failed"}}).node == ""


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xef\xbb\xbf{}",
        b'{"metadata":{"name":"\xff"}}',
        b"[" * 10**5,
        b'{"spec":' * 10**5,
        b'{"metadata":{"a":' + b"[" * 10**5,
        b"\x00",
        b'{"metadata":NaN}',
        b'{"metadata":{"name":"\\ud800"}}',
    ],
)
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_text_that_is_no_object_is_refused(kind: type, raw: bytes) -> None:
    assert isinstance(Decoder().decode_object(kind, raw), Refusal)


def test_whatever_names_a_gang_is_kept() -> None:
    notes = dict.fromkeys(GANG_NAMES, "g")
    assert dict(accepted(pod(metadata={"annotations": notes})).annotations) == notes


def test_an_object_of_a_megabyte_and_a_half_is_read() -> None:
    assert accepted(pod(metadata={"annotations": {"big": "x" * 1_500_000}})).annotations == ()


@pytest.mark.parametrize(
    ("policy", "aligns", "rejects"),
    [
        ({"attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]}, True, True),
        ({"attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}]}, True, False),
        ({"attributes": [{"name": "other", "value": "x"}], "topologyPolicies": ["BestEffortPodLevel"]}, True, False),
        ({"topologyPolicies": ["SingleNUMANodeContainerLevel"]}, True, True),
        ({"topologyPolicies": ["None"]}, False, False),
        ({}, False, False),
    ],
)
def test_numa_nodes_are_read_with_what_the_kubelet_does(policy: Json, aligns: bool, rejects: bool) -> None:
    cores = {"name": "cpu", "capacity": "8", "allocatable": "6", "available": "5500m"}
    gpus = {"name": "nvidia.com/gpu", "capacity": 2, "allocatable": 2}
    zones = [
        {"name": "socket-0", "type": "Socket", "resources": [cores]},
        {"name": "node-0", "type": "Node", "resources": [cores, gpus]},
        {"name": "node-1", "type": "Node"},
    ]
    read = decode(NodeZones, {"metadata": meta(), "zones": zones, **policy})
    assert (read.name, read.aligns, read.rejects) == ("a", aligns, rejects)
    assert read.numa_nodes == (
        NumaNode(
            name="node-0",
            has=(("cpu", 6000), ("nvidia.com/gpu", 2)),
            free=(("cpu", 5500), ("nvidia.com/gpu", 2)),
        ),
        NumaNode(name="node-1"),
    )


def numa_node(name: str = "node-0", **resource: Any) -> Json:
    return {"name": name, "type": "Node", "resources": [{"name": "cpu", "allocatable": "2", **resource}]}


@pytest.mark.parametrize("field", ["allocatable", "available"])
def test_an_absurd_amount_of_a_numa_node_is_cut_to_what_a_column_holds(field: str) -> None:
    (zone,) = decode(NodeZones, {"metadata": meta(), "zones": [numa_node(**{field: "1e30"})]}).numa_nodes
    assert dict(zone.has if field == "allocatable" else zone.free) == {"cpu": MAX_AMOUNT}


@pytest.mark.parametrize(
    ("zones", "refused"),
    [
        ([numa_node("node 0")], "zones[0].name: found 'node 0'"),
        ([numa_node(), numa_node("\x1b[2J")], "zones[1].name: found '\\x1b[2J'"),
        ([numa_node("a/b")], "zones[0].name: found 'a/b'"),
        ([numa_node("node-0\n")], "zones[0].name: found 'node-0\\n'"),
        ([numa_node("n" * 64)], f"zones[0].name: found '{'n' * 64}'"),
        ([numa_node("")], "zones[0].name: found ''"),
        ([{**numa_node(), "resources": [{"name": "\x1b[2J"}]}], "zones[0].resources[0].name: found '\\x1b[2J'"),
        ([numa_node() for _unused in range(1025)], "zones: found 1025, expected at most 1024"),
        ([{"name": "n", "type": "Node", "resources": [{}] * 65}], "zones[0].resources: found 65"),
    ],
)
def test_numa_nodes_that_are_too_many_or_without_a_proper_name_are_refused(zones: list[Json], refused: str) -> None:
    found = decode(NodeZones, {"metadata": meta(), "zones": zones})
    assert isinstance(found, Refusal), found
    assert f"{found.field}: {found.reason}".startswith(refused)


def test_a_node_with_the_most_numa_nodes_is_read() -> None:
    zones = [numa_node(f"node-{index}") for index in range(1024)]
    assert len(decode(NodeZones, {"metadata": meta(), "zones": zones}).numa_nodes) == 1024


def test_a_node_is_read() -> None:
    node = decode(
        Node,
        {
            "metadata": {
                **meta(
                    labels={"zone": "a"},
                    annotations={"converged.hpc/held-by": "slurm/7", "converged.hpc/held-until": "x"},
                )
            },
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "63500m", "memory": "1Ti", "pods": "110", "example.com/gpu": "0"}},
        },
    )
    assert (node.name, node.unschedulable) == ("a", True)
    assert (node.held_by, node.held_until, node.leases) == ("slurm/7", "x", "")
    assert node.taints == (Taint("k", "", Effect.NO_SCHEDULE),)
    assert node.allocatable == (("cpu", 63500), ("example.com/gpu", 0), ("memory", 2**40), ("pods", 110))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-23T12:00:00Z", 1_795_435_200.0),
        ("2026-11-23T13:00:00+01:00", 1_795_435_200.0),
        ("2026-11-23T12:00:00", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_planned_start_without_zone_or_sense_is_no_plan(text: str, at: float | None) -> None:
    found = decode(Node, {"metadata": meta(annotations={"converged.hpc/planned-start": text})})
    assert found.planned == at


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"spec": {"taints": [{"key": "k", "effect": "Sometimes"}]}}, "spec.taints.effect"),
        ({"status": {"allocatable": {"cpu": "-1"}}}, "status.allocatable[cpu]"),
        ({"status": {"allocatable": []}}, "status.allocatable"),
    ],
)
def test_a_bad_node_is_refused(value: Json, field: str) -> None:
    refusal = decode(Node, {"metadata": meta(), **value})
    assert isinstance(refusal, Refusal)
    assert refusal.field == field


def test_a_node_with_an_absurd_amount_is_used_as_far_as_numbers_go() -> None:
    node = decode(Node, {"metadata": meta(), "status": {"allocatable": {"example.com/gpu": "9223372036854775807"}}})
    assert node.allocatable == (("example.com/gpu", 2**50),)


def test_priority_classes_and_namespaces_are_read() -> None:
    urgent = decode(PriorityClass, {"metadata": meta(), "value": 9, "globalDefault": True, "preemptionPolicy": "Never"})
    assert (urgent.value, urgent.is_default, urgent.preempts) == (9, True, False)
    assert decode(Namespace, {"metadata": meta(labels={"team": "ml"})}).labels == (("team", "ml"),)


def test_a_budget_allows_what_its_controller_says_and_nothing_before_that() -> None:
    budgets = [{"metadata": meta(), **more} for more in ({"status": {"disruptionsAllowed": 2}}, {"status": {}}, {})]
    assert [decode(DisruptionBudget, budget).allowed for budget in budgets] == [2, 0, 0]


def test_a_claim_that_is_mounted_twice_is_one_claim_and_an_ephemeral_one_is_the_pods_own() -> None:
    mounts = [{"name": name, "persistentVolumeClaim": {"claimName": "data"}} for name in ("one", "two")]
    mounts.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}})
    found = accepted(pod(volumes=mounts))
    assert (found.volume_claims, found.ephemeral_claims) == (("data", "a-scratch"), ("a-scratch",))


def watch(kind: str, value: object) -> Any:
    return Decoder().decode_watch_event(Pod, json.dumps({"type": kind, "object": value}).encode())


def test_watch_events_say_what_is_there_what_is_gone_and_how_far_they_got() -> None:
    assert watch("ADDED", pod()) == Upserted(accepted(pod()))
    assert watch("MODIFIED", pod()) == Upserted(accepted(pod()))
    assert watch("DELETED", pod(overhead={"cpu": "x"})) == Deleted(Pod, "u1", 7)
    assert watch("BOOKMARK", {"metadata": {"resourceVersion": "9"}}) == Bookmark(9)
    assert watch("ERROR", {"code": 410, "message": "too old"}) == WatchFailed(410, "too old")
    bad = watch("ADDED", pod(overhead={"cpu": "x"}))
    assert isinstance(bad, Unreadable)
    assert bad.refusal.field == "spec.overhead[cpu]"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'{"type":"ADDED"',
        b'{"type":"SLEPT","object":{}}',
        b"[" * 10**5,
        b"\xff",
        b'{"type":"ADDED"}',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}',
        b'{"type":"DELETED","object":{}}',
        b'{"type":"DELETED","object":{"metadata":{"resourceVersion":"3"}}}',
    ],
)
def test_a_broken_line_ends_the_watch_and_is_never_taken_for_news(line: bytes) -> None:
    result = Decoder().decode_watch_event(Pod, line)
    assert isinstance(result, WatchFailed)
    assert result.code == 0


def test_a_list_keeps_its_good_objects_and_names_the_bad_ones() -> None:
    body = {
        "metadata": {"resourceVersion": "40", "continue": "next"},
        "items": [pod(), pod(metadata={"uid": "u2"}, overhead={"cpu": "x"})],
    }
    page = Decoder().decode_page(Pod, json.dumps(body).encode())
    assert isinstance(page, Page)
    assert ([item.uid for item in page.items], page.version, page.next_page) == (["u1"], 40, "next")
    assert [item.uid for item in page.refused] == ["u2"]
    assert relisted(Pod, [page, page]) == Relisted(Pod, page.items * 2, 40, page.refused * 2)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"metadata":{"resourceVersion":"x"}}', b'{"items":[', b"\xff"])
def test_a_broken_list_is_no_list(body: bytes) -> None:
    assert isinstance(Decoder().decode_page(Pod, body), WatchFailed)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["1Gi", "In"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SEEDS: list[Json] = [
    *(value for value, _ in REFUSED_PODS),
    pod(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    ),
    {"metadata": meta(), "spec": {"taints": [{"key": "k"}]}, "status": {"allocatable": {"cpu": "1"}}},
]


@st.composite
def mutated_objects(draw: st.DrawFn) -> Json:
    value: Json = json.loads(json.dumps(draw(st.sampled_from(SEEDS))))
    place: Any = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return value
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and draw(st.booleans()):
            place = place[key]
            continue
        place[key] = draw(json_values)
        return value


@given(mutated_objects(), st.sampled_from(ALL_KINDS))
def test_any_mutated_object_is_a_record_or_a_refusal(value: Json, kind: type) -> None:
    result = decode(kind, value)
    assert isinstance(result, kind | Refusal)
    if isinstance(result, Pod):
        assert all(isinstance(amount, int) and 0 < amount <= 2**50 for _, amount in result.request)


@given(st.binary(max_size=60), st.sampled_from(ALL_KINDS))
@settings(max_examples=2 * settings().max_examples)
def test_any_bytes_are_refused_or_read(raw: bytes, kind: type) -> None:
    decoder = Decoder()
    assert isinstance(decoder.decode_object(kind, raw), kind | Refusal)
    assert isinstance(decoder.decode_watch_event(kind, raw), WatchFailed | Upserted | Deleted | Unreadable | Bookmark)
    assert isinstance(decoder.decode_page(kind, raw), WatchFailed | Page)
