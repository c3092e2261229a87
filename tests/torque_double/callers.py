# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who calls a program of the double, from which host, and what this allows."""

from __future__ import annotations

import os
import pwd

from torque_double.cluster import CALLER, HOSTS, SERVER
from torque_double.state import Job, Refused, State

PERM, BAD_USER = 15007, 15025


def caller() -> str:
    """The user, or the one that a test has in this place."""
    return os.environ.get(CALLER) or pwd.getpwuid(os.geteuid()).pw_name


def host() -> str:
    """The host on which the program runs; one that is no part of the cluster stands for the server's."""
    name = os.environ.get("TORQUE_DOUBLE_HOST") or os.uname().nodename.partition(".")[0]
    return name if name in (SERVER, *HOSTS) else SERVER


def _listed(state: State, attribute: str) -> bool:
    return f"{caller()}@{host()}" in state.server.get(attribute, "").split(",")


def is_manager(state: State) -> bool:
    """Root on the server's host always is."""
    return (caller(), host()) == ("root", SERVER) or _listed(state, "managers")


def is_operator(state: State) -> bool:
    """May see all jobs and change nodes' states."""
    return is_manager(state) or _listed(state, "operators")


def must_be(allowed: bool, what: str = "") -> None:
    """Refuse where it is not allowed."""
    if not allowed:
        raise Refused(PERM, f"Unauthorized Request {what}".rstrip() + ("" if what else " "))


def may_see(state: State, job: Job) -> bool:
    """Others' jobs are hidden unless the server says otherwise."""
    return is_operator(state) or caller() == job.owner or state.server.get("query_other_jobs") == "True"


def may_change(state: State, job: Job) -> None:
    """Its owner, an operator or a manager."""
    must_be(is_operator(state) or caller() == job.owner, f"MSG=operation not permitted {job.id}")
