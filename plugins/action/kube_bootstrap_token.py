# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of `kube_bootstrap_token`: a result that holds a token is not shown, an error is."""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.plugin_utils import _planned


class ActionModule(_planned.ActionModule):
    """`no_log` on the task would hide why it failed, too."""

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """Run the module, and keep a result with a token out of logs; Ansible calls this."""
        result: t.Dict[str, t.Any] = super().run(tmp, task_vars)
        if result.get("token"):
            result["_ansible_no_log"] = True
        return result
