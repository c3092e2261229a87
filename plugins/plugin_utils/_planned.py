# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was only planned is no change: a run that plans on all nodes before it converts some counts none of the plan.

Ansible counts the `changed` of each result, also of a task in check mode. In a play that sets `_converged_only_planned`
it is called `would_change` instead, by which the plan is sorted.

In a play that sets `_converged_diffs_together` the diff of a registered result is kept under another name, so that
Ansible does not print it for each host. `share_diff` prints each diff once, with its hosts.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

VARIABLE = "_converged_only_planned"
WOULD_CHANGE = "would_change"
TOGETHER = "_converged_diffs_together"
KEPT = "diff_of_host"


def finished(action: ActionBase, result: dict[str, t.Any], known: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a result as its play wants it: as that of a plan, and with its diff or with what `share_diff` reads."""
    task = action._task
    only, together = (bool(action._templar.template(known.get(name, False))) for name in (VARIABLE, TOGETHER))
    # What is registered nowhere can be shown by nothing else later.
    if together and task.check_mode and task.register and result.get("diff"):
        result = with_diff_kept(result, str(task.delegate_to or known["inventory_hostname"]))
    return as_planned(result, only_planned=only and task.check_mode)


def with_diff_kept(result: dict[str, t.Any], host: str) -> dict[str, t.Any]:
    """Return a result whose diff stands beside its host, under a name that Ansible does not print."""
    kept = {name: value for name, value in result.items() if name != "diff"}
    return {**kept, KEPT: {"host": host, "changes": result["diff"]}}


def as_planned(result: dict[str, t.Any], *, only_planned: bool) -> dict[str, t.Any]:
    """Return a result as it is, or as that of a plan."""
    if not only_planned or "changed" not in result:
        return result
    return {**result, "changed": False, WOULD_CHANGE: bool(result["changed"])}


def would_change(known: t.Any) -> bool:
    """Return whether a registered result, or a part of it, says that something is to be done."""
    if not isinstance(known, t.Mapping):
        return False
    inner = known.get("result")
    parts = [*(known.get("results") or ()), *((inner.get("results") or ()) if isinstance(inner, t.Mapping) else ())]
    return bool(known.get("changed") or known.get(WOULD_CHANGE)) or any(would_change(part) for part in parts)


class ActionModule(ActionBase):
    """Runs the module of the task's name."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        """Run it, and return its result."""
        super().run(tmp, task_vars)
        known = task_vars or {}
        return finished(self, self._execute_module(task_vars=known), known)
