# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision: leases + event + settings + what is observed -> the next action. Pure, and level-triggered.

The caller carries one action out, looks again and asks again, until `Done`. So every call starts from the node as it
is, not from what an earlier call believed: a call that was killed half-way is continued by whichever comes next. A
decision never needs to know how the node came to where it is, except for what `NodeState` keeps (what *we* stopped).

Order of trust: a live lease beats everything; the API's silence is never read as "no pods" nor as "no job".
"""

from typing import Optional, Tuple

from ..model.actions import (
    ACCEPT,
    ADOPT,
    API,
    BEGIN,
    END,
    OFF,
    ON,
    TICK,
    UNITS,
    Action,
    Announce,
    Done,
    Look,
    Release,
    Remember,
    Report,
    StartUnits,
    WakeReturner,
)
from ..model.jobs.lease import Lease
from ..model.node.observed import SWITCHED_OFF, Api, Observed
from ..model.node.state import HELD, OPEN, STOP, TAKING
from ..model.settings import PLACEHOLDER, Settings
from . import handover
from . import repair as repairing


def decide(leases: Tuple[Lease, ...], event: str, settings: Settings, seen: Observed) -> Action:
    memory = seen.memory
    if memory.boot_id != seen.boot_id:
        # a new boot: clocks and cgroups began anew, and whatever was held must be proven again
        phase = OPEN if memory.phase == OPEN and not memory.stopped and not memory.off else TAKING
        return Remember(
            memory._replace(
                boot_id=seen.boot_id, phase=phase, confined=False, asked=(), idle_since=seen.now - settings.linger
            )
        )
    if memory.forgotten and event != END:
        return Remember(memory._replace(forgotten=False))  # the site has nodeshare again
    if event == TICK:
        repair = repairing.next_step(leases, settings, seen)
        if repair is not None:
            return repair
    if event == ON and memory.off:
        return Remember(memory._replace(off=False, idle_since=seen.now - settings.linger))
    if event == OFF or memory.off:
        return _batch_only(event, settings, seen)
    if settings.mode == PLACEHOLDER:
        from . import beside_pods

        return beside_pods.next_step(leases, event, settings, seen)
    if event == END:
        return _after_end(leases, seen)
    if leases:
        if event in (ADOPT, TICK) and memory.phase == OPEN:
            return _take_where_joined(leases, event, settings, seen)
        return handover.take(leases, event, settings, seen)
    return _give_back(event, settings, seen)


def _take_where_joined(leases: Tuple[Lease, ...], event: str, settings: Settings, seen: Observed) -> Action:
    """Where jobs were adopted the kubelet must still be allowed to join: until then there is nothing to take."""
    if seen.active is None:
        return Look(UNITS)
    if seen.active and seen.api is None:
        return Look(API)
    if seen.api is not None and not seen.api.registered:
        return Done(ACCEPT, "this node has not joined yet: nothing can be bound here")
    if event == ADOPT and not seen.active:
        return Done(ACCEPT, "adopted; no service of Kubernetes runs here yet")
    return handover.take(leases, event, settings, seen)


def _batch_only(event: str, settings: Settings, seen: Observed) -> Action:
    """Give the node to jobs as the kill switch asks: without the API, and without sparing any pod."""
    memory = seen.memory
    if event == END:
        return Done(ACCEPT, "switched off: batch only")
    if event == BEGIN and memory.phase == HELD:
        return handover.join_held(seen, frozenset())
    if seen.active is None:
        return Look(UNITS)
    if seen.active or not memory.off or memory.phase != HELD:
        prepared = memory._replace(
            off=True, phase=TAKING, way=STOP, stopped=handover.joined(memory.stopped, seen.active)
        )
        if prepared != memory:
            return Remember(prepared)
    step = handover.clear_by_stop(event, settings, seen, keep=frozenset(), grace=handover.OFF_GRACE)
    if step is None and memory.phase != HELD:
        step = handover.give_memory_back(seen, frozenset())
    if step is not None:
        return step
    if memory.phase != HELD:
        return Remember(memory._replace(phase=HELD))
    return _told_so(event, seen) or Done(ACCEPT, "switched off: batch only")


def _told_so(event: str, seen: Observed) -> Optional[Action]:
    """Once nothing is left here, and no job waits for it: else all that come wait for pods that the API still shows."""
    if event not in (OFF, TICK):
        return None
    if seen.api is None:
        return Look(API)
    if not seen.api.answers or seen.api.announced == SWITCHED_OFF or seen.tried.get("announce"):
        return None
    return Announce(SWITCHED_OFF)


def _after_end(leases: Tuple[Lease, ...], seen: Observed) -> Action:
    """Note only the time of an end: the linger and the return are the returner's work, as an Epilog must not wait."""
    memory = seen.memory
    if leases:
        return Done(ACCEPT, "{} more on this node".format(len(leases)))
    if memory.phase == OPEN:
        return Done(ACCEPT, "nothing to give back")
    if memory.idle_since is None or memory.idle_since < seen.began:
        return Remember(memory._replace(idle_since=seen.now))
    if not seen.tried.get("wake"):
        return WakeReturner()
    return Done(ACCEPT, "the last one: the node goes back after the linger")


def _give_back(event: str, settings: Settings, seen: Observed) -> Action:
    memory = seen.memory
    if memory.phase == OPEN and not memory.stopped:
        again = _release_again(seen)
        return _keep_in_step(event, seen) if again is None else again  # an action without a field is false
    if memory.idle_since is None:
        return Remember(memory._replace(idle_since=seen.now))
    left = memory.idle_since + settings.linger - seen.now
    if left > 0 and event != ON:
        if event == TICK and not seen.tried.get("wake"):
            return WakeReturner()  # nobody may be waiting for the end of the linger; one who is goes on
        return Done(ACCEPT, "lingers", again_in=left)
    if seen.api is None:
        return Look(API)
    if not seen.api.answers:
        return Done(ACCEPT, "stays with the batch system until the API answers: " + seen.api.why)
    if memory.phase == HELD:
        return Remember(memory._replace(phase=TAKING))  # from here on it is no longer proven free
    if seen.api.announced:
        if seen.tried.get("announce"):
            return Done(ACCEPT, "stays with the batch system: the API did not take the empty announcement")
        return Announce("")
    if memory.confined and not seen.tried.get("release"):
        return Release()
    if memory.stopped:
        if seen.active is None:
            return Look(UNITS)
        missing = tuple(
            unit for unit in reversed(settings.services) if unit in memory.stopped and unit not in seen.active
        )
        if missing and seen.tried.get("start", 0) < 2:
            return StartUnits(missing)
        if missing:
            text = "{} did not start; tried again at the next repair".format(", ".join(missing))
            return Done(ACCEPT, text) if seen.tried.get("report") else Report("ReturnFailed", text)
    return _opened(seen, seen.api)


def _opened(seen: Observed, api: Api) -> Action:
    """Record the last step of the way back. What pods did not get back stays on record for the next repair."""
    held_back = seen.memory.confined and not seen.tried.get("released")
    if held_back and not seen.tried.get("report"):
        return Report("ReleaseFailed", "pods have their cores and memory not back; tried again at the next repair")
    return Remember(
        seen.memory._replace(
            phase=OPEN,
            way="",
            stopped=(),
            confined=held_back,
            comebacks=0,
            idle_since=None,
            keep=handover.staying(api),
            unconfirmed=False,
        )
    )


def _release_again(seen: Observed) -> Optional[Action]:
    """Give back what an earlier call could not; None if nothing of it is left, or this call has failed too."""
    memory = seen.memory
    if memory.confined and seen.tried.get("released"):
        return Remember(memory._replace(confined=False))
    return Release() if memory.confined and not seen.tried.get("release") else None


def _keep_in_step(event: str, seen: Observed) -> Action:
    """Keep the list of staying pods fresh on a node without leases, and drop a stale notice."""
    if event != TICK:
        return Done(ACCEPT, "open to pods")
    if seen.api is None:
        return Look(API)
    if seen.api.answers:
        if seen.api.announced and not seen.tried.get("announce"):
            return Announce("")
        keep = handover.staying(seen.api)
        if keep != seen.memory.keep:
            return Remember(seen.memory._replace(keep=keep))
    return Done(ACCEPT, "open to pods")
