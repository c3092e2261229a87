# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries decisions out: read leases and memory, decide, do one thing, look again, until the decision says Done.

Reading, deciding and remembering happen under the store's lock, which is held for milliseconds. What takes time happens
outside, under the `work` lock alone, so that an `end` never waits for an eviction. A repair lets go of that lock as
well while it asks the batch system or the API, because a job on a held node needs neither answer.
"""

import contextlib
import os
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from ..decide import repair
from ..decide.decide import decide
from ..host.host import Host, HostError
from ..model import actions
from ..model.actions import Done
from ..model.jobs.job_key import JobKey
from ..model.jobs.lease import Lease
from ..model.node import observed
from ..model.node.observed import Api
from ..model.node.state import NodeState
from ..model.settings import PLACEHOLDER, Settings
from ..store import files, lock
from ..store.lease_store import LeaseStore
from ..store.state_store import StateStore

MOST_STEPS = 5000
MOST_TURNS = 3  # of other calls amid the questions of a repair; then it keeps the lock, so that it comes to an end
MOST_UNSEEN = 3  # looks in vain, in a row: a service manager that is late once is no reason to let a job in beside pods


class CallResult(NamedTuple):
    """What became of a call: the decision's last word, what was done, and what went wrong on the way."""

    done: Done
    memory: NodeState  # also where it could not be saved
    counts: Mapping[str, int]
    remarks: Tuple[str, ...]
    unrecorded: str = ""  # why the next call will not know of this memory
    unstarted: Tuple[str, ...] = ()  # units that do not run, although this call has started them

    @property
    def way(self) -> str:
        return self.memory.way


class Executor:
    """One call of nodeshare."""

    def __init__(
        self,
        *,
        world: Host,
        store: LeaseStore,
        memories: StateStore,
        settings: Settings,
        key: Optional[JobKey] = None,
        at_point: Callable[[str], None] = lambda point: None,
    ) -> None:
        self.world = world
        self.store, self.memories = store, memories
        self.settings = settings
        self.key = key
        self.at_point = at_point
        self.unsaved: Optional[NodeState] = None
        self.remarks: List[str] = []
        self.counts: Dict[str, int] = {}
        self.judged: Dict[JobKey, Tuple[int, int]] = {}  # each lease's version when life of its job was looked for

    def work_lock(self, seconds: float) -> lock.Lock:
        return lock.Lock(os.path.join(self.store.directory, "work"), seconds=seconds)

    def run(self, event: str, *, began: Optional[float] = None, held: Optional[lock.Lock] = None) -> CallResult:
        """Carry out an event. The caller holds the work lock, except for END, which changes nothing but the record.

        `began` is when the caller began to wait for the lock: that is a part of its time. `held` is the lock, which a
        repair lets go while it asks. Where another call had it meanwhile, all that was seen is void: the repair begins
        again. Where none had it, the repair is one that has held it all the time.
        """
        now = self.world.now() if began is None else began
        if event == actions.TICK:
            self._mend_fence()
        boot_id = self.world.boot_id()
        fresh = observed.Observed(now=now, began=now, boot_id=boot_id, memory=NodeState(boot_id), key=self.key)
        seen, turns = fresh, 0
        for _step in range(MOST_STEPS):
            action, seen = self._decide(event, seen)
            if isinstance(action, Done):
                if seen.unseen and event != actions.END:
                    raise HostError(seen.unseen)  # the fence is drawn; all else is not known
                unrecorded = self._record_at_last(event)
                unstarted = _unstarted(seen)
                return CallResult(action, seen.memory, dict(self.counts), tuple(self.remarks), unrecorded, unstarted)
            if isinstance(action, _AT_ONCE):
                continue
            if held is None or turns == MOST_TURNS or not _is_question_of_repair(event, action, seen):
                seen = self._carry_out(action, seen)
                continue
            turn = held.turn
            held.let_go()
            seen = self._carry_out(action, seen)
            held.take()
            if held.turn != turn + 1:
                turns += 1
                self.unsaved, seen = None, fresh._replace(began=self.world.now())
                if self._is_forgotten(boot_id):
                    done = Done(actions.ACCEPT, "all was given back while the repair asked")
                    return CallResult(done, seen.memory, dict(self.counts), tuple(self.remarks))
        raise HostError("no decision after {} steps; please report this".format(MOST_STEPS))

    def _carry_out(self, action: actions.Action, seen: observed.Observed) -> observed.Observed:
        name = type(action).__name__
        self.at_point("before:" + name)
        seen = self._perform(action, seen)
        self.at_point("after:" + name)
        return seen

    def _is_forgotten(self, boot_id: str) -> bool:
        with self.store.locked():
            return self.memories.load(boot_id=boot_id)[0].forgotten

    def _mend_fence(self) -> None:
        """Fence again what is on record as stopped: a call may have been killed between the two."""
        with self.store.locked():
            memory, remark = self.memories.load(boot_id=self.world.boot_id())
            self._remark(self.memories.raise_fence(memory.stopped))
            if not remark and not os.path.lexists(self.memories.path):
                with contextlib.suppress(files.StoreError):
                    self.memories.save(memory)  # from now on no call has to ask the disk

    def _decide(self, event: str, seen: observed.Observed) -> Tuple[actions.Action, observed.Observed]:
        with self.store.locked():
            leases = self.store.leases()
            seen = self._without_leases_made_since(leases, seen)
            memory = self.unsaved
            if memory is None:
                memory, remark = self.memories.load(boot_id=seen.boot_id)
                self._remark(remark)
            elif event != actions.ON:
                memory = self._with_switch(memory)
            seen = seen._replace(now=self.world.now(), memory=memory)
            action = decide(leases, event, self.settings, seen)
            if isinstance(action, actions.Remember):
                self._remember(action.memory, closing=bool(leases) or event in (actions.BEGIN, actions.OFF))
            elif isinstance(action, actions.Drop):
                self.store.drop(action.lease)
                self._count("dropped")
                self._remark("dropped {}: {}".format(action.lease.key, action.why))
            elif isinstance(action, (actions.Place, actions.Unplace, actions.DrawFence)):
                seen = self._carry_out(action, seen)  # with the leases that it was decided for
        return action, seen

    def _without_leases_made_since(self, leases: Tuple[Lease, ...], seen: observed.Observed) -> observed.Observed:
        """Forget what was seen and said of a run whose lease another call has made since: it is older than the lease.

        After a loss of the batch system's state an id is given out again: the answer is about the job that had it.
        """
        new = {
            str(lease.key)
            for lease in leases
            if lease.key in self.judged and self.store.version_of(lease.key) != self.judged[lease.key]
        }
        if not new:
            return seen
        life = seen.life and {key: seen.life[key] for key in seen.life if key not in new}
        return seen._replace(life=life, answers={key: seen.answers[key] for key in seen.answers if key not in new})

    def _remember(self, memory: NodeState, *, closing: bool) -> None:
        """Record the node's state. Closing a node goes on without a record (jobs come first); opening does not."""
        self.at_point("before:Remember")
        try:
            self._remark(self.memories.save(memory))
        except files.StoreError as error:
            if not closing:
                raise
            self._remark(str(error))
            self.unsaved = memory
        else:
            self.unsaved = None
        self.at_point("after:Remember")

    def _with_switch(self, memory: NodeState) -> NodeState:
        """Return an unsaved state that obeys the kill switch: `off` records its wish beside a call that runs."""
        known, _remark = self.memories.load(boot_id=memory.boot_id)
        return memory._replace(off=memory.off or known.off)

    def _record_at_last(self, event: str) -> str:
        """Record what could not be recorded when it was done: there may be room by now. Return why that failed.

        An end does not record: it has no work lock, so what another call has recorded meanwhile may be newer.
        """
        if self.unsaved is None or event == actions.END:
            return ""
        try:
            with self.store.locked():
                self.memories.save(self.unsaved if event == actions.ON else self._with_switch(self.unsaved))
        except files.StoreError as error:
            return str(error)
        return ""

    def _perform(self, action: actions.Action, seen: observed.Observed) -> observed.Observed:
        if isinstance(action, actions.Look):
            try:
                return self._look(action.what, seen)._replace(tried=dict(seen.tried, unseen=0))
            except HostError as error:
                self._remark(str(error))
                seen = _tried(seen, "unseen")
                again = seen.tried["unseen"] < MOST_UNSEEN and self.world.now() - seen.began < self.settings.limit
                beside = self.settings.mode == PLACEHOLDER
                return _unseen(action.what, seen, str(error), again=again, beside=beside)
        seen = self._note(action, seen)
        try:
            if isinstance(action, actions.AskBatch):
                seen = seen._replace(answers=self.world.ask_batch(action.leases))
                self._remark(repair.untold(action.leases, seen.answers))
                return seen
            return self._effect(action, seen)
        except HostError as error:
            self._remark(str(error))
            return _stale(seen)

    def _look(self, what: str, seen: observed.Observed) -> observed.Observed:
        if what == actions.API:
            return seen._replace(api=self.world.ask_api())
        if what == actions.LOCAL:
            return seen._replace(local=self.world.local_pods())
        if what == actions.MOUNTED:
            return seen._replace(mounted=self.world.mounted())
        if what == actions.DEVICES:
            holding = self.world.device_holders()
            since = self.world.now() if seen.held_since is None else seen.held_since
            return seen._replace(holding=holding, held_since=since)
        if what == actions.ROOM:
            return seen._replace(room=self.world.ask_room())
        if what == actions.PLACED:
            return seen._replace(placed=self.world.placed())
        if what == actions.ADMITTED:
            return seen._replace(admitted=self.world.admitted(seen.placed or {}, self.key))
        if what == actions.UNITS:
            return seen._replace(active=self.world.active_units(self.settings.services))
        leases = self.store.leases()
        self.judged = {lease.key: self.store.version_of(lease.key) for lease in leases}
        return seen._replace(life=self.world.life(leases))

    def _note(self, action: actions.Action, seen: observed.Observed) -> observed.Observed:
        """Note what this call tries before it is tried: a failing effect must not be repeated for ever."""
        now = self.world.now()
        seen = _tried(seen, _KINDS[type(action)])
        if isinstance(action, actions.Evict):
            fresh = [pod for pod in action.pods if pod.uid not in seen.evicted_at]
            self._count("evicted", len(fresh))
            seen = _tried(seen, "fresh") if fresh else seen
            return seen._replace(evicted_at=dict(seen.evicted_at, **{pod.uid: now for pod in action.pods}))
        if isinstance(action, actions.Delete):
            self._count("deleted", len(action.pods))
            return seen._replace(deleted_at=now)
        if isinstance(action, actions.Kill):
            self._count("killed", len(action.uids))
        elif isinstance(action, actions.Place):
            self._count("placed", len(action.placeholders))
            return seen._replace(placed_at=now, admitted=None)
        elif isinstance(action, actions.Unplace):
            self._count("removed", len(action.names))
        elif isinstance(action, actions.AwaitAdmission):
            return seen._replace(admitted=None)
        elif isinstance(action, actions.Report):
            self._remark(action.text)
        return seen

    def _effect(self, action: actions.Action, seen: observed.Observed) -> observed.Observed:
        world = self.world
        if isinstance(action, (actions.Place, actions.Unplace, actions.DrawFence, actions.AwaitAdmission)):
            return self._effect_beside_pods(action, seen)
        if isinstance(action, actions.Announce):
            world.announce(action.text)
            return seen._replace(api=seen.api._replace(announced=action.text) if seen.api else None)
        if isinstance(action, actions.Release):
            world.release()
            return _tried(seen, "released")
        if isinstance(action, _CHANGE_NOTHING_SEEN):
            self._effect_apart(action)
            return seen
        if isinstance(action, actions.Wait):
            world.sleep(action.seconds)
        elif isinstance(action, actions.Evict):
            world.evict(action.pods)
        elif isinstance(action, actions.Delete):
            world.delete(action.pods)
        elif isinstance(action, actions.StopUnits):
            self._remark(self.memories.raise_fence(action.units))
            world.stop_units(action.units, force=action.force)
        elif isinstance(action, actions.StartUnits):
            self._record_before_lifting(seen.boot_id)
            self.memories.lift(action.units)
            world.start_units(action.units)
        elif isinstance(action, actions.Terminate):
            world.terminate(action.uids)
        elif isinstance(action, actions.Kill):
            world.kill(action.uids)
        return _stale(seen)

    def _record_before_lifting(self, boot_id: str) -> None:
        """Record what the next call needs when a start fails: until now the fence may be all that names the units."""
        with self.store.locked():
            memory, _remark = self.memories.load(boot_id=boot_id)
            try:
                self.memories.save(memory)
            except files.StoreError as error:
                raise HostError("not started, as this is not recorded: {}".format(error)) from error

    def _effect_apart(self, action: actions.Action) -> None:
        """Carry out an effect that is not looked at afterwards."""
        if isinstance(action, actions.Confine):
            self.world.confine(action.cpus)
        elif isinstance(action, actions.Confirm):
            self.world.confirm(action.pods)
        elif isinstance(action, actions.Unmount):
            self.world.unmount(action.uids)
        elif isinstance(action, actions.Report):
            self.world.report(action.reason, action.text)
        elif isinstance(action, actions.WakeReturner):
            self.world.wake_returner()

    def _effect_beside_pods(
        self,
        action: Union[actions.Place, actions.Unplace, actions.DrawFence, actions.AwaitAdmission],
        seen: observed.Observed,
    ) -> observed.Observed:
        """Return the observation after actions with a known effect: nothing needs to be read again."""
        if isinstance(action, actions.DrawFence):
            return seen._replace(unfenced=self.world.draw_fence(action.leases))
        placed = dict(seen.placed or {})
        if isinstance(action, actions.Place):
            self.world.place(action.placeholders)
            placed.update((one.name, one.uid) for one in action.placeholders)
        elif isinstance(action, actions.Unplace):
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


def _unstarted(seen: observed.Observed) -> Tuple[str, ...]:
    """Return the units that were started in vain. Where they were not looked at since, it is not known."""
    if not seen.tried.get("start") or seen.active is None:
        return ()
    return tuple(unit for unit in seen.memory.stopped if unit not in seen.active)


def _is_question_of_repair(event: str, action: actions.Action, seen: observed.Observed) -> bool:
    """Whether a repair asks the batch system or the API, which may answer late, and has done no effect yet."""
    asks = isinstance(action, actions.AskBatch) or (isinstance(action, actions.Look) and action.what in _ASKED_OF_API)
    return asks and event == actions.TICK and not frozenset(seen.tried) - {"ask", "unseen"}


_ASKED_OF_API = (actions.API, actions.ROOM)
# Carried out under the lock, where they were decided.
_AT_ONCE = (actions.Remember, actions.Drop, actions.Place, actions.Unplace, actions.DrawFence)
_CHANGE_NOTHING_SEEN = (actions.Confine, actions.Confirm, actions.Unmount, actions.Report, actions.WakeReturner)
_KINDS: Dict[type, str] = {
    actions.Wait: "wait",
    actions.Announce: "announce",
    actions.Evict: "evict",
    actions.Delete: "delete",
    actions.Confirm: "confirm",
    actions.StopUnits: "stop",
    actions.StartUnits: "start",
    actions.Confine: "confine",
    actions.Release: "release",
    actions.Terminate: "terminate",
    actions.Kill: "kill",
    actions.Unmount: "unmount",
    actions.Report: "report",
    actions.WakeReturner: "wake",
    actions.Place: "place",
    actions.Unplace: "unplace",
    actions.DrawFence: "fence",
    actions.AwaitAdmission: "await",
    actions.AskBatch: "ask",
}


def _tried(seen: observed.Observed, kind: str) -> observed.Observed:
    return seen._replace(tried=dict(seen.tried, **{kind: seen.tried.get(kind, 0) + 1}))


def _stale(seen: observed.Observed) -> observed.Observed:
    """Have everything read again after an effect, except from an API that was silent: it is not waited for twice."""
    if seen.api is not None and seen.api.answers:
        seen = seen._replace(api=None)
    if seen.room is not None and seen.room.answers:
        seen = seen._replace(room=None)
    return seen._replace(local=None, active=None, placed=None, admitted=None, holding=None)


def _unseen(what: str, seen: observed.Observed, why: str, *, again: bool, beside: bool) -> observed.Observed:
    """Return what to assume of something that could not be looked at: the worse, or another look.

    Beside pods the decision draws the fence before it answers, so it is told once that a look fails.
    """
    if what == actions.API:
        return seen._replace(api=Api(False, why))
    if what == actions.LIFE:
        return seen._replace(life={})
    if what == actions.MOUNTED:
        return seen._replace(mounted=frozenset())
    if again:
        return seen
    if beside and not seen.unseen:
        return seen._replace(unseen=why)
    raise HostError(why)
