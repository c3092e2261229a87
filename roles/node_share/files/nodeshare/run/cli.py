# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of nodeshare: arguments and settings in, an exit code and one log line out, in bounded time.

Every error of `begin` and `end` ends in the outcome that the site has chosen, also a wrong argument. A batch system
must get an answer that it understands, and never a traceback.
"""

import contextlib
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..host.host import Host, HostError
from ..model import actions
from ..model import settings as site
from ..model.jobs import job_key
from ..model.jobs.lease import Ended, Lease
from ..model.node.state import HELD
from ..model.settings import Settings
from ..store import files, log_line, settings_file
from ..store.lease_store import LeaseStore
from ..store.state_store import StateStore
from .executor import CallResult, Executor
from .recover_leases import lease_of, recover_leases

EXIT = {actions.ACCEPT: 0, actions.REQUEUE: 75, actions.DRAIN: 69}
FAILED, USAGE = 1, 2
TELL_SECONDS, TICKS = 2.0, 3
OVERTIME = 10.0  # after the limit, when even the forceful end hangs
EXPECTED = (files.StoreError, HostError, job_key.JobIdError, OSError)
WITHOUT_MODE = ("begin", "end", "off", "forget")  # neither a job nor the way back waits for settings
MODE_UNKNOWN = "the share mode is not known: nothing is done to services and pods"


class TimeUp(Exception):
    """The backstop: whatever hangs, the caller gets its answer."""


class Call:
    """What all commands share."""

    def __init__(self, settings: Settings, world: Host, *, mode_known: bool = True) -> None:
        self.settings = settings
        self.mode_known = mode_known
        self.world = world
        self.began = world.now()
        whole = settings.mode == site.HANDOVER
        self.store = LeaseStore(settings.run_dir, whole_nodes=whole, lock_seconds=settings.limit)
        self.memories = StateStore(settings.run_dir, settings.state_dir)

    def carrier(self, key: Optional[job_key.JobKey] = None) -> Executor:
        return Executor(world=self.world, store=self.store, memories=self.memories, settings=self.settings, key=key)

    def act(self, event: str, key: Optional[job_key.JobKey] = None) -> CallResult:
        """For a job the time counts from the beginning of the call: what a lock has cost is not there for pods."""
        carrier, now = self.carrier(key), self.world.now()
        began = self.began if event == actions.BEGIN else now
        with carrier.work_lock(max(1.0, began + self.settings.limit - now)) as held:
            return carrier.run(event, began=began, held=held)

    def is_switched_off(self) -> bool:
        """Return what the record says, which the next call goes by."""
        return self.memories.load(boot_id=self.world.boot_id())[0].off

    def keep(self) -> str:
        """Write to disk what must outlive the boot; answer why that failed. No job waits for this."""
        try:
            self.memories.keep(boot_id=self.world.boot_id())
        except EXPECTED as error:
            return "will not outlive a reboot: {}".format(error)
        return ""


def main(argv: Sequence[str], *, make_world: Callable[[Settings], Host]) -> int:
    began = time.monotonic()
    os.umask(0o077)
    from . import arguments

    try:
        options = arguments.parse(argv)
    except arguments.UsageError as error:
        return _wrong_usage(argv, str(error))
    if options.command == "controller":
        from ..controller import service

        return service.main(options.settings)
    loaded = settings_file.load(options.settings)
    settings, remark = loaded.settings, loaded.remark
    if not loaded.mode_known and options.command not in WITHOUT_MODE:
        _tell([("event", options.command), ("error", remark)], bad=True)
        return FAILED
    if getattr(options, "limit", None):
        settings = settings._replace(limit=float(options.limit))
    command = _COMMANDS[options.command]
    facts: List[Tuple[str, object]] = [("event", options.command), ("settings", remark)]
    world = make_world(settings)
    _set_alarm(settings, options)
    try:
        code, more = command(options, Call(settings, world, mode_known=loaded.mode_known))
    except (*EXPECTED, TimeUp) as error:
        code, more = _failure(options.command, settings, str(error))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        world.close()
    if options.command != "show" or more:
        facts += [*more, ("seconds", time.monotonic() - began)]
        _tell(facts, bad=bool(code or remark or dict(more).get("error")))
    return code


def _set_alarm(settings: Settings, options: Any) -> None:
    def up(_number: int, _frame: Optional[FrameType]) -> None:
        raise TimeUp("not done within {:g} s".format(seconds))

    seconds = settings.limit + OVERTIME + (120.0 if options.command == "fence" else 0.0)
    if getattr(options, "linger", False):
        seconds += settings.linger + settings.limit
    signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _failure(command: str, settings: Settings, reason: str) -> Tuple[int, List[Tuple[str, object]]]:
    if command in ("begin", "end"):
        outcome = settings.on_failure
        code = EXIT[outcome] if command == "begin" or outcome == actions.ACCEPT else EXIT[actions.DRAIN]
        return code, [("outcome", outcome), ("error", reason)]
    return FAILED, [("error", reason)]


def _wrong_usage(argv: Sequence[str], reason: str) -> int:
    """Answer wrong usage: a job id that looks like an option costs no traceback and drains no node unasked."""
    command = next((word for word in argv if word in ("begin", "end")), "")
    if not command:
        sys.stderr.write("nodeshare: {}\nsee `nodeshare --help`\n".format(reason))
        return USAGE
    settings = settings_file.load(argv[1] if argv[0] == "--settings" else site.PATH).settings
    code, facts = _failure(command, settings, reason)
    _tell([("event", command), *facts], bad=True)
    return code


def _tell(facts: List[Tuple[str, object]], *, bad: bool) -> None:
    """Tell the line of this call, for TELL_SECONDS at most: a log that takes nothing must not hold a job.

    The C library tries a second time when a signal ends its first, and Python tries to write to stderr until a handler
    raises. So there are several signals, and the last one raises.
    """
    ticks: List[int] = []

    def tick(_number: int, _frame: Optional[FrameType]) -> None:
        ticks.append(1)
        if len(ticks) == TICKS:
            raise TimeUp()

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TELL_SECONDS, 0.1)
    try:
        log_line.tell(log_line.line(facts), bad=bad)
    except TimeUp:
        pass  # the exit code still answers the caller
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _begin(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    key = job_key.parse(options.wlm, options.job, options.run)
    facts: List[Tuple[str, object]] = [("wlm", key.wlm), ("job", key.job), ("run", key.run)]
    lease = lease_of(key, call.world, options)._replace(start=options.start)
    unrecorded, answer = "", ""
    try:
        call.store.prepare()
        with call.store.locked():
            answer = call.store.begin(lease, mark_life=call.settings.mark_life)
    except files.StoreError as error:
        unrecorded = str(error)  # the node is freed all the same: the job comes before our records
        call.store.keep(lease)
    if answer == "ended":
        return 0, [
            *facts,
            ("outcome", actions.ACCEPT),
            ("reason", "this run has ended already; nothing is held for it"),
        ]
    if not call.mode_known:
        code, more = _failure("begin", call.settings, "; ".join(filter(None, (unrecorded, MODE_UNKNOWN))))
        return code, [*facts, ("lease", answer), *more]
    try:
        told = call.act(actions.BEGIN, key)
    except EXPECTED as error:
        code, more = _failure("begin", call.settings, unrecorded or str(error))
        return code, [*facts, *more]
    if unrecorded:
        answer, unrecorded = _recorded_after_all(call, lease)
    outcome = told.done.outcome
    if unrecorded and outcome == actions.ACCEPT:
        outcome = call.settings.on_failure
    return EXIT[outcome], [*facts, ("outcome", outcome), ("lease", answer), *_told(told), ("error", unrecorded)]


def _recorded_after_all(call: Call, lease: Lease) -> Tuple[str, str]:
    """Record a lease that could not be written when the call began; there may be room by now.

    Returns the store's answer, and the error where it could not be recorded this time either.
    """
    try:
        with call.store.locked():
            return call.store.begin(lease, mark_life=call.settings.mark_life), ""
    except files.StoreError as error:
        return "", str(error)


def _end(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    key = job_key.parse(options.wlm, options.job, options.run)
    call.store.prepare()
    ended = Ended(key, call.world.boot_id(), call.world.now(), options.start)
    answer = unrecorded = ""
    try:
        with call.store.locked():
            answer = call.store.end(ended)
    except files.StoreError as error:
        unrecorded = str(error)
    told = _told(call.carrier().run(actions.END)) if call.mode_known else [("error", MODE_UNKNOWN)]
    code, more = _failure("end", call.settings, unrecorded) if unrecorded else (0, [])
    return code, [("wlm", key.wlm), ("job", key.job), ("run", key.run), ("lease", answer), *told, *more]


def _adopt(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    leases = [lease_of(job_key.parse(options.wlm, job.job, job.run), call.world, job) for job in options.jobs]
    call.store.prepare()
    with call.store.locked():
        answers = [call.store.begin(lease, mark_life=0.0, adopted=True) for lease in leases]
    told = call.act(actions.ADOPT)
    return 0, [("wlm", options.wlm), ("jobs", len(leases)), ("new", answers.count("new")), *_told(told)]


def _repair(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    call.store.prepare()
    made_up = recover_leases(options.jobs, options.wlm, store=call.store, settings=call.settings, world=call.world)
    give_up = call.world.now() + call.settings.linger + call.settings.limit
    earlier: Optional[CallResult] = None
    while True:
        with call.store.locked():
            call.store.tidy(boot_id=call.world.boot_id(), now=call.world.now(), mark_life=call.settings.mark_life)
        told = earlier = _together(earlier, call.act(actions.TICK))
        again_in = told.done.again_in
        if not options.linger or again_in is None or call.world.now() + again_in > give_up:
            corrupt = [str(lease.key) for lease in call.store.leases() if lease.corrupt]
            return 0, [*made_up, *_told(told), ("unreadable", ",".join(corrupt)[:200]), ("disk", call.keep())]
        call.world.sleep(again_in)


def _together(earlier: Optional[CallResult], later: CallResult) -> CallResult:
    """Return what one call has done before a linger and after it."""
    if earlier is None:
        return later
    counts = {
        name: earlier.counts.get(name, 0) + later.counts.get(name, 0) for name in {**earlier.counts, **later.counts}
    }
    remarks = earlier.remarks + tuple(remark for remark in later.remarks if remark not in earlier.remarks)
    return later._replace(counts=counts, remarks=remarks)


def _fence(_options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    """Behind every start of the kubelet, beside all that jobs ask for meanwhile."""
    from .fence_watch import Refencing

    call.store.prepare()
    again = Refencing(call.settings, call.world, call.store, call.memories)
    drawn, error = again.watch(work_lock=call.carrier().work_lock)
    return 0, [("drawn", drawn), ("error", error)]


def _off(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    """Switch the node off. The wish is on record before the lock is waited for: a begin amid an eviction obeys it.

    It comes to the disk last, for a disk may hang.
    """
    call.store.prepare()
    with contextlib.suppress(files.StoreError), call.store.locked():  # tried again when the node is held
        memory, _remark = call.memories.load(boot_id=call.world.boot_id())
        call.memories.save(memory._replace(off=True))
    told = call.act(actions.OFF)
    kept = call.keep()
    errors = []
    if told.memory.phase != HELD:
        errors.append("pods may run on: " + (told.done.reason or "the node is not held"))
    if told.unrecorded:
        then = "goes on" if call.is_switched_off() else "opens the node"
        errors.append("the next repair {}, as this is not recorded: {}".format(then, told.unrecorded))
    return FAILED if errors else 0, [*_told(told), ("error", "; ".join(filter(None, (*errors, kept))))]


def _on(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    """Switch the node on again. It opens when its jobs have ended and the API answers, which a repair sees to."""
    call.store.prepare()
    facts: List[Tuple[str, object]] = []
    errors = []
    try:
        told = call.act(actions.ON)
        facts, unrecorded = _told(told), told.unrecorded
        if told.unstarted:
            errors.append("not open yet: {} did not start; each repair tries again".format(", ".join(told.unstarted)))
    except files.StoreError as error:
        unrecorded = str(error)
    if unrecorded:
        then = "still switched off" if call.is_switched_off() else "the next repair goes on"
        errors.append("{}: {}".format(then, unrecorded))
    kept = call.keep()
    return FAILED if errors else 0, [*facts, ("error", "; ".join(filter(None, (*errors, kept))))]


def _forget(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    """Give back what jobs have taken, although they run, and ask no other system. May be done again.

    Where a kubelet is about to go that has pods beside jobs, they end first: nothing but the fence keeps them apart.
    """
    call.store.prepare()
    errors: List[str] = []
    ended: Tuple[str, ...] = ()
    beside = call.settings.mode == site.PLACEHOLDER or not call.mode_known
    if beside and set(options.leave).intersection(call.settings.services[:1]) and call.store.leases():
        told = call.act(actions.OFF)
        if told.memory.phase != HELD:
            return FAILED, [("error", "pods still run beside jobs: " + told.done.reason)]
        ended = told.memory.stopped  # a full disk may know nothing of it
    with call.carrier().work_lock(call.settings.limit):
        with call.store.locked():
            memory, remark = call.memories.load(boot_id=call.world.boot_id())
            try:  # first: what starts with the kubelet would take the cores again
                call.memories.save(memory._replace(confined=False, forgotten=True))
            except files.StoreError as error:
                remark = str(error)
        stopped = tuple(unit for unit in reversed(memory.stopped or ended) if unit not in options.leave)
        call.memories.lift(call.memories.fenced() + call.memories.kept())
        steps: List[Callable[[], None]] = [call.world.release]
        if beside:
            steps.append(lambda: call.world.unplace(tuple(call.world.placed())))
        if stopped:
            steps.append(lambda: call.world.start_units(stopped))
        for step in steps:
            try:
                step()
            except HostError as error:
                errors.append(str(error))
    stays = "" if set(options.leave).intersection(call.settings.services[:1]) else _withdraw(call.world)
    facts: List[Tuple[str, object]] = [("started", ",".join(stopped)), ("remarks", remark), ("api", stays)]
    return FAILED if errors else 0, [*facts, ("error", "; ".join(errors))]


def _withdraw(world: Host) -> str:
    """Take the announcement from the Node: nothing here will do so later. Return what keeps it there."""
    seen = world.ask_api()
    why = seen.why
    if seen.answers or not seen.registered:
        if not seen.announced:
            return ""
        try:
            world.announce("")
            return ""
        except HostError as error:
            why = str(error)
    return "the Node still announces jobs: " + why


def _show(options: Any, call: Call) -> Tuple[int, List[Tuple[str, object]]]:
    from . import show

    placed = call.world.placed() if call.settings.mode == site.PLACEHOLDER else None
    call.store.prepare()
    boot_id = call.world.boot_id()
    sys.stdout.write(show.text(call.store, call.memories, boot_id=boot_id, as_json=options.json, placed=placed))
    return 0, []


def _told(told: CallResult) -> List[Tuple[str, object]]:
    counts: List[Tuple[str, object]] = [(name, told.counts[name]) for name in sorted(told.counts) if told.counts[name]]
    return [("way", told.way), *counts, ("reason", told.done.reason), ("remarks", "; ".join(told.remarks)[:400])]


_COMMANDS: Dict[str, Callable[[Any, Call], Tuple[int, List[Tuple[str, object]]]]] = {
    "begin": _begin,
    "end": _end,
    "adopt": _adopt,
    "repair": _repair,
    "fence": _fence,
    "off": _off,
    "on": _on,
    "forget": _forget,
    "show": _show,
}
