# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters with everything in them that decides where a pod may go, drawn at random.

FEATURES is the list that is compared with kube-scheduler; docs/guides/from-kube-batch.md publishes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

Json = dict[str, Any]

ZONE, HOSTNAME = "zone", "kubernetes.io/hostname"
NAMESPACES = {"feasible-a": {"kind": "batch"}, "feasible-b": {}}
DRIVER = "csi.example.com"
# A driver that says how much room it has.
ROOMY = "roomy.example.com"
LABEL = "feasible"
NODES = 6
REGION, IN_ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
WAS_IN_ZONE = "failure-domain.beta.kubernetes.io/zone"
# What a volume says of where it is.
PLACES = ({IN_ZONE: "a"}, {IN_ZONE: "a__b"}, {WAS_IN_ZONE: "b"}, {REGION: "r", IN_ZONE: "c"}, {IN_ZONE: "a____b"})
# Whoever asks for it to be deleted waits.
KEPT = "example.com/kept"
# Claims that get their volumes before any pod comes.
BOUND = ("bound", "tied", "placed", "once", "deleted")
# An ephemeral volume.
SCRATCH = "scratch"
STARTED = {"image": "localhost/none", "imageID": "", "ready": True, "restartCount": 0}
HEAVY = "feasible-heavy"
WHEN = "requiredDuringSchedulingIgnoredDuringExecution"


class Draw:
    """Objects of one cluster; `number` keeps their names apart from those of other clusters."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng = rng
        self.number = number
        self.names = [f"f{number}-{index}" for index in range(NODES)]
        # What the last pod has.
        self.features: list[str] = []

    def some(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def node(self, name: str) -> Json:
        """Labels that selectors look for, taints, room for little."""
        labels = {LABEL: str(self.number), HOSTNAME: name}
        labels |= {ZONE: self.some("a", "b", "c")} if self.chance(0.85) else {}
        labels |= {"disk": self.some("ssd", "hdd")} if self.chance(0.7) else {}
        labels |= {"rank": self.some("1", "5", "9", "x")} if self.chance(0.7) else {}
        labels |= {self.some(IN_ZONE, IN_ZONE, WAS_IN_ZONE): self.some("a", "b", "c")} if self.chance(0.7) else {}
        labels |= {REGION: self.some("r", "s")} if self.chance(0.5) else {}
        room = {
            "cpu": self.some("2", "4", "7500m"),
            "memory": self.some("4Gi", "8Gi"),
            "pods": self.some("3", "5", "20"),
        }
        room |= {"example.com/gpu": self.some("0", "2", "8")} if self.chance(0.5) else {}
        room |= {"ephemeral-storage": "10Gi"} if self.chance(0.5) else {}
        room |= {"hugepages-2Mi": self.some("0", "64Mi")} if self.chance(0.5) else {}
        taints = [
            {"key": key, "value": self.some("x", "y"), "effect": effect}
            for key, effect in (("team", "NoSchedule"), ("drain", "NoExecute"), ("soft", "PreferNoSchedule"))
            if self.chance(0.2)
        ]
        spec = {"taints": taints, "unschedulable": self.chance(0.1)}
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"allocatable": room, "capacity": room},
        }

    def resources(self, *, small: bool) -> Json:
        """Of one container."""
        asked = {"cpu": self.some("100m", "1", "1500m") if small else self.some("500m", "1", "2", "3900m", "8")}
        asked |= {"memory": self.some("128Mi", "1Gi", "3Gi")} if self.chance(0.6) else {}
        asked |= {"ephemeral-storage": self.some("1Gi", "20Gi")} if self.chance(0.1) else {}
        gpus = {"example.com/gpu": self.some("1", "2", "4")} if self.chance(0.15) else {}
        return {"requests": {**asked, **gpus}, "limits": gpus}

    def pod(self, name: str, *, small: bool) -> Json:
        """A pod with a few of the features."""
        containers = [
            {"name": f"c{index}", "image": "localhost/none", "resources": self.resources(small=small)}
            for index in range(self.some(1, 1, 2))
        ]
        spec: Json = {"containers": containers, "terminationGracePeriodSeconds": 30}
        labels = {"app": self.some("x", "y"), "rev": self.some("1", "2")}
        pod = {"metadata": {"name": name, "namespace": self.some(*NAMESPACES), "labels": labels}, "spec": spec}
        self.features = self.rng.sample(sorted(FEATURES), k=self.some(0, 1, 1, 2, 3))
        for feature, add in FEATURES.items():
            if feature in self.features:
                add(self, spec)
        return pod

    def resizing(self, pod: Json) -> Json:
        """What a kubelet says of a pod whose spec was changed to what it is now; nothing where that cannot be."""
        container = pod["spec"]["containers"][0]
        if "resources" in pod["spec"] or "resources" not in container:
            return {}
        amounts = [{"cpu": cpu} for cpu in ("100m", "2", "3", container["resources"]["requests"]["cpu"])]
        reached = {"allocatedResources": self.some(*amounts), "resources": {"requests": self.some(*amounts)}}
        status: Json = {"containerStatuses": [{**STARTED, "name": container["name"], **reached}]}
        if self.chance(0.5):
            pending = {"type": "PodResizePending", "status": "True", "reason": self.some("Infeasible", "Deferred")}
            status["conditions"] = [pending]
        return status

    def rooms(self) -> list[Json]:
        """Where the driver that says so has how much room for volumes of one gibibyte."""
        where = ({}, {"matchLabels": {ZONE: "a"}}, {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]})
        found: list[Json] = []
        for index, topology in enumerate(self.rng.sample(where, k=self.some(0, 1, 2))):
            metadata = {"name": f"room-{self.number}-{index}", "labels": {LABEL: str(self.number)}}
            room: Json = {"metadata": metadata, "storageClassName": "feasible-roomy", "nodeTopology": topology}
            room |= {"capacity": self.some("1Gi", "1Gi", "1023Mi")} if self.chance(0.9) else {}
            room |= {"maximumVolumeSize": self.some("100Mi", "2Gi")} if self.chance(0.2) else {}
            found.append(room)
        return found

    def disks(self) -> list[Json]:
        """Volumes that nobody has claimed: of some nodes, of a zone, or of all nodes."""
        found = []
        for index in range(self.some(2, 4, 6)):
            metadata = {"name": f"disk-{self.number}-{index}", "labels": {LABEL: str(self.number)}}
            metadata["labels"] |= {"kind": self.some("ssd", "hdd")} if self.chance(0.7) else {}
            spec: Json = {"storageClassName": "feasible-disk", "hostPath": {"path": "/disk"}}
            spec |= {"capacity": {"storage": self.some("500Mi", "1Gi", "2Gi", "2Gi")}}
            spec |= {"volumeMode": "Block"} if self.chance(0.15) else {}
            spec |= {"accessModes": self.some(["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteMany"], ["ReadWriteMany"])}
            hosts = {"key": HOSTNAME, "operator": "In", "values": self.rng.sample(self.names, k=self.some(1, 1, 2, 3))}
            tie = [{"matchExpressions": [self.some(hosts, hosts, *self.expressions())]}]
            spec |= {"nodeAffinity": {"required": {"nodeSelectorTerms": tie}}} if self.chance(0.85) else {}
            found.append({"metadata": metadata, "spec": spec})
        return found

    def expressions(self) -> list[Json]:
        """Requirements on a node's labels, by every operator."""
        drawn: dict[str, Json] = {
            "In": {"key": "disk", "operator": "In", "values": ["ssd"]},
            "NotIn": {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
            "Exists": {"key": ZONE, "operator": "Exists"},
            "DoesNotExist": {"key": "rank", "operator": "DoesNotExist"},
            "Gt": {"key": "rank", "operator": "Gt", "values": [self.some("1", "4")]},
            "Lt": {"key": "rank", "operator": "Lt", "values": [self.some("5", "9")]},
        }
        return self.rng.sample(list(drawn.values()), k=self.some(1, 1, 2))

    def term(self) -> Json:
        """A term about other pods."""
        selector: Json = {"matchLabels": {"app": self.some("x", "y")}}
        if self.chance(0.3):
            selector = {"matchExpressions": [{"key": "app", "operator": self.some("Exists", "DoesNotExist")}]}
        term: Json = {"labelSelector": selector, "topologyKey": self.some(ZONE, HOSTNAME, "disk")}
        where = self.some("own", "own", "named", "selected", "all")
        if where == "named":
            term["namespaces"] = [self.some(*NAMESPACES)]
        elif where in ("selected", "all"):
            term["namespaceSelector"] = {"matchLabels": {"kind": "batch"}} if where == "selected" else {}
        if self.chance(0.2):
            term[self.some("matchLabelKeys", "mismatchLabelKeys")] = ["rev"]
        return term


def several_containers(draw: Draw, spec: Json) -> None:
    started = {"name": "init", "image": "localhost/none", "resources": draw.resources(small=False)}
    sidecar = {
        "name": "side",
        "image": "localhost/none",
        "restartPolicy": "Always",
        "resources": draw.resources(small=True),
    }
    spec["initContainers"] = draw.some([started], [sidecar], [sidecar, started], [started, sidecar])


def pod_level_resources(draw: Draw, spec: Json) -> None:
    for container in spec["containers"]:
        container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    spec.pop("initContainers", None)
    spec["resources"] = {"requests": {"cpu": draw.some("300m", "3"), "memory": draw.some("256Mi", "6Gi")}}


def nothing_requested(_draw: Draw, spec: Json) -> None:
    if "resources" not in spec:
        spec["containers"] = [{"name": "c0", "image": "localhost/none"}]


def node_selector(draw: Draw, spec: Json) -> None:
    spec["nodeSelector"] = draw.some(
        {"disk": "ssd"}, {ZONE: "a"}, {LABEL: str(draw.number)}, {"disk": "hdd", ZONE: "b"}
    )


def node_affinity(draw: Draw, spec: Json) -> None:
    terms = [{"matchExpressions": draw.expressions()} for _unused in range(draw.some(1, 2))]
    if draw.chance(0.3):
        field = {"key": "metadata.name", "operator": draw.some("In", "NotIn"), "values": [draw.some(*draw.names)]}
        draw.some(*terms)["matchFields"] = [field]
    spec.setdefault("affinity", {})["nodeAffinity"] = {WHEN: {"nodeSelectorTerms": terms}}


def tolerations(draw: Draw, spec: Json) -> None:
    drawn = [
        {"key": "team", "operator": "Equal", "value": draw.some("x", "y"), "effect": "NoSchedule"},
        {"key": "drain", "operator": "Exists"},
        {"key": "drain", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        {"operator": "Exists", "effect": draw.some("NoSchedule", "NoExecute")},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        {"operator": "Exists"},
    ]
    spec["tolerations"] = draw.rng.sample(drawn, k=draw.some(1, 2))


def host_ports(draw: Draw, spec: Json) -> None:
    port = {"containerPort": 80, "hostPort": draw.some(8080, 8081), "protocol": draw.some("TCP", "TCP", "UDP")}
    port |= {"hostIP": draw.some("127.0.0.1", "10.0.0.1")} if draw.chance(0.4) else {}
    spec["containers"][0]["ports"] = [port]


def pod_affinity(draw: Draw, spec: Json) -> None:
    spec.setdefault("affinity", {})["podAffinity"] = {WHEN: [draw.term() for _unused in range(draw.some(1, 1, 2))]}


def pod_anti_affinity(draw: Draw, spec: Json) -> None:
    spec.setdefault("affinity", {})["podAntiAffinity"] = {WHEN: [draw.term() for _unused in range(draw.some(1, 1, 2))]}


def topology_spread(draw: Draw, spec: Json) -> None:
    keys = draw.rng.sample((ZONE, HOSTNAME, "disk"), k=draw.some(1, 1, 2))
    spec["topologySpreadConstraints"] = [_spread(draw, key) for key in keys]


def _spread(draw: Draw, key: str) -> Json:
    rule = {
        "maxSkew": draw.some(1, 1, 2),
        "topologyKey": key,
        "whenUnsatisfiable": draw.some("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"),
        "labelSelector": {"matchLabels": {"app": draw.some("x", "y")}},
    }
    if rule["whenUnsatisfiable"] == "DoNotSchedule" and draw.chance(0.3):
        rule["minDomains"] = draw.some(2, 4)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        rule |= {policy: draw.some("Honor", "Ignore")} if draw.chance(0.4) else {}
    rule |= {"matchLabelKeys": ["rev"]} if draw.chance(0.2) else {}
    return rule


def volumes(draw: Draw, spec: Json) -> None:
    kinds = ("bound", "tied", "placed", "once", "late", "begun", "zoned", "roomy", "now", "missing", "lost", "deleted")
    drawn = draw.some(*kinds, "small", "large", ("small", "large"), ("small", "large", "choosy"), ("tied", "small"))
    spec["volumes"] = [
        {"name": f"data-{kind}", "persistentVolumeClaim": {"claimName": f"claim-{draw.number}-{kind}"}}
        for kind in ((drawn,) if isinstance(drawn, str) else drawn)
    ]


def ephemeral_volume(_draw: Draw, spec: Json) -> None:
    """A probe finds a claim of that name that was there before it; other pods get one of their own."""
    template = {"spec": _asked("feasible-late")}
    spec.setdefault("volumes", []).append({"name": SCRATCH, "ephemeral": {"volumeClaimTemplate": template}})


def foreign_claim(pod: Json) -> Json | None:
    """The claim that is in the way of a pod's own."""
    volumes = pod["spec"].get("volumes", ())
    found = [volume["ephemeral"]["volumeClaimTemplate"] for volume in volumes if volume["name"] == SCRATCH]
    return {"metadata": {"name": f"{pod['metadata']['name']}-{SCRATCH}"}, **found[0]} if found else None


def _asked(storage_class: str, size: str = "1Gi", **more: Any) -> Json:
    asked = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    return {**asked, "resources": {"requests": {"storage": size}}, **more}


def overhead(_draw: Draw, spec: Json) -> None:
    spec["runtimeClassName"] = HEAVY


def hugepages(draw: Draw, spec: Json) -> None:
    amount = {"hugepages-2Mi": draw.some("2Mi", "32Mi", "128Mi")}
    resources = spec["containers"][0].setdefault("resources", {"requests": {"cpu": "100m"}})
    resources["requests"] = resources["requests"] | amount
    resources["limits"] = resources.get("limits", {}) | amount


FEATURES: dict[str, Callable[[Draw, Json], None]] = {
    feature.__name__: feature
    for feature in (
        *(several_containers, pod_level_resources, nothing_requested, node_selector, node_affinity, tolerations),
        *(host_ports, pod_affinity, pod_anti_affinity, topology_spread, volumes, ephemeral_volume, overhead, hugepages),
    )
}


def runtime_class() -> Json:
    """One whose pods need more than they ask for."""
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": HEAVY}, "handler": "runc"}
    return {**kind, "overhead": {"podFixed": {"cpu": "600m", "memory": "1Gi"}}}


def driver() -> Json:
    """The driver that says how much room it has."""
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": ROOMY}}
    return {**kind, "spec": {"attachRequired": False, "storageCapacity": True}}


def storage_classes() -> list[Json]:
    """Volumes that are made when the first pod comes, anywhere or in one zone, or at once, and some that are there."""
    in_zone_a = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    waits = {**kind, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    return [
        {"metadata": {"name": "feasible-late"}, **waits},
        {"metadata": {"name": "feasible-zoned"}, **waits, "allowedTopologies": in_zone_a},
        {"metadata": {"name": "feasible-roomy"}, **waits, "provisioner": ROOMY},
        {**kind, "metadata": {"name": "feasible-now"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"},
        {"metadata": {"name": "feasible-disk"}, **waits, "provisioner": "kubernetes.io/no-provisioner"},
    ]


def attachments(number: int, names: Sequence[str]) -> list[Json]:
    """Volumes that are attached although no pod there may use them; drawn apart, so that the rest stays as it was."""
    draw = random.Random(f"attachments of {number}")
    found = []
    for node in names:
        for name in draw.sample([(space, name) for space in NAMESPACES for name in BOUND], draw.randint(0, 2)):
            volume = "-".join((name[0], str(number), name[1]))
            spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
            found.append({"metadata": {"name": f"{volume}-at-{node}", "labels": {LABEL: str(number)}}, "spec": spec})
    return found


def claims(number: int, namespace: str) -> tuple[list[Json], list[Json]]:
    """Volumes and claims: those that are to be bound, and how; those that wait; those that can never be used."""
    tied = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}]}
    volumes, found = [], []
    for name in BOUND:
        claim, volume = f"claim-{number}-{name}", f"{namespace}-{number}-{name}"
        mode = "ReadWriteOncePod" if name == "once" else "ReadWriteMany"
        common = {"accessModes": [mode], "storageClassName": ""}
        spec = {**common, "capacity": {"storage": "1Gi"}, "csi": {"driver": DRIVER, "volumeHandle": volume}}
        spec |= {"claimRef": {"namespace": namespace, "name": claim}}
        spec |= {"nodeAffinity": {"required": tied}} if name == "tied" else {}
        place = PLACES[number % len(PLACES)] if name == "placed" else {}
        volumes.append({"metadata": {"name": volume, "labels": {LABEL: str(number), **place}}, "spec": spec})
        asked = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
        finalizers = [KEPT] if name == "deleted" else []
        found.append({"metadata": {"name": claim, "namespace": namespace, "finalizers": finalizers}, "spec": asked})
    waiting = {name: _asked(f"feasible-{name}") for name in ("late", "zoned", "roomy", "now")}
    waiting |= {name: _asked("feasible-disk", size) for name, size in (("small", "600Mi"), ("large", "1500Mi"))}
    waiting["choosy"] = _asked("feasible-disk", selector={"matchLabels": {"kind": "ssd"}})
    for name, asked in waiting.items():
        found.append({"metadata": {"name": f"claim-{number}-{name}", "namespace": namespace}, "spec": asked})
    # It says that it has been bound to a volume, which is not there.
    once = {"name": f"claim-{number}-lost", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    found.append({"metadata": {**once, "namespace": namespace}, "spec": _asked("", volumeName=f"lost-{number}")})
    # A volume that is being made for a node: nobody takes that back, for there is no provisioner.
    chosen = {"volume.kubernetes.io/selected-node": f"f{number}-1"}
    begun = {"name": f"claim-{number}-begun", "namespace": namespace, "annotations": chosen}
    found.append({"metadata": begun, "spec": waiting["late"]})
    return volumes, found
