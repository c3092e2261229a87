# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job identifiers: a strict grammar per batch system, and file names that no user text can shape.

A job id reaches us through the environment of a root script. What does not fit the grammar is refused before it
can become a path, an argument or an annotation.
"""

import re
from typing import NamedTuple

LONGEST = 120
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_SERVER = r"(?:\.{0})*".format(_HOST)
_ALIAS = r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?)*"
_GRAMMAR = {
    # 123, a component of a heterogeneous job 123+1, a task of an array 123_4
    "slurm": re.compile(r"\d{1,10}(?:[+_]\d{1,7})?", re.ASCII),
    # 123.server, a sub-job 12[3].server
    "pbs": re.compile(r"\d{1,12}(?:\[\d{1,7}\])?" + _SERVER, re.ASCII),
    # as PBS, and the older 12-3.server for array members; 123.alias, which need be no name of a host
    "torque": re.compile(r"\d{1,12}(?:\[\d{1,7}\]|-\d{1,7})?" + _ALIAS, re.ASCII),
}
SYSTEMS = tuple(sorted(_GRAMMAR))
_FILE_NAME = re.compile(r"([a-z]+)\.([0-9A-Za-z=-]+)\.r(\d{1,9})", re.ASCII)
_ESCAPED = re.compile(r"=([0-9A-F]{2})", re.ASCII)
_UNSAFE = re.compile(r"[^0-9A-Za-z-]", re.ASCII)


class JobIdError(ValueError):
    """A job id, run or batch system that does not fit its grammar."""


class JobKey(NamedTuple):
    """One run of one job. The run tells a requeued job from its earlier life: both have the same id."""

    wlm: str
    job: str
    run: int

    def __str__(self) -> str:
        return "{}/{}/{}".format(self.wlm, self.job, self.run)


def parse(wlm: str, job: str, run: str = "0") -> JobKey:
    grammar = _GRAMMAR.get(wlm)
    if grammar is None:
        raise JobIdError("batch system {}: unknown; one of {}".format(_shown(wlm), ", ".join(SYSTEMS)))
    if len(job) > LONGEST or not grammar.fullmatch(job):
        raise JobIdError("job id {}: not a {} job id".format(_shown(job), wlm))
    if not re.fullmatch(r"\d{1,9}", run, re.ASCII):
        raise JobIdError("run {}: not a count of restarts".format(_shown(run)))
    return JobKey(wlm, job, int(run))


def file_name(key: JobKey) -> str:
    """Letters, digits and hyphens stay; every other character becomes =XX. Two keys never share a name."""
    safe = _UNSAFE.sub(lambda found: "={:02X}".format(ord(found.group())), key.job)
    return "{}.{}.r{}".format(key.wlm, safe, key.run)


def from_file_name(name: str) -> JobKey:
    found = _FILE_NAME.fullmatch(name)
    if found is None:
        raise JobIdError("file name {}: not made by nodeshare".format(_shown(name)))
    wlm, safe, run = found.groups()
    return parse(wlm, _ESCAPED.sub(lambda code: chr(int(code.group(1), 16)), safe), run)


def _shown(text: str) -> str:
    """Quoted and bounded: this goes to logs, and the text may be hostile."""
    return ascii(text[:60]) + ("..." if len(text) > 60 else "")
