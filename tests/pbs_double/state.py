# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server of the double knows, and the file in which it is kept between commands.

There is no process: a command takes the lock, lets the time pass that has passed, acts, and writes all back.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import pickle
import time
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

from pbs_double import lending
from pbs_double.cluster import HOSTS, SERVER

LENDER = os.environ.get("PBS_DOUBLE_LENDER", "")  # where this host borrows the state, if it cannot mount its folder
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
    on_server: float | None = None  # when the server itself will run it


@dataclass(slots=True)
class Share:
    """What a job has of one vnode, for one chunk, which may lie on several vnodes of a host."""

    vnode: str
    ncpus: int
    amounts: dict[str, str]
    slot: int
    host: str
    chunk: int


@dataclass(slots=True)
class Job:
    """A job, the parent of an array (``indices``), or a sub-job (``index``).

    On its way from one state to the next it has ``stages``: hooks that run one group after another, and then ``after``.
    """

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
    account: str | None = None
    held: str = ""
    deleted: bool = False
    resuming: bool = False
    stages: list[list[tuple[str, str]]] = field(default_factory=list)
    after: str = ""
    final: int = 92
    owner: str = "root"
    project: str = "_pbs_project_default"

    def is_known_to(self, host: str) -> bool:
        """Whether its MoM has heard of it: the first host begins a job before the others are told."""
        told = not any(where == host and event == "execjob_begin" for stage in self.stages for where, event in stage)
        return host in self.hosts and self.state in "RSE" and told

    @property
    def hosts(self) -> list[str]:
        """Where it runs, its primary host first."""
        return list(dict.fromkeys(share.host for share in self.shares))

    @property
    def id(self) -> str:
        bracket = "[]" if self.indices else f"[{self.index}]" if self.index is not None else ""
        return f"{self.number}{bracket}.{SERVER}"

    @property
    def exec_vnode(self) -> str:
        """``(a:ncpus=1:mem=102400kb)+(b[0]:mem=1kb:ncpus=2+b[1]:ncpus=1)``."""
        chunks = []
        for shares in self._chunks():
            parts = []
            for share in shares:
                amounts = {"ncpus": str(share.ncpus), **share.amounts}
                names = sorted(amounts) if len(shares) > 1 else amounts
                parts.append(":".join([share.vnode, *(f"{name}={amounts[name]}" for name in names)]))
            chunks.append(f"({'+'.join(parts)})")
        return "+".join(chunks)

    @property
    def exec_host(self) -> str:
        """``a/0*2+b/0``; of a chunk on several vnodes the count is zero."""
        words = []
        for first, *others in self._chunks():
            count = 0 if others else first.ncpus
            words.append(f"{first.host}/{first.slot}" + (f"*{count}" if count != 1 else ""))
        return "+".join(words)

    def _chunks(self) -> list[list[Share]]:
        return [list(shares) for _chunk, shares in itertools.groupby(self.shares, key=lambda share: share.chunk)]


@dataclass(slots=True)
class Task:
    """Hooks of one event that the MoM of a host has to run, with the job as it was then."""

    number: int
    host: str
    event: str
    job: str
    seen: dict[str, t.Any]
    taken: bool = False


@dataclass(slots=True)
class State:
    """Everything."""

    folder: Path
    server: Attributes
    queues: dict[str, Attributes]
    nodes: dict[str, Attributes]
    hooks: dict[str, Hook] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    next_job: int = 0
    tasks: list[Task] = field(default_factory=list)
    next_task: int = 0
    down: set[str] = field(default_factory=set)
    server_is_down: bool = False
    server_started: float = 0.0
    server_hangs_from: float = math.inf

    @property
    def history(self) -> bool:
        return self.server.get("job_history_enable") == "True"


def fresh(folder: Path, now: float) -> State:
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
    return State(folder, server, {"workq": queue}, {host: fresh_node(host, now) for host in HOSTS})


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
def opened(folder: Path) -> t.Iterator[State]:
    """The state, alone; what has changed is written back, also when the request is refused."""
    with lending.borrowed(LENDER) if LENDER else lending.held(folder) as copy:
        state = pickle.loads(copy.content) if copy.content else fresh(folder, time.time())
        try:
            yield state
        finally:
            after = pickle.dumps(state)
            if after != copy.content:
                copy.keep(after)
