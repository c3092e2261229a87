# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of `share_lock`: names the run that asks, and tells whether a local holder still runs."""

from __future__ import annotations

import getpass
import os
import socket
import time
import typing as t

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """One call, and a second where the holder is gone."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """Take or free the lock in the name of this run; Ansible calls this."""
        super().run(tmp, task_vars)
        arguments = dict(self._task.args, _mine=me(os.getppid()), _over="")
        result = self._ask(arguments, task_vars)
        held = result.get("holder") or {}
        if result.get("failed") and held and is_gone(held):
            result = self._ask(dict(arguments, _over=held["token"]), task_vars)
        result.pop("invocation", None)
        return result

    def _ask(self, arguments: t.Dict[str, t.Any], task_vars: t.Any) -> t.Dict[str, t.Any]:
        name = "converged.hpc.share_lock"
        found: t.Dict[str, t.Any] = self._execute_module(
            module_name=name, module_args=dict(arguments), task_vars=task_vars
        )
        return found


def me(pid: int) -> t.Dict[str, t.Any]:
    """Describe this run of Ansible: the process that started the present worker."""
    host = socket.gethostname()
    return {
        "who": f"{getpass.getuser()}@{host}",
        "host": host,
        "pid": pid,
        "token": f"{here()}/{pid}/{started(pid)}",
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }


def is_gone(held: t.Mapping[str, t.Any]) -> bool:
    """Whether the holder was a process that could be seen from here, and is no more."""
    pid = held["pid"]
    return str(held["token"]).startswith(here() + "/") and held["token"] != f"{here()}/{pid}/{started(pid)}"


def here() -> str:
    """Where a process number means what it means to us. Hosts may have the same name, and so may their containers."""
    try:
        with open("/etc/machine-id", encoding="ascii", errors="replace") as file:
            machine = file.read().strip()
    except OSError:
        machine = ""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return f"{socket.gethostname()}/{machine}/{numbers}"


def started(pid: int) -> str:
    """When a process began, in the kernel's own count; empty where there is none. A number may be used twice."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
