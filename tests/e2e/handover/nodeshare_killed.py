#!/usr/bin/python3 -IS
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In place of nodeshare's launcher on a node: the same program, killed at the points that a file plans, each once.

A line of the plan is a command and a point: `begin after:Confine`.
"""

import os
import signal
import sys
from typing import Any

sys.path.insert(0, "/usr/local/lib/converged")
sys.dont_write_bytecode = True

from nodeshare.host.real_host import RealHost  # noqa: E402
from nodeshare.run import cli, executor  # noqa: E402
from nodeshare.store import lease_store  # noqa: E402

PLAN = "/run/e2e-kill-plan"
COMMAND = sys.argv[1]


def at_point(point: str) -> None:
    try:
        with open(PLAN, encoding="utf-8") as stream:
            plan = stream.read().splitlines()
    except FileNotFoundError:
        return
    if f"{COMMAND} {point}" in plan:
        plan.remove(f"{COMMAND} {point}")
        with open(PLAN, "w", encoding="utf-8") as stream:
            stream.write("\n".join(plan))
        os.kill(os.getpid(), signal.SIGKILL)


class Executor(executor.Executor):
    def __init__(self, **named: Any) -> None:
        super().__init__(at_point=at_point, **named)


class LeaseStore(lease_store.LeaseStore):
    def __init__(self, directory: str, **named: Any) -> None:
        super().__init__(directory, at_point=at_point, **named)


vars(cli).update(Executor=Executor, LeaseStore=LeaseStore)
sys.exit(cli.main(sys.argv[1:], make_world=RealHost))
