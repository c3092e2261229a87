# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of `kube_bootstrap_token`: a result that holds a token is not shown, an error is."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """`no_log` on the task would hide why it failed, too."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """What Ansible calls."""
        super().run(tmp, task_vars)
        result: t.Dict[str, t.Any] = self._execute_module(task_vars=task_vars)
        if result.get("token"):
            result["_ansible_no_log"] = True
        return result
