# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller asks of Torque: which server is in control, which jobs hold nodes, and all nodes' states.

It goes about this as with PBS: pbsnodes tells which jobs have which nodes, and qstat is asked about jobs that are new
there or have left. Both are read by their XML. The rights of an operator are needed, or other users' jobs are hidden.
"""

import re
from typing import Dict, FrozenSet, Iterable, Optional, Set, Tuple

from ...batch import pbs, torque
from ...model.jobs import job_key
from .batch import plain
from .pbs import Nodes, PbsBatch

# A node with one of these is not for jobs now, and not for pods either.
CLOSED = frozenset(("offline", "down", "unknown", "state-unknown"))
REFUSED = 111
_UNKNOWN = re.compile(r"qstat: Unknown Job Id(?: Error)? (\S+)", re.ASCII)
_JOB_OF_NODE = re.compile(r"([\d,-]+)/([^,/\s]+)(?:,\s*|\Z)", re.ASCII)


class TorqueBatch(PbsBatch):
    """Jobs of `ignored` queues are those of pods: they take nothing from pods, and hold no node against them."""

    TELLING = (0, torque.UNKNOWN_JOB)
    # Torque says of another server's jobs that it knows no such job, and nodes list jobs of all their servers.
    LISTED_LIVES = True

    def in_control(self) -> Optional[bool]:
        """Whether the server of this very host answers; a second server that only waits refuses connections.

        Where no server answers at all, it cannot be told which one is in control.
        """
        try:
            mine = self.run((self.qstat, "-B", self.host))
            if mine.code == 0:
                return True
            other = self.run((self.qstat, "-B"))
        except OSError as error:
            self.remark(str(error))
            return None
        if mine.code == REFUSED and other.code == 0:
            return False
        self.remark("{}: exit code {}: {}".format(self.qstat, mine.code, mine.err.strip()[:200]))
        return None

    def starts(self) -> Optional[Dict[str, Optional[float]]]:
        """Return none: Torque's own scheduler plans nothing."""
        return {}

    def _look(self) -> Optional[Nodes]:
        return self.answered((self.pbsnodes, "-x"), read_nodes)

    def _question(self, names: Iterable[str]) -> Tuple[str, ...]:
        return (self.qstat, "-x", *names)

    def _read_jobs(self, text: str) -> Dict[str, pbs.Job]:
        found = torque.jobs(text)
        return {name: pbs.Job(job.state, job.starts, job.hosts, job.hosts, job.queue) for name, job in found.items()}

    def _read_unknown(self, text: str) -> Set[str]:
        return set(_UNKNOWN.findall(text))

    def _key_of(self, name: str, job: pbs.Job) -> Optional[str]:
        return key_of(name, job.run)

    def _key(self, name: str) -> str:
        return key_of(name, 0) or name


def key_of(name: str, starts: int) -> Optional[str]:
    """Return the key of a job by the server's count of its starts; None for an array's parent."""
    try:
        return str(job_key.parse("torque", name, str(starts)))
    except job_key.JobIdError:
        return None


def read_nodes(text: str) -> Nodes:
    """Read all nodes: why each is not for jobs now, and which jobs have it."""
    found = Nodes({}, {}, {}, {})
    for fields in torque.records(text, "Node"):
        name, words = fields.get("name", ""), fields.get("state", "")
        if not name or not words:
            raise ValueError("{}: no node with a state".format(ascii(name[:60])))
        closed = "+".join(sorted(CLOSED.intersection(word.strip() for word in words.split(","))))
        note = plain(fields.get("note", "")[:200])
        found.hosts[name] = name
        found.states[name] = closed + (": " + note if closed and note else "")
        for job in _jobs(name, fields.get("jobs", "")):
            found.jobs[job] = found.jobs.get(job, frozenset()) | {name}
    if not found.hosts:
        raise ValueError("no node in the answer")
    return found


def _jobs(name: str, text: str) -> FrozenSet[str]:
    """Return the jobs of ``0-1,3/35.srv,2/31[1].srv``."""
    found: Set[str] = set()
    at = 0
    while at < len(text):
        match = _JOB_OF_NODE.match(text, at)
        if match is None:
            raise ValueError("{}: jobs {}".format(ascii(name[:60]), ascii(text[:60])))
        if key_of(match.group(2), 0):
            found.add(match.group(2))
        at = match.end()
    return frozenset(found)
