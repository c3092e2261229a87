# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who calls a program of the double, and what it lets him do: root manages, an owner has his jobs."""

from __future__ import annotations

import os
import pwd

from pbs_double.cluster import CALLER, SERVER
from pbs_double.state import Job, Refused, State

_BAD_USER, _UNAUTHORIZED, _BAD_HOST = 175, 159, 160


def caller() -> str:
    """The user, or who stands for him in a test."""
    return os.environ.get(CALLER) or pwd.getpwuid(os.geteuid()).pw_name


def may_submit(state: State, queue: str) -> None:
    """Root needs a word of the server's, everybody one of the queue's where it keeps a list; all call on one host."""
    if caller() == "root" and "root" not in state.server.get("acl_roots", "").split(","):
        raise Refused(_BAD_USER, "Bad UID for job execution")
    attributes = state.queues[queue]
    if attributes.get("acl_host_enable") == "True" and SERVER not in attributes.get("acl_hosts", "").split(","):
        raise Refused(_BAD_HOST, "Access from host not allowed, or unknown host")
    if attributes.get("acl_user_enable") == "True":
        users = [user.partition("@")[0] for user in attributes.get("acl_users", "").split(",")]
        if caller() not in users:
            raise Refused(_UNAUTHORIZED, "Unauthorized Request ")


def may_change(job: Job, *, owner: bool = True) -> None:
    """Only managers may do what an owner may not."""
    if caller() != "root" and not (owner and caller() == job.owner):
        raise Refused(_UNAUTHORIZED, f"Unauthorized Request  {job.id}")
