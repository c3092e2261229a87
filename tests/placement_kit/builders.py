# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods and nodes in one line each."""

from typing import Any

from placement.model.amounts.quantity import parse_quantity, round_amounts
from placement.model.objects.disruption import DisruptionBudget
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod, PodSpec
from placement.model.objects.workload import INCUBATOR, PodGroup, PriorityClass, Queue
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher, TopologySpread
from placement.model.rules.selector import LabelPairs, LabelSelector, Operator, Requirement


def amounts(**quantities: str) -> tuple[tuple[str, int], ...]:
    """`cpu="500m", gpu="1"`; an underscore stands for a dash, and gpu for an extended resource."""
    names = {"gpu": "example.com/gpu"}
    return round_amounts({names.get(k, k.replace("_", "-")): parse_quantity(v) for k, v in quantities.items()})


def pairs(**labels: str) -> LabelPairs:
    """Labels, sorted."""
    return tuple(sorted(labels.items()))


def node(name: str = "n1", *, version: int = 1, uid: str = "", labels: LabelPairs = (), **more: Any) -> Node:
    """A node of 4 cores, 8 GiB and 10 pods unless `allocatable` says otherwise."""
    more.setdefault("allocatable", amounts(cpu="4", memory="8Gi", pods="10"))
    return Node(uid=uid or f"uid-{name}", name=name, version=version, labels=labels, **more)


def pod(name: str = "p1", *, version: int = 1, uid: str = "", namespace: str = "team", **more: Any) -> Pod:
    """A pod of one core unless `request` says otherwise; arguments of its spec are passed through."""
    in_spec = {key: more.pop(key) for key in list(more) if key in PodSpec.__dataclass_fields__}
    more.setdefault("request", amounts(cpu="1"))
    return Pod(
        uid=uid or f"uid-{name}", namespace=namespace, name=name, version=version, spec=PodSpec(**in_spec), **more
    )


def labelled(**labels: str) -> LabelSelector:
    """A selector of exactly these labels."""
    return LabelSelector(tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(labels.items())))


def near(topology_key: str, *, namespace: str = "team", **labels: str) -> PodAffinityTerm:
    """A term about pods of these labels."""
    return PodAffinityTerm(PodMatcher(frozenset({namespace}), labelled(**labels)), topology_key)


def spread(topology_key: str, *, labels: dict[str, str], **more: Any) -> TopologySpread:
    """A spread constraint over pods of these labels in the namespace `team`."""
    matcher = PodMatcher(frozenset({"team"}), labelled(**labels))
    return TopologySpread(topology_key=topology_key, matcher=matcher, **more)


def mine(name: str = "p1", *, group: str = "", **more: Any) -> Pod:
    """A pod for our scheduler, in a group of kube-batch's API where one is named."""
    if group:
        more["annotations"] = (("scheduling.k8s.io/group-name", group),)
    return pod(name, scheduler_name="placement", **more)


def gang(name: str, min_member: int, *, namespace: str = "team", dialect: str = INCUBATOR, **more: Any) -> PodGroup:
    """A PodGroup."""
    return PodGroup(
        uid=f"group-{name}",
        namespace=namespace,
        name=name,
        version=1,
        dialect=dialect,
        min_member=min_member,
        **more,
    )


def queue(name: str, **more: Any) -> Queue:
    """A queue of our own API."""
    more.setdefault("dialect", "scheduling.converged.hpc/v1alpha1")
    return Queue(uid=f"queue-{name}", name=name, version=1, **more)


def priority_class(name: str, value: int) -> PriorityClass:
    """A PriorityClass."""
    return PriorityClass(uid=f"class-{name}", name=name, version=1, value=value)


def budget(name: str, *, allowed: int, namespace: str = "team", **labels: str) -> DisruptionBudget:
    """A disruption budget over pods of these labels."""
    return DisruptionBudget(
        uid=f"budget-{name}", namespace=namespace, name=name, version=1, selector=labelled(**labels), allowed=allowed
    )
