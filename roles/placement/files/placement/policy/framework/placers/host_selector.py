# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The selection of the best feasible node for a task (see `feasibility`), by the columns of the state."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from placement.model.amounts.quantity import format_amount
from placement.model.slicing import Steps
from placement.policy.framework.feasibility import Feasibility
from placement.policy.framework.placers.placer import Unplaced
from placement.policy.framework.statement import Statement
from placement.policy.jobs.job import Task, alike
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.plugins.site_filter import Faults, Guarded, SiteRule, site_filters
from placement.policy.queues.reservations import Reservations
from placement.state.cluster import Cluster
from placement.state.nodes.diagnosis import Reasons
from placement.state.nodes.node_filters import Bools
from placement.state.nodes.score_table import INFEASIBLE, ScoreTable

# Equal tasks that get their nodes in one step.
_AT_ONCE: Final = 128


class HostSelector:
    """Select nodes of one cluster by the scores of one configuration."""

    def __init__(self, cluster: Cluster, plugins: PluginSet, reservations: Reservations, faults: Faults) -> None:
        self._cluster = cluster
        self.reservations = reservations
        self._pod_preference = np.float32(plugins.pod_preference)
        site = [
            (choice, Guarded(choice.name, choice.site, cluster, faults))
            for choice in plugins.site
            if choice.site is not None
        ]
        refusing = [item for choice, plugin in site if choice.on("predicate") for item in site_filters(plugin)]
        self.feasibility = Feasibility(cluster, reservations, refusing)
        self.shapes = ScoreTable(
            cluster.columns,
            cluster.masks,
            self.feasibility,
            plugins.scorer(),
            preference=plugins.node_preference,
            extras=[plugin.score for choice, plugin in site if choice.on("node_order") and plugin.has("score")],
        )
        # Whether a plugin of the site may allow what it has refused without an event.
        self.may_change = any(isinstance(item, SiteRule) for item in refusing)
        self._read = [key for _unused, plugin in site for key in plugin.plugin.labels]
        cluster.labelsets.read(self._read)

    def close(self) -> None:
        """Release the labels that are read for its plugins, because another selector takes its place."""
        self._cluster.labelsets.unread(self._read)

    def best(self, task: Task) -> str:
        """Return the name of the best node for the task, empty if there is none."""
        pod = task.pod
        shape = self.shapes.row(pod.spec, pod.request, task.priority)
        liked = None
        if self._pod_preference and (pod.spec.preferred_pods or pod.spec.spread):
            liked = self.feasibility.domains.preferences(pod.spec, task.entry.labelset)
        row = self.shapes.best(
            shape, self.feasibility.allowed(task), liked if liked is None else liked * self._pod_preference
        )
        return self._name(row) if row >= 0 else ""

    def place(self, tasks: Sequence[Task], statement: Statement) -> Steps[Unplaced | None]:
        """Place all tasks, in steps, equal ones that follow each other in one step; return the first that does not fit.

        The job cache is in a transaction between two steps, because the statement is not ended.
        """
        start = 0
        while start < len(tasks):
            if start:
                yield
            first, end = tasks[start], start + 1
            while end < len(tasks) and end - start < _AT_ONCE and alike(tasks[end], first):
                end += 1
            if end - start > 1 and not self.one_by_one(first):
                run = tasks[start:end]
                shape = self.shapes.row(first.pod.spec, first.pod.request, first.priority)
                rows = self.shapes.targets(shape, len(run), self.feasibility.to_many(first))
                for task, row in zip(run, rows, strict=False):
                    statement.allocate(task, self._name(row))
                start += len(rows)
            for task in tasks[start:end]:
                if task is not first:
                    yield
                node = self.best(task)
                if not node:
                    return Unplaced(task)
                statement.allocate(task, node)
            start = end
        return None

    def place_at(self, tasks: Sequence[Task], nodes: Sequence[str], statement: Statement) -> Steps[bool]:
        """Place each task on the node given for it, in steps; return whether all tasks fit.

        The tasks were pipelined to these nodes before, so reservations do not count.
        """
        for task, node in zip(tasks, nodes, strict=True):
            if task is not tasks[0]:
                yield
            row, allowed = self._cluster.columns.rows.get(node), self.feasibility.by_rules(task)
            shape = self.shapes.row(task.pod.spec, task.pod.request, task.priority)
            if row is None or shape.scores[row] == INFEASIBLE or (allowed is not None and not allowed[row]):
                return False
            statement.allocate(task, node)
        return True

    def one_by_one(self, task: Task) -> bool:
        """Return whether placing one of several equal pods changes the nodes of the next, beyond the room it takes."""
        spec = task.pod.spec
        prefers = bool(self._pod_preference) and bool(spec.preferred_pods or spec.spread)
        return prefers or self.feasibility.ties(task)

    def never(self, tasks: Sequence[Task]) -> str:
        """Return why the tasks could not run together even if all nodes were empty; empty if they could."""
        columns = self._cluster.columns
        first = tasks[0].pod
        vector = columns.axis.request(first.request)
        rows = self._cluster.masks.selector(first.spec.selector).allows
        equal = not tasks[0].job.mixed or all(alike(task, tasks[0]) for task in tasks)
        enough = np.logical_and.reduce(columns.allocatable[: len(vector.least)] >= vector.least)
        if equal and np.count_nonzero(enough & rows) >= len(tasks):
            # Each task could have a node of its own.
            return ""
        present = self._cluster.masks.present()
        requests = Counter(task.pod.request for task in tasks)
        for name, index in ((name, index) for index, name in enumerate(columns.axis.names)):
            wanted = sum(int(columns.axis.request(each).dense[index]) * number for each, number in requests.items())
            offered = int(columns.allocatable[index, present].sum())
            if wanted > offered:
                figures = (format_amount(name, amount) for amount in (wanted, offered))
                return "{}: {} wanted, all nodes together have {}".format(name, *figures)
        if equal:
            asked = vector.dense > 0
            each = (columns.allocatable[asked][:, rows] // vector.dense[asked, None]).min(axis=0)
            if not vector.unknown and int(each.sum()) < len(tasks):
                return f"{int(each.sum())} of {len(tasks)} would fit on its nodes if they were empty"
        return ""

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return what is equal for tasks that fit where the others fit; None where that is not known."""
        return self.feasibility.kind(tasks)

    def reasons(self, task: Task) -> Reasons:
        """Return why no node can have the task as things stand."""
        return self.feasibility.reasons(task)

    def domains(self, _task: Task) -> list[Bools]:
        """Return nothing: a task may be anywhere."""
        return []

    def _name(self, row: int) -> str:
        node = self._cluster.columns.nodes[row]
        return node.name if node is not None else ""
