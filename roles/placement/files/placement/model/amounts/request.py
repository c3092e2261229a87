# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod asks of a node, and what it is charged for while it sits there.

The rules are those of `component-helpers/resource/helpers.go` of Kubernetes 1.36 with the gates that are on by default.
Sidecars (restartable init containers) run beside everything after them, ordinary init containers one at a time.
Pod-level CPU, memory and huge pages replace the containers' sum, and overhead comes on top. A pod that is being resized
in place is charged for the most of what it wants, what it was promised and what it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from placement.model.amounts.quantity import CPU, MEMORY, ResourceList, add, maximum

HUGE_PAGES_PREFIX = "hugepages-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container's share of the pod's request; `restartable` marks a sidecar among the init containers."""

    name: str
    requests: ResourceList = field(default_factory=dict)
    restartable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeState:
    """What the kubelet reports while it resizes: promised (`allocated`) and in force (`actuated`)."""

    allocated: ResourceList = field(default_factory=dict)
    actuated: ResourceList = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """Everything in a pod's spec and status that decides its request."""

    containers: Sequence[Container]
    init_containers: Sequence[Container] = ()
    overhead: ResourceList = field(default_factory=dict)
    pod_level: ResourceList = field(default_factory=dict)
    # Only containers whose status has `resources`; without it the spec alone counts.
    resizes: Mapping[str, ResizeState] = field(default_factory=dict)
    pod_resize: ResizeState | None = None
    resize_infeasible: bool = False


def pod_requests(resources: PodResources) -> dict[str, int]:
    """Sum the pod's request in nano units, for scheduling and for charging alike."""
    total = _container_requests(resources)
    if any(_pod_level_applies(name) for name in resources.pod_level):
        level = resources.pod_level
        if resources.pod_resize is not None:
            in_force = _in_force(resources.pod_level, resources.pod_resize, resources)
            level = {name: in_force.get(name, 0) for name in resources.pod_level}
        total.update({name: nano for name, nano in level.items() if _pod_level_applies(name)})
    return add(total, resources.overhead)


def _pod_level_applies(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def _container_requests(resources: PodResources) -> dict[str, int]:
    running: dict[str, int] = {}
    for container in resources.containers:
        running = add(running, _container(container, resources))
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in resources.init_containers:
        if container.restartable:
            wanted = _container(container, resources)
            running = add(running, wanted)
            sidecars = add(sidecars, wanted)
            starting = maximum(starting, sidecars)
        else:
            starting = maximum(starting, add(container.requests, sidecars))
    return maximum(running, starting)


def _container(container: Container, resources: PodResources) -> ResourceList:
    resize = resources.resizes.get(container.name)
    return container.requests if resize is None else _in_force(container.requests, resize, resources)


def _in_force(spec: ResourceList, resize: ResizeState, resources: PodResources) -> dict[str, int]:
    # The kubelet has refused an infeasible resize: the wish in the spec no longer counts.
    if resources.resize_infeasible:
        return maximum(resize.actuated, resize.allocated)
    return maximum(spec, resize.actuated, resize.allocated)
