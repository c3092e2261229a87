# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries decisions out: read leases and memory, decide, do one thing, look again, until the decision says Done.

Reading, deciding and remembering happen under the store's lock, which is held for milliseconds; what takes time
happens outside, under the `work` lock alone, so that an `end` never waits for an eviction.
"""

import contextlib
import os
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import durable, repairing, view
from .decide import decide
from .jobid import JobKey
from .leases import LeaseStore
from .memory import Memory, MemoryStore
from .settings import Settings
from .view import Api, Done
from .world import World, WorldError

MOST_STEPS = 5000
MOST_UNSEEN = 3  # looks in vain, in a row: a service manager that is late once is no reason to let a job in beside pods


class Told(NamedTuple):
    """What became of a call: the decision's last word, what was done, and what went wrong on the way."""

    done: Done
    memory: Memory  # also where it could not be saved
    counts: Mapping[str, int]
    remarks: Tuple[str, ...]

    @property
    def way(self) -> str:
        return self.memory.way


class Carrier:
    """One call of nodeshare."""

    def __init__(
        self,
        *,
        world: World,
        store: LeaseStore,
        memories: MemoryStore,
        settings: Settings,
        key: Optional[JobKey] = None,
        at_point: Callable[[str], None] = lambda point: None,
    ) -> None:
        self.world = world
        self.store, self.memories = store, memories
        self.settings = settings
        self.key = key
        self.at_point = at_point
        self.unsaved: Optional[Memory] = None
        self.remarks: List[str] = []
        self.counts: Dict[str, int] = {}

    def work_lock(self, seconds: float) -> durable.Lock:
        return durable.Lock(os.path.join(self.store.directory, "work"), seconds=seconds)

    def run(self, event: str, *, began: Optional[float] = None) -> Told:
        """The caller holds the work lock, except for END, which changes nothing but memory.

        `began` is when he began to wait for the lock: that is a part of his time.
        """
        now = self.world.now() if began is None else began
        if event == view.TICK:
            self._mend_fence()
        boot_id = self.world.boot_id()
        seen = view.Observed(now=now, began=now, boot_id=boot_id, memory=Memory(boot_id), key=self.key)
        for _step in range(MOST_STEPS):
            action, seen = self._decide(event, seen)
            if isinstance(action, Done):
                return Told(action, seen.memory, dict(self.counts), tuple(self.remarks))
            if isinstance(action, _AT_ONCE):
                continue
            name = type(action).__name__
            self.at_point("before:" + name)
            seen = self._perform(action, seen)
            self.at_point("after:" + name)
        raise WorldError("no decision after {} steps; please report this".format(MOST_STEPS))

    def _mend_fence(self) -> None:
        """A call may have been killed between fencing a unit and recording it, or between lifting and starting."""
        with self.store.locked():
            memory, remark = self.memories.load(boot_id=self.world.boot_id())
            stopped = memory.stopped
            self.memories.lift(tuple(unit for unit in self.memories.fenced() if unit not in stopped))
            self._remark(self.memories.raise_fence(stopped))
            if not remark and not os.path.lexists(self.memories.path):
                with contextlib.suppress(durable.StoreError):
                    self.memories.save(memory)  # from now on no call has to ask the disk

    def _decide(self, event: str, seen: view.Observed) -> Tuple[view.Action, view.Observed]:
        with self.store.locked():
            leases = self.store.leases()
            memory = self.unsaved
            if memory is None:
                memory, remark = self.memories.load(boot_id=seen.boot_id)
                self._remark(remark)
            seen = seen._replace(now=self.world.now(), memory=memory)
            action = decide(leases, event, self.settings, seen)
            if isinstance(action, view.Remember):
                self._remember(action.memory, closing=bool(leases) or event in (view.BEGIN, view.OFF))
            elif isinstance(action, view.Drop):
                self.store.drop(action.lease)
                self._count("dropped")
                self._remark("dropped {}: {}".format(action.lease.key, action.why))
            elif isinstance(action, (view.Place, view.Unplace, view.DrawFence)):
                self.at_point("before:" + type(action).__name__)
                seen = self._perform(action, seen)  # with the leases that it was decided for
                self.at_point("after:" + type(action).__name__)
        return action, seen

    def _remember(self, memory: Memory, *, closing: bool) -> None:
        """Closing a node goes on without a record (the job comes first); opening one does not."""
        self.at_point("before:Remember")
        try:
            self._remark(self.memories.save(memory))
        except durable.StoreError as error:
            if not closing:
                raise
            self._remark(str(error))
            self.unsaved = memory
        self.at_point("after:Remember")

    def _perform(self, action: view.Action, seen: view.Observed) -> view.Observed:
        if isinstance(action, view.Look):
            try:
                return self._look(action.what, seen)._replace(tried=dict(seen.tried, unseen=0))
            except WorldError as error:
                self._remark(str(error))
                seen = _tried(seen, "unseen")
                again = seen.tried["unseen"] < MOST_UNSEEN and self.world.now() - seen.began < self.settings.limit
                return _unseen(action.what, seen, str(error), again=again)
        seen = self._note(action, seen)
        try:
            if isinstance(action, view.AskBatch):
                seen = seen._replace(answers=self.world.ask_batch(action.leases))
                self._remark(repairing.untold(action.leases, seen.answers))
                return seen
            return self._effect(action, seen)
        except WorldError as error:
            self._remark(str(error))
            return _stale(seen)

    def _look(self, what: str, seen: view.Observed) -> view.Observed:
        if what == view.API:
            return seen._replace(api=self.world.ask_api())
        if what == view.LOCAL:
            return seen._replace(local=self.world.local_pods())
        if what == view.MOUNTED:
            return seen._replace(mounted=self.world.mounted())
        if what == view.DEVICES:
            holding = self.world.device_holders()
            since = self.world.now() if seen.held_since is None else seen.held_since
            return seen._replace(holding=holding, held_since=since)
        if what == view.ROOM:
            return seen._replace(room=self.world.ask_room())
        if what == view.PLACED:
            return seen._replace(placed=self.world.placed())
        if what == view.ADMITTED:
            return seen._replace(admitted=self.world.admitted(seen.placed or {}, self.key))
        if what == view.UNITS:
            return seen._replace(active=self.world.active_units(self.settings.services))
        return seen._replace(life=self.world.life(self.store.leases()))

    def _note(self, action: view.Action, seen: view.Observed) -> view.Observed:
        """What this call has tried, noted before it is tried: a failing effect must not be repeated for ever."""
        now = self.world.now()
        seen = _tried(seen, _KINDS[type(action)])
        if isinstance(action, view.Evict):
            fresh = [pod for pod in action.pods if pod.uid not in seen.evicted_at]
            self._count("evicted", len(fresh))
            seen = _tried(seen, "fresh") if fresh else seen
            return seen._replace(evicted_at=dict(seen.evicted_at, **{pod.uid: now for pod in action.pods}))
        if isinstance(action, view.Delete):
            self._count("deleted", len(action.pods))
            return seen._replace(deleted_at=now)
        if isinstance(action, view.Kill):
            self._count("killed", len(action.uids))
        elif isinstance(action, view.Place):
            self._count("placed", len(action.placeholders))
            return seen._replace(placed_at=now, admitted=None)
        elif isinstance(action, view.Unplace):
            self._count("removed", len(action.names))
        elif isinstance(action, view.AwaitAdmission):
            return seen._replace(admitted=None)
        elif isinstance(action, view.Report):
            self._remark(action.text)
        return seen

    def _effect(self, action: view.Action, seen: view.Observed) -> view.Observed:
        world = self.world
        if isinstance(action, (view.Place, view.Unplace, view.DrawFence, view.AwaitAdmission)):
            return self._effect_beside_pods(action, seen)
        if isinstance(action, view.Announce):
            world.announce(action.text)
            return seen._replace(api=seen.api._replace(announced=action.text) if seen.api else None)
        if isinstance(action, view.Release):
            world.release()
            return _tried(seen, "released")
        if isinstance(action, _CHANGE_NOTHING_SEEN):
            self._effect_apart(action)
            return seen
        if isinstance(action, view.Wait):
            world.sleep(action.seconds)
        elif isinstance(action, view.Evict):
            world.evict(action.pods)
        elif isinstance(action, view.Delete):
            world.delete(action.pods)
        elif isinstance(action, view.StopUnits):
            self._remark(self.memories.raise_fence(action.units))
            world.stop_units(action.units, force=action.force)
        elif isinstance(action, view.StartUnits):
            self.memories.lift(action.units)
            world.start_units(action.units)
        elif isinstance(action, view.Terminate):
            world.terminate(action.uids)
        elif isinstance(action, view.Kill):
            world.kill(action.uids)
        return _stale(seen)

    def _effect_apart(self, action: view.Action) -> None:
        """What is not looked at afterwards."""
        if isinstance(action, view.Confine):
            self.world.confine(action.cpus)
        elif isinstance(action, view.Confirm):
            self.world.confirm(action.pods)
        elif isinstance(action, view.Unmount):
            self.world.unmount(action.uids)
        elif isinstance(action, view.Report):
            self.world.report(action.reason, action.text)
        elif isinstance(action, view.WakeReturner):
            self.world.wake_returner()

    def _effect_beside_pods(
        self, action: Union[view.Place, view.Unplace, view.DrawFence, view.AwaitAdmission], seen: view.Observed
    ) -> view.Observed:
        """After these nothing needs to be looked at anew: what they have done is known."""
        if isinstance(action, view.DrawFence):
            return seen._replace(unfenced=self.world.draw_fence(action.leases))
        placed = dict(seen.placed or {})
        if isinstance(action, view.Place):
            self.world.place(action.placeholders)
            placed.update((one.name, one.uid) for one in action.placeholders)
        elif isinstance(action, view.Unplace):
            self.world.unplace(action.names)
            placed = {name: placed[name] for name in placed if name not in action.names}
        else:
            self.world.sleep(action.seconds)
        return seen._replace(placed=placed)

    def _count(self, what: str, more: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    def _remark(self, remark: str) -> None:
        if remark and remark not in self.remarks:
            self.remarks.append(remark)


# Carried out under the lock, where they were decided.
_AT_ONCE = (view.Remember, view.Drop, view.Place, view.Unplace, view.DrawFence)
_CHANGE_NOTHING_SEEN = (view.Confine, view.Confirm, view.Unmount, view.Report, view.WakeReturner)
_KINDS: Dict[type, str] = {
    view.Wait: "wait",
    view.Announce: "announce",
    view.Evict: "evict",
    view.Delete: "delete",
    view.Confirm: "confirm",
    view.StopUnits: "stop",
    view.StartUnits: "start",
    view.Confine: "confine",
    view.Release: "release",
    view.Terminate: "terminate",
    view.Kill: "kill",
    view.Unmount: "unmount",
    view.Report: "report",
    view.WakeReturner: "wake",
    view.Place: "place",
    view.Unplace: "unplace",
    view.DrawFence: "fence",
    view.AwaitAdmission: "await",
    view.AskBatch: "ask",
}


def _tried(seen: view.Observed, kind: str) -> view.Observed:
    return seen._replace(tried=dict(seen.tried, **{kind: seen.tried.get(kind, 0) + 1}))


def _stale(seen: view.Observed) -> view.Observed:
    """After an effect everything is looked at anew, except an API that was silent: it is not waited for twice."""
    if seen.api is not None and seen.api.answers:
        seen = seen._replace(api=None)
    if seen.room is not None and seen.room.answers:
        seen = seen._replace(room=None)
    return seen._replace(local=None, active=None, placed=None, admitted=None, holding=None)


def _unseen(what: str, seen: view.Observed, why: str, *, again: bool) -> view.Observed:
    """What could not be looked at is taken for the worse, or looked at again: the job needs to know."""
    if what == view.API:
        return seen._replace(api=Api(False, why))
    if what == view.LIFE:
        return seen._replace(life={})
    if what == view.MOUNTED:
        return seen._replace(mounted=frozenset())
    if again:
        return seen
    raise WorldError(why)
