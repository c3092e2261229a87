# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as the scheduler needs it."""

from dataclasses import dataclass

from placement.model.amounts.quantity import Amounts
from placement.model.rules.selector import LabelPairs, Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One Node object; where `held_by` says anything, batch jobs have the node and nothing tolerates that."""

    uid: str
    name: str
    version: int
    labels: LabelPairs = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = ()
    # What its kubelet says that it can do, of what some pods need and not every kubelet can.
    declared: frozenset[str] = frozenset()
    # Three annotations as they were written: jobs that have the node, when these end, jobs that the node announces.
    held_by: str = ""
    held_until: str = ""
    leases: str = ""
    # When a batch job or a reservation is planned to begin there, in seconds since 1970; None where nothing is known.
    planned: float | None = None
