# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`pbs_mom` of the double: the process of an execution host that runs the scripts of jobs, and jobs.

What Torque runs in the MoM's main process blocks it here too: the presetup, a sister's scripts and the precancel. The
first host's prologue and epilogue run in a child each, which the MoM's end does not end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from torque_double import life, pelog, schedule, sessions
from torque_double.state import Job, State, Task, alive, mom_runs, opened

_LOOK = 0.05
_TURN = 0.5
_KILL_DELAY = 10.0
_RECOVERING = ("-p", "-q", "-r", "-P")
_IN_A_CHILD = ("begin", "finish")
_SCRIPTS = {
    "presetup": ("presetup",),
    "join": ("prologue.parallel", "prologue.user.parallel"),
    "begin": ("prologue", "prologue.user", "-l prologue"),
    "precancel": ("epilogue.precancel",),
    "end": ("epilogue.user.parallel", "epilogue.parallel"),
    "finish": ("-l epilogue", "epilogue.user", "epilogue"),
}


def run(host: str, home: str, folder: str, arguments: list[str]) -> int:
    """Leave a MoM behind; of its options, those that say what becomes of jobs."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        if os.read(reader, 1):
            return 0
        print("pbs_mom: LOG_ERROR::cannot lock 'mom.lock' - another mom running", file=sys.stderr)
        return 1
    os.setsid()
    for part in ("mom_priv/jobs", "spool", "aux", "undelivered", "mom_logs"):
        (Path(home) / part).mkdir(parents=True, exist_ok=True)
    with open(os.devnull, "r+b") as null, (Path(home) / "mom_priv/mom.lock").open("a") as lock:
        for descriptor in range(3):
            os.dup2(null.fileno(), descriptor)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.set_inheritable(lock.fileno(), False)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        mom = Mom(Path(folder), host, Path(home), lock.fileno())
        mom.start(next((word for word in arguments if word in _RECOVERING), "-p"))
        os.write(writer, b"1")
        os.close(writer)
        mom.serve()
    return 0


class Mom:
    """One host's."""

    def __init__(self, folder: Path, host: str, home: Path, lock: int) -> None:
        self._folder = folder
        self._host = host
        self._home = home
        self._lock = lock
        self._owner = Path("/proc") / (folder / "owner").read_text().strip()
        self._doomed: list[tuple[float, int]] = []
        self._next_update = 0.0

    def start(self, how: str) -> None:
        """Comes back to the server."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with opened(self._folder) as state:
            state.homes[self._host] = str(self._home)
            os.utime(self._home / "mom_priv/mom.lock")
            for session in life.mom_came_back(state, self._host, how):
                self._end(session)
            self._update(state)

    def serve(self) -> None:
        """Run until the process that made the cluster is gone."""
        while self._owner.exists():
            self._reap()
            os.utime(self._home / "mom_priv/mom.lock")
            with opened(self._folder) as state:
                schedule.advance(state, time.time())
                self._look_after_jobs(state)
                if time.monotonic() >= self._next_update:
                    self._update(state)
                mine = [task for task in state.tasks if task.host == self._host and not task.taken]
                task = mine[0] if mine else None
                job = life.of_task(state, task) if task else None
                if task is not None and job is None:
                    state.tasks.remove(task)
                elif task is not None:
                    task.taken = True
            if task is not None and job is not None:
                self._perform(task, job)
            elif task is None:
                self._wait_for_a_change()

    def _wait_for_a_change(self) -> None:
        path = self._folder / "state"
        before = path.stat().st_ino if path.exists() else 0
        deadline = time.monotonic() + _TURN
        while time.monotonic() < deadline and path.exists() and path.stat().st_ino == before:
            time.sleep(_LOOK)

    def _update(self, state: State) -> None:
        """The status that the server gets now and then: with it come messages, and limits are looked at."""
        self._next_update = time.monotonic() + pelog.read_settings(self._home).status_seconds
        node = state.nodes.get(self._host)
        if node is not None:
            node.reset = False
            before, node.message = node.message, state.messages.get(self._host, "")
            if node.message or node.note == before:
                node.note = node.message or ("" if before else node.note)
        for job in [job for job in state.jobs.values() if job.hosts[:1] == [self._host] and job.stage == "run"]:
            limit = schedule.seconds_of(job.resources.get("walltime", ""))
            if job.forgotten:
                state.tasks.append(Task(self._host, "kill", job.id, job.runs))
            elif limit is not None and job.started is not None and time.time() - job.started > limit and not job.over:
                job.exit_status, job.over = life.OVER_LIMIT, True
                state.tasks.append(Task(self._host, "precancel", job.id, job.runs))

    def _look_after_jobs(self, state: State) -> None:
        """Files for each job that is here, and the end of what no child watches any more."""
        here = {job.file: job for job in state.jobs.values() if self._host in job.hosts and job.state in "RS"}
        here = {name: job for name, job in here.items() if job.stage and self._host not in job.dropped}
        folder = self._home / "mom_priv/jobs"
        for path in folder.iterdir():
            if path.name.rpartition(".")[0] not in here:
                path.unlink()
        for name, job in here.items():
            if not (folder / f"{name}.JB").exists():
                (folder / f"{name}.JB").touch()
                if job.hosts[0] == self._host:
                    script = folder / f"{name}.SC"
                    script.write_text(job.script)
                    script.chmod(0o755)
                    lines = [host for host, slots in job.slots for _slot in slots]
                    pelog.node_file(self._home, job).write_text("".join(f"{line}\n" for line in lines))
            if job.hosts[0] != self._host:
                continue
            if job.stage == "run" and not alive(job.watcher) and job.watcher:
                life.ended(state, job, 0)  # the host was down meanwhile
            elif job.stage == "finish" and job.watcher and not alive(job.watcher):
                for task in state.tasks:
                    if task.job == job.id and task.kind == "finish":
                        task.taken = False
        due = [session for when, session in self._doomed if time.monotonic() >= when]
        self._doomed = [(when, session) for when, session in self._doomed if session not in due]
        for session in due:
            sessions.end(session)

    def _perform(self, task: Task, job: Job) -> None:
        if task.kind in _IN_A_CHILD:
            self._in_a_child(task, job)
            return
        code, message = self._scripts(task.kind, job) if task.kind in _SCRIPTS else (0, "")
        with opened(self._folder) as state:
            if task.kind == "precancel" and message:
                message = "ERROR:  precancel epilog failed"
            life.reported(state, task, code, message)
        if task.kind in ("precancel", "kill") and job.session:
            self._end(job.session)

    def _end(self, session: int) -> None:
        """Ask it to end, and kill it later."""
        sessions.end(session, signal.SIGTERM)
        self._doomed.append((time.monotonic() + _KILL_DELAY, session))

    def _scripts(self, kind: str, job: Job) -> tuple[int, str]:
        """Run them in their order, until one fails; an epilogue's failure stops nothing."""
        place = pelog.Place(self._home, job.hosts.index(self._host), pelog.read_settings(self._home))
        worst, said = 0, ""
        for name in _SCRIPTS[kind]:
            code, message = pelog.run(name, job, place)
            if code:
                worst, said = code, message
                if kind in ("presetup", "join", "begin"):
                    break
        return worst, said

    def _in_a_child(self, task: Task, job: Job) -> None:
        if os.fork():
            return
        try:
            os.close(self._lock)
            os.setsid()
            with opened(self._folder) as state:
                known = life.of_task(state, task)
                if known is not None:
                    known.watcher = os.getpid()
            code, _message = self._scripts(task.kind, job)
            if task.kind == "finish":
                self._deliver(job)
            process = None
            with opened(self._folder) as state:
                known = life.of_task(state, task)
                wanted = known is None or not (known.deleted or known.rerun or known.forgotten)
                if task.kind == "begin" and code == 0 and wanted:
                    process = self._launch(job)
                    if known is not None:
                        known.session = process.pid
                life.reported(state, task, code, "")
            if process is not None:
                self._watch(process, task)
        finally:
            os._exit(0)

    def _launch(self, job: Job) -> subprocess.Popen[bytes]:
        """The job's own process. A MoM that was restarted meanwhile does not wait for it."""
        streams = [
            os.open(pelog.spool(self._home, job, each), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for each in ("OU", "ER")
        ]
        if os.geteuid() == 0:
            for stream in streams:
                os.fchown(stream, pelog.uid_of(job.owner), pelog.uid_of(job.owner))
        variables = {**dict(job.variables), "PBS_JOBID": job.id, "PBS_JOBNAME": job.name, "PBS_QUEUE": job.queue}
        variables.update(PBS_NODEFILE=str(pelog.node_file(self._home, job)), USER=job.owner, PBS_NODENUM="0")
        variables.update(HOME=pelog.home_of(job.owner), PATH="/bin:/usr/bin", PBS_ENVIRONMENT="PBS_BATCH")
        if job.index is not None:
            variables["PBS_ARRAYID"] = str(job.index)
        first = job.script.partition("\n")[0]
        shell = first[2:].split() if first.startswith("#!") else ["/bin/sh"]
        with open(os.devnull, "rb") as null:
            process = subprocess.Popen(
                [*shell, str(self._home / "mom_priv/jobs" / f"{job.file}.SC"), *job.arguments.split()],
                env=variables,
                cwd=pelog.home_of(job.owner),
                stdin=null,
                stdout=streams[0],
                stderr=streams[1],
                start_new_session=True,
                preexec_fn=lambda: pelog.become(job.owner),  # noqa: PLW1509 - a MoM has no threads
            )
        for stream in streams:
            os.close(stream)
        return process

    def _watch(self, process: subprocess.Popen[bytes], task: Task) -> None:
        """Until it ends. While no MoM runs its end is kept for the next one, which reports success whatever it was."""
        born = self._started()
        code: int | None = None
        while code is None:
            try:
                code = process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                if not self._owner.exists():
                    sessions.end(process.pid)
        sessions.end(process.pid)  # same-session children do not outlive it
        with opened(self._folder) as state:
            job = life.of_task(state, task)
            if job is None or job.stage != "run":
                return
            status = 0 if self._started() != born else 256 - code if code < 0 else code
            if job.over:
                status = life.OVER_LIMIT
            if mom_runs(state, self._host):
                life.ended(state, job, status)
            else:
                job.over = True

    def _started(self) -> str:
        try:
            return (self._home / "mom_priv/mom.lock").read_text()
        except OSError:
            return ""

    def _deliver(self, job: Job) -> None:
        """Copy the output to where its owner wants it, as the owner; a failed prologue leaves none."""
        for suffix, wish in (("OU", job.out), ("ER", job.err)):
            path = pelog.spool(self._home, job, suffix)
            if not path.exists():
                continue
            kind = "o" if suffix == "OU" else "e"
            target = wish or os.path.join(job.directory, f"{job.name}.{kind}{job.number}")
            if job.exit_status not in (life.FAILED, life.RETRY, life.SISTER_FAILED) and target != os.devnull:
                copied = subprocess.run(
                    ["cp", "--", str(path), target],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    preexec_fn=lambda: pelog.become(job.owner),
                    check=False,
                )
                if copied.returncode:
                    shutil.copy(path, self._home / "undelivered")
            if job.exit_status != life.RETRY:
                path.unlink()

    def _reap(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
