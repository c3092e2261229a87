# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action that stands in for every module of a rehearsal: it notes the call and gives the answer of a table.

It is put into a copy of the collection under the name of each module, and runs in Ansible's own process. Calls are
lines of `calls` in the folder REHEARSAL; `answers` there is a list of [what must match, result, how often].
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):  # type: ignore[misc]
    """Any module."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Note the call, and return the first answer that matches and is not used up."""
        call = {
            "host": str(task_vars["inventory_hostname"]),
            "module": str(self._task.action).rpartition(".")[2].removeprefix("stand_in_"),
            "args": json.loads(json.dumps(dict(self._task.args), default=str)),
            "check": bool(self._task.check_mode),
            "name": str(self._task.name),
        }
        folder = Path(os.environ["REHEARSAL"])
        with (folder / "lock").open("w") as lock:  # hosts run beside each other
            fcntl.flock(lock, fcntl.LOCK_EX)
            with (folder / "calls").open("a") as calls:
                calls.write(json.dumps(call) + "\n")
            answers = json.loads((folder / "answers").read_text())
            result: dict[str, Any] = {}
            for answer in answers:
                wanted, result, left = answer
                if left and all(_fits(value, call[name]) for name, value in wanted.items()):
                    answer[2] = left - 1
                    break
            else:
                return {"failed": True, "msg": f"the rehearsal has no answer for {call}"}
            (folder / "answers").write_text(json.dumps(answers))
        if result.get("unreachable"):
            raise AnsibleConnectionFailure(result["msg"])  # as a connection does
        # What a module says of what it was given.
        echoed = {name: call["args"][name] for name in result.get("echoed", ())}
        return {**{name: value for name, value in result.items() if name != "echoed"}, **echoed}


def _fits(wanted: Any, found: Any) -> bool:
    """Whether all that is wanted is found; of a mapping, only its named parts matter."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(name in found and _fits(wanted[name], found[name]) for name in wanted)
    return bool(wanted == found)
