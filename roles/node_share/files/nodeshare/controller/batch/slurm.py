# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask Slurm for the controller: which slurmctld acts, all jobs, all nodes' states. "Cannot tell" is None.

Here is Slurm, of which only fields are read that no batch user and no slurmd can write: jobs come from squeue and nodes
from sinfo, with chosen fields. `scontrol show node` prints what a slurmd says of itself before the state, and newlines.
Lists are short whatever users submit: pending jobs and tasks are not asked for.
"""

import re
import time
from typing import Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple

from ...batch import hostlist
from ...model.jobs import job_key
from ...shared.slurm_states import ENDING, HOLDING
from ..decide import Jobs
from .batch import Batch, Run, Start, plain

FIELDS = "--Format=JobID:^,RestartCnt:^,State:^,NodeList:^"
NODE_FIELDS = "--Format=NodeList:^,StateComplete:^"
REASON_FIELDS = "--Format=NodeList:^,Reason:^"
START_FIELDS = "--Format=StartTime:^,SchedNodes:^"
END_FIELDS = "--Format=JobID:^,RestartCnt:^,EndTime:^"
STATES = ",".join(sorted(HOLDING | ENDING))
# A node with one of these is not for jobs now, and not for pods either: it was closed for some purpose.
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
_STATE = re.compile(r"([^^]+)\^([A-Za-z_+]{1,1000})\^", re.ASCII)
_REASON = re.compile(r"([^^]+)\^(.{1,200})", re.ASCII)
_RESERVATION = re.compile(r"ReservationName=\S+ StartTime=(\S+) EndTime=\S+ Duration=\S+ +Nodes=(\S+) ", re.ASCII)
_PING = re.compile(r"^Slurmctld\(\S+\) at (\S+) is (UP|DOWN)", re.ASCII | re.MULTILINE)


class SlurmBatch(Batch):
    def __init__(
        self,
        *,
        run: Run,
        squeue: str,
        sinfo: str,
        scontrol: str,
        host: str,
        names: Mapping[str, str],
        remark: Callable[[str], None],
    ) -> None:
        super().__init__(run=run, host=host, names=names, remark=remark)
        self.squeue = squeue
        self.sinfo = sinfo
        self.scontrol = scontrol
        self.last: Dict[str, str] = {}  # states, by Slurm's names
        self.reasons: Dict[str, str] = {}

    def in_control(self) -> Optional[bool]:
        """Return whether slurmctld is in control here: Slurm runs its scripts there, so we need no election."""
        return self.answered((self.scontrol, "ping"), lambda text: in_control(text, host=self.host), codes=(0, 1))

    def jobs(self) -> Optional[Jobs]:
        argv = (self.squeue, "--all", "--local", "--array", "--noheader", "--states=" + STATES, FIELDS)
        found = self.answered(argv, job_list)
        if found is None:
            return None
        holding, ending = found
        return Jobs({key: self.kube_names(names) for key, names in holding.items()}, ending)

    def states(self) -> Optional[Dict[str, str]]:
        """Why each node is not for jobs now, or "".

        The reason is free text, asked for apart and shown, and nothing else: one that cannot be told changes nothing.
        A node that cannot be read keeps the state that it had.
        """
        found = self.answered((*self._sinfo(), NODE_FIELDS), node_states)
        if found is None:
            return None
        states, odd = found
        if odd:
            self.remark("{}: {}: no nodes with a state".format(self.sinfo, odd))
            states = {**self.last, **states}
        self.last = states
        if any(states.values()):
            reasons = self.answered((*self._sinfo(), REASON_FIELDS), node_reasons)
            self.reasons = self.reasons if reasons is None else reasons
        return {self.names.get(name, name): self._with_reason(name, state) for name, state in states.items()}

    def starts(self) -> Optional[Dict[str, float]]:
        argv = (self.squeue, "--all", "--local", "--noheader", "--states=PENDING", START_FIELDS)
        jobs = self.answered(argv, planned_jobs)
        reservations = self.answered((self.scontrol, "--oneliner", "show", "reservation"), reservation_starts)
        if jobs is None or reservations is None:
            return None
        return self.earliest((*jobs, *reservations))

    def ends(self) -> Optional[Dict[str, float]]:
        # A suspended job ends later than Slurm prints.
        argv = (self.squeue, "--all", "--local", "--array", "--noheader", "--states=CONFIGURING,RUNNING", END_FIELDS)
        return self.answered(argv, job_ends)

    def _sinfo(self) -> Tuple[str, ...]:
        return (self.sinfo, "--all", "--local", "--noheader")

    def _with_reason(self, name: str, state: str) -> str:
        reason = self.reasons.get(name, "") if state else ""
        return state + (": " + reason if reason else "")


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
            holding[str(job_key.parse("slurm", words[0], words[1]))] = frozenset(hostlist.expand(words[3]))
        elif words[2] in ENDING:
            ending.add(str(job_key.parse("slurm", words[0], words[1])))
    return holding, frozenset(ending)


def node_states(text: str) -> Tuple[Dict[str, str], str]:
    """Why each node is not for jobs now, or "", and the first thing that is odd. No node at all is no answer.

    Of several lines of a node, one for each partition, the last counts: they are made of one record.
    """
    if not text.endswith("\n"):
        raise ValueError("the answer is cut off")
    found: Dict[str, str] = {}
    odd = ""
    for line in text.splitlines():
        match = _STATE.fullmatch(line)
        names, trouble = hostlist.expand_readable(match.group(1)) if match else ((), ascii(line[:60]))
        odd = odd or trouble
        if match:
            flags = dict.fromkeys(match.group(2).upper().split("+"))
            found.update(dict.fromkeys(names, "+".join(flag for flag in flags if flag in CLOSED)))
    if not found:
        raise ValueError("no node in the answer")
    return found, odd


def node_reasons(text: str) -> Dict[str, str]:
    """Return the reason of each node that has one. A line that is odd is left out."""
    found: Dict[str, str] = {}
    for match in map(_REASON.match, text.splitlines()):
        reason = plain(match.group(2).rstrip().rstrip("^")) if match else ""
        if match and reason not in ("", "none"):
            found.update(dict.fromkeys(hostlist.expand_readable(match.group(1))[0], reason))
    return found


def planned_jobs(text: str) -> List[Start]:
    """When jobs that wait are expected to start, and on which nodes. An odd line is left out: it is only a plan."""
    return [start for start in (_start(*line.split("^")[:2]) for line in text.splitlines() if "^" in line) if start]


def job_ends(text: str) -> Dict[str, float]:
    """When each job ends at the latest. A line that is odd, or of a job without a limit, is left out."""
    found: Dict[str, float] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("^")]
        at = _time(words[2]) if len(words) == 4 else None
        try:
            key = job_key.parse("slurm", words[0], words[1]) if at is not None else None
        except job_key.JobIdError:
            key = None
        if key is not None and at is not None:
            found[str(key)] = at
    return found


def reservation_starts(text: str) -> List[Start]:
    """When reservations begin, and on which nodes."""
    matches = [_RESERVATION.match(line) for line in text.splitlines()]
    return [start for start in (_start(*match.groups()) for match in matches if match) if start]


def _start(at: str, nodes: str) -> Optional[Start]:
    """Read a local time and a list of nodes; None where either is none."""
    try:
        begin, names = _time(at), hostlist.expand(nodes.strip())
    except ValueError:
        return None
    return None if begin is None else (begin, names)


def _time(text: str) -> Optional[float]:
    """Read a local time; None where it is none, such as NONE or N/A."""
    try:
        return time.mktime(time.strptime(text.strip(), "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
