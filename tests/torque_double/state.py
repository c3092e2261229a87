# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server of the double knows, and the file in which it is kept between commands.

There is no server process: a command takes the lock, lets the time pass that has passed, acts, and writes all back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from pbs_double.lending import take

from torque_double.cluster import CORES, HOSTS, SERVER

VERSION = "6.1.3.h5"
LONGEST_FILE = 61
Attributes = dict[str, str]


class Refused(Exception):
    """A request that the server refuses: Torque's number for it, and the text."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number
        self.text = text

    @property
    def status(self) -> int:
        """The exit code of most programs."""
        return self.number & 0xFF


@dataclass(slots=True)
class Job:
    """A job, the parent of an array (``indices``), or an element of one (``index``).

    ``stage`` is where it is between its start and its end: presetup, join, begin, run, end, finish, or nothing.
    """

    number: int
    name: str
    owner: str
    queue: str
    resources: Attributes
    script: str
    variables: list[tuple[str, str]]
    submitted: float
    directory: str = "/"
    out: str = ""
    err: str = ""
    arguments: str = ""
    jobtype: str = ""
    account: str | None = None
    suffix: str = f".{SERVER}"
    extension: str | None = None
    proxy: str = ""
    exclusive: bool = False
    prologue: str = ""
    epilogue: str = ""
    state: str = "Q"
    holds: str = ""
    comment: str = ""
    index: int | None = None
    indices: tuple[int, ...] = ()
    at_once: int = 0
    slots: list[tuple[str, list[int]]] = field(default_factory=list)
    old_slots: list[tuple[str, list[int]]] = field(default_factory=list)
    accepted: float | None = None
    started: float | None = None
    completed: float | None = None
    runs: int = 0
    session: int = 0
    watcher: int = 0
    exit_status: int | None = None
    stage: str = ""
    waiting: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    failed_sister: bool = False
    deleted: bool = False
    forgotten: bool = False
    rerun: bool = False
    over: bool = False

    @property
    def id(self) -> str:
        bracket = "[]" if self.indices else f"[{self.index}]" if self.index is not None else ""
        return f"{self.number}{bracket}{self.suffix}"

    @property
    def file(self) -> str:
        """What its files in mom_priv/jobs begin with: of an id only so much is taken."""
        return (f"{self.number}-{self.index}{self.suffix}" if self.index is not None else self.id)[:LONGEST_FILE]

    @property
    def hosts(self) -> list[str]:
        """Where it runs, its mother superior first."""
        return [host for host, _slots in self.slots]

    @property
    def exec_host(self) -> str:
        """``n2/0-3+n1/0,2``."""
        return "+".join(f"{host}/{ranges(slots)}" for host, slots in self.slots)


def ranges(slots: t.Sequence[int]) -> str:
    """``0-1,3`` for [0, 1, 3]."""
    found: list[list[int]] = []
    for slot in sorted(slots):
        if found and found[-1][-1] == slot - 1:
            found[-1].append(slot)
        else:
            found.append([slot])
    return ",".join(f"{group[0]}-{group[-1]}" if len(group) > 1 else str(group[0]) for group in found)


@dataclass(slots=True)
class Node:
    """An execution host as the server knows it; ``told`` is when its MoM was last heard."""

    np: int
    properties: str = ""
    gpus: int = 0
    offline: bool = False
    reset: bool = False
    note: str = ""
    message: str = ""
    made: float = 0.0


@dataclass(slots=True)
class Task:
    """Scripts that the MoM of a host has to run for a job in one of its runs."""

    host: str
    kind: str
    job: str
    run: int
    taken: bool = False


@dataclass(slots=True)
class State:
    """Everything."""

    folder: Path
    server: Attributes
    queues: dict[str, Attributes]
    nodes: dict[str, Node]
    jobs: dict[str, Job] = field(default_factory=dict)
    next_job: int = 0
    tasks: list[Task] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)  # what MoMs hold and tell at their next update
    updates: dict[str, float] = field(default_factory=dict)
    strays: list[tuple[str, int, Job]] = field(default_factory=list)
    server_is_down: bool = False


def fresh(folder: Path, now: float) -> State:
    """A server as it is after its first start, with its hosts as nodes."""
    server = {
        "scheduling": "True",
        "acl_hosts": SERVER,
        "managers": f"root@{SERVER}",
        "operators": f"root@{SERVER}",
        "default_queue": "batch",
        "log_events": "2047",
        "mail_from": "adm",
        "node_check_rate": "150",
        "tcp_timeout": "300",
        "job_stat_rate": "300",
        "poll_jobs": "True",
        "down_on_error": "True",
        "mom_job_sync": "True",
        "keep_completed": "300",
        "submit_hosts": SERVER,
        "moab_array_compatible": "True",
        "nppcu": "1",
    }
    queue = {"queue_type": "Execution", "resources_default.nodes": "1", "enabled": "True", "started": "True"}
    queue["resources_default.walltime"] = "01:00:00"
    return State(folder, server, {"batch": queue}, {host: Node(CORES, made=now) for host in HOSTS})


@contextlib.contextmanager
def opened(folder: Path) -> t.Iterator[State]:
    """The state, alone; what has changed is written back, also when the request is refused.

    It is replaced as a whole, since a MoM may be killed while it writes.
    """
    path = folder / "state"
    with (folder / "lock").open("a") as lock:
        take(lock)
        before = path.read_bytes() if path.exists() else b""
        state = pickle.loads(before) if before else fresh(folder, time.time())
        try:
            yield state
        finally:
            after = pickle.dumps(state)
            if after != before:
                new = folder / "state.new"
                new.write_bytes(after)
                new.chmod(0o666)
                new.replace(path)


def alive(pid: int) -> bool:
    """Whether a process runs, and is not only waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return pid > 0 and text.rpartition(")")[2].split()[0] not in ("Z", "X")


def mom_runs(state: State, host: str) -> bool:
    """Whether a MoM holds its lock. Without one the MoM never came."""
    if host not in state.homes:
        return False
    try:
        with (Path(state.homes[host]) / "mom_priv/mom.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def last_seen(state: State, host: str) -> float:
    """When the MoM has last told its status; what blocks it ends this."""
    try:
        return os.stat(Path(state.homes[host]) / "mom_priv/mom.lock").st_mtime
    except (OSError, KeyError):
        return 0.0
