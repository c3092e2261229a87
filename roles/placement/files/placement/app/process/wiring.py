# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the daemon, put together: threads, connections, and which part talks to which."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from placement.app.batch_worker import BatchWorker, backing_settings, identities_of, ledger_of
from placement.app.loop.loop import Loop
from placement.app.settings.settings import Settings, identity
from placement.app.telemetry.journal import Journal
from placement.app.telemetry.logs import Log
from placement.app.telemetry.metrics import Metrics
from placement.app.topology import TopologyView, read_topology
from placement.core.scheduler import Scheduler
from placement.kube.leader_election import LeaderElection, NoElection
from placement.kube.transport.backoff import Backoff
from placement.kube.transport.credentials import Credentials
from placement.kube.transport.http1 import Connection
from placement.kube.watch.reflector import SILENT_SECONDS, Reflector
from placement.kube.watch.watched_resources import sources
from placement.kube.write.dispatcher import Dispatcher
from placement.kube.write.event_recorder import EventRecorder, Limiter
from placement.kube.write.executor import Executor, Telling, told
from placement.kube.write.retrying_client import RetryingClient
from placement.kube.write.unreadable_objects import UnreadableReporter
from placement.model.batch import BackingSettings
from placement.model.messages.action import Action
from placement.model.messages.event import Event

ANNOUNCERS: Final = 16
# A binding that takes longer than this is asked for again. Where a whole network goes silent, a pod waits until a watch
# has noticed, or until its binding has on a connection that was just in use: within half a minute either way.
_WRITE_SECONDS: Final = 15.0
_LEASE_SECONDS: Final = 4.0
# A view that is older is none: a node may have gone meanwhile.
STALE_SECONDS: Final = 60.0
# That Events are shed is logged no more often than this; each is counted.
_SHED_SECONDS: Final = 60.0


@dataclass(slots=True)
class Switches:
    """How things come to an end: `closing` stops writing, `stop` stops everything."""

    closing: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    # The error that ended it, if one did.
    crash: BaseException | None = None
    # When the end began, in monotonic seconds.
    closed: float | None = None

    def close(self) -> None:
        """Begin the end: nothing more is decided or written."""
        if self.closed is None:
            self.closed = time.monotonic()
        self.closing.set()


class Assembly:
    """Everything that runs; `start` starts it, `finish` ends it in the right order."""

    def __init__(self, settings: Settings, credentials: Credentials, *, unique: str, log: Log) -> None:
        self.settings = settings
        self.log = log
        self.metrics = Metrics()
        self.switches = Switches()
        self.identity = identity(unique)
        self._credentials = credentials
        self.leadership = self._election()
        self.announcer = EventRecorder(
            Limiter(self._event_rate),
            stop=self.switches.stop,
            controller=settings.scheduler_name,
            instance=self.identity,
            lost=self._event_lost,
            shed=self._event_shed,
            most=settings.events_waiting,
        )
        self.carrier = Dispatcher(self._performer, self._put, binders=settings.binders, crashed=self.crashed)
        identities = identities_of(settings)
        scheduler = self._scheduler(backing_settings(settings, identities))
        self.topology = TopologyView(scheduler.cluster, scheduler.graph)
        self.batch = BatchWorker(
            ledger_of(settings, identities),
            self.carrier,
            put=self._put,
            stop=self.switches.stop,
            may_write=self.may_write,
            observe=self._observe,
            log=self._log,
        )
        self.loop = Loop(
            scheduler,
            carrier=self.batch,
            metrics=self.metrics,
            may_decide=self.may_decide,
            decided=self._tell,
            binders=settings.binders,
            slice_seconds=settings.slice_milliseconds / 1000,
        )
        self.refusals = UnreadableReporter(
            settings.scheduler_name,
            may_write=self.may_write,
            tell=self.announcer.tell,
            carry=self.carrier.carry,
            log=self._log,
        )
        self.reflectors = self._watches()
        self._journal = self._decisions() if settings.journal else None
        self._journal_error = ""
        self._announcers: list[threading.Thread] = []
        self._electing: threading.Thread | None = None
        self._shed_logged = float("-inf")
        self._synced = False

    def _scheduler(self, backing: BackingSettings) -> Scheduler:
        settings = self.settings
        return Scheduler(
            settings.configuration,
            scheduler_name=settings.scheduler_name,
            default_queue=settings.default_queue,
            partial_gang_seconds=settings.half_gang_seconds,
            reserve_after=settings.reserve_after_seconds,
            backing=backing,
            topology=read_topology(settings),
            timed=self.metrics.timed,
        )

    def _election(self) -> LeaderElection | NoElection:
        if not self.settings.leader_election:
            return NoElection()
        return LeaderElection(
            self.settings.terms(self.identity),
            self._connect(_LEASE_SECONDS),
            stop=self.switches.closing,
            log=self._log,
        )

    def _decisions(self) -> Journal:
        settings = self.settings
        most_bytes = settings.journal_megabytes << 20
        return Journal(
            Path(settings.journal), most_bytes=most_bytes, files=settings.journal_files, lost=self._journal_lost
        )

    def _watches(self) -> list[Reflector]:
        return [
            Reflector(
                source,
                self._connect(SILENT_SECONDS),
                self.loop.put,
                stop=self.switches.stop,
                log=self._log,
                refused=self.refusals.note,
            )
            for source in sources()
        ]

    def start(self) -> None:
        """Start all threads; the loop itself runs in the caller's thread."""
        for reflector in self.reflectors:
            self._thread(f"watch-{reflector.source.name}", reflector.run)
        self.carrier.start()
        for name, body in self.batch.bodies():
            self._thread(name, body)
        self._announcers = [
            self._thread(f"events-{index}", lambda: self.announcer.run(self._sender(lambda: True)))
            for index in range(ANNOUNCERS)
        ]
        if isinstance(self.leadership, LeaderElection):
            self._electing = self._thread("lease", self.leadership.run)

    def finish(self, *, until: float) -> None:
        """Stop writing, give the lease back, tell what is left to tell, and stop everything.

        All of it ends by `until`, in monotonic seconds, whatever does not answer. Writes that are under way have half
        of the time at most; one that arrives after the lease has been given back is a late binding like any other.
        """
        self.switches.close()
        self.carrier.finish(until - _left(until) / 2)
        self.announcer.finish()
        releasing = self._thread("release", self._release)
        _join([releasing, *self._announcers], until)
        self.switches.stop.set()
        if len(self.announcer):
            self.log.warning("Events were not told before the end", events=len(self.announcer))
        if self._journal is not None:
            self._journal.close()

    def _release(self) -> None:
        """Release the lease once the election's thread has ended; try again until everything stops."""
        if self._electing is None or not isinstance(self.leadership, LeaderElection):
            return
        self._electing.join()
        backoff = Backoff(self.switches.stop)
        while not self.leadership.release() and backoff.wait():
            pass

    def synced(self) -> bool:
        """Whether every source has been listed once."""
        self._synced = self._synced or all(reflector.health.synced for reflector in self.reflectors)
        return self._synced

    def silent(self) -> list[str]:
        """Name the sources that were silent far longer than a watch lasts: what they told may be old."""
        limit = time.monotonic() - STALE_SECONDS
        return [
            reflector.source.name
            for reflector in self.reflectors
            if not reflector.health.absent and reflector.health.heard < limit
        ]

    def may_write(self) -> bool:
        """Whether anything may be written now."""
        return not self.switches.closing.is_set() and self.leadership.may_write()

    def may_decide(self) -> bool:
        """Whether to decide: with the right to write, and on a view that is not too old."""
        return self.may_write() and self.synced() and not self.silent()

    def crashed(self, error: BaseException) -> None:
        """Stop the daemon after an unexpected error: a fresh start is better than going on in part."""
        if self.switches.crash is None:
            self.switches.crash = error
        self.switches.close()

    def _connect(self, seconds: float) -> Connection:
        return Connection(self._credentials, timeout=seconds)

    def _sender(self, may_write: Callable[[], bool]) -> RetryingClient:
        return RetryingClient(
            self._connect(_WRITE_SECONDS), stop=self.switches.stop, may_write=may_write, observe=self._observe
        )

    def _performer(self) -> Executor:
        return Executor(self._sender(self.may_write), tell=self.announcer.tell, refused=self._refused)

    def _thread(self, name: str, body: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                body()
            except Exception as error:  # noqa: BLE001 -- passed on whole
                self.crashed(error)

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _put(self, events: list[Event]) -> None:
        self.loop.put(events)

    def _event_rate(self) -> float:
        # A steady stream always has bindings under way. An Event delays only a binding that waits for a connection.
        busy = self.carrier.binding > self.settings.binders and not self.announcer.behind
        return self.settings.events_per_second_busy if busy else self.settings.events_per_second

    def _tell(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            telling = told(action)
            if telling is not None:
                self.announcer.tell(telling)
        if self._journal is not None:
            self._journal.note(actions)

    def _observe(self, what: str, status: int, seconds: float) -> None:
        self.metrics.api.labels(what, str(status)).observe(seconds)

    def _refused(self, action: Action, status: int, message: str) -> None:
        kind = type(action).__name__
        self.metrics.refused.labels(kind, str(status)).inc()
        self.log.warning(message, action=kind, status=status, uid=action.uid, name=action.name)

    def _event_lost(self, telling: Telling, status: int) -> None:
        self.metrics.refused.labels("Event", str(status)).inc()
        self.log.warning("Event not accepted", reason=telling.reason, name=telling.subject.name, status=status)

    def _event_shed(self, telling: Telling) -> None:
        kind = "Warning" if telling.warning else "Normal"
        self.metrics.events_shed.labels(kind, telling.reason).inc()
        now = time.monotonic()
        if now - self._shed_logged >= _SHED_SECONDS:
            self._shed_logged = now
            most = self.settings.events_waiting
            self.log.warning("Events are shed, the oldest first: too many wait", type=kind, events_waiting=most)

    def _journal_lost(self, lines: int, error: OSError) -> None:
        self.metrics.journal_lost.inc(lines)
        if str(error) != self._journal_error:
            self._journal_error = str(error)
            self.log.warning("the journal of decisions loses lines", error=self._journal_error)

    def _log(self, who: str, text: str) -> None:
        self.log.info(text, source=who)


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


def _join(threads: Iterable[threading.Thread], until: float) -> None:
    for thread in threads:
        thread.join(_left(until))
