# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that makes one proof of the reports of all steps of a way back."""

from __future__ import annotations

import typing as t

# What the steps have registered, in their order.
REPORTS = (
    *("__slurm_share_disabled", "__pbs_share_disabled", "__torque_share_disabled", "__torque_share_removed"),
    *("__node_share_restored", "__node_kubelet_restored"),
    *("__node_runtime_restored", "__pbs_share_forgotten", "__node_share_controller_restored"),
    *("__drain_access_restored", "__slurm_share_removed", "__node_kubelet_unjoined"),
    *("__placement_stopped", "__placement_removed", "__placement_forgotten", "__restore"),
)
# Lists of what could not be removed, and no report.
LEFT = ("__node_share_left", "__node_kubelet_left", "__node_runtime_emptied", "__restore_api", "__restore_batch")


def share_proof(known: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """From a host's variables: everything that was proved, and everything that was not, each once."""
    reports = [(known.get(name) or {}).get("report") or {} for name in REPORTS]
    proof: dict[str, t.Any] = {part: _each(reports, part) for part in ("proved", "site", "kept", "left", "not_checked")}
    for name in LEFT:
        proof["left"] += (known.get(name) or {}).get("left") or []
    # What one step left for the next, the next has put back.
    proof["shared"] = (reports[-1].get("shared") or []) if reports[-1] else _each(reports, "shared")
    proof["found_record"] = any(report.get("found_record") for report in reports)
    return proof


def _each(reports: t.Iterable[t.Mapping[str, t.Any]], part: str) -> list[str]:
    return sorted({thing for report in reports for thing in report.get(part) or ()})


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"share_proof": share_proof}
