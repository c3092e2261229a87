# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share mode `placeholder`: each lease stands as a static pod of its size, and pods live beside the jobs. Pure.

What the kubelet's directory holds is made equal to the leases, whatever calls it and whatever an earlier call left
undone. Pods in the way are asked to leave before the placeholder comes, deleted at the deadline, and then killed. The
kubelet would make room by force, but waits for each pod as long as that wishes. Without the API it is all the
kubelet's.
"""

from typing import List, Mapping, Optional, Sequence, Tuple

from ..model.actions import (
    ACCEPT,
    ADMITTED,
    BEGIN,
    END,
    PLACED,
    REQUEUE,
    ROOM,
    TICK,
    UNITS,
    Action,
    Announce,
    AwaitAdmission,
    Delete,
    Done,
    DrawFence,
    Evict,
    Kill,
    Look,
    Place,
    Remember,
    Report,
    StartUnits,
    Unplace,
    Wait,
)
from ..model.jobs.lease import Lease
from ..model.node.observed import Guest, Observed, Room
from ..model.node.state import OPEN
from ..model.pods import placeholder
from ..model.pods.placeholder import Planned
from ..model.settings import Settings
from . import fence, room
from .handover import DELETE_GRACE, EVICT_AGAIN, POLL, RESERVE, until_next_look

ADMISSION = 5.0  # from the moment that there is room until the kubelet must have let a placeholder in
HURRY = 3.0  # in which pods may leave at a repair: a job that begins meanwhile waits for its end
LATE = 2.0  # of what is left then: a kubelet that waits for nobody needs tenths of a second
REPAIR = HURRY + DELETE_GRACE + 2 * LATE  # in which a repair makes room; the kubelet or the next one does the rest
LAST_WORDS = 1.0  # of the caller's limit, for the fence and the answer
UNPLACE_TRIES = 2  # of one call: a directory that has become read-only stays so
STUCK = "; placeholders of ended jobs cannot be removed: {}"
QUICK = 0.02  # a pod without anybody in its way is there in hundredths of a second
Plan = Mapping[str, Planned]


def next_step(leases: Tuple[Lease, ...], event: str, settings: Settings, seen: Observed) -> Action:
    if seen.unseen:
        return _fenced(leases, seen, Done(ACCEPT, seen.unseen))
    if seen.placed is None:
        return Look(PLACED)
    stale = _stale(leases, seen)
    if stale and seen.tried.get("unplace", 0) < UNPLACE_TRIES:
        return Unplace(stale)
    if event == END:
        return _fenced(leases, seen, Done(ACCEPT, "{} more on this node{}".format(len(leases), _untold(seen))))
    if seen.active is None:
        return Look(UNITS)
    runs = settings.services[:1] == seen.active[:1]
    if runs and seen.room is None:
        return Look(ROOM)
    seen_room = seen.room if seen.room is not None else Room(False, "the kubelet does not run")
    memory = seen.memory
    if seen_room.answers and room.left_by_stayers(seen_room) != memory.room:
        return Remember(memory._replace(room=room.left_by_stayers(seen_room)))
    plan = placeholder.plan(leases, memory.room, settings)
    todo = _to_place(plan, seen)
    step = _place(todo, plan, event, settings, seen, seen_room) if todo else _reopened(plan, settings, seen, seen_room)
    if step is None and not runs:
        step = Done(ACCEPT, "the kubelet does not run: nothing new can start here")
    if step is None:
        step = _admitted(plan, event, settings, seen, seen_room)
    return _fenced(leases, seen, step) if isinstance(step, Done) else step


def _stale(leases: Tuple[Lease, ...], seen: Observed) -> Tuple[str, ...]:
    """Return the placeholders in the kubelet's directory that no lease has any more."""
    names = {placeholder.name_of(lease.key) for lease in leases}
    return tuple(sorted(name for name in seen.placed or () if name not in names))


def _to_place(plan: Plan, seen: Observed) -> List[Planned]:
    """Leases whose file is not there or is of another size. One that cannot be read any more keeps its file."""
    found = []
    for name, planned in plan.items():
        uid = (seen.placed or {}).get(name, "")
        if not uid or not (planned.lease.corrupt or uid.startswith(planned.stem)):
            found.append(planned)
    return found


def _place(todo: List[Planned], plan: Plan, event: str, settings: Settings, seen: Observed, seen_room: Room) -> Action:
    if seen.tried.get("place", 0) >= 3:
        return _failed(event, settings, "the placeholder cannot be written")
    if not seen.memory.room and any(placeholder.is_whole(planned.lease) for planned in todo):
        return _failed(event, settings, "the API has not told yet what this node has; the whole of it cannot be held")
    step = _make_room(placeholder.need(plan), todo, event, settings, seen, seen_room)
    if step is not None:
        return step
    return Place(tuple(placeholder.make(planned, settings) for planned in todo))


def _make_room(
    need: Mapping[str, int], todo: List[Planned], event: str, settings: Settings, seen: Observed, seen_room: Room
) -> Optional[Action]:
    """Return None when the placeholders may come: they fit, nothing more can be done for them, or no API answers."""
    if not seen_room.answers or room.fits(need, seen_room):
        return None
    deadline = min(settings.deadline, settings.limit - RESERVE)
    going = room.victims(need, seen_room)
    if seen.now - seen.began < (min(deadline, HURRY) if event == TICK else deadline):
        pods = tuple(guest.pod for guest in going)
        due = tuple(pod for pod in pods if seen.now - seen.evicted_at.get(pod.uid, -EVICT_AGAIN) >= EVICT_AGAIN)
        if due:
            return Evict(due)
        leaving = any(guest.pod.leaving and not guest.pod.over for guest in seen_room.guests)
        return Wait(until_next_look(settings, seen)) if pods or leaving else None
    if event == TICK and any(_is_young(planned.lease, deadline, seen) for planned in todo):
        return Done(ACCEPT, "pods have been asked to leave; the next repair looks after them")
    if going and settings.after_deadline == "job_waits":
        text = "{} pods may not be disturbed ({}); the job waits".format(len(going), _names(going))
        if not seen.tried.get("report"):
            return Report("BatchJobWaits", text)
        return Done(REQUEUE if event == BEGIN else ACCEPT, text)
    return _by_force(need, event, settings, seen, seen_room)


def _by_force(
    need: Mapping[str, int], event: str, settings: Settings, seen: Observed, seen_room: Room
) -> Optional[Action]:
    """Delete pods that have not left with a short grace, then kill those that still leave. Return None when that is
    over.

    The kubelet gives a pod that it preempts the pod's own grace and admits nothing meanwhile, and a job does not wait
    for ten minutes. A deletion does not shorten a stop that has begun: the runtime waits until the processes are gone.
    """
    if not seen_room.answers or room.fits(need, seen_room):
        return None
    left = room.victims(need, seen_room) + room.lingering(need, seen_room)
    last = seen.began + settings.limit - LAST_WORDS
    if event == TICK:
        last = min(last, seen.began + REPAIR)  # a job that begins meanwhile waits for its end
    if seen.deleted_at is None:
        if not left or seen.now >= last:
            return None
        if not seen.tried.get("report"):
            text = "{} pods did not leave within {:g} s ({}); a batch job takes their place"
            deadline = min(settings.deadline, settings.limit - RESERVE)
            return Report("DeadlinePassed", text.format(len(left), deadline, _names(left)))
        return Delete(tuple(guest.pod for guest in left))
    if seen.now < min(seen.deleted_at + DELETE_GRACE, last - LATE):
        return Wait(POLL) if left else None
    deaf = tuple(sorted(guest.pod.uid for guest in left if guest.pod.leaving))
    if deaf and not seen.tried.get("kill"):
        return Kill(deaf)
    return Wait(POLL) if deaf and seen.now < last - LATE else None


def _names(guests: Sequence[Guest]) -> str:
    return ", ".join("{}/{}".format(guest.pod.namespace, guest.pod.name) for guest in guests[:5])


def _is_young(lease: Lease, deadline: float, seen: Observed) -> bool:
    return lease.boot_id == seen.boot_id and seen.now - lease.began < deadline


def _reopened(plan: Plan, settings: Settings, seen: Observed, seen_room: Room) -> Optional[Action]:
    """Start again what a kill switch or another share mode has stopped: the placeholders keep the jobs' part.

    The announcement of that mode goes when all placeholders are in. With it the whole node is tainted. Without it, a
    kubelet that does not read them yet would admit pods in their place.
    """
    memory = seen.memory
    missing = tuple(
        unit for unit in reversed(settings.services) if unit in memory.stopped and unit not in (seen.active or ())
    )
    if missing and seen.tried.get("start", 0) < 2:
        return StartUnits(missing)
    if missing:
        text = "{} did not start; tried again at the next repair".format(", ".join(missing))
        return None if seen.tried.get("report") else Report("ReturnFailed", text)
    if seen_room.announced and not seen.tried.get("announce"):
        if plan and seen.admitted is None:
            return Look(ADMITTED)
        if not _out(tuple(plan), seen):
            return Announce("")
    opened = memory._replace(
        phase=OPEN, way="", stopped=(), confined=False, comebacks=0, idle_since=None, unconfirmed=False
    )
    return Remember(opened) if opened != memory else None


def _fenced(leases: Tuple[Lease, ...], seen: Observed, done: Done) -> Action:
    """Draw the fence, the last step before an answer: pods that had to leave have left their memory, too.

    The answer also names the placeholders of ended jobs that could not be removed. They hold room until one can be.
    """
    if not seen.tried.get("fence"):
        return DrawFence(leases)
    stale = _stale(leases, seen)
    return done._replace(reason=done.reason + STUCK.format(", ".join(stale[:3]))) if stale else done


def _admitted(plan: Plan, event: str, settings: Settings, seen: Observed, seen_room: Room) -> Action:
    """Whether the kubelet has let in the call's own placeholder; a repair sees to all of them."""
    names = [name for name, planned in plan.items() if event == TICK or planned.lease.key == seen.key]
    if names and seen.admitted is None:
        return Look(ADMITTED)
    out = _out(names, seen)
    if not out:
        return _held(plan, event, settings, seen)
    again = event == TICK and not seen.tried.get("place")
    step = (
        _make_room(placeholder.need(plan), [plan[name] for name in out], event, settings, seen, seen_room)
        if again
        else None
    )
    if step is not None:
        return step
    since = seen.began if seen.placed_at is None else seen.placed_at
    crowded = not seen_room.answers or not room.fits(placeholder.need(plan), seen_room)
    last = seen.began + settings.limit - LAST_WORDS
    give_up = last if crowded and event == BEGIN else min(since + ADMISSION, last)
    if seen.now < give_up:
        return AwaitAdmission(QUICK if seen.now - since < 1.0 else POLL)
    if again:
        # under another uid: a kubelet does not look twice at a static pod that it has refused
        tries = {name: placeholder.attempt_of((seen.placed or {})[name]) + 1 for name in out}
        return Place(tuple(placeholder.make(plan[name], settings, attempt=tries[name]) for name in out))
    text = "the kubelet has not admitted {}".format(", ".join(out[:3]))
    if not seen.tried.get("report"):
        return Report("PlaceholderRefused", text)
    return _failed(event, settings, text)


def _out(names: Sequence[str], seen: Observed) -> List[str]:
    return [name for name in names if (seen.placed or {})[name] not in (seen.admitted or ())]


def _held(plan: Plan, event: str, settings: Settings, seen: Observed) -> Done:
    """Say that the job has its part. Without a cpuset it may run on any core: then begin fails and names it."""
    if event == BEGIN and seen.tried.get("fence") and seen.unfenced is None:
        return _failed(event, settings, "pods could not be kept off the job's cores")
    group = next((fence.cgroup_of(one.lease) for one in plan.values() if one.lease.key == seen.key), "")
    if seen.unfenced and event == BEGIN and (group or str(seen.key)) in seen.unfenced:
        text = "no cores are told by the cgroup {}; without it only the fences split and counts are possible"
        return _failed(event, settings, text.format(group or "of the job, which is not known"))
    return Done(ACCEPT, "{} held by placeholders{}".format(len(plan), _untold(seen)))


def _untold(seen: Observed) -> str:
    if not seen.unfenced:
        return ""
    text = "; no cores are told by the cgroup {}: pods have no more CPUs than keep house"
    return text.format(", ".join(seen.unfenced[:3]))


def _failed(event: str, settings: Settings, reason: str) -> Done:
    return Done(settings.on_failure if event == BEGIN else ACCEPT, reason)
