# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`pbs_mom` of the double: the process of an execution host that runs hooks, one after another.

Only execjob_end runs beside the rest. This MoM asks for work where that of PBS is told, and lets the time pass.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

from pbs_double import homes, hook_input, schedule, transitions
from pbs_double.cluster import HOSTS
from pbs_double.hook_api import write_log
from pbs_double.state import MEMORY_KB, Hook, State, Task, fresh_node, opened

_DEFINITION = re.compile(r"^([^:\s]+): (\S+) = (.+)$", re.MULTILINE)
_LOOK = 0.05
_TURN = 0.5
_AVAILABLE = {"pcpus": 2, "available": {"arch": "linux", "mem": f"{MEMORY_KB}kb", "ncpus": "2"}}
_AT_START = {"pcpus": None, "available": {"mem": f"{MEMORY_KB}kb", "ncpus": "2"}}
_UNKNOWN: dict[str, t.Any] = {"pcpus": None, "available": {}}


def run(host: str, folder: str, arguments: list[str]) -> int:
    """Leaves a MoM behind, or with ``-s insert NAME FILE`` a definition of vnodes for the next SIGHUP."""
    if arguments[:1] == ["-s"]:
        definition = homes.home(Path(folder), host) / "mom_priv/config.d" / arguments[2]
        definition.parent.mkdir(exist_ok=True)
        if arguments[1] == "remove":
            definition.unlink(missing_ok=True)
        elif definition.exists():
            return 1
        else:
            definition.write_bytes(Path(arguments[3]).read_bytes())
        return 0
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        if os.read(reader, 1):
            return 0
        print("pbs_mom: another mom running", file=sys.stderr)
        return 1
    os.setsid()
    with open(os.devnull, "r+b") as null, homes.lock_of(Path(folder), host).open("a") as lock:
        for descriptor in range(3):
            os.dup2(null.fileno(), descriptor)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        mom = Mom(Path(folder), host)
        mom.start()
        os.write(writer, b"1")
        mom.serve()
    return 0


class Mom:
    """One host's."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder = folder
        self._host = host
        self._home = homes.home(folder, host)
        self._hooks: dict[str, Hook] = {}
        self._periodic: dict[str, float] = {}
        # The ends of jobs run beside each other, and two runs must not have the same files.
        self._runs = itertools.count(1)
        self._starts_anew = False

    def start(self) -> None:
        """Comes back to the server."""
        with opened(self._folder) as state:
            transitions.mom_came_back(state, self._host)
            self._store(state)
            self._define_vnodes(state)
        signal.signal(signal.SIGHUP, self._hung_up)

    def _hung_up(self, _number: int, _frame: t.Any) -> None:
        self._starts_anew = True

    def _define_vnodes(self, state: State) -> None:
        """Those of the definitions, beside the natural one."""
        for path in sorted((self._home / "mom_priv/config.d").glob("*")):
            for name, attribute, value in _DEFINITION.findall(path.read_text()):
                if name not in state.nodes:
                    made = {**fresh_node(name, time.time()), "Mom": self._host, "resources_available.host": self._host}
                    state.nodes[name] = {key: text for key, text in made.items() if key != "pcpus"}
                state.nodes[name].update({attribute: value, "in_multivnode_host": "1"})

    def serve(self) -> None:
        """Until who made the cluster is gone."""
        self._run_own("exechost_startup")
        owner = Path("/proc") / (self._folder / "owner").read_text()
        while owner.exists():
            with opened(self._folder) as state:
                schedule.advance(state, time.time())
                self._store(state)
                self._keep_jobs(state)
                mine = [task for task in state.tasks if task.host == self._host and not task.taken]
                task = mine[0] if mine else None
                if task is not None:
                    task.taken = True
            if task is None:
                if self._starts_anew:
                    self._starts_anew = False
                    with opened(self._folder) as state:
                        self._define_vnodes(state)
                    self._run_own("exechost_startup")
                self._run_own("exechost_periodic")
                self._run_for_the_server()
                self._wait_for_a_change()
            elif task.event == "execjob_end":
                threading.Thread(target=self._run_task, args=(task,), daemon=True).start()
            else:
                self._run_task(task)

    def _wait_for_a_change(self) -> None:
        path = self._folder / "state"
        if not path.exists():  # it is borrowed, or nothing was kept so far
            time.sleep(_TURN)
            return
        before = path.stat().st_ino
        deadline = time.monotonic() + _TURN
        while time.monotonic() < deadline and path.exists() and path.stat().st_ino == before:
            time.sleep(_LOOK)

    def _store(self, state: State) -> None:
        """The files of the hooks, as the server sends them."""
        folder = self._home / "mom_priv/hooks"
        for name in [name for name in self._hooks if name not in state.hooks]:
            for suffix in ("HK", "CF", "PY"):
                (folder / f"{name}.{suffix}").unlink(missing_ok=True)
            del self._hooks[name]
            self._periodic.pop(name, None)
        for name, hook in state.hooks.items():
            known = self._hooks.get(name)
            if known == hook or hook.content is None:
                continue
            attributes = "".join(f"{key}={value}\n" for key, value in hook.attributes.items())
            files = {"HK": attributes.encode(), "CF": hook.config, "PY": hook.content}
            for suffix, content in files.items():
                if content is not None:
                    (folder / f"{name}.{suffix}").write_bytes(content)
            if known is None or known.attributes != hook.attributes:
                self._periodic[name] = 0.0
            self._hooks[name] = hook

    def _keep_jobs(self, state: State) -> None:
        """A file for each job that is here."""
        folder = self._home / "mom_priv/jobs"
        folder.mkdir(exist_ok=True)
        here = {f"{job.id}.JB" for job in state.jobs.values() if job.is_known_to(self._host)}
        for name in {path.name for path in folder.iterdir()} - here:
            (folder / name).unlink()
        for name in here:
            (folder / name).touch()

    def _wanted(self, event: str) -> list[str]:
        hooks = self._hooks.items()
        names = [name for name, hook in hooks if event in hook.attributes["event"].split(",")]
        names = [name for name in names if self._hooks[name].attributes["enabled"] == "true"]
        return sorted(names, key=lambda name: (int(self._hooks[name].attributes["order"]), name))

    def _run_task(self, task: Task) -> None:
        """Hooks in their order, until one does not accept."""
        given = {"job": task.seen, "vnodes": self._vnodes_of(task.seen)}
        outcome, hook = "accept", ""
        changes: dict[str, dict[str, t.Any]] = {}
        for hook in self._wanted(task.event):
            said = self._run_hook(hook, task.event, given)
            outcome, message = said["outcome"], said["message"]
            changes.update(said["vnodes"])
            if outcome in ("reject", "rerun", "delete"):
                self._log("0100", "Hook", hook, f"{task.event} request rejected by '{hook}'")
                self._log("0008", "Job", task.job, message)
            if outcome != "accept":
                break
        with opened(self._folder) as state:
            transitions.set_by_hook(state, changes)
            transitions.reported(state, task, outcome, hook)

    def _run_own(self, event: str) -> None:
        """What happens on the host without a job."""
        for hook in self._wanted(event):
            known = _AT_START if event == "exechost_startup" else _AVAILABLE
            given: dict[str, t.Any] = {"vnodes": {self._host: {**known, "assigned": {}}}}
            if event == "exechost_periodic":
                if time.monotonic() < self._periodic[hook]:
                    continue
                self._periodic[hook] = time.monotonic() + int(self._hooks[hook].attributes["freq"])
                given["jobs"] = self._jobs()
            said = self._run_hook(hook, event, given)
            with opened(self._folder) as state:
                transitions.set_by_hook(state, said["vnodes"])
                if event == "exechost_startup":
                    transitions.host_started(state, self._host, hook, said["outcome"])

    def _run_for_the_server(self) -> None:
        """Run the hooks that the server runs itself, each at its time, in the process of the first host."""
        if self._host != HOSTS[0]:
            return
        now = time.time()
        with opened(self._folder) as state:
            due = [
                (name, hook)
                for name, hook in state.hooks.items()
                if name in self._hooks and hook.on_server is not None and hook.on_server <= now
            ]
            for _name, hook in due:
                hook.on_server = now + int(hook.attributes["freq"])
        for name, hook in due:
            if hook.attributes["enabled"] == "true":
                self._run_hook(name, "periodic", {"vnodes": {}})

    def _jobs(self) -> list[dict[str, t.Any]]:
        with opened(self._folder) as state:
            here = [job for job in state.jobs.values() if job.is_known_to(self._host)]
            return [transitions.seen(job, self._host, "exechost_periodic") for job in here]

    def _vnodes_of(self, seen: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        found: dict[str, t.Any] = {}
        for vnode, amounts in seen["shares"]:
            known = found.setdefault(vnode, {**(_AVAILABLE if vnode == self._host else _UNKNOWN), "assigned": {}})
            before = known["assigned"]
            cores = int(before.get("ncpus", 0)) + int(amounts["ncpus"])
            memory = schedule.bytes_of(before.get("mem", "0kb")) + schedule.bytes_of(amounts.get("mem", "0kb"))
            known["assigned"] = {**amounts, "mem": f"{memory // 1024}kb", "ncpus": str(cores), "host": vnode}
        return found

    def _run_hook(self, hook: str, event: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """The outcome, what the hook said, and what it has set; a hook that takes too long is killed."""
        folder = self._home / "mom_priv/hooks"
        config = folder / f"{hook}.CF"
        run = next(self._runs)
        scratch = [self._home / f"mom_priv/{hook}.{run}.{suffix}" for suffix in ("in", "out", "more")]
        scratch[0].write_text(hook_input.written({**given, "event": event}))
        text = {
            "vnodes": given["vnodes"],
            **{kind: True for kind in ("job", "jobs") if kind in given},
            "event": event,
            "hook": hook,
            "host": self._host,
            "home": str(self._home),
            "script": str(folder / f"{hook}.PY"),
            "config": str(config) if config.exists() else None,
        }
        scratch[2].write_text(json.dumps(text))
        environment = {"PATH": "/bin:/usr/bin", "PBS_CONF_FILE": "/etc/pbs.conf", "LC_CTYPE": "C.UTF-8"}
        if config.exists():
            environment["PBS_HOOK_CONFIG_FILE"] = str(config)
        alarm = int(self._hooks[hook].attributes["alarm"])
        program = str(self._folder / "sbin" / self._host / "pbs_python")
        argv = [program, "--hook", "-i", str(scratch[0]), "-o", str(scratch[1]), str(scratch[2])]
        try:
            subprocess.run(
                argv, cwd=folder / "tmp", env=environment, stdin=subprocess.DEVNULL, timeout=alarm, check=False
            )
            said = json.loads(scratch[1].read_text()) if scratch[1].exists() else {"outcome": "error"}
        except subprocess.TimeoutExpired:
            said = {"outcome": "alarm"}
            self._log("0100", "Hook", "catch_hook_alarm", "alarm call received, interrupting hook execution.")
            self._log("0008", "Job", "", f"alarm call while running {event} hook '{hook}', request rejected")
        finally:
            for path in scratch:
                path.unlink(missing_ok=True)
        return {"message": "", "vnodes": {}, **said}

    def _log(self, kind: str, word: str, name: str, text: str) -> None:
        write_log(self._home, kind, "pbs_mom", word, name, text)
