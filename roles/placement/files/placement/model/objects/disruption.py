# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodDisruptionBudgets as far as they decide which pods may be asked to leave."""

from dataclasses import dataclass

from placement.model.rules.selector import LabelSelector


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """A budget; a selector of `None` matches no pod, an empty one all of the namespace (policy/v1)."""

    uid: str
    namespace: str
    name: str
    version: int
    selector: LabelSelector | None = None
    # `status.disruptionsAllowed`; pods in `status.disruptedPods` are already counted there.
    allowed: int = 0
