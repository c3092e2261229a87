# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes may hold a pod, and why the others may not. This is the one place that lists the filters.

Placing, score rows, preemption, promises, explanations and jobs of the batch system all ask here, so they cannot
disagree. A filter that is added to `filters_of` holds for all of them.
"""

from collections.abc import Hashable, Sequence
from math import inf

import numpy as np

from placement.model.amounts.quantity import Amounts
from placement.model.amounts.totals import Totals
from placement.model.objects.pod import Pod, PodSpec
from placement.policy.jobs.job import Task, alike
from placement.policy.plugins.filters.filters import (
    Closed,
    Cordoned,
    Declared,
    Filter,
    HostPorts,
    Nowhere,
    OtherPods,
    Reserved,
    Room,
    Selected,
    Taints,
    Unsuited,
    Volumes,
)
from placement.policy.plugins.filters.planned_starts import PlannedStarts
from placement.policy.plugins.site_filter import SiteFilter
from placement.policy.queues.reservations import Reservations
from placement.state.affinity.topology_rules import DomainRules
from placement.state.cluster import Cluster
from placement.state.nodes.diagnosis import Reasons, Tally
from placement.state.nodes.node_filters import Bools, Mask


def filters_of(
    cluster: Cluster, domains: DomainRules, reservations: Reservations, site: Sequence[SiteFilter]
) -> tuple[Filter, ...]:
    """Return all filters; a node that several refuse counts under the first of them."""
    return (
        Nowhere(cluster, domains),
        Closed(cluster),
        Unsuited(cluster),
        Cordoned(cluster),
        Taints(cluster),
        Selected(cluster),
        Declared(cluster),
        HostPorts(cluster),
        Room(cluster),
        Volumes(cluster),
        OtherPods(cluster, domains),
        *site,
        PlannedStarts(cluster, reservations),
        Reserved(cluster, reservations),
    )


class Feasibility:
    """Apply all filters to the nodes of one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        reservations: Reservations,
        site: Sequence[SiteFilter] = (),
    ) -> None:
        self._cluster = cluster
        self._columns = cluster.columns
        self.domains = DomainRules(cluster.columns, cluster.masks, cluster.labelsets)
        self._filters = filters_of(cluster, self.domains, reservations, site)

        def with_own(*methods: str) -> tuple[Filter, ...]:
            """Return the filters that have something to say: others are not asked for every pod."""
            return tuple(
                item
                for item in self._filters
                if any(getattr(type(item), method) is not getattr(Filter, method) for method in methods)
            )

        self._static = with_own("part")
        self._keyed = with_own("key")
        self._dynamic = with_own("allowed")
        self._by_rules = tuple(item for item in self._dynamic if item.for_promised)
        self._lasting = tuple(item for item in self._dynamic if item.lasting)
        self._for_many = with_own("untouched")
        self._tying = with_own("ties")
        self._kinds = with_own("kind")
        self._lacking = with_own("lacking")
        self._holding = with_own("holds")
        self._exclusive = with_own("exclusive", "taken", "taken_rows", "excludes")

    # What follows from the Node objects alone.

    def mask(self, spec: PodSpec, request: Amounts) -> Mask:
        """Return the nodes that such pods may use, whatever is on them."""
        parts = [part for item in self._static if (part := item.part(spec, request)) is not None]
        key = tuple(item.key(spec, request) for item in self._static)
        return self._cluster.masks.joint(key, parts)

    def usable(self, task: Task) -> Bools:
        """Return the nodes that the task may use, whatever is on them."""
        return self.mask(task.pod.spec, task.pod.request).allows

    def shape_key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return what is equal for pods with equal answers of `mask` and `taken`."""
        return tuple(item.key(spec, request) for item in self._keyed)

    # What only one pod can have on a node.

    def exclusive(self, spec: PodSpec) -> bool:
        """Return whether such a pod takes something of its node that only one pod can have."""
        return any(item.exclusive(spec) for item in self._exclusive)

    def taken(self, spec: PodSpec, row: int) -> bool:
        """Return whether a pod on the node has such a thing."""
        return any(item.taken(spec, row) for item in self._exclusive)

    def taken_rows(self, spec: PodSpec) -> list[int]:
        """Return the rows for which `taken` is true."""
        return [row for item in self._exclusive for row in item.taken_rows(spec)]

    def excludes(self, pod: Pod, other: Pod) -> bool:
        """Return whether both cannot be on one node."""
        return any(item.excludes(pod, other) for item in self._exclusive)

    # As things stand.

    def allowed(self, task: Task) -> Bools | None:
        """Return the nodes that are allowed to the task, as far as they have room; None means all."""
        return _all_of(self._dynamic, task)

    def by_rules(self, task: Task) -> Bools | None:
        """Return the nodes that are allowed to a task that was pipelined before; None means all."""
        return _all_of(self._by_rules, task)

    def to_many(self, task: Task) -> Bools | None:
        """Return the nodes that are allowed to the task and to all equal ones after it, if it is not tied."""
        found = None
        for item in self._for_many:
            rows = item.untouched(task)
            if rows is not None:
                found = rows if found is None else np.logical_and(found, rows)
        return found

    def ties(self, task: Task) -> bool:
        """Return whether placing one of several equal pods changes where the next may go, beyond the room it takes."""
        return any(item.ties(task) for item in self._tying)

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return what is equal for tasks that fit where the others fit; None where that is not known.

        What a pod prefers does not matter, nor does its label set where no rule is about it.
        """
        if len(tasks) > 1 and tasks[0].job.mixed and not all(alike(task, tasks[0]) for task in tasks):
            return None
        decisive = [item.kind(tasks) for item in self._kinds]
        if None in decisive:
            return None
        return (tasks[0].pod.spec, tasks[0].pod.request, len(tasks), *decisive)

    # On one node.

    def lacking(self, task: Task, row: int) -> Totals | None:
        """Return the amounts that have to be freed on the node for the task; None if it can never have them there."""
        found: Totals = {}
        for item in self._lacking:
            lacking = item.lacking(task, row)
            if lacking is None:
                return None
            found.update(lacking)
        return found

    def has_room(self, task: Task, *, leaving: bool = False) -> bool:
        """Return whether the task's node has what the task takes or is promised there.

        What other pods are leaving counts as there, or not.
        """
        row = self._columns.rows[task.node]
        return all(item.holds(task, row, leaving=leaving) for item in self._holding)

    def stands(self, task: Task) -> bool:
        """Return whether the task, which is charged on its node and not bound yet, may still be bound there."""
        row = self._columns.rows.get(task.node)
        if row is None or not self.usable(task)[row] or not self.has_room(task):
            return False
        allowed = _all_of(self._lasting, task)
        return allowed is None or bool(allowed[row])

    def why_backed(self, task: Task, node: str, end: float = inf) -> str:
        """Return why the task may not go to a node that the batch system chose for it; empty if it may.

        Its job there ends at this time at the latest, in monotonic seconds.
        """
        row = self._columns.rows.get(node)
        if row is None:
            return f"there is no node {node}"
        why = next((why for item in self._filters if (why := item.why_backed(task, row, end))), "")
        return f"node {node} {why}" if why else ""

    def reasons(self, task: Task, rest: str = "") -> Reasons:
        """Return why no node can have the task as things stand; `rest` is said of nodes that could by themselves."""
        tally = Tally(self._columns, self._cluster.masks.present())
        for item in self._filters:
            if not tally.left.any():
                break
            tally.take(item.refused(task))
        if rest:
            tally.take({rest: tally.left})
        return tally.reasons()


def _all_of(filters: Sequence[Filter], task: Task) -> Bools | None:
    found = None
    for item in filters:
        rows = item.allowed(task)
        if rows is not None:
            found = rows if found is None else np.logical_and(found, rows)
    return found
