# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a MoM hands a hook of jobs, as OpenPBS writes and reads it: lines of `object.attribute=value`.

As there, nothing is quoted but the variables of the event's own job, so a newline in a value begins a line, and three
quotes at the beginning of a value swallow all lines up to the next that ends with them. Of two lines the later counts.
"""

from __future__ import annotations

import re
import typing as t

from pbs_double.cluster import SERVER

_EVENT = "pbs.event()"
_JOB = f"{_EVENT}.job"
_LIST = f"{_EVENT}.job_list"
_QUOTES = '"""'
# In PBS's order of a job's attributes.
_ORDER = (
    *("Job_Name", "Job_Owner", "job_state", "queue", "Account_Name", "exec_host2", "exec_vnode", "Resource_List"),
    *("schedselect", "substate", "Variable_List", "euser", "egroup", "run_count", "Exit_status", "array_id"),
    *("array_index", "project", "run_version"),
)
Told = dict[str, t.Any]


def written(given: t.Mapping[str, t.Any]) -> str:
    """The lines about all jobs of an event."""
    lines: list[str] = []
    if "job" in given:
        lines.append(f"{_JOB}.id={given['job']['id']}")
        lines += [f"{_JOB}.{line}" for line in _lines(given["job"], quoted=True)]
    for seen in given.get("jobs", ()):
        lines += [f'{_LIST}["{seen["id"]}"].{line}' for line in _lines(seen, quoted=False)]
    return "".join(f"{line}\n" for line in [*lines, f"{_EVENT}.type={given['event']}"])


def _lines(seen: t.Mapping[str, t.Any], *, quoted: bool) -> list[str]:
    variables = ",".join(f"{name}={value}" for name, value in seen["variables"].items())
    known = {
        **{name: seen[name] for name in _ORDER if name in seen},
        "Job_Owner": f"{seen['owner']}@{SERVER}",
        "Variable_List": f"{_QUOTES}{variables}{_QUOTES}" if quoted else variables,
        "euser": seen["owner"],
        "egroup": seen["owner"],
        "run_version": seen["run_count"],
    }
    lines: list[str] = []
    for name in _ORDER:
        if name == "Resource_List":
            lines += [f"Resource_List[{resource}]={value}" for resource, value in seen["resources"].items()]
        elif known.get(name) is not None:
            lines.append(f"{name}={known[name]}")
    return [*lines, *(["_msmom=True"] if seen["primary"] else [])]


def read(text: str) -> tuple[Told, dict[str, Told]]:
    """The event's own job, and those of the list by id: their attributes, and in them the resources as a mapping."""
    own: Told = {}
    listed: dict[str, Told] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        name, equals, value = line.partition("=")
        if value.startswith(_QUOTES):
            while not value.endswith(_QUOTES) or len(value) < 2 * len(_QUOTES):
                more = next(lines, None)
                if more is None:
                    break
                value += "\n" + more
            value = value[len(_QUOTES) :]
        value = value.removesuffix(_QUOTES).strip()
        head, _dot, attribute = name.rpartition(".")
        if not equals:
            continue
        if head == _JOB:
            _set(own, attribute, value)
        elif head.startswith(_LIST):
            found = re.search(r'\[(?:[^"]*"(.*?)"|(.*)\])', head[len(_LIST) :])
            if found:
                _set(listed.setdefault(found[1] or found[2] or "", {}), attribute, value)
    return own, listed


def _set(told: Told, attribute: str, value: str) -> None:
    name, bracket, resource = attribute.partition("[")
    if bracket:
        told.setdefault(name, {})[resource.partition("]")[0].strip('"')] = value
    elif name == "Variable_List":
        told[name] = dict(pair.partition("=")[::2] for pair in value.split(","))
    else:
        told[name] = value
