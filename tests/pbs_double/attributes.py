# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes of servers, queues and nodes: which there are, and how their values are kept."""

from __future__ import annotations

import re

from pbs_double.schedule import seconds_of
from pbs_double.state import Attributes, Refused

_RESOURCES = {
    **dict.fromkeys(["ncpus", "nodect", "ngpus"], "long"),
    **dict.fromkeys(["mem", "vmem"], "size"),
    **dict.fromkeys(["walltime", "cput"], "time"),
    **dict.fromkeys(["arch", "host", "vnode"], "text"),
}
_COMMON = {
    **dict.fromkeys(["acl_host_enable", "acl_user_enable"], "switch"),
    **dict.fromkeys(["acl_hosts", "acl_users"], "list"),
    **dict.fromkeys(["resources_default", "resources_max", "resources_min", "default_chunk"], "resource"),
}
KINDS = {
    "server": {
        **_COMMON,
        **dict.fromkeys(["scheduling", "job_history_enable", "flatuid", "eligible_time_enable"], "switch"),
        **dict.fromkeys(["acl_roots", "managers", "operators"], "list"),
        **dict.fromkeys(["comment", "default_queue", "mail_from"], "text"),
        **dict.fromkeys(["query_other_jobs", "resv_enable"], "switch"),
        **dict.fromkeys(["log_events", "max_array_size", "scheduler_iteration"], "long"),
        **dict.fromkeys(["server_state", "total_jobs", "pbs_version", "server_host"], "fixed"),
    },
    "queue": {
        **_COMMON,
        **dict.fromkeys(["enabled", "started", "from_route_only"], "switch"),
        **dict.fromkeys(["Priority"], "long"),
        **dict.fromkeys(["queue_type"], "type"),
        **dict.fromkeys(["total_jobs", "state_count"], "fixed"),
    },
    "node": {
        **dict.fromkeys(["resources_available"], "resource"),
        **dict.fromkeys(["resv_enable"], "switch"),
        **dict.fromkeys(["comment", "queue"], "text"),
        **dict.fromkeys(["pcpus", "license", "last_state_change_time"], "fixed"),
    },
}
_SWITCH = {
    "true": "True",
    "t": "True",
    "1": "True",
    "y": "True",
    "false": "False",
    "f": "False",
    "0": "False",
    "n": "False",
}


def kind_of(kind: str, attribute: str) -> str:
    """What an attribute holds; names are read without regard to case."""
    name = attribute.partition(".")[0]
    found = {known.lower(): form for known, form in KINDS[kind].items()}.get(name.lower())
    if found is None:
        raise Refused(154, "Undefined attribute ")
    if found == "fixed":
        raise Refused(155, f"Cannot set attribute, read only or insufficient permission  {attribute}")
    return found


def changed(kind: str, current: Attributes, attribute: str, operator: str, value: str) -> str | None:
    """What the attribute holds after a request; None where nothing is left."""
    form = kind_of(kind, attribute)
    if form == "resource":
        resource = attribute.partition(".")[2]
        if resource not in _RESOURCES:
            raise Refused(187, f"Unknown resource {attribute}")
        form = _RESOURCES[resource]
    if form == "list":
        return _list(attribute, current.get(attribute), operator, value)
    return _value(form, value) if value else None


def elements(kind: str, attribute: str, value: str) -> list[str]:
    """The values that `print` shows one by one."""
    return value.split(",") if KINDS[kind].get(attribute) == "list" else [value]


def _list(attribute: str, current: str | None, operator: str, value: str) -> str | None:
    before = current.split(",") if current else []
    words = [word.strip() for word in value.split(",") if word.strip()]
    if operator == "+=" and set(words) & set(before):
        raise Refused(207, f"Duplicate entry in list  {attribute}")
    if operator == "-=":
        after = [word for word in before if word not in words]
    else:
        after = [*before, *words] if operator == "+=" else words
    return ",".join(sorted(after)) or None


def _value(form: str, value: str) -> str:
    bad = Refused(166, "Illegal attribute or resource value")
    if form == "switch":
        if value.lower() not in _SWITCH:
            raise bad
        return _SWITCH[value.lower()]
    if form == "type":
        for known in ("Execution", "Route"):
            if known.lower().startswith(value.lower()):
                return known
        raise bad
    if form == "long" and not re.fullmatch(r"-?\d+", value):
        raise bad
    if form == "size" and not re.fullmatch(r"(?i)\d+([kmgtp]?[bw]?)", value):
        raise bad
    if form == "time":
        if not re.fullmatch(r"\d+(:\d+){0,2}", value):
            raise bad
        seconds = seconds_of(value)
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return value
