# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource lists of the API as exact amounts, and a pod's request from its spec and status."""

from collections.abc import Sequence

from placement.kube import wire
from placement.kube.field_error import FieldError, shown
from placement.model.quantity import MAX_AMOUNT, Amounts, QuantityError, parse_quantity, round_amount, round_amounts
from placement.model.request import Container, PodResources, ResizeState, pod_requests

# Integers beyond this many bits are not worth the time to print them.
_MAX_BITS = 256


def read_resources(resources: wire.Resources, field: str) -> dict[str, int]:
    """A resource list in nano units; negative amounts are refused."""
    return {} if not resources else {name: _quantity(value, f"{field}[{name}]") for name, value in resources.items()}


def _quantity(value: wire.Quantity, field: str) -> int:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise FieldError(field, "number too large")
    try:
        nano = parse_quantity(value if isinstance(value, str) else str(value))
    except QuantityError as error:
        raise FieldError(field, str(error)) from None
    if nano < 0:
        raise FieldError(field, f"{shown(value)} is negative")
    return nano


def read_bytes(value: wire.Quantity, field: str) -> int:
    """An amount of storage, rounded up as Kubernetes does."""
    return -(-_quantity(value, field) // 10**9)


def read_allocatable(resources: wire.Resources) -> Amounts:
    """What a node offers. An absurd amount is cut: the node has no less of it than any pod may ask for."""
    amounts = round_amounts(read_resources(resources, "status.allocatable"))
    return tuple((name, min(amount, MAX_AMOUNT)) for name, amount in amounts)


def read_request(spec: wire.PodSpec, status: wire.PodStatus) -> Amounts:
    """What the pod asks for and is charged with."""
    nano = pod_requests(_pod_resources(spec, status))
    for name, value in nano.items():
        if round_amount(name, value) > MAX_AMOUNT:
            raise FieldError(f"spec: requests[{name}]", "more than any node can have")
    return round_amounts(nano)


def _pod_resources(spec: wire.PodSpec, status: wire.PodStatus) -> PodResources:
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return PodResources(
        containers=_containers(spec.containers, "spec.containers"),
        init_containers=_containers(spec.init_containers, "spec.initContainers"),
        overhead=read_resources(spec.overhead, "spec.overhead"),
        pod_level=read_resources(spec.resources.requests, "spec.resources.requests") if spec.resources else {},
        resizes={
            item.name: _resize(item.allocated_resources, item.resources, "status.containerStatuses")
            for item in statuses
            if item.resources is not None
        },
        pod_resize=(
            None if status.resources is None else _resize(status.allocated_resources, status.resources, "status")
        ),
        resize_infeasible=_resize_infeasible(status),
    )


def _containers(containers: Sequence[wire.Container] | None, field: str) -> tuple[Container, ...]:
    return tuple(
        Container(
            name=item.name,
            requests=(
                read_resources(item.resources.requests, f"{field}[{index}].resources.requests")
                if item.resources
                else {}
            ),
            restartable=item.restart_policy == "Always",
        )
        for index, item in enumerate(containers or ())
    )


def _resize(allocated: wire.Resources, actuated: wire.Requests, field: str) -> ResizeState:
    return ResizeState(
        allocated=read_resources(allocated, f"{field}.allocatedResources"),
        actuated=read_resources(actuated.requests, f"{field}.resources.requests"),
    )


def _resize_infeasible(status: wire.PodStatus) -> bool:
    pending = next((item for item in status.conditions or () if item.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"
