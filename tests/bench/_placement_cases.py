# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods of each case of `placement_throughput`: the same for every contestant, but for the scheduler's name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

NAMESPACE: Final = "placement-bench"
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
DEVICE: Final = "example.com/device"
# The label by which nodes are in so many racks.
RACK: Final = "example.com/rack"
RACKS: Final = 50
APP: Final = {"matchLabels": {"app": "bench"}}
GROUPS: Final = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"


@dataclass(frozen=True, slots=True)
class Case:
    """Pods that differ by nothing but their name and gang."""

    pods: int
    spec: Json
    gang: int = 1
    # All pods of a gang must be in one rack. kube-scheduler knows no racks, so it does not compete.
    racks: bool = False

    def pod(self, index: int, scheduler: str) -> Json:
        """One pod."""
        spec: Json = {"schedulerName": scheduler, **self.spec}
        if self.gang > 1:
            spec["schedulingGroup"] = {"podGroupName": f"gang-{index // self.gang}"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{index}", "namespace": NAMESPACE, "labels": {"app": "bench"}},
            "spec": spec,
        }

    def settings(self) -> Json:
        """What the daemon is told beside the rest."""
        return {"topology_levels": f"rack={RACK}"} if self.racks else {}

    def scattered(self, pods: Iterable[Json], racks: Mapping[str, str]) -> list[str]:
        """Return the gangs that are not in one rack as a whole, by the racks of nodes."""
        found: dict[str, list[str]] = {f"gang-{index}": [] for index in range(self.pods // self.gang)}
        for pod in pods:
            rack = racks.get(pod["spec"].get("nodeName", ""), "")
            found[pod["spec"]["schedulingGroup"]["podGroupName"]].append(rack)
        return [name for name, there in found.items() if len(there) != self.gang or len(set(there)) > 1 or "" in there]

    def groups(self) -> Iterator[Json]:
        """The PodGroups of upstream's API, which both schedulers read."""
        wishes = {"annotations": {"converged.hpc/required-topology": "rack"}} if self.racks else {}
        for index in range(self.pods // self.gang if self.gang > 1 else 0):
            yield {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": f"gang-{index}", "namespace": NAMESPACE, **wishes},
                "spec": {"schedulingPolicy": {"gang": {"minCount": self.gang}}},
            }


def _spec(devices: int = 0, **more: Any) -> Json:
    limits = {DEVICE: str(devices)} if devices else {}
    resources = {"requests": {"cpu": "100m", "memory": "128Mi", **limits}, "limits": limits}
    container = {"name": "main", "image": "localhost/none", "resources": resources}
    # Without a service account token there is one volume less to write and to read, for everybody.
    return {"containers": [container], "automountServiceAccountToken": False, **more}


def _affinity(kind: str, key: str) -> Json:
    term = {"labelSelector": APP, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _node_affinity() -> Json:
    zones = {"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}}


def _spread() -> Json:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    return {"topologySpreadConstraints": [constraint]}


def _racks(gangs: int, gang: int) -> Callable[[float], Case]:
    return lambda share: Case(_count(gangs * gang, share, gang), _spec(), gang=gang, racks=True)


CASES: Final[dict[str, Callable[[float], Case]]] = {
    "plain": lambda share: Case(_count(5000, share), _spec()),
    "gangs-of-3": lambda share: Case(_count(6000, share, 3), _spec(), gang=3),
    "gangs-of-100": lambda share: Case(_count(6000, share, 100), _spec(), gang=100),
    "gangs-of-1000": lambda share: Case(_count(6000, share, 1000), _spec(), gang=1000),
    "node-affinity": lambda share: Case(_count(3000, share), _spec(**_node_affinity())),
    "pod-affinity": lambda share: Case(_count(2000, share), _spec(**_affinity("podAffinity", ZONE))),
    "spread": lambda share: Case(_count(3000, share), _spec(**_spread())),
    "extended-resource": lambda share: Case(_count(3000, share), _spec(devices=1)),
    "anti-affinity": lambda share: Case(_count(2000, share), _spec(**_affinity("podAntiAffinity", HOST))),
    **{f"racks-{gangs}-of-4": _racks(gangs, 4) for gangs in (750, 1500, 2250)},
    **{f"racks-{gangs}-of-1000": _racks(gangs, 1000) for gangs in (3, 6, 9)},
}
# What comes in turn where pods of several kinds come and go.
MIXED: Final = ("plain", "node-affinity", "spread", "extended-resource")


def _count(pods: int, share: float, gang: int = 1) -> int:
    """A share of the pods, in whole gangs, and at least one."""
    return max(1, round(pods * share / gang)) * gang
