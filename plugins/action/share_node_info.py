# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of `share_node_info`: the one clock with which those of all hosts are compared."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """The host's clock was read between two moments of ours."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """Run the module, and add the bounds of its clock's offset in seconds; Ansible calls this."""
        super().run(tmp, task_vars)
        asked = time.time()
        result: t.Dict[str, t.Any] = self._execute_module(task_vars=task_vars)
        if "found" in result:
            seen = float(result["found"]["time"])
            result["offset"] = [round(seen - time.time(), 3), round(seen - asked, 3)]
        return result
