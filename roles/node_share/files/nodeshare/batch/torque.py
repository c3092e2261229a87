# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Torque says of jobs: qstat's XML read with care, and what a lease's job leaves on its node.

Its text about jobs is never read: a newline in the name of an account begins a line of an attribute there. The XML is
read by a reader of its own, as users can put bytes into it that no XML may have. No field of a job is read that its
owner writes. Torque tells scripts no count of starts, so the run of a lease is nodeshare's own, and says nothing to
Torque.
"""

import os
import re
from typing import Callable, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple

from ..model.actions import ENDING, GONE, LIVE
from ..model.answer import Answer
from ..model.jobs import job_key
from ..model.jobs.lease import Lease

HOLDING = frozenset("RS")  # a suspended job has given its slots away, and neither its hosts nor its memory
EXITING = frozenset("E")
NO_RUN = frozenset("QHWTC")
UNKNOWN_JOB, NOT_ALLOWED = 153, 159
MOST_CHARACTERS = 64 << 20
_DEEPEST = 8
_LONGEST_NAMES = 4096
LONGEST_FILE = 61  # characters that Torque takes of an id into the name of a file
_HEAD = '<?xml version="1.0"?>'
_TOKEN = re.compile(r"<(/?)([A-Za-z_][A-Za-z0-9_.-]*) ?(/?)>([^<]*)", re.ASCII)
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos);", re.ASCII)
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_UNKNOWN = re.compile(r"^qstat: Unknown Job Id\b", re.ASCII | re.MULTILINE)
_NAMING = re.compile(r"^    (job_suffix_alias|display_job_server_suffix) = (.*)$", re.ASCII | re.MULTILINE)
_PLACE = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)/[\d,-]+", re.ASCII)


class Job(NamedTuple):
    """A job or an element of an array: its state, its hosts (none once it has ended), and its queue."""

    state: str
    hosts: FrozenSet[str] = frozenset()
    queue: str = ""
    starts: int = 0


def records(text: str, tag: str) -> List[Dict[str, str]]:
    """Read `<Data>` with its elements `tag`: the text of leaves by name, dots between levels.

    ValueError: the answer is cut off, too long, or something else.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError("XML of more than {} characters".format(MOST_CHARACTERS))
    found: List[Dict[str, str]] = []
    names: List[str] = []
    current: Dict[str, str] = {}
    text = text.strip()
    at, done = 0, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or done:
            raise ValueError("XML that is not whole at {}".format(ascii(text[at : at + 60])))
        closes, name, empty, value = token.groups()
        at = token.end()
        if not closes:
            if len(names) >= _DEEPEST or (not names and name != "Data"):
                raise ValueError("XML with {} where {} is expected".format(ascii(name[:60]), tag))
            current = {} if len(names) == 1 else current
            names.append(name)
            if len(names) > 2:
                current[".".join(names[2:])] = "" if empty else _plain(value)
        if closes or empty:
            if not names or names[-1] != name:
                raise ValueError("XML that is not whole: {} ends what it is not".format(ascii(name[:60])))
            if len(names) == 2 and name == tag:
                found.append(current)
            names.pop()
            done = not names
    if not done:
        raise ValueError("XML that is not whole: it ends within {}".format("/".join(names) or tag))
    return found


def _plain(value: str) -> str:
    return _ENTITY.sub(lambda match: _ENTITIES[match.group(1)], _CONTROL.sub("", value)).strip()


def jobs(text: str) -> Dict[str, Job]:
    """Read `qstat -x` into jobs by id. It prints a whole document for each id that it is asked about.

    No value can have the head of a document in it, as Torque writes `<` as an entity there.
    """
    found: Dict[str, Job] = {}
    for document in text.split(_HEAD):
        if document.strip():
            found.update(_job(fields) for fields in records(document, "Job"))
    return found


def _job(fields: Mapping[str, str]) -> Tuple[str, Job]:
    name, state = fields.get("Job_Id", ""), fields.get("job_state", "")
    if not name or len(state) != 1:
        raise ValueError("{}: no job with a state".format(ascii(name[:60])))
    starts = fields.get("start_count", "")
    # one that has ended keeps its hosts to be looked at
    placed = "" if state in NO_RUN else fields.get("exec_host", "")
    matches = [_PLACE.fullmatch(part) for part in placed.split("+") if part]
    if not all(matches):
        raise ValueError("{}: hosts {}".format(ascii(name[:60]), ascii(placed[:60])))
    hosts = frozenset(match.group(1) for match in matches if match)
    return name, Job(state, hosts, fields.get("queue", ""), int(starts) if starts.isdigit() else 0)


def short(host: str) -> str:
    """Return a host's name without its domain, in lower case."""
    return host.lower().partition(".")[0]


def servers(home: str) -> Tuple[str, ...]:
    """Return the servers that commands on this host ask, by the file `server_name`; none where it cannot be read."""
    if not home:
        return ()
    try:
        with open(os.path.join(home, "server_name"), encoding="ascii", errors="replace") as stream:
            words = stream.read(_LONGEST_NAMES).lower().split()
    except OSError:
        return ()
    return tuple(name.partition(":")[0] for name in ",".join(words).split(",") if name)


class Naming(NamedTuple):
    """What a server gives out behind a job's number: its own name, an alias, both or neither."""

    shows_server: bool = True
    alias: str = ""


def naming(text: str) -> Naming:
    """Read `qstat -B -f`, which only managers write into. ValueError: it is something else."""
    if not text.startswith("Server: "):
        raise ValueError("no server in {}".format(ascii(text[:60])))
    found = dict(_NAMING.findall(text.replace("\n\t", "")))  # long lines go on behind a tab
    shown = found.get("display_job_server_suffix", "True").lower()
    return Naming(shown == "true", found.get("job_suffix_alias", "").lower())


def is_ours(job: str, ours: Tuple[str, ...], named: Naming) -> bool:
    """Return whether one of these servers finds a job by an id like this one, as it names its jobs now.

    A name without a domain is the same as one with it. Beside an alias a server finds only jobs of a name without
    dots. Jobs that it has named otherwise before, it does not find at all.
    """
    server = job.lower().partition(".")[2]
    if not named.shows_server:
        return bool(ours) and server == named.alias
    if named.alias:
        server, _dot, alias = server.partition(".")
        return alias == named.alias and any(short(name) == server for name in ours)
    return any(server == name or short(name) == server or short(server) == name for name in ours)


def ask(
    leases: Tuple[Lease, ...], *, qstat: str, run: Callable[[Tuple[str, ...]], Answer], home: str, here: str = ""
) -> Mapping[str, str]:
    """Ask whether each job still has this node, one question for each; `here` is this host's name.

    A lease that gets no clear answer is left out: a server that is down, a job of another server, or one that this
    host may not see. A job is unknown only by the exit code for that. Torque says the same of another server's jobs,
    so the word counts for jobs of the servers in `home` alone, and one more question tells how these name jobs now.
    """
    host = short(here or os.uname().nodename)
    known: Dict[str, str] = {}
    unknown: List[str] = []
    mine = [lease for lease in leases if lease.key.wlm == "torque"]
    for name in dict.fromkeys(lease.key.job for lease in mine):
        answer = run((qstat, "-x", name))
        if answer.code not in (0, UNKNOWN_JOB, NOT_ALLOWED):
            break  # nor would it know of the others, and each question takes its time
        known[name] = _judge(name, answer, host)
        if answer.code == UNKNOWN_JOB and _UNKNOWN.search(answer.err) and not answer.out.strip():
            unknown.append(name)
    if unknown:
        named = _asked_naming(run((qstat, "-B", "-f")))
        ours = servers(home)
        known.update((name, GONE) for name in unknown if named and is_ours(name, ours, named))
    return {str(lease.key): known[lease.key.job] for lease in mine if known.get(lease.key.job)}


def _asked_naming(answer: Answer) -> Optional[Naming]:
    try:
        return naming(answer.out) if answer.code == 0 else None
    except ValueError:
        return None


def _judge(name: str, answer: Answer, here: str) -> str:
    if answer.code != 0:
        return ""
    try:
        job: Optional[Job] = jobs(answer.out).get(name)
    except ValueError:
        return ""
    if job is None:
        return ""
    if job.state in NO_RUN:
        return GONE
    if here not in {short(host) for host in job.hosts}:
        return GONE if job.hosts else ""
    return LIVE if job.state in HOLDING else ENDING if job.state in EXITING else ""


def life(leases: Tuple[Lease, ...], *, home: str) -> Dict[str, bool]:
    """Whether the MoM has the job: its file is there from before the prologue until after the epilogue.

    It is there also while no MoM runs, and a MoM that comes back runs the epilogue then. So a job that was purged at
    the server lives until the MoM has ended it.
    """
    mine = [lease for lease in leases if lease.key.wlm == "torque"]
    return {str(lease.key): is_listed(lease.key, home=home) for lease in mine}


def is_listed(key: job_key.JobKey, *, home: str) -> bool:
    """Whether the MoM has the file of a job; of an array's element it is named 31-1.server. Torque cuts long names."""
    name = re.sub(r"\[(\d+)\]", r"-\1", key.job)[:LONGEST_FILE] + ".JB"
    return os.path.exists(os.path.join(home, "mom_priv", "jobs", name))
