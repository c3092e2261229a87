# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods request, in thousandths."""

from typing import Any, Dict, Iterable, Mapping, Optional

from ...shared import quantity

GANG_NAMES = (  # annotations and labels by which schedulers know a gang's members
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)
_GRAIN = quantity.NANO // 1000


def thousandths(text: str) -> int:
    """Return a quantity of the API in thousandths, rounded up. ValueError: it is none, or negative."""
    nano = quantity.kubernetes(text)
    if nano < 0:
        raise quantity.QuantityError("{!a} is negative".format(text))
    return -(-nano // _GRAIN)


def amounts(quantities: Optional[Mapping[str, Any]]) -> Dict[str, int]:
    return {str(name): thousandths(str(value)) for name, value in (quantities or {}).items()}


def requests_of(spec: Mapping[str, Any]) -> Dict[str, int]:
    """Return what scheduler and kubelet count for a pod: init containers run before, sidecars beside the others."""
    total: Dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _requested(container))
    highest: Dict[str, int] = {}
    beside: Dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(beside, _requested(container))
            _raise_to(highest, beside)
        else:
            alone = dict(beside)
            _add(alone, _requested(container))
            _raise_to(highest, alone)
    _add(total, beside)
    _raise_to(total, highest)
    total.update(_requested(spec))  # of the pod as a whole, where it says so
    _add(total, amounts(spec.get("overhead")))
    total["pods"] = 1000
    return total


def gang_of(meta: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    named = (spec.get("schedulingGroup") or {}).get("podGroupName")
    if named:
        return str(named)
    for held in (meta.get("annotations") or {}, meta.get("labels") or {}):
        for name in GANG_NAMES:
            if held.get(name):
                return str(held[name])
    return ""


def _requested(holder: Mapping[str, Any]) -> Dict[str, int]:
    return amounts((holder.get("resources") or {}).get("requests"))


def _add(total: Dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0), amount)


def _sum(many: Iterable[Mapping[str, int]]) -> Dict[str, int]:
    total: Dict[str, int] = {}
    for one in many:
        _add(total, one)
    return total
