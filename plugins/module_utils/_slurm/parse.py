# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's programs print, read into typed records. Pure.

Only fields that no batch user can write are read: a job's name may hold line breaks and ``JobState=``, and `scontrol
show job` prints it as it is. So jobs come from `squeue` with a list of chosen fields. An answer that lacks what every
answer has is no answer (`NoAnswerError`), and never an empty list.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from .._shared import hostlist
from .conf.model import SCRIPT_KEYS
from .errors import NoAnswerError

SEPARATOR = "^"  # in no field of JOB_FIELDS, and nothing to a shell, so that the words pass through ssh
JOB_FIELDS = (
    "JobID",
    "ArrayJobID",
    "ArrayTaskID",
    "HetJobID",
    "RestartCnt",
    "State",
    "UserName",
    "UserID",
    "Partition",
    "SubmitTime",
    "StartTime",
    "NumCPUs",
    "NodeList",
)

_SETTING = re.compile(r"([A-Za-z0-9_]+)(\[\d+\])?\s*= (.*)")
_REASON = re.compile(
    r" Reason=(?P<reason>.*?)(?: \[(?P<user>\S+)@(?P<since>[^\]\s]+)\])?(?: (?:Comment|Extra|ReservationName)=.*)?\s*\Z"
)
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
_OTHER_NAMES = {"MAINT": "MAINTENANCE", "FAILING": "FAIL", "REBOOT": "REBOOT_REQUESTED"}


class Node(t.NamedTuple):
    """A node as slurmctld sees it. ``state`` is what the node does, ``flags`` what else is true of it."""

    name: str
    state: str
    flags: frozenset[str]
    hostname: str
    address: str
    cpus: int
    memory_mebibytes: int
    features: tuple[str, ...]
    partitions: tuple[str, ...]
    version: str
    reason: str
    reason_user: str
    reason_since: str


class Job(t.NamedTuple):
    """One job or array task; ``run`` counts its restarts, times are seconds since 1970 or None."""

    id: int
    array_job: int | None
    array_task: int | None
    het_job: int | None
    run: int
    state: str
    user: str
    uid: int
    partition: str
    submitted: int | None
    started: int | None
    cpus: int
    nodes: tuple[str, ...]


class Partition(t.NamedTuple):
    """A partition with its nodes by name."""

    name: str
    state: str
    default: bool
    nodes: tuple[str, ...]
    max_time: str
    oversubscribe: str
    preempt_mode: str
    suspend_time: str


Setting = t.Union[str, None, t.List[str]]


def config(text: str) -> dict[str, Setting]:
    """Read `scontrol show config`: values as printed, None where unset; what may be several (``Key[0]``) as lists."""
    found: dict[str, Setting] = {key: [] for key in SCRIPT_KEYS}
    head, _blank, _cgroup = text.partition("\n\n")
    for line in head.splitlines()[1:]:
        match = _SETTING.match(line)
        if match is None:
            raise NoAnswerError(f"scontrol show config printed {line[:60]!a}: expected Key = value")
        key, value = match.group(1), None if match.group(3) == "(null)" else match.group(3).strip()
        if match.group(2) or key in SCRIPT_KEYS:
            found[key] = [*t.cast("list[str]", found.get(key, [])), *([value] if value else [])]
        else:
            found[key] = value
    if not text.startswith("Configuration data as of") or "SLURM_VERSION" not in found or "\nSlurmctld(" not in text:
        raise NoAnswerError("scontrol show config: the answer is not whole")
    return found


def slurm_user(config: t.Mapping[str, Setting]) -> str:
    """Return the name of SlurmUser, which scontrol prints as name(number); Slurm's own default is root."""
    return str(config.get("SlurmUser") or "root").partition("(")[0]


def nodes(text: str) -> list[Node]:
    """Read `scontrol --oneliner show node`."""
    return [_node(line, _fields(line, "NodeName")) for line in _lines(text, "scontrol show node")]


def partitions(text: str) -> list[Partition]:
    """Read `scontrol --oneliner show partition`."""
    if text.strip() == "No partitions in the system":
        return []
    found = []
    for line in _lines(text, "scontrol show partition"):
        fields = _fields(line, "PartitionName")
        found.append(
            Partition(
                name=fields["PartitionName"],
                state=_needed(fields, "State"),
                default=fields.get("Default") == "YES",
                nodes=_hosts(_needed(fields, "Nodes")),
                max_time=fields.get("MaxTime", ""),
                oversubscribe=fields.get("OverSubscribe", ""),
                preempt_mode=fields.get("PreemptMode", ""),
                suspend_time=fields.get("SuspendTime", ""),
            )
        )
    return found


def jobs(text: str) -> list[Job]:
    """Read `squeue` with JOB_FIELDS, each followed by SEPARATOR, and times in seconds; no line is no job."""
    found = []
    for line in text.splitlines():
        values = line.split(SEPARATOR)
        if len(values) != len(JOB_FIELDS) + 1:
            raise NoAnswerError(f"squeue printed {line[:60]!a}: expected {len(JOB_FIELDS)} fields")
        found.append(_job(dict(zip(JOB_FIELDS, values))))
    if text and not text.endswith("\n"):
        raise NoAnswerError("squeue: the answer is cut off")
    return found


def node_state(text: str) -> tuple[str, frozenset[str]]:
    """Split state and flags of a node, such as ``IDLE+DRAIN*`` or ``DOWN+POWERED_DOWN+NOT_RESPONDING``."""
    words, flags = [], set()
    for word in text.split("+"):
        bare = word.rstrip("".join(_MARKS))
        flags.update(_MARKS[mark] for mark in word[len(bare) :])
        words.append(_OTHER_NAMES.get(bare, bare))
    if not all(words):
        raise NoAnswerError(f"{text!a} is no state of a node")
    return words[0], frozenset(flags.union(words[1:]))


def _node(line: str, fields: dict[str, str]) -> Node:
    state, flags = node_state(_needed(fields, "State"))
    why = _REASON.search(line)
    return Node(
        name=fields["NodeName"],
        state=state,
        flags=flags,
        hostname=fields.get("NodeHostName", fields["NodeName"]),
        address=fields.get("NodeAddr", fields["NodeName"]),
        cpus=_number(_needed(fields, "CPUTot")),
        memory_mebibytes=_number(_needed(fields, "RealMemory")),
        features=_words(fields.get("AvailableFeatures", "")),
        partitions=_words(fields.get("Partitions", "")),
        version=fields.get("Version", ""),
        reason=why.group("reason") if why else "",
        reason_user=(why.group("user") or "") if why else "",
        reason_since=(why.group("since") or "") if why else "",
    )


def _job(fields: dict[str, str]) -> Job:
    def number_or_none(name: str) -> int | None:
        return None if fields[name] in ("N/A", "Unknown", "") else _number(fields[name])

    return Job(
        id=_number(fields["JobID"]),
        array_job=number_or_none("ArrayJobID") if fields["ArrayTaskID"] != "N/A" else None,
        array_task=number_or_none("ArrayTaskID"),
        het_job=number_or_none("HetJobID"),
        run=_number(fields["RestartCnt"]),
        state=fields["State"],
        user=fields["UserName"],
        uid=_number(fields["UserID"]),
        partition=fields["Partition"],
        submitted=number_or_none("SubmitTime"),
        started=number_or_none("StartTime"),
        cpus=_number(fields["NumCPUs"]),
        nodes=_hosts(fields["NodeList"]),
    )


def _lines(text: str, command: str) -> list[str]:
    lines = text.splitlines()
    if not lines or not text.endswith("\n"):
        raise NoAnswerError(f"{command}: the answer is {'cut off' if lines else 'empty'}")
    return lines


def _fields(line: str, first: str) -> dict[str, str]:
    """Read Key=Value words; a word without = continues the value before. Free text comes last and overrides nothing."""
    found: dict[str, str] = {}
    key = ""
    for word in line.split():
        name, equals, value = word.partition("=")
        if equals and name not in found:
            key = name
            found[key] = value
        elif key:
            found[key] += " " + word
    if next(iter(found), "") != first or not found[first]:
        raise NoAnswerError(f"scontrol printed {line[:60]!a}: expected {first}=")
    return found


def _needed(fields: dict[str, str], key: str) -> str:
    if key not in fields:
        raise NoAnswerError(f"scontrol shows {next(iter(fields.values()))!a} without {key}=")
    return fields[key]


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        raise NoAnswerError(f"{text[:60]!a} stands where a number is expected")
    return int(text)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word and word != "(null)")


def _hosts(text: str) -> tuple[str, ...]:
    try:
        return tuple(hostlist.expand("" if text == "(null)" else text))
    except hostlist.HostlistError as error:
        raise NoAnswerError(str(error)) from error
