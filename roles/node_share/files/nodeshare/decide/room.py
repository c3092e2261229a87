# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node is free for placeholders, and which pods make room for them. Pure.

Amounts are whole thousandths per resource: Kubernetes' quantities are decimal fractions, and sums must be exact. Which
pods go is the choice of `shared/victims`. Pods as critical as a placeholder stay. The kubelet would free the same room
by itself, and spares these, too, but knows neither gangs nor disruption budgets.
"""

from typing import Dict, Iterable, Mapping, Tuple

from ..model.node.observed import Guest, Room
from ..model.pods.pod_resources import _sum
from ..shared.victims import Candidate, select_victims


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


def _chosen(missing: Mapping[str, int], guests: Iterable[Guest]) -> Tuple[Guest, ...]:
    by_uid = {guest.pod.uid: guest for guest in guests if not guest.stays}
    candidates = [
        Candidate(uid, guest.pod.namespace, guest.priority, guest.gang, guest.requests) for uid, guest in by_uid.items()
    ]
    return tuple(by_uid[uid] for uid in select_victims(candidates, missing))


def fits(need: Mapping[str, int], room: Room) -> bool:
    """Whether `need` fits beside the pods as they are, leaving ones included."""
    present = [guest for guest in room.guests if not guest.pod.over]
    return all(amount <= 0 for amount in _missing(need, room, present).values())


def _missing(need: Mapping[str, int], room: Room, present: Iterable[Guest]) -> Dict[str, int]:
    used = _sum(guest.requests for guest in present)
    return {
        name: amount + used.get(name, 0) - room.allocatable.get(name, 0) for name, amount in need.items() if amount > 0
    }
