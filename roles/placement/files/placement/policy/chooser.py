# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node a task goes to: the best of those that may have it, by the state's columns."""

from collections.abc import Generator, Hashable, Sequence
from typing import Final

import numpy as np

from placement.model.quantity import format_amount
from placement.policy.jobs import Task, alike
from placement.policy.reservations import Reservations
from placement.policy.rules import Rules
from placement.policy.statement import Statement
from placement.state.cluster import Cluster
from placement.state.domains import DomainRules
from placement.state.masks import Bools
from placement.state.reasons import Reasons, Refusals
from placement.state.shapes import INFEASIBLE, ShapeTable

# So many equal tasks get their nodes in one go.
_AT_ONCE: Final = 128


class Chooser:
    """Answers over one cluster by the scores of one configuration."""

    def __init__(self, cluster: Cluster, rules: Rules, reservations: Reservations) -> None:
        self._cluster = cluster
        self.reservations = reservations
        self._pod_preference = np.float32(rules.pod_preference)
        self.shapes = ShapeTable(
            cluster.columns, cluster.masks, cluster.ports, rules.scorer(), preference=rules.node_preference
        )
        self.domains = DomainRules(cluster.columns, cluster.masks, cluster.labelsets)
        self.volumes = cluster.volumes
        self._refusals = Refusals(cluster, self.domains, self.volumes)

    def best(self, task: Task) -> str:
        """The best node for the task, or nothing."""
        pod = task.pod
        shape = self.shapes.row(pod.spec, pod.request, task.priority)
        liked = None
        if self._pod_preference and (pod.spec.preferred_pods or pod.spec.spread):
            liked = self.domains.preferences(pod.spec, task.entry.labelset)
        row = self.shapes.best(shape, self.allowed(task), liked if liked is None else liked * self._pod_preference)
        return self._name(row) if row >= 0 else ""

    def place(self, tasks: Sequence[Task], statement: Statement) -> Generator[None, None, Task | None]:
        """Places all tasks, equal ones that follow each other in one go; the answer is the first that does not fit.

        Between two of them others may have a turn, who find the statement under way and everything frozen.
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
                rows = self.shapes.targets(shape, len(run), self.reservations.untouched(first))
                for task, row in zip(run, rows, strict=False):
                    statement.place(task, self._name(row))
                start += len(rows)
            for task in tasks[start:end]:
                if task is not first:
                    yield
                node = self.best(task)
                if not node:
                    return task
                statement.place(task, node)
            start = end
        return None

    def place_at(
        self, tasks: Sequence[Task], nodes: Sequence[str], statement: Statement
    ) -> Generator[None, None, bool]:
        """Place each task on the node given for it, in the same way; return whether all may have theirs.

        The node was promised before: reservations do not count.
        """
        for task, node in zip(tasks, nodes, strict=True):
            if task is not tasks[0]:
                yield
            row, allowed = self._cluster.columns.rows.get(node), self.by_rules(task)
            shape = self.shapes.row(task.pod.spec, task.pod.request, task.priority)
            if row is None or shape.scores[row] == INFEASIBLE or (allowed is not None and not allowed[row]):
                return False
            statement.place(task, node)
        return True

    def one_by_one(self, task: Task) -> bool:
        """Whether placing one of several equal pods can change where the next may go, beyond the room it takes."""
        spec = task.pod.spec
        prefers = bool(self._pod_preference) and bool(spec.preferred_pods or spec.spread)
        if prefers or task.pod.volume_claims or self._cluster.suited(task.pod) is not None:
            return True
        return self.domains.apply_to(task.pod.spec, task.entry.labelset)

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return what is equal for tasks that fit where the others fit; None where that is not known.

        What a pod prefers does not matter, nor does its label set where no rule about other pods is about it. A single
        pod that is kept apart from others fits nowhere until one of them leaves. Company and volumes come without that.
        """
        first, spec = tasks[0], tasks[0].pod.spec
        if spec.affinity or first.pod.volume_claims or any(constraint.hard for constraint in spec.spread):
            return None
        if len(tasks) > 1 and not all(alike(task, first) for task in tasks):
            return None
        if self._cluster.suited(first.pod) is not None:
            return None
        ignored = self._cluster.columns.lower_rank(first.priority)
        asked = (spec, first.pod.request, ignored, self.reservations.binding(first))
        repelling = self._cluster.labelsets.repelling(first.entry.labelset)
        if not spec.anti_affinity and not repelling:
            return (*asked, len(tasks))
        apart = (*spec.anti_affinity, *(anti.term for anti in repelling))
        if len(tasks) > 1 or any(term.matcher.namespace_selector is not None for term in apart):
            return None
        return (*asked, first.entry.labelset)

    def never(self, tasks: Sequence[Task]) -> str:
        """Why so many tasks could not run together even if all their nodes were empty; empty where they might."""
        columns = self._cluster.columns
        first = tasks[0].pod
        vector = columns.axis.request(first.request)
        rows = self._cluster.masks.selector(first.spec.selector).allows
        equal = all(alike(task, tasks[0]) for task in tasks)
        enough = np.logical_and.reduce(columns.alloc[: len(vector.least)] >= vector.least)
        if equal and np.count_nonzero(enough & rows) >= len(tasks):
            # Each could have a node of its own.
            return ""
        present = self._cluster.masks.present()
        for name, index in ((name, index) for index, name in enumerate(columns.axis.names)):
            wanted = sum(int(columns.axis.request(task.pod.request).dense[index]) for task in tasks)
            offered = int(columns.alloc[index, present].sum())
            if wanted > offered:
                figures = (format_amount(name, amount) for amount in (wanted, offered))
                return "{}: {} wanted, all nodes together have {}".format(name, *figures)
        if equal:
            asked = vector.dense > 0
            each = (columns.alloc[asked][:, rows] // vector.dense[asked, None]).min(axis=0)
            if not vector.unknown and int(each.sum()) < len(tasks):
                return f"{int(each.sum())} of {len(tasks)} would fit on its nodes if they were empty"
        return ""

    def usable(self, task: Task) -> Bools:
        """Rows that the Node objects alone allow, whatever is on them."""
        return self._cluster.masks.usable(task.pod.spec.selector, task.pod.spec.tolerations).allows

    def has_room(self, task: Task, *, leaving: bool = False) -> bool:
        """Whether the task's node has what it holds there, or is promised as others are; with what is being left too,
        or without.
        """
        columns = self._cluster.columns
        row = columns.rows[task.node]
        wanted = columns.axis.request(task.pod.request).dense > 0
        left = columns.free[:, row] - (0 if task.entry.charged else columns.nominated_from(row, task.priority))
        if leaving:
            left = left + columns.releasing[:, row]
        if np.any(left[wanted] < 0):
            return False
        ports = task.pod.spec.host_ports
        for entry in self._cluster.pods.at_node(task.node) if ports else ():
            held = entry.charged and not (leaving and entry.leaving) and entry.pod.uid != task.uid
            if held and any(mine.clashes(theirs) for mine in ports for theirs in entry.pod.spec.host_ports):
                return False
        return True

    def allowed(self, task: Task) -> Bools | None:
        """Return the rows that rules, rejections of late and reservations allow; None means all."""
        return _both(self.by_rules(task), self.reservations.mask(task))

    def by_rules(self, task: Task) -> Bools | None:
        """Return the rows that rules about other pods, volumes and rejections of late allow; None means all."""
        pod = task.pod
        allowed = _both(self.domains.allowed(pod.spec, task.entry.labelset), self._cluster.suited(pod))
        return _both(allowed, self.volumes.allowed(pod)) if pod.volume_claims else allowed

    def reasons(self, task: Task) -> Reasons:
        """Why no node can have the task as things stand."""
        return self._refusals.of(task.pod, task.entry.labelset, task.priority, self.reservations.mask(task))

    def _name(self, row: int) -> str:
        node = self._cluster.columns.nodes[row]
        return node.name if node is not None else ""


def _both(rows: Bools | None, others: Bools | None) -> Bools | None:
    if rows is None or others is None:
        return rows if others is None else others
    return rows & others
