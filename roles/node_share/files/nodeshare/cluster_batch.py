# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller asks of a batch system: who is in control, all jobs, all nodes' states. "Cannot tell" is None.

Here is Slurm, of which only fields are read that no batch user can write: jobs come from squeue with chosen fields.
"""

import re
from abc import ABC, abstractmethod
from typing import Callable, Dict, FrozenSet, Iterable, Mapping, Optional, Tuple, TypeVar

from . import hostlist, jobid
from .cluster import Jobs
from .evidence import Answer

Run = Callable[[Tuple[str, ...]], Answer]
Read = TypeVar("Read")
FIELDS = "--Format=JobID:^,RestartCnt:^,State:^,NodeList:^"
HOLDING = frozenset(("RUNNING", "CONFIGURING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"))
ENDING = frozenset(("COMPLETING",))
# A node with one of these is not for jobs now, and not for pods either: whoever set it wants it for himself.
CLOSED = frozenset(
    (
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "DOWN",
        "FAIL",
        "FAILING",
        "MAINT",
        "MAINTENANCE",
        "REBOOT",
        "REBOOT_REQUESTED",
        "REBOOT_ISSUED",
        "POWER_DOWN",
        "POWERING_DOWN",
        "POWERED_DOWN",
        "POWER_UP",
        "POWERING_UP",
        "NOT_RESPONDING",
        "UNKNOWN",
        "FUTURE",
        "ERROR",
        "INVAL",
        "INVALID_REG",
    )
)
_MARKS = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN"}
_MARKS.update({"$": "MAINT", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": ""})
_NODE = re.compile(r"NodeName=(\S+) (?:.*? )??State=(\S+)", re.ASCII)
_REASON = re.compile(r" Reason=(.{1,200})", re.ASCII)
_PING = re.compile(r"^Slurmctld\(\S+\) at (\S+) is (UP|DOWN)", re.ASCII | re.MULTILINE)


class Batch(ABC):
    """The questions, with Kubernetes' names in the answers. `run` raises OSError where there is no answer in time."""

    def __init__(self, *, run: Run, host: str, names: Mapping[str, str], remark: Callable[[str], None]) -> None:
        self.run = run
        self.host = host
        self.names = names
        self.wlm_names = {kube: wlm for wlm, kube in names.items()}
        self.remark = remark

    @abstractmethod
    def in_control(self) -> Optional[bool]: ...

    @abstractmethod
    def jobs(self) -> Optional[Jobs]: ...

    @abstractmethod
    def states(self) -> Optional[Dict[str, str]]: ...

    def kube_names(self, wlm_names: Iterable[str]) -> FrozenSet[str]:
        return frozenset(self.names.get(name, name) for name in wlm_names)

    def wlm_name(self, kube_name: str) -> str:
        return self.wlm_names.get(kube_name, kube_name)

    def answered(
        self, argv: Tuple[str, ...], read: Callable[[str], Read], codes: Tuple[int, ...] = (0,)
    ) -> Optional[Read]:
        """What a command says, read; None and a remark where it says nothing that can be read."""
        try:
            answer = self.run(argv)
        except OSError as error:
            self.remark(str(error))
            return None
        if answer.code not in codes:
            self.remark("{}: exit code {}: {}".format(argv[0], answer.code, answer.err.strip()[:200]))
            return None
        try:
            return read(answer.out)
        except ValueError as error:
            self.remark("{}: {}".format(argv[0], error))
            return None


class SlurmBatch(Batch):
    def __init__(
        self,
        *,
        run: Run,
        squeue: str,
        scontrol: str,
        host: str,
        names: Mapping[str, str],
        remark: Callable[[str], None],
    ) -> None:
        super().__init__(run=run, host=host, names=names, remark=remark)
        self.squeue = squeue
        self.scontrol = scontrol

    def in_control(self) -> Optional[bool]:
        """The scripts run where slurmctld is in control, so this follows slurmctld and no election of our own."""
        return self.answered((self.scontrol, "ping"), lambda text: in_control(text, host=self.host), codes=(0, 1))

    def jobs(self) -> Optional[Jobs]:
        argv = (self.squeue, "--all", "--array", "--noheader", "--states=all", FIELDS)
        found = self.answered(argv, job_list)
        if found is None:
            return None
        holding, ending = found
        return Jobs({key: self.kube_names(names) for key, names in holding.items()}, ending)

    def states(self) -> Optional[Dict[str, str]]:
        found = self.answered((self.scontrol, "--all", "--oneliner", "show", "node"), node_states)
        return None if found is None else {self.names.get(name, name): state for name, state in found.items()}


def in_control(text: str, *, host: str) -> Optional[bool]:
    """`scontrol ping` names the controllers in their order; the first that is up is in control."""
    for name, state in _PING.findall(text):
        if state == "UP":
            return bool(name.partition(".")[0] == host.partition(".")[0])
    return None


def job_list(text: str) -> Tuple[Dict[str, FrozenSet[str]], FrozenSet[str]]:
    if text and not text.endswith("\n"):
        raise ValueError("the answer is cut off")
    holding: Dict[str, FrozenSet[str]] = {}
    ending = set()
    for line in text.splitlines():
        words = [word.strip() for word in line.split("^")]
        if len(words) != 5:
            raise ValueError("{}: not four fields".format(ascii(line[:60])))
        if words[2] in HOLDING and words[3]:
            holding[str(jobid.parse("slurm", words[0], words[1]))] = frozenset(hostlist.expand(words[3]))
        elif words[2] in ENDING:
            ending.add(str(jobid.parse("slurm", words[0], words[1])))
    return holding, frozenset(ending)


def node_states(text: str) -> Dict[str, str]:
    """Why each node is not for jobs now, or "". No node at all is no answer: there is no such cluster."""
    if not text.endswith("\n"):
        raise ValueError("the answer is cut off")
    found: Dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        match = _NODE.match(line)
        if match is None:
            raise ValueError("{}: no node with a state".format(ascii(line[:60])))
        closed = [flag for flag in _flags(match.group(2)) if flag in CLOSED]
        reason = _REASON.search(line, match.end()) if closed else None
        found[match.group(1)] = "+".join(closed) + (": " + plain(reason.group(1)) if reason else "")
    if not found:
        raise ValueError("no node in the answer")
    return found


def _flags(text: str) -> Tuple[str, ...]:
    flags: Dict[str, None] = {}
    for word in text.split("+"):
        bare = word.rstrip("".join(_MARKS))
        flags[bare] = None
        flags.update((_MARKS[mark], None) for mark in word[len(bare) :])
    return tuple(flags)


def plain(text: str) -> str:
    """An administrator's words, without who and when (which changes with every repetition)."""
    return ascii(text.partition(" [")[0].strip())[1:-1]
