# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller asks of Slurm: who is in control, all jobs, all nodes' states. "Cannot tell" is None.

Only fields that no batch user can write are read, so jobs come from squeue with chosen fields.
"""

import re
from typing import Callable, Dict, FrozenSet, Iterable, Mapping, Optional, Tuple

from . import hostlist, jobid
from .cluster import Jobs
from .evidence import Answer

Run = Callable[[Tuple[str, ...]], Answer]
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


class Batch:
    """The questions, with Kubernetes' names in the answers. `run` raises OSError where there is no answer in time."""

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
        self.run = run
        self.squeue = squeue
        self.scontrol = scontrol
        self.host = host
        self.names = names
        self.wlm_names = {kube: wlm for wlm, kube in names.items()}
        self.remark = remark

    def kube_names(self, wlm_names: Iterable[str]) -> FrozenSet[str]:
        return frozenset(self.names.get(name, name) for name in wlm_names)

    def wlm_name(self, kube_name: str) -> str:
        return self.wlm_names.get(kube_name, kube_name)

    def in_control(self) -> Optional[bool]:
        """The scripts run where slurmctld is in control, so this follows slurmctld and no election of our own."""
        text = self._ask((self.scontrol, "ping"), codes=(0, 1))
        return None if text is None else in_control(text, host=self.host)

    def jobs(self) -> Optional[Jobs]:
        text = self._ask((self.squeue, "--all", "--array", "--noheader", "--states=all", FIELDS))
        try:
            return None if text is None else self._jobs(text)
        except ValueError as error:
            self.remark("squeue: " + str(error))
            return None

    def states(self) -> Optional[Dict[str, str]]:
        text = self._ask((self.scontrol, "--all", "--oneliner", "show", "node"))
        try:
            found = None if text is None else node_states(text)
        except ValueError as error:
            self.remark("scontrol show node: " + str(error))
            return None
        return None if found is None else {self.names.get(name, name): state for name, state in found.items()}

    def _jobs(self, text: str) -> Jobs:
        holding, ending = job_list(text)
        return Jobs({key: self.kube_names(names) for key, names in holding.items()}, ending)

    def _ask(self, argv: Tuple[str, ...], codes: Tuple[int, ...] = (0,)) -> Optional[str]:
        try:
            answer = self.run(argv)
        except OSError as error:
            self.remark(str(error))
            return None
        if answer.code not in codes:
            self.remark("{}: exit code {}: {}".format(argv[0], answer.code, answer.err.strip()[:200]))
            return None
        return answer.out


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
        found[match.group(1)] = "+".join(closed) + (": " + _plain(reason.group(1)) if reason else "")
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


def _plain(text: str) -> str:
    """An administrator's words, without who and when (which changes with every repetition)."""
    return ascii(text.partition(" [")[0].strip())[1:-1]
