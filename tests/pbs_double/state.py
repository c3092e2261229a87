# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server of the double knows, and the file in which it is kept between commands.

There is no process: a command takes the lock, lets the time pass that has passed, acts, and writes all back.
"""

from __future__ import annotations

import contextlib
import fcntl
import pickle
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from pbs_double.cluster import HOSTS, SERVER

VERSION = "23.06.06"
MEMORY_KB = 24684084
Attributes = dict[str, str]


class Refused(Exception):
    """A request that the server refuses: the number that its programs exit with, and the text."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number
        self.text = text


@dataclass(slots=True)
class Hook:
    """A hook with the very bytes that were imported."""

    attributes: Attributes
    content: bytes | None = None
    config: bytes | None = None


@dataclass(slots=True)
class Share:
    """What a job has of one vnode, for one chunk."""

    vnode: str
    ncpus: int
    amounts: dict[str, str]
    slot: int


@dataclass(slots=True)
class Job:
    """A job, the parent of an array (``indices``), or a sub-job (``index``)."""

    number: int
    name: str
    queue: str
    chunks: list[dict[str, str]]
    select: str
    place: str
    resources: Attributes
    command: list[str]
    arguments: str
    variables: str
    submitted: float
    rank: int
    state: str = "Q"
    substate: int = 10
    comment: str = ""
    index: int | None = None
    indices: str = ""
    shares: list[Share] = field(default_factory=list)
    started: float | None = None
    runs: int = 0
    exit_status: int | None = None
    ends: float | None = None

    @property
    def id(self) -> str:
        bracket = "[]" if self.indices else f"[{self.index}]" if self.index is not None else ""
        return f"{self.number}{bracket}.{SERVER}"


@dataclass(slots=True)
class State:
    """Everything."""

    server: Attributes
    queues: dict[str, Attributes]
    nodes: dict[str, Attributes]
    hooks: dict[str, Hook] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    next_job: int = 0

    @property
    def history(self) -> bool:
        return self.server.get("job_history_enable") == "True"


def fresh(now: float) -> State:
    """A server as it is after its first start, with its hosts as nodes."""
    server = {
        "scheduling": "True",
        "acl_roots": "root",
        "default_queue": "workq",
        "log_events": "511",
        "query_other_jobs": "True",
        "resources_default.ncpus": "1",
        "default_chunk.ncpus": "1",
        "eligible_time_enable": "False",
    }
    queue = {"queue_type": "Execution", "enabled": "True", "started": "True"}
    return State(server, {"workq": queue}, {host: fresh_node(host, now) for host in HOSTS})


def fresh_node(name: str, now: float) -> Attributes:
    """A node whose MoM has answered."""
    return {
        "Mom": name,
        "Port": "15002",
        "pbs_version": VERSION,
        "ntype": "PBS",
        "pcpus": "2",
        "resources_available.arch": "linux",
        "resources_available.host": name,
        "resources_available.mem": f"{MEMORY_KB}kb",
        "resources_available.ncpus": "2",
        "resources_available.vnode": name,
        "resv_enable": "True",
        "sharing": "default_shared",
        "license": "l",
        "last_state_change_time": str(int(now)),
    }


@contextlib.contextmanager
def opened(path: Path) -> t.Iterator[State]:
    """The state, alone; what has changed is written back, also when the request is refused."""
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        data = file.read()
        state = pickle.loads(data) if data else fresh(time.time())
        try:
            yield state
        finally:
            file.seek(0)
            file.truncate()
            file.write(pickle.dumps(state))
