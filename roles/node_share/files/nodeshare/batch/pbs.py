# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What PBS says of jobs: qstat's JSON read with care, and what a lease's job leaves on its node.

With the server down qstat prints JSON without jobs, so an exit code or a text that is not understood is no answer. No
field of a job is read that its owner writes, except `run_count` of a PBS without `run_version`: it alone ends no run.
"""

import os
import re
import time
from typing import Any, Callable, Dict, FrozenSet, Mapping, NamedTuple, Optional, Set, Tuple

from ..model.actions import ENDING, GONE, LIVE
from ..model.answer import Answer
from ..model.jobs import job_key
from ..model.jobs.lease import Lease
from ..shared import pbs_json

HOLDING = frozenset("RSU")  # a suspended job has given its cores away, and neither its hosts nor its memory
EXITING = frozenset("E")
NO_RUN = frozenset("QHWTFXM")
UNKNOWN_JOB, FINISHED_JOB = 153, 35
LISTED_SECONDS = 600.0
_VNODE = re.compile(r"[(+]([^():+]+)")
_ABSENT = re.compile(r"qstat: (?:Unknown Job Id (\S+)|(\S+) Job has finished\b.*)", re.ASCII)


class Job(NamedTuple):
    """A job or a sub-job, its last run, the vnodes and hosts that this run has, and its queue."""

    state: str
    run: int
    vnodes: FrozenSet[str]
    hosts: FrozenSet[str] = frozenset()
    queue: str = ""


def section(text: str, program: str, key: str, *, needed: bool) -> Dict[str, Dict[str, Any]]:
    """Return the objects below a key of an answer. ValueError: the text is no whole answer."""
    return pbs_json.section(pbs_json.answer(text, program), key, program, needed=needed)


def jobs(text: str) -> Dict[str, Job]:
    """By id; the parent of an array is one of them."""
    return {name: _job(name, fields) for name, fields in section(text, "qstat", "Jobs", needed=False).items()}


def _job(name: str, fields: Dict[str, Any]) -> Job:
    state, run, placed = fields.get("job_state"), pbs_json.run_of(fields), fields.get("exec_vnode", "")
    if not isinstance(state, str) or not isinstance(placed, str) or run is None:
        raise ValueError("{}: no job with a state".format(ascii(name[:60])))
    vnodes = frozenset(_VNODE.findall(placed))
    words = str(fields.get("exec_host", "")).split("+")
    hosts = frozenset(_short(word.partition("/")[0]) for word in (*words, *vnodes) if word)
    return Job(state, run, vnodes, hosts, str(fields.get("queue", "")))


def _short(host: str) -> str:
    return host.lower().partition(".")[0].partition("[")[0]


def ask(
    leases: Tuple[Lease, ...], *, qstat: str, run: Callable[[Tuple[str, ...]], Answer], here: str = ""
) -> Mapping[str, str]:
    """One question for all these leases; one that gets no clear answer is left out. `here` is this host's name."""
    mine = [lease for lease in leases if lease.key.wlm == "pbs"]
    names = tuple(sorted({lease.key.job for lease in mine}))
    found: Dict[str, Job] = {}
    absent: Set[str] = set()
    questions = [names] if names else []
    while questions:
        asked = questions.pop()
        answer = run((qstat, "-f", "-F", "json", *asked))
        if answer.code not in (0, UNKNOWN_JOB, FINISHED_JOB):
            return {}
        try:
            found.update(jobs(answer.out))
        except ValueError:
            if len(asked) > 1:
                questions += [(name,) for name in asked]  # one that cannot be read is no reason to know nothing
            continue
        absent |= unknown(answer.err)
    host = _short(here or os.uname().nodename)
    verdicts = {str(lease.key): _judge(lease, found.get(lease.key.job), absent, host) for lease in mine}
    return {key: verdict for key, verdict in verdicts.items() if verdict}


def unknown(err: str) -> Set[str]:
    """Return the ids of jobs that PBS says it does not know, or that have finished."""
    lines = [_ABSENT.fullmatch(line.strip()) for line in err.splitlines()]
    return {line.group(1) or line.group(2) for line in lines if line}


def _judge(lease: Lease, job: Optional[Job], absent: Set[str], here: str) -> str:
    if job is None:
        return GONE if lease.key.job in absent else ""
    if job.state in NO_RUN or (job.run > lease.key.run and here not in job.hosts):
        return GONE  # this run is over, whether or not another one comes
    if job.run < lease.key.run:
        return ""  # an earlier life of this id, or a later one: it is not ours
    return LIVE if job.state in HOLDING else ENDING if job.state in EXITING else ""


def life(leases: Tuple[Lease, ...], *, home: str, cgroup: str = "/sys/fs/cgroup") -> Dict[str, bool]:
    """Whether a process is in the job's cgroup, or the MoM has put the job on its list not long ago.

    The list knows jobs and no runs, so of several leases of one job it speaks for the last run. A MoM may leave a job
    there after its end.
    """
    mine = [lease for lease in leases if lease.key.wlm == "pbs"]
    last = {lease.key.job: lease.key.run for lease in sorted(mine, key=lambda lease: lease.key.run)}
    found: Dict[str, bool] = {}
    for lease in mine:
        listed = last[lease.key.job] == lease.key.run and _is_recent(_list_entry(lease.key, home))
        found[str(lease.key)] = listed or _has_processes(cgroup, lease.cgroup)
    return found


def is_listed(key: job_key.JobKey, *, home: str) -> bool:
    """Return whether the MoM has the job. A hook's list of other jobs may hold text of a job's owner: a newline in a
    variable begins another job there.
    """
    return os.path.exists(_list_entry(key, home))


def _list_entry(key: job_key.JobKey, home: str) -> str:
    """MoM names a job's file by its attribute hashname, which the server makes of the id, a sub-job's too."""
    return os.path.join(home, "mom_priv", "jobs", key.job + ".JB")


def _is_recent(path: str) -> bool:
    """Return whether a file was written of late. A time far ahead is not recent: the clock was set back since."""
    try:
        return abs(time.time() - os.stat(path).st_mtime) < LISTED_SECONDS
    except OSError:
        return False


def _has_processes(root: str, path: str) -> bool:
    """On cgroup v1 in the hierarchy that keeps cores, on v2 in the one there is."""
    for hierarchy in ("cpuset", "") if path else ():
        try:
            with open(os.path.join(root, hierarchy, path, "cgroup.procs")) as stream:
                return stream.read(1) != ""
        except OSError:
            continue
    return False


def key_of(name: str, job: Job) -> Optional[str]:
    """Return the run of a job as nodes know it; None for an array's parent."""
    try:
        return str(job_key.parse("pbs", name, str(job.run)))
    except job_key.JobIdError:
        return None
