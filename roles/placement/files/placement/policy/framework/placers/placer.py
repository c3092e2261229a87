# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a placer is: it chooses nodes for the tasks of a job among those that are feasible.

There are two: the columns score each node by itself, the graph chooses by the tree of zones, racks and switches.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol

from placement.model.slicing import Steps
from placement.policy.framework.statement import Statement
from placement.policy.jobs.job import Task
from placement.state.nodes.diagnosis import Reasons
from placement.state.nodes.node_filters import Bools


class Unplaced(NamedTuple):
    """The first task that got no node, and why where that is more than its nodes' reasons."""

    task: Task
    why: str = ""


class Placer(Protocol):
    """Choose nodes for tasks of one job."""

    def place(self, tasks: Sequence[Task], statement: Statement) -> Steps[Unplaced | None]:
        """Place the tasks, in steps; return the first that does not fit. The tasks before it are placed."""

    def place_at(self, tasks: Sequence[Task], nodes: Sequence[str], statement: Statement) -> Steps[bool]:
        """Place each task on the node given for it, in steps; return whether all tasks fit."""

    def one_by_one(self, task: Task) -> bool:
        """Return whether placing one of several equal pods changes the nodes of the next, beyond the room it takes."""

    def never(self, tasks: Sequence[Task]) -> str:
        """Return why the tasks could not run together even if all nodes were empty; empty if they could."""

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return what is equal for tasks that fit where the others fit; None where that is not known."""

    def reasons(self, task: Task) -> Reasons:
        """Return why no node can have the task as things stand."""

    def domains(self, task: Task) -> list[Bools]:
        """Return the sets of nodes that the task's job must be within one of; empty where it may be anywhere."""
