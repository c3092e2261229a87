# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask PBS for the controller: which server acts, which jobs hold nodes, all nodes' states. "Cannot tell" is None.

A vnode's name says nothing certain of its host, which is what Kubernetes knows: pbsnodes tells which vnode is where,
and which jobs have it. qstat is asked about jobs that are new there, and about those that have left, as a suspended one
does. A list of all jobs would have every waiting job and array task, with whatever their owners wrote.
"""

import re
import time
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from ...batch import pbs
from ...host.command import TooLongError
from ...model.jobs import job_key
from ..decide import Jobs
from .batch import Batch, Run, plain

# A node with one of these is not for jobs now, and not for pods either: it was closed for some purpose.
CLOSED = frozenset(
    (
        "offline",
        "down",
        "state-unknown",
        "unresolvable",
        "stale",
        "initializing",
        "maintenance",
        "provisioning",
        "wait-provisioning",
        "sleep",
    )
)


ASKED_AT_ONCE = 200  # jobs in one call of qstat
ASKING_SECONDS = 40.0  # for all calls of one list
RESERVATIONS_SECONDS = 10.0  # after which no further reservation is asked about at this look
_RESERVATION = re.compile(r"[A-Za-z]\d+\.[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


class Nodes(NamedTuple):
    """The host of each vnode, why each host is not for jobs now (or ""), and the hosts of each job that has a vnode.

    And those of each reservation, by its id.
    """

    hosts: Dict[str, str]
    states: Dict[str, str]
    jobs: Dict[str, FrozenSet[str]]
    reservations: Dict[str, FrozenSet[str]]


class Known(NamedTuple):
    """A job that holds nodes: its run as nodes know it, and its hosts.

    `ignored`: it is of pods. `asked`: PBS has said what it is; else it is asked about with every list.
    """

    key: str
    hosts: FrozenSet[str]
    ignored: bool = False
    asked: bool = True


class Told(NamedTuple):
    """What PBS says of jobs: those that can be read, and those it does not know. Of others it cannot be told."""

    jobs: Dict[str, pbs.Job]
    unknown: Set[str]


class PbsBatch(Batch):
    """Jobs of `ignored` queues are those of pods: they take nothing from pods, and hold no node against them."""

    # Exit codes of qstat that tell something of each job.
    TELLING: Tuple[int, ...] = (0, pbs.UNKNOWN_JOB, pbs.FINISHED_JOB)
    # Whether a job that a node lists may live although the server does not know it.
    LISTED_LIVES = False

    def __init__(
        self,
        *,
        run: Run,
        qstat: str,
        pbsnodes: str,
        host: str,
        names: Mapping[str, str],
        remark: Callable[[str], None],
        ignored: FrozenSet[str] = frozenset(),
        pbs_rstat: str = "",
    ) -> None:
        super().__init__(run=run, host=host, names=names, remark=remark)
        self.qstat = qstat
        self.pbsnodes = pbsnodes
        self.pbs_rstat = pbs_rstat
        self.ignored = ignored
        self.known: Dict[str, Known] = {}  # by id
        self.nodes: Optional[Nodes] = None  # of the last list of jobs, until the states are asked for
        self.reserved: Optional[Dict[str, FrozenSet[str]]] = None  # of the last look at the nodes
        # Of reservations, None before the first answer; the one that was asked about longest ago is first.
        self.begins: Dict[str, Optional[Tuple[float, ...]]] = {}

    def in_control(self) -> Optional[bool]:
        """Of several servers the one that is active says its own name."""
        return self.answered((self.qstat, "-B", "-f", "-F", "json"), lambda text: in_control(text, host=self.host))

    def jobs(self) -> Optional[Jobs]:
        self.nodes = nodes = self._look()
        if nodes is None:
            return None
        due = self.known.keys() - nodes.jobs.keys()
        due |= {name for name, hosts in nodes.jobs.items() if _is_news(self.known.get(name), hosts)}
        told = self._ask(sorted(due))
        if told is None:
            return None
        ending: Set[str] = set()
        for name in due:
            self._take(name, told, nodes, ending)
        held = (known for known in self.known.values() if not known.ignored)
        return Jobs({known.key: self.kube_names(known.hosts) for known in held}, frozenset(ending))

    def states(self) -> Optional[Dict[str, str]]:
        nodes, self.nodes = self.nodes or self._look(), None
        return None if nodes is None else {self.names.get(host, host): state for host, state in nodes.states.items()}

    def starts(self) -> Optional[Dict[str, Optional[float]]]:
        """When the next reservation begins on each node that has one; None for a node of which it cannot be told.

        The server itself says which nodes a reservation has, so text of its owner names none. Each is asked about by
        itself, so text of its owner tells nothing of another. One without an answer keeps what it said last.
        """
        reserved = self.reserved
        if not reserved:
            return None if reserved is None else {}
        self.begins = {name: times for name, times in self.begins.items() if name in reserved}
        give_up = time.monotonic() + RESERVATIONS_SECONDS
        asked = 0
        for name in [*sorted(reserved.keys() - self.begins.keys()), *self.begins]:
            if time.monotonic() > give_up:
                break
            times, before = self._begin_of(name), self.begins.pop(name, None)
            self.begins[name] = before if times is None else times  # behind all others, so that its turn comes last
            asked += 1
        untold = [name for name in reserved if self.begins.get(name) is None]
        if untold and asked < len(reserved):
            text = "pbs_rstat: {} of {} reservations not asked about within {:g} s"
            self.remark(text.format(len(reserved) - asked, len(reserved), RESERVATIONS_SECONDS))
        found: Dict[str, Optional[float]] = {}
        found.update(self.earliest((at, reserved[name]) for name, times in self.begins.items() for at in times or ()))
        found.update(dict.fromkeys(self.kube_names(host for name in untold for host in reserved[name])))
        return found

    def _begin_of(self, name: str) -> Optional[Tuple[float, ...]]:
        """Ask when a reservation begins: at one time, or () where it does not say; None: no answer."""
        return self.answered((self.pbs_rstat, "-F", name), lambda text: reservation_begin(text, name))

    def _look(self) -> Optional[Nodes]:
        nodes = self.answered((self.pbsnodes, "-av", "-F", "json"), read_nodes)
        self.reserved = None if nodes is None else nodes.reservations
        return nodes

    def _take(self, name: str, told: Told, nodes: Nodes, ending: Set[str]) -> None:
        """Judge a job that PBS was asked about. One of which it cannot be told holds what it has."""
        job, here = told.jobs.get(name), nodes.jobs.get(name, frozenset())
        if job is None and (name not in told.unknown or (here and self.LISTED_LIVES)):
            known = self.known.get(name) or Known(self._key(name), frozenset())
            self.known[name] = known._replace(hosts=known.hosts | here, asked=False)
            return
        self.known.pop(name, None)
        key = None if job is None else self._key_of(name, job)
        if job is None or key is None:
            return
        ignored = job.queue in self.ignored
        if job.state in pbs.EXITING and not ignored:
            ending.add(key)
        elif job.state in pbs.HOLDING and job.vnodes:
            hosts = frozenset(nodes.hosts.get(vnode, vnode) for vnode in job.vnodes)
            self.known[name] = Known(key, hosts | here, ignored)

    def _ask(self, names: List[str]) -> Optional[Told]:
        """Ask about these jobs; None: no answer.

        An answer that is too long or cannot be read is asked for again in halves, down to the one job that is odd.
        """
        told = Told({}, set())
        give_up = time.monotonic() + ASKING_SECONDS
        questions = [names[at : at + ASKED_AT_ONCE] for at in range(0, len(names), ASKED_AT_ONCE)]
        while questions:
            if time.monotonic() > give_up:
                text = "{}: {} jobs not all told of within {:g} s"
                self.remark(text.format(self.qstat, len(names), ASKING_SECONDS))
                return None
            asked = questions.pop()
            try:
                answer = self.run(self._question(asked))
                if answer.code not in self.TELLING:
                    text = "{}: exit code {}: {}"
                    self.remark(text.format(self.qstat, answer.code, answer.err.strip()[:200]))
                    return None
                told.jobs.update(self._read_jobs(answer.out))
                told.unknown.update(self._read_unknown(answer.err))
            except (TooLongError, ValueError) as error:
                half = len(asked) // 2
                questions += [asked[:half], asked[half:]] if half else []
                self.remark("{}: {}".format(self.qstat, error))
            except OSError as error:
                self.remark(str(error))
                return None
        return told

    def _question(self, names: Iterable[str]) -> Tuple[str, ...]:
        return (self.qstat, "-f", "-F", "json", *names)

    def _read_jobs(self, text: str) -> Dict[str, pbs.Job]:
        return pbs.jobs(text)

    def _read_unknown(self, text: str) -> Set[str]:
        return pbs.unknown(text)

    def _key_of(self, name: str, job: pbs.Job) -> Optional[str]:
        return pbs.key_of(name, job)

    def _key(self, name: str) -> str:
        return _key(name)


def in_control(text: str, *, host: str) -> bool:
    for name, fields in pbs.section(text, "qstat", "Server", needed=True).items():
        active = str(fields.get("server_host", name))
        return active.partition(".")[0] == host.partition(".")[0]
    return False


def read_nodes(text: str) -> Nodes:
    """Read all nodes. One closed vnode closes its host."""
    found = Nodes({}, {}, {}, {})
    for name, fields in pbs.section(text, "pbsnodes", "nodes", needed=True).items():
        words = fields.get("state")
        if not isinstance(words, str) or not words:
            raise ValueError("{}: no node with a state".format(ascii(name[:60])))
        found.hosts[name] = host = _host(name, fields)
        closed = "+".join(sorted(CLOSED.intersection(words.split(","))))
        comment = plain(str(fields.get("comment", ""))[:200])
        state = closed + (": " + comment if closed and comment else "")
        found.states[host] = found.states.get(host) or state
        for job in _jobs(name, fields):
            found.jobs[job] = found.jobs.get(job, frozenset()) | {host}
        for word in str(fields.get("resv") or "").split(","):
            reservation = word.strip()
            if _RESERVATION.fullmatch(reservation):
                found.reservations[reservation] = found.reservations.get(reservation, frozenset()) | {host}
    return found


def reservation_begin(text: str, name: str) -> Tuple[float, ...]:
    """Return when a reservation begins, from what pbs_rstat says at length of it alone; () where it says no time.

    Its owner's text may have lines of its own there. So a reservation with two beginnings has none.
    """
    if not text.endswith("\n"):
        raise ValueError("the answer is cut off")
    lines = text.splitlines()
    if lines[0].strip() != "Resv ID: " + name:
        raise ValueError("{}: no reservation {}".format(ascii(lines[0][:60]), ascii(name[:60])))
    words = {line[16:].strip() for line in lines if line.startswith("reserve_start = ")}
    at = _time(words.pop()) if len(words) == 1 else None
    return () if at is None else (at,)


def _time(text: str) -> Optional[float]:
    """Read a local time as ctime writes it; None where it is none."""
    try:
        return time.mktime(time.strptime(text, "%a %b %d %H:%M:%S %Y"))
    except (ValueError, OverflowError):
        return None


def _jobs(name: str, fields: Mapping[str, Any]) -> Iterable[str]:
    """Yield the ids of a vnode's jobs, without what is no id; text output has the number of a slot behind each."""
    jobs = fields.get("jobs", [])
    if not isinstance(jobs, list) or not all(isinstance(job, str) for job in jobs):
        raise ValueError("{}: no list of jobs".format(ascii(name[:60])))
    ids = (job.partition("/")[0] for job in jobs)
    return [job for job in ids if _is_id(job)]


def _is_id(name: str) -> bool:
    try:
        job_key.parse("pbs", name, "0")
    except job_key.JobIdError:
        return False
    return True


def _is_news(known: Optional[Known], hosts: FrozenSet[str]) -> bool:
    return known is None or not known.asked or bool(hosts - known.hosts)


def _key(name: str) -> str:
    """Return the key of a job of which no run is known."""
    return str(job_key.parse("pbs", name, "0"))


def _host(name: str, fields: Mapping[str, Any]) -> str:
    available = fields.get("resources_available")
    host = available.get("host") if isinstance(available, dict) else None
    return str(host or fields.get("Mom") or name)
