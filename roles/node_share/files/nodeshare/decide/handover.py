# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taking a node for batch jobs: pods leave politely until the deadline, then by force, and the node is proven free.

Two ways to serve a lease. *Quiesce*: kubelet and runtime live on, tainted and confined to the housekeeping CPUs. It
needs an API that answers and shows our taint, because only the taint keeps new pods away. *Stop*: kubelet and runtime
are stopped; it needs no API, and is what remains whenever quiesce cannot be trusted.
"""

import json
import zlib
from typing import FrozenSet, Optional, Tuple

from ..model.actions import (
    ACCEPT,
    API,
    BEGIN,
    DEVICES,
    ENDING,
    LOCAL,
    MOUNTED,
    REQUEUE,
    TICK,
    UNITS,
    Action,
    Announce,
    AskBatch,
    Confine,
    Confirm,
    Delete,
    Done,
    Evict,
    Kill,
    Look,
    Remember,
    Report,
    StopUnits,
    Terminate,
    Unmount,
    Wait,
)
from ..model.jobs.lease import Lease
from ..model.node.observed import Api, Observed, Pod
from ..model.node.state import HELD, QUIESCE, STOP, TAKING, NodeState
from ..model.settings import Settings

POLL = 0.2
LONGEST_POLL = 2.0
EVICT_AGAIN = 1.0  # how often a refused eviction is asked for again
DELETE_GRACE = 3.0  # from the deletion at the deadline to the kill: the pods get 1 s, the kubelet the rest
RESERVE = 8.0  # of the caller's limit, for the forceful end
DEVICE_SECONDS = 15.0  # from the end of a pod's processes until its accelerators must be free
UNASKED_GRACE = 30.0  # what Kubernetes gives a pod that does not say; without the API nobody can tell us more
OFF_GRACE = 10.0
MANY_COMEBACKS = 2
MOST_ANNOUNCEMENTS = 3  # of one call: a Node whose taint has gone since it was looked at takes none
COMERS_DEADLINE = 10.0  # of pods that came to a held node: a job runs beside them
ANNOUNCED_AT_MOST = 100
COLLECTED = 300.0  # by then the API has deleted a pod whose DaemonSet does not exist


def take(leases: Tuple[Lease, ...], event: str, settings: Settings, seen: Observed) -> Action:
    memory = seen.memory
    if memory.phase == HELD and event == BEGIN:
        return _confirmation(settings, seen) or join_held(seen, frozenset(memory.keep))
    if seen.now - seen.began > settings.limit:
        return _failed(event, settings, "not free within {:g} s".format(settings.limit))
    for what, known in ((UNITS, seen.active), (API, seen.api), (LOCAL, seen.local)):
        # where nothing runs and nothing was stopped by this call, there is nobody to ask the API for
        asks = seen.active or seen.tried.get("stop") or (memory.phase == HELD and memory.unconfirmed)
        if known is None and (what != API or asks):
            return Look(what)
    api = seen.api if seen.api is not None else Api(False, "no service runs")
    guests = occupants(api, seen.local or frozenset())
    if memory.phase == HELD:
        proven = _still_held(leases, settings, seen, api, guests)
        if proven is not None:
            return proven
    step = _ending(leases, event, seen, api, guests) or _first_word(leases, seen, api)
    if step is not None:
        return step
    way = way_of(settings, seen, api, guests)
    prepared = _prepared(seen, api, way)
    if prepared != memory:
        return Remember(prepared)
    polite = guests
    if way == STOP and not api.tainted and seen.tried.get("evict"):
        # nothing keeps new pods away: wait only for those that were here first, the rest meets a stopped kubelet
        polite = tuple(pod for pod in guests if pod.uid in seen.evicted_at)
    if api.answers and polite:
        step = _send_away(polite, event, settings, seen)
        if step is not None:
            return step
    keep = frozenset(prepared.keep)
    if way == STOP:
        grace = 0.0 if api.answers else min(UNASKED_GRACE, settings.deadline, settings.limit - RESERVE)
        step = clear_by_stop(event, settings, seen, keep=keep, grace=grace)
    else:
        step = _kill_strays(event, settings, seen, keep)
    if step is None:
        step = _last_steps(event, settings, seen, keep, among=None if way == STOP else api.pods)
    if step is not None:
        return step
    return Remember(memory._replace(phase=HELD, idle_since=None))


def _ending(
    leases: Tuple[Lease, ...], event: str, seen: Observed, api: Api, guests: Tuple[Pod, ...]
) -> Optional[Action]:
    """Ask Slurm, once, about a job that the controllers do not name; Done if it is about to end.

    They name a job of Slurm before it begins here, and until it ends. One that was cancelled meanwhile may have lost
    its taint, and what came since is not in its way: its tasks do not start any more. Where Slurm does not say so, such
    as of a job that it does not know, the job comes first. A repair asks about all jobs without a process here.
    """
    key = seen.key
    if event == TICK and all(seen.answers.get(str(lease.key)) == ENDING for lease in leases):
        return Done(ACCEPT, "the job ends already: pods stay")
    if event != BEGIN or key is None or key.wlm != "slurm" or not api.answers or str(key) in api.holders:
        return None
    if api.tainted and not guests:
        return None  # nothing has to leave, and nothing comes
    mine = tuple(lease for lease in leases if lease.key == key)
    if mine and not seen.tried.get("ask"):
        return AskBatch(mine)
    return Done(ACCEPT, "the job ends already: pods stay") if seen.answers.get(str(key)) == ENDING else None


def _first_word(leases: Tuple[Lease, ...], seen: Observed, api: Api) -> Optional[Action]:
    """Announce the leases where nothing is announced: from then on the controllers keep the taint."""
    due = api.answers and not api.announced and seen.tried.get("announce", 0) < MOST_ANNOUNCEMENTS
    return Announce(announcement(leases)) if due else None


def join_held(seen: Observed, keep: FrozenSet[str]) -> Action:
    """One more job on a node that was proven free: no API, no service manager, only a look for processes of pods."""
    memory = seen.memory
    if seen.local is None:
        return Look(LOCAL)
    if seen.local - keep:
        return Remember(memory._replace(phase=TAKING))
    if memory.idle_since is not None:
        return Remember(memory._replace(idle_since=None))
    return Done(ACCEPT, "switched off: batch only" if memory.off else "held by " + memory.way)


def way_of(settings: Settings, seen: Observed, api: Api, guests: Tuple[Pod, ...]) -> str:
    """Quiesce only where the API answers, shows our taint, and pods go and stay away; otherwise stop."""
    memory = seen.memory
    if settings.handover == STOP or memory.stopped or not seen.active:
        return STOP
    comebacks = memory.comebacks + max(0, seen.tried.get("fresh", 0) - 1)
    if not api.answers or not api.tainted or comebacks >= MANY_COMEBACKS:
        return STOP
    if _deleted_long_ago(seen) and any(not pod.leaving for pod in guests):
        return STOP  # what can be neither evicted nor deleted would be started again by a living kubelet
    return QUIESCE


def occupants(api: Api, local: FrozenSet[str]) -> Tuple[Pod, ...]:
    """Pods that are in a job's way. One that only a finalizer holds, without processes, is not."""
    return tuple(
        pod
        for pod in api.pods
        if (not pod.stays and not (pod.over or pod.leaving)) or (not pod.stays and pod.uid in local)
    )


def until_next_look(settings: Settings, seen: Observed) -> float:
    """Return how many seconds to wait before pods that leave are looked for again: a tenth of the time so far, or so.

    The nodes of a large job begin together; each waits a little shorter or longer than the others, by its name.
    """
    share = 0.075 + zlib.crc32(settings.node.encode("utf-8")) % 1000 / 20000
    return min(LONGEST_POLL, max(POLL, share * (seen.now - seen.began)))


def staying(api: Api) -> Tuple[str, ...]:
    return tuple(sorted(pod.uid for pod in api.pods if pod.stays))


def joined(stopped: Tuple[str, ...], active: Tuple[str, ...]) -> Tuple[str, ...]:
    return stopped + tuple(unit for unit in active if unit not in stopped)


def announcement(leases: Tuple[Lease, ...]) -> str:
    """Return the annotation's text: not empty as long as a lease lives, and bounded as an annotation is."""
    return json.dumps([str(lease.key) for lease in leases[:ANNOUNCED_AT_MOST]]) if leases else ""


def clear_by_stop(
    event: str, settings: Settings, seen: Observed, *, keep: FrozenSet[str], grace: float
) -> Optional[Action]:
    """Stop what is active, then end what it leaves running. `grace` is for pods that were not asked to go."""
    if seen.active:
        if seen.tried.get("stop", 0) >= 3:
            return _failed(event, settings, "{} cannot be stopped".format(", ".join(seen.active)))
        return StopUnits(seen.active, force=seen.tried.get("stop", 0) >= 1)
    if seen.local is None:
        return Look(LOCAL)
    left = tuple(sorted(seen.local - keep))
    if left and grace > 0 and seen.now - seen.began < grace:
        return Wait(POLL) if seen.tried.get("terminate") else Terminate(left)
    return _kill_strays(event, settings, seen, keep)


def _last_steps(
    event: str, settings: Settings, seen: Observed, keep: FrozenSet[str], *, among: Optional[Tuple[Pod, ...]]
) -> Optional[Action]:
    """Return what is left to do once no pod runs that has to leave; None when all of it is done."""
    step = give_memory_back(seen, keep, among=among)
    if step is None:
        step = _free_devices(event, settings, seen, keep)
    if step is None and not seen.tried.get("confine"):
        step = Confine(settings.housekeeping_cpus)
    return step


def _free_devices(event: str, settings: Settings, seen: Observed, keep: FrozenSet[str]) -> Optional[Action]:
    """Wait until no pod that has ended has an accelerator open: its driver closes it after the processes are gone."""
    if seen.holding is None or seen.held_since is None:
        return Look(DEVICES)
    holding = [seen.holding[uid] for uid in sorted(seen.holding) if uid not in keep]
    if not holding:
        return None
    if seen.now - seen.held_since < DEVICE_SECONDS and seen.now - seen.began < settings.limit - POLL:
        return Wait(POLL)
    return _failed(event, settings, "devices are in use: {}".format("; ".join(holding[:3])))


def give_memory_back(
    seen: Observed, keep: FrozenSet[str], *, among: Optional[Tuple[Pod, ...]] = None
) -> Optional[Action]:
    """Unmount what ended pods have in memory, once; None when that is done.

    A stopped kubelet unmounts nothing. One that lives does it soon, but a job's memory is checked at once. It may also
    have mounted something for a pod that begins. So only pods count there that are known to leave, `among` these.
    """
    if seen.tried.get("unmount"):
        return None
    if seen.mounted is None:
        return Look(MOUNTED)
    ended = seen.mounted - keep - (seen.local or frozenset())
    if among is not None:
        ended &= frozenset(pod.uid for pod in among if pod.leaving and not pod.stays)
    return Unmount(tuple(sorted(ended))) if ended else None


def _still_held(
    leases: Tuple[Lease, ...], settings: Settings, seen: Observed, api: Api, guests: Tuple[Pod, ...]
) -> Optional[Action]:
    """Judge a held node for a repair: Done if it is as it should be, otherwise None or the way back to taking."""
    memory = seen.memory
    strays = (seen.local or frozenset()) - frozenset(staying(api) if api.answers else memory.keep)
    if memory.way == STOP and not seen.active and not strays:
        return _confirmation(settings, seen) or _confirmed(leases, seen) or Done(ACCEPT, "held by stop")
    if memory.way == QUIESCE and seen.active and not (guests or strays) and not seen.tried.get("confine"):
        return Confine(settings.housekeeping_cpus)  # a kubelet that has started since gives pods all again
    if memory.way == QUIESCE and not api.answers and seen.active and not strays:
        return Done(ACCEPT, "held by quiesce; the API does not answer, so nothing new can be bound here")
    if memory.way == QUIESCE and api.tainted and not guests and not strays and seen.active:
        if api.announced != announcement(leases) and not seen.tried.get("announce"):
            return Announce(announcement(leases))
        return Done(ACCEPT, "held by quiesce")
    came = any(pod.uid not in memory.keep for pod in guests)  # the others stayed, until they were deleted
    return Remember(memory._replace(phase=TAKING, comebacks=memory.comebacks + came))


def _prepared(seen: Observed, api: Api, way: str) -> NodeState:
    """Return what must be on record before the first effect of this way."""
    memory = seen.memory
    keep = staying(api) if api.answers else memory.keep
    stopped = joined(memory.stopped, seen.active or ()) if way == STOP else memory.stopped
    ended = memory.unconfirmed or way == STOP
    return memory._replace(
        phase=TAKING, way=way, keep=keep, stopped=stopped, idle_since=None, confined=True, unconfirmed=ended
    )


def _asked_before(seen: Observed) -> float:
    """Return the seconds before this call in which the controllers asked pods to leave for the same job."""
    api = seen.api
    if api is None or str(seen.key) not in api.holders:
        return 0.0
    return max(0.0, api.held_seconds - (seen.now - seen.began))


def _send_away(guests: Tuple[Pod, ...], event: str, settings: Settings, seen: Observed) -> Optional[Action]:
    deadline = min(settings.deadline, settings.limit - RESERVE)
    if seen.memory.comebacks:
        deadline = min(deadline, COMERS_DEADLINE)
    refusing = tuple(pod for pod in guests if not pod.leaving)
    left = max(deadline - _asked_before(seen), min(deadline, EVICT_AGAIN))
    if seen.now - seen.began < left:
        due = tuple(pod for pod in refusing if seen.now - seen.evicted_at.get(pod.uid, -EVICT_AGAIN) >= EVICT_AGAIN)
        return Evict(due) if due else Wait(until_next_look(settings, seen))
    names = ", ".join("{}/{}".format(pod.namespace, pod.name) for pod in guests[:5])
    if settings.after_deadline == "job_waits" and refusing and not seen.memory.comebacks:  # beside those a job runs
        text = "{} pods may not be disturbed ({}); the job waits".format(len(guests), names)
        if not seen.tried.get("report"):
            return Report("BatchJobWaits", text)
        return Done(REQUEUE if event == BEGIN else ACCEPT, text)
    if not seen.tried.get("report"):
        return Report(
            "DeadlinePassed",
            "{} pods did not leave within {:g} s ({}); a batch job takes the node".format(len(guests), deadline, names),
        )
    if seen.deleted_at is None:
        return Delete(guests)
    return None if _deleted_long_ago(seen) else Wait(POLL)


def _confirmation(settings: Settings, seen: Observed) -> Optional[Action]:
    """Pods that had to leave: without their kubelet they would be leaving for as long as it is stopped.

    Until then a StatefulSet does not replace them. That must be so where a volume is still mounted here: only the
    kubelet can say when it is not, and a second node must not have it before. No job needs any of this, so it comes
    when the node is free and that is on record, and only while the caller waits. A repair does what a call has not come
    to, or what the API shows as leaving only later.
    """
    memory = seen.memory
    if seen.api is None or memory.way != STOP or not memory.unconfirmed or seen.tried.get("confirm"):
        return None
    gone = tuple(pod for pod in seen.api.pods if pod.leaving and not pod.stays and not pod.mounts)
    return Confirm(gone) if gone and seen.now - seen.began + settings.api_timeout < settings.limit else None


def _confirmed(leases: Tuple[Lease, ...], seen: Observed) -> Optional[Action]:
    """Note that the API shows no pod any more whose end only nodeshare can report, and no forged one that stays."""
    if not seen.memory.unconfirmed or seen.api is None or not seen.api.answers:
        return None
    if seen.memory.keep and any(
        lease.boot_id == seen.boot_id and seen.now - lease.began < COLLECTED for lease in leases
    ):
        return None
    if any((pod.leaving or not pod.over) and not pod.stays and not pod.mounts for pod in seen.api.pods):
        return None
    return Remember(seen.memory._replace(unconfirmed=False))


def _deleted_long_ago(seen: Observed) -> bool:
    return seen.deleted_at is not None and seen.now - seen.deleted_at >= DELETE_GRACE


def _kill_strays(event: str, settings: Settings, seen: Observed, keep: FrozenSet[str]) -> Optional[Action]:
    if seen.local is None:
        return Look(LOCAL)
    left = tuple(sorted(seen.local - keep))
    if not left:
        return None
    if seen.tried.get("kill", 0) >= 10:
        text = "processes of {} pods cannot be killed ({})".format(len(left), ", ".join(left[:5]))
        return _failed(event, settings, text)
    return Kill(left)


def _failed(event: str, settings: Settings, reason: str) -> Done:
    return Done(settings.on_failure if event == BEGIN else ACCEPT, reason)
