# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon as a process: signals, reloading, answering questions, and the order of beginning and end."""

import dataclasses
import gc
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from placement.app.endpoints.control_socket import LocalSocket
from placement.app.endpoints.web import Page, Web
from placement.app.loop.loop import Unanswered
from placement.app.process import gc_control
from placement.app.process.gauges import add_gauges
from placement.app.process.health import Watchdog, healthy, ready
from placement.app.process.wiring import Assembly
from placement.app.settings.settings import Settings, SettingsError, changed_fixed
from placement.app.settings.settings_watch import WatchedSettings
from placement.app.telemetry.logs import Log
from placement.kube.transport.credentials import Credentials

STOPPED: Final = 0
CRASHED: Final = 1
# The lease was lost: start afresh, as one of those who wait for it.
DEPOSED: Final = 3

_RELOAD_SECONDS: Final = 2.0
# How often a part of the resource graph is compared with the pods.
_AUDIT_SECONDS: Final = 60.0
# How long the end may take in all: less than TimeoutStopSec= of the unit, 20 s, also with the last word.
_STOP_SECONDS: Final = 16.0
# How much of it is left for what has no time limit of its own, the servers and the journal's disk.
_CLOSE_SECONDS: Final = 2.0
# How long the loop may take to notice that all is to end; one slice, where it turns at all.
_LEAVE_SECONDS: Final = 10.0
# How long its end may be logged: what hangs may hold the log.
_LAST_WORD_SECONDS: Final = 2.0
# How long who watches over the loop waits for room in its inbox.
_ROOM_SECONDS: Final = 1.0
# Threads give way to each other after this; with Python's 5 ms a binding would wait for a slice to end.
_SWITCH_SECONDS: Final = 0.001
Json = dict[str, Any]


class Daemon:
    """One process."""

    def __init__(
        self, settings: Settings, path: Path | None, log: Log, *, end: Callable[[int], object] = os._exit
    ) -> None:
        self._watched = WatchedSettings(path, settings.policy) if path is not None else None
        self._log = log
        kubeconfig = Path(settings.kubeconfig) if settings.kubeconfig else None
        self._parts = Assembly(settings, Credentials(kubeconfig), unique=uuid.uuid4().hex[:12], log=log)
        # Good settings that the loop had no room to be told of.
        self._untaken: Settings | None = None
        self._terminated = False
        self._end = end
        self._left = threading.Event()
        self._ended = threading.Event()
        self._watchdog = Watchdog(self._parts)
        self._rest = gc_control.Rest()
        add_gauges(self._parts)

    def run(self) -> int:
        """Until a signal, the loss of the lease or an error."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.callbacks.append(self._collected)
        gc_control.begin()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._terminate)
        parts = self._parts
        servers = self._serve()
        self._watcher = threading.Thread(target=self._watch_over, name="watchdog", daemon=True)
        try:
            parts.start()
            self._watcher.start()
            self._log.info("started", identity=parts.identity, scheduler_name=parts.settings.scheduler_name)
            parts.loop.run(parts.switches.closing)
        except Exception as error:  # noqa: BLE001 -- logged whole, and the end of the process
            parts.crashed(error)
        self._left.set()
        parts.switches.close()
        parts.finish(until=self._stop_by() - _CLOSE_SECONDS)
        for server in servers:
            server.close()
        self._ended.set()
        return self._verdict()

    def _stop_by(self) -> float:
        """When the process is to be at its end, in monotonic seconds."""
        closed = self._parts.switches.closed
        return (time.monotonic() if closed is None else closed) + _STOP_SECONDS

    def _verdict(self) -> int:
        crash = self._parts.switches.crash
        if crash is not None:
            self._log.error("ended by an error", error=f"{type(crash).__name__}: {crash}", trace=_trace(crash))
            return CRASHED
        if not self._terminated and self._parts.leadership.lost:
            self._log.warning("ended: the lease was lost")
            return DEPOSED
        self._log.info("stopped")
        return STOPPED

    def _terminate(self, _number: int, _frame: object) -> None:
        self._terminated = True
        self._parts.switches.close()

    def _serve(self) -> list[Web | LocalSocket]:
        settings = self._parts.settings
        servers: list[Web | LocalSocket] = []
        address = settings.address()
        if address is not None:
            parts, live = self._parts, partial(healthy, self._parts)
            pages: dict[str, Page] = {"/healthz": live, "/livez": live, "/readyz": partial(ready, parts)}
            pages["/metrics"] = lambda: (True, parts.metrics.text())
            servers.append(Web(address, pages))
        if settings.socket:
            servers.append(LocalSocket(Path(settings.socket), self._answer))
        for server in servers:
            server.start()
        return servers

    def _watch_over(self) -> None:
        """Check from time to time the loop, the lease and the settings, and use moments of rest."""
        looked = audited = time.monotonic()
        closing = self._parts.switches.closing
        while not closing.wait(0.1):
            if self._parts.leadership.lost:
                self._parts.switches.close()
            if not self._watchdog.look():
                # Whoever had something for the loop now would wait for it.
                continue
            self._parts.refusals.catch_up()
            self.say_faults()
            if self._rest.due(idle=self._parts.synced() and self._parts.loop.idle):
                self._parts.loop.put_call(self._rest.collect, _ROOM_SECONDS)
            if time.monotonic() - audited >= _AUDIT_SECONDS:
                audited = time.monotonic()
                self._parts.loop.put_call(self._audit, _ROOM_SECONDS)
            if time.monotonic() - looked >= _RELOAD_SECONDS:
                looked = time.monotonic()
                self._reload()
        left = self._left.wait(_LEAVE_SECONDS)
        if not (left and self._ended.wait(max(0.0, self._stop_by() - time.monotonic()))):
            # Nothing can end a thread that hangs: the process goes, and with it the lease after its time.
            bound = threading.Timer(_LAST_WORD_SECONDS, self._end, (CRASHED,))
            bound.daemon = True
            bound.start()
            if left:
                self._log.warning("not everything has ended in time", seconds=_STOP_SECONDS)
            code = self._verdict() or CRASHED
            bound.cancel()
            self._end(code)

    def _audit(self) -> None:
        """Compare a part of the resource graph with the pods, and log what differed; it is healed."""
        for drift in self._parts.topology.check_some():
            self._log.warning("the resource graph was wrong", **drift._asdict())

    def say_faults(self) -> None:
        """Log what plugins of the site did wrong, each method once until the settings are reloaded."""
        for sentence in self._parts.loop.scheduler.plugin_faults.take():
            self._log.error(sentence)

    def _reload(self) -> None:
        """Take changed settings if they are valid; otherwise the old ones stay in force."""
        parts = self._parts
        try:
            new = (self._watched.changed() if self._watched is not None else None) or self._untaken
        except SettingsError as error:
            self._untaken = None
            parts.metrics.reloads.labels("refused").inc()
            self._log.error("settings not reloaded, the old ones stay in force", error=str(error))
            return
        if new is None:
            return
        fixed = changed_fixed(parts.settings, new)
        self._untaken = None
        if fixed:
            parts.metrics.reloads.labels("refused").inc()
            self._log.error("settings not reloaded: restart to change them", keys=fixed)
            return
        configure = partial(
            parts.loop.scheduler.configure,
            new.configuration,
            partial_gang_seconds=new.half_gang_seconds,
            reserve_after=new.reserve_after_seconds,
        )
        if not parts.loop.put_call(configure, _ROOM_SECONDS):
            self._untaken = new
            return
        parts.settings = new
        parts.loop.slice_seconds = new.slice_milliseconds / 1000
        parts.metrics.reloads.labels("taken").inc()
        self._log.info("settings reloaded", report=list(new.configuration.report))

    def _answer(self, question: Json) -> Json:
        loop = self._parts.loop
        try:
            match question:
                case {"ask": "why", "namespace": str(namespace), "name": str(name)}:
                    found = loop.ask_in_steps(loop.scheduler.explain(namespace, name))
                    if found is None:
                        return {"error": f"pod {namespace}/{name} is not known; is the name right?"}
                    return {"explanation": dataclasses.asdict(found)}
                case {"ask": "queues"}:
                    return {"queues": [dataclasses.asdict(report) for report in loop.ask(loop.scheduler.queues)]}
                case {"ask": "status"}:
                    return self._status()
                case {"ask": "graph", "do": "show", "nodes": bool(nodes)}:
                    return {"lines": loop.ask_in_steps(self._parts.topology.show(nodes=nodes))}
                case {"ask": "graph", "do": "picture"}:
                    drawing = self._parts.topology.picture(self._parts.settings.scheduler_name)
                    return {"picture": loop.ask_in_steps(drawing)}
                case {"ask": "graph", "do": "dump"}:
                    return {"jgf": loop.ask_in_steps(self._parts.topology.dump())}
                case {"ask": "graph", "do": "check"}:
                    return {"drift": loop.ask_in_steps(self._parts.topology.check())}
        except Unanswered as error:
            return {"error": str(error)}
        return {"error": "unknown question; ask for why, queues, status or graph"}

    def _status(self) -> Json:
        parts = self._parts
        now = time.monotonic()
        return {
            "identity": parts.identity,
            "leader": parts.leadership.may_write(),
            "lease_holder": parts.leadership.holder,
            "deciding": parts.may_decide(),
            "bindings_under_way": parts.carrier.binding,
            "writes_under_way": parts.carrier.writing,
            "events_to_tell": len(parts.announcer),
            "overfull_nodes": list(parts.loop.scheduler.overfull.nodes),
            **self._batch(),
            "sources": {
                item.source.name: {
                    "synced": item.health.synced,
                    "absent": item.health.absent,
                    "events": item.health.events,
                    "relists": item.health.relists,
                    "silent": now - item.health.heard,
                    "error": item.health.error,
                }
                for item in parts.reflectors
            },
        }

    def _batch(self) -> Json:
        side = self._parts.batch
        if not self._parts.settings.pbs_bin_dir:
            return {}
        return {
            "batch_jobs": side.jobs,
            "batch_jobs_ours": self._parts.loop.scheduler.session.batch_jobs.ours,
            "batch_read_seconds_ago": None if side.read is None else round(time.monotonic() - side.read, 1),
            "batch_error": side.trouble,
        }

    def _collected(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            self._parts.metrics.collections.observe(time.perf_counter() - self._collecting)


def _trace(error: BaseException) -> list[str]:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}")
        trace = trace.tb_next
    return frames
