# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource lists of the API as exact amounts, and a pod's request from its spec and status."""

from collections.abc import Sequence

from placement.kube.fields.field_error import FieldError, shown
from placement.kube.wire import core
from placement.model.amounts.quantity import (
    CPU,
    MAX_AMOUNT,
    MEMORY,
    Amounts,
    QuantityError,
    is_extended,
    parse_quantity,
    round_amount,
    round_amounts,
)
from placement.model.amounts.request import Container, PodResources, ResizeState, pod_requests

# Integers beyond this many bits are not worth the time to print them.
_MAX_BITS = 256


def read_resources(resources: core.Resources, field: str, *, lenient: bool = False) -> dict[str, int]:
    """Return a resource list in nano units; raise FieldError for a negative or unreadable amount.

    A lenient reading drops such an amount, unless it is one of CPU or memory.
    """
    found: dict[str, int] = {}
    for name, value in (resources or {}).items():
        try:
            found[name] = _quantity(value, f"{field}[{name}]")
        except FieldError:
            if not lenient or name in (CPU, MEMORY):
                raise
    return found


def _quantity(value: core.Quantity, field: str) -> int:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise FieldError(field, "number too large")
    try:
        nano = parse_quantity(value if isinstance(value, str) else str(value))
    except QuantityError as error:
        raise FieldError(field, str(error)) from None
    if nano < 0:
        raise FieldError(field, f"{shown(value)} is negative")
    return nano


def read_bytes(value: core.Quantity, field: str) -> int:
    """Parse an amount of storage into bytes, rounded up as Kubernetes does."""
    return -(-_quantity(value, field) // 10**9)


def read_allocatable(resources: core.Resources) -> Amounts:
    """Return what a node offers; an absurd amount is cut to the most that any pod may ask for.

    An extended resource of which the node has none at present stays in the list: its kubelet counts that, and ignores
    only names that the node does not have.
    """
    nano = read_resources(resources, "status.allocatable")
    amounts = ((name, min(amount, MAX_AMOUNT)) for name, amount in round_amounts(nano))
    return tuple(sorted((*amounts, *((name, 0) for name, amount in nano.items() if not amount and is_extended(name)))))


def read_request(spec: core.PodSpec, status: core.PodStatus) -> Amounts:
    """Return what the pod asks for and is charged with.

    A pod that has a node is never refused for an absurd amount, because the pods of any user could then close nodes:
    the amount is cut. Extended resources that a driver of resource claims has given are not counted, as in the kubelet.
    """
    placed = bool(spec.node_name)
    nano = pod_requests(_pod_resources(spec, status, lenient=placed))
    for name, value in nano.items():
        if not placed and round_amount(name, value) > MAX_AMOUNT:
            raise FieldError(f"spec: requests[{name}]", "more than any node can have")
    return tuple((name, min(amount, MAX_AMOUNT)) for name, amount in round_amounts(nano))


def _pod_resources(spec: core.PodSpec, status: core.PodStatus, *, lenient: bool) -> PodResources:
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    claimed = _claimed(status)
    return PodResources(
        containers=_containers(spec.containers, "spec.containers", claimed, lenient=lenient),
        init_containers=_containers(spec.init_containers, "spec.initContainers", claimed, lenient=lenient),
        overhead=read_resources(spec.overhead, "spec.overhead", lenient=lenient),
        pod_level=(
            read_resources(spec.resources.requests, "spec.resources.requests", lenient=lenient)
            if spec.resources
            else {}
        ),
        resizes={
            item.name: _resize(item.allocated_resources, item.resources, "status.containerStatuses", lenient=lenient)
            for item in statuses
            if item.resources is not None
        },
        pod_resize=(
            None
            if status.resources is None
            else _resize(status.allocated_resources, status.resources, "status", lenient=lenient)
        ),
        resize_infeasible=_resize_infeasible(status),
    )


def _claimed(status: core.PodStatus) -> frozenset[tuple[str, str]]:
    """Return containers and extended resources that a resource claim of the pod stands for."""
    claim = status.extended_resource_claim_status
    mappings = (claim.request_mappings if claim is not None else None) or ()
    return frozenset((item.container_name, item.resource_name) for item in mappings)


def _containers(
    containers: Sequence[core.Container] | None, field: str, claimed: frozenset[tuple[str, str]], *, lenient: bool
) -> tuple[Container, ...]:
    return tuple(
        Container(
            name=item.name,
            requests=_requests(item, f"{field}[{index}].resources.requests", claimed, lenient=lenient),
            restartable=item.restart_policy == "Always",
        )
        for index, item in enumerate(containers or ())
    )


def _requests(
    container: core.Container, field: str, claimed: frozenset[tuple[str, str]], *, lenient: bool
) -> dict[str, int]:
    if container.resources is None:
        return {}
    found = read_resources(container.resources.requests, field, lenient=lenient)
    if not claimed:
        return found
    return {name: nano for name, nano in found.items() if (container.name, name) not in claimed}


def _resize(allocated: core.Resources, actuated: core.Requests, field: str, *, lenient: bool) -> ResizeState:
    return ResizeState(
        allocated=read_resources(allocated, f"{field}.allocatedResources", lenient=lenient),
        actuated=read_resources(actuated.requests, f"{field}.resources.requests", lenient=lenient),
    )


def _resize_infeasible(status: core.PodStatus) -> bool:
    pending = next((item for item in status.conditions or () if item.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"
