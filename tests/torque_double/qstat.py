# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`qstat` of the double."""

from __future__ import annotations

import getopt
import sys
import time

from torque_double import as_xml, callers
from torque_double.cluster import SERVER
from torque_double.control import found_jobs
from torque_double.state import VERSION, Job, Refused, State

_HEAD = """\
Job ID                    Name             User            Time Use S Queue
------------------------- ---------------- --------------- -------- - -----
"""
_SERVER_HEAD = """\
Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext   Com Status
---------------- ----- ----- ----- ----- ----- ----- ----- ----- ----- ----------
"""


def main(state: State, arguments: list[str]) -> int:
    """Jobs as a table, as text or as XML; queues and servers as text."""
    try:
        given, words = getopt.getopt(arguments, "f1xtQBaenu:rs")
    except getopt.GetoptError as error:
        print(f"qstat: {error}", file=sys.stderr)
        return 2
    options = {option for option, _value in given}
    if "-B" in options:
        return _servers(state, words, full="-f" in options)
    if "-Q" in options:
        return _queues(state, words, full="-f" in options)
    if not words:
        jobs = [job for job in state.jobs.values() if callers.may_see(state, job) and not job.forgotten]
        jobs = [job for job in jobs if (not job.indices if "-t" in options else job.index is None)]
        if jobs or "-x" in options:
            _show(state, jobs, options)
        return 0
    status = 0
    for word in words:
        try:
            jobs = found_jobs(state, word)
            callers.must_be(all(callers.may_see(state, job) for job in jobs), word)
        except Refused as refusal:
            name = word if "." in word else f"{word}.{SERVER}"
            print(f"qstat: {refusal.text} {name}".replace("  ", " "), file=sys.stderr)
            status = refusal.status
            continue
        _show(state, jobs, options)
    return status


def _show(state: State, jobs: list[Job], options: set[str]) -> None:
    now = time.time()
    if "-x" in options:
        found = [[("Job_Id", job.id), *as_xml.attributes(state, job, now)] for job in jobs]
        inner = "".join(f"<Job>{as_xml.elements(each)}</Job>" for each in found)
        _write(f'<?xml version="1.0"?>\n<Data>{inner}</Data>\n')
    elif "-f" in options:
        for job in jobs:
            _write(as_xml.job_text(job.id, as_xml.attributes(state, job, now), wrapped="-1" not in options))
    else:
        _write(_HEAD)
        for job in jobs:
            _write(f"{job.id:<26.26} {job.name:<16.16} {job.owner:<15.15} {'0':>8} {job.state} {job.queue:<15}\n")


def _servers(state: State, words: list[str], *, full: bool) -> int:
    """A server is asked by its host's name; where none listens the connection is refused."""
    for name in words or [SERVER]:
        if name.partition(".")[0] != SERVER:
            text = f"qstat: cannot connect to server {name} (errno=111) Connection refused"
            print(f"Error in connection to trqauthd\n{text}", file=sys.stderr)
            return 111
    if full:
        _write(f"Server: {SERVER}\n    server_state = Active\n")
        _write("".join(f"    {key} = {value}\n" for key, value in state.server.items()))
        _write(f"    pbs_version = {VERSION}\n\n")
    else:
        _write(_SERVER_HEAD + f"{SERVER:<16} {'0':>5} {len(state.jobs):>5}{'     0' * 7} Active\n")
    return 0


def _queues(state: State, words: list[str], *, full: bool) -> int:
    for name in words:
        if name not in state.queues:
            print(f"qstat: Unknown queue {name}", file=sys.stderr)
            return Refused(15020, "").status
    for name in words or list(state.queues):
        if full:
            _write(f"Queue: {name}\n" + "".join(f"    {key} = {value}\n" for key, value in state.queues[name].items()))
            _write("\n")
        else:
            _write(f"{name}\n")
    return 0


def _write(text: str) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
