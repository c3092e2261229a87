# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node is free for placeholders, and which pods make room for them. Pure.

Amounts are whole thousandths per resource: Kubernetes' quantities are decimal fractions, and sums must be exact.
Who goes: the lowest priority first, members of gangs after pods that stand alone, of one gang rather than of two, and
no more than must; pods as critical as a placeholder stay. The kubelet would free the same room by itself, and spares
these, too, but knows neither gangs nor disruption budgets.
"""

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .view import Guest, Room

GANG_NAMES = (  # annotations and labels by which schedulers know a gang's members
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)
_QUANTITY = re.compile(r"([0-9]{0,30})(?:\.([0-9]{0,30}))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def thousandths(text: str) -> int:
    """A quantity as the API writes it; what is smaller than a thousandth counts as one."""
    found = _QUANTITY.fullmatch(text)
    if found is None or not (found.group(1) or found.group(2)):
        raise ValueError("{} is not a quantity".format(ascii(text[:40])))
    whole, fraction, suffix = found.group(1), found.group(2) or "", found.group(3) or ""
    number, power = int(whole + fraction), 3 - len(fraction)
    if suffix.endswith("i"):
        number *= 1024 ** ("KMGTPE".index(suffix[0]) + 1)
    else:
        power += _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    scale = int(10 ** abs(power))
    return number * scale if power >= 0 else -(-number // scale)


def amounts(quantities: Optional[Mapping[str, Any]]) -> Dict[str, int]:
    return {str(name): thousandths(str(value)) for name, value in (quantities or {}).items()}


def requests_of(spec: Mapping[str, Any]) -> Dict[str, int]:
    """What the scheduler and the kubelet count for a pod: init containers run before, sidecars beside the others."""
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


def left_by_stayers(room: Room) -> Tuple[Tuple[str, int], ...]:
    """What placeholders may have at most: the node's allocatable without the pods that never leave."""
    used = _sum(guest.requests for guest in room.guests if guest.stays and not guest.pod.over)
    return tuple(sorted((name, max(0, amount - used.get(name, 0))) for name, amount in room.allocatable.items()))


def victims(need: Mapping[str, int], room: Room) -> Tuple[Guest, ...]:
    """Pods that must go before `need` fits, besides those that are leaving already."""
    here = [guest for guest in room.guests if not guest.pod.over and not guest.pod.leaving]
    return _chosen(_missing(need, room, here), here)


def lingering(need: Mapping[str, int], room: Room) -> Tuple[Guest, ...]:
    """Pods that are leaving and whose place `need` waits for, when the victims have gone."""
    gone = frozenset(guest.pod.uid for guest in victims(need, room))
    here = [guest for guest in room.guests if not guest.pod.over and guest.pod.uid not in gone]
    return _chosen(_missing(need, room, here), [guest for guest in here if guest.pod.leaving])


def _chosen(missing: Dict[str, int], guests: Iterable[Guest]) -> Tuple[Guest, ...]:
    chosen: List[Guest] = []
    for guest in _in_order((guest for guest in guests if not guest.stays), missing):
        if not any(amount > 0 for amount in missing.values()):
            break
        if any(missing[name] > 0 and guest.requests.get(name) for name in missing):
            chosen.append(guest)
            missing = {name: amount - guest.requests.get(name, 0) for name, amount in missing.items()}
    for guest in reversed(tuple(chosen)):  # a larger one may have made an earlier one needless
        without = {name: amount + guest.requests.get(name, 0) for name, amount in missing.items()}
        if all(amount <= 0 for amount in without.values()):
            chosen.remove(guest)
            missing = without
    return tuple(chosen)


def fits(need: Mapping[str, int], room: Room) -> bool:
    """Whether `need` fits beside the pods as they are, leaving ones included."""
    present = [guest for guest in room.guests if not guest.pod.over]
    return all(amount <= 0 for amount in _missing(need, room, present).values())


def _missing(need: Mapping[str, int], room: Room, present: Iterable[Guest]) -> Dict[str, int]:
    used = _sum(guest.requests for guest in present)
    return {
        name: amount + used.get(name, 0) - room.allocatable.get(name, 0) for name, amount in need.items() if amount > 0
    }


def _in_order(guests: Iterable[Guest], missing: Mapping[str, int]) -> Tuple[Guest, ...]:
    """Of equal priority first those that stand alone, then gang by gang; of each those that free most come first."""
    together: Dict[Tuple[int, str, str, str], List[Guest]] = {}
    for guest in sorted(guests, key=lambda guest: (-_frees([guest], missing), guest.pod.uid)):
        gang = (guest.priority, guest.pod.namespace, guest.gang, "" if guest.gang else guest.pod.uid)
        together.setdefault(gang, []).append(guest)

    def order(some: List[Guest]) -> Tuple[int, bool, int, int, str]:
        first = some[0]
        return (first.priority, bool(first.gang), -_frees(some, missing), -_frees([first], missing), first.pod.uid)

    return tuple(guest for some in sorted(together.values(), key=order) for guest in some)


def _frees(guests: List[Guest], missing: Mapping[str, int]) -> int:
    """How much of what is missing, in thousandths of it."""
    freed = _sum(guest.requests for guest in guests)
    shares = (1000 * min(freed.get(name, 0), amount) // amount for name, amount in missing.items() if amount > 0)
    return max(shares, default=0)


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
