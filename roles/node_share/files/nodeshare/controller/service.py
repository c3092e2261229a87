# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`nodeshare controller`: the service around the controller. A unix socket for the scripts, a watch, a timer.

One line of JSON in, one out. A script that has gone away is no reason to forget its job.
"""

import contextlib
import grp
import json
import os
import signal
import socket
import socketserver
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..batch import hostlist
from ..host.command import run_bounded
from ..model.jobs import job_key
from ..model.settings import SettingsError
from ..store import log_line
from ..store.spool import Spool
from . import settings as site
from .batch.batch import Batch
from .controller import Controller
from .decide import Outcome
from .kube import api as cluster_api
from .watchdog import Watchdog

LONGEST_REQUEST = hostlist.LONGEST + 4096
HANDOVER_SECONDS = 5.0  # for a script to send its line
WAITING_SCRIPTS = 4096
NOTES_SECONDS = 0.1  # between two looks into the spool


class RequestError(ValueError):
    """What is wrong with a line, in one line."""


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = False  # the process ends when everybody who waits has been answered
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, path: str, *, gid: int, controller: Controller, deadline: float, watchdog: Watchdog) -> None:
        self.controller = controller
        self.watchdog = watchdog
        self.deadline = deadline
        self.gid = gid
        self.room = threading.BoundedSemaphore(WAITING_SCRIPTS)
        super().__init__(path, Handler)

    def server_bind(self) -> None:
        """Replace a killed predecessor's socket, but not one with a listener. No client connects before chown."""
        path = str(self.server_address)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(path)
                raise OSError("{}: another controller listens there".format(path))
            except FileNotFoundError:
                pass
            except ConnectionRefusedError:
                os.unlink(path)
        before = os.umask(0o177)
        try:
            super().server_bind()
        finally:
            os.umask(before)
        if self.gid >= 0:
            os.chown(path, -1, self.gid)
            os.chmod(path, 0o660)

    def service_actions(self) -> None:
        self.watchdog.tell()

    def handle_error(self, request: Any, client_address: Any) -> None:
        tell([("event", "controller"), ("error", repr(sys.exc_info()[1]))], bad=True)


class Handler(socketserver.StreamRequestHandler):
    timeout = HANDOVER_SECONDS

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        if not server.room.acquire(blocking=False):
            self.answer({"ok": False, "reason": "too many scripts wait already"})
            return
        try:
            self.answer(serve(self.rfile.readline(LONGEST_REQUEST), server.controller, server.deadline))
        except socket.timeout:
            self.answer({"ok": False, "reason": "no request within {:g} s".format(HANDOVER_SECONDS)})
        finally:
            server.room.release()

    def answer(self, answer: Dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the script waits no longer; its job has been dealt with all the same
            self.wfile.write(json.dumps(answer).encode("utf-8") + b"\n")


def serve(line: bytes, controller: Controller, deadline: float) -> Dict[str, Any]:
    """One request. Every job leaves one line in the log."""
    began = time.monotonic()
    try:
        event, key, nodes = understand(line)
    except (RequestError, job_key.JobIdError, hostlist.HostlistError) as error:
        tell([("event", "controller"), ("error", str(error))], bad=True)
        return {"ok": False, "reason": str(error)}
    act = controller.begin if event == "prolog" else controller.end
    outcome: Outcome = act(str(key), nodes, give_up=began + deadline)
    seconds = time.monotonic() - began
    tell_job(event, key, outcome, seconds)
    return {"ok": outcome.ok, "reason": outcome.reason, "seconds": round(seconds, 3)}


def tell_job(event: str, key: job_key.JobKey, outcome: Outcome, seconds: float) -> None:
    facts: List[Tuple[str, object]] = [("event", event), ("wlm", key.wlm), ("job", key.job), ("run", key.run)]
    facts += [(name, value) for name, value in outcome._asdict().items() if name not in ("ok", "unknown")]
    tell([*facts, ("unknown", ",".join(outcome.unknown)), ("seconds", seconds)], bad=not outcome.ok)


def understand(line: bytes) -> Tuple[str, job_key.JobKey, Tuple[str, ...]]:
    if not line.endswith(b"\n"):
        raise RequestError("a request without an end, or too long")
    try:
        request = json.loads(line.decode("utf-8"))
    except ValueError as error:
        raise RequestError("a request that is not JSON") from error
    if not isinstance(request, dict):
        raise RequestError("a request that is not an object")
    words: Dict[str, str] = {}
    for name in ("event", "wlm", "job", "run", "nodes"):
        word = request.get(name)
        if not isinstance(word, str):
            raise RequestError("a request without a text named {}".format(name))
        words[name] = word
    if words["event"] not in ("prolog", "epilog"):
        raise RequestError("event {}: one of prolog, epilog".format(ascii(words["event"])[:40]))
    key = job_key.parse(words["wlm"], words["job"], words["run"])
    return words["event"], key, hostlist.expand(words["nodes"])


class Remarks:
    """The same trouble again is one line, not one a second."""

    def __init__(self) -> None:
        self.last: Dict[str, float] = {}

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self.last.get(text, -600.0) >= 600.0:
            if len(self.last) > 100:
                self.last.clear()
            self.last[text] = now
            tell([("event", "controller"), ("remark", text)], bad=True)


def tell(facts: List[Tuple[str, object]], *, bad: bool) -> None:
    log_line.tell(log_line.line(facts), bad=bad)


def main(path: str) -> int:
    try:
        settings = site.load(path)
    except SettingsError as error:
        tell([("event", "controller"), ("error", str(error))], bad=True)
        return 1
    remark = Remarks()
    api = cluster_api.ClusterApi(settings.kubeconfig, timeout=settings.api_timeout)
    batch = _batch(settings, remark)
    try:
        gid = grp.getgrnam(settings.group).gr_gid if settings.group else -1
    except KeyError as error:
        tell([("event", "controller"), ("error", "{}: {}".format(path, error.args[0]))], bad=True)
        return 1
    spool = Spool(settings.socket, gid=gid, remark=remark)
    controller = Controller(
        api=api,
        batch=batch,
        spool=spool,
        connections=settings.connections,
        remark=remark,
        told=tell_job,
        evict_on=settings.evict_on,
        drain_ahead=settings.drain_ahead,
    )
    try:
        server = Server(
            settings.socket,
            gid=gid,
            controller=controller,
            deadline=settings.deadline,
            watchdog=Watchdog(remark=remark),
        )
        spool.open()
    except OSError as error:
        controller.stop()
        tell([("event", "controller"), ("error", "{}: {}".format(settings.socket, error))], bad=True)
        return 1
    _run(server, controller, settings, remark)
    return 0


def _batch(settings: site.ControllerSettings, remark: Remarks) -> Batch:
    """Return the batch system of the settings; the modules of another one are not loaded."""
    if settings.wlm in ("pbs", "torque"):
        from .batch import pbs, torque

        return (pbs.PbsBatch if settings.wlm == "pbs" else torque.TorqueBatch)(
            run=run_bounded,
            qstat=settings.qstat,
            pbsnodes=settings.pbsnodes,
            host=settings.host,
            names=settings.names,
            remark=remark,
            ignored=settings.ignored_queues,
            pbs_rstat=settings.pbs_rstat,
        )
    from .batch.slurm import SlurmBatch

    return SlurmBatch(
        run=run_bounded,
        squeue=settings.squeue,
        sinfo=settings.sinfo,
        scontrol=settings.scontrol,
        host=settings.host,
        names=settings.names,
        remark=remark,
    )


def _run(server: Server, controller: Controller, settings: site.ControllerSettings, remark: Remarks) -> None:
    def end(_number: int, _frame: Optional[FrameType]) -> None:
        controller.stopping.set()
        threading.Thread(target=server.shutdown).start()  # it waits for the loop that this very thread runs

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    watch = {
        "replace": controller.replace,
        "event": controller.changed,
        "lost": remark,
        "stopping": controller.stopping,
    }
    loops: Tuple[Tuple[str, Callable[..., None], Tuple[Any, ...], Dict[str, Any]], ...] = (
        ("watch", cluster_api.follow, (controller.api,), watch),
        ("polls", controller.run_polls, (settings.period,), {}),
        ("notes", controller.run_notes, (NOTES_SECONDS,), {}),
    )
    if settings.evict_on or settings.drain_ahead:
        loops += (("evictions", controller.run_evictions, (settings.period,), {}),)
    for name, loop, arguments, more in loops:
        more = dict(more, beat=server.watchdog.beat_of(name))
        threading.Thread(target=loop, args=arguments, kwargs=more, name=name, daemon=True).start()
    tell([("event", "controller"), ("reason", "listening on " + settings.socket)], bad=False)
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        controller.spool.close()
        server.server_close()
        os.unlink(settings.socket)
        controller.stop()
    tell([("event", "controller"), ("reason", "stopped")], bad=False)
