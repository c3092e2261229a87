# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node is free for placeholders, and which pods make room for them. Pure.

Amounts are whole thousandths per resource: Kubernetes' quantities are decimal fractions, and sums must be exact. The
lowest priority goes first, and members of gangs after pods that stand alone, from one gang rather than from two. No
more pods go than must. Pods as critical as a placeholder stay. The kubelet would free the same room by itself, and
spares these, too, but knows neither gangs nor disruption budgets.
"""

from typing import Dict, Iterable, List, Mapping, Tuple

from ..model.node.observed import Guest, Room
from ..model.pods.pod_resources import _sum


def left_by_stayers(room: Room) -> Tuple[Tuple[str, int], ...]:
    """Return what placeholders may have at most: the node's allocatable without the pods that never leave."""
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
