# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of nodes by the tree of zones, racks and switches.

The graph chooses among feasible nodes: what a node is feasible for is for the filters to say, as everywhere. All tasks
of one call are placed or none. A member that comes later goes where the others of its group are.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from placement.graph.matching.match import choose
from placement.graph.matching.operations import satisfiability
from placement.graph.request import NoMatch, Request, RequestError, Selection
from placement.graph.topology import CLUSTER
from placement.graph.tree.numa_nodes import Taken
from placement.graph.tree.source import GraphSource
from placement.graph.tree.tree import Graph
from placement.model.slicing import SliceBudget, Steps, pauses
from placement.policy.cache.job_cache import JobCache
from placement.policy.framework.placers.domain_clearing import Trial
from placement.policy.framework.placers.host_selector import HostSelector
from placement.policy.framework.placers.placer import Unplaced
from placement.policy.framework.placers.topology_ask import Ask, UnservedError, ask, levels_of, parts_of
from placement.policy.framework.statement import Statement
from placement.policy.jobs.job import Task
from placement.policy.plugins.filters.filters import BY_ITSELF
from placement.state.nodes.diagnosis import Reasons
from placement.state.nodes.node_filters import Bools
from placement.state.nodes.score_table import INFEASIBLE

# Tasks that get their nodes in one step.
_AT_ONCE: Final = 128
# Domains that are tried for pods whose rules about other pods only show one by one whether they fit.
_TRIES: Final = 64


class GraphPlacer:
    """Choose nodes by the graph of one cluster; what does not insist on the tree falls back to the columns."""

    def __init__(self, cache: JobCache, source: GraphSource, columns: HostSelector) -> None:
        self._cache = cache
        self._source = source
        self._columns = columns
        self._feasibility = columns.feasibility

    def place(self, tasks: Sequence[Task], statement: Statement) -> Steps[Unplaced | None]:
        """Place all tasks or none, in steps; return one of them if they do not fit.

        Where the tasks only prefer to be together, the columns may place those before the one that is returned.
        """
        graph = yield from self._source.obtain()
        try:
            wanted = self._ask(tasks)
        except (UnservedError, RequestError) as error:
            return Unplaced(tasks[0], str(error))
        why = yield from self._place_together(graph, wanted, statement)
        if why and not tasks[0].job.strict:
            return (yield from self._columns.place(tasks, statement))
        return Unplaced(tasks[0], why) if why else None

    def place_at(self, tasks: Sequence[Task], nodes: Sequence[str], statement: Statement) -> Steps[bool]:
        """Place each task on the node given for it, unless the tree forbids to choose nodes one by one."""
        if tasks[0].job.strict:
            return False
        return (yield from self._columns.place_at(tasks, nodes, statement))

    def one_by_one(self, task: Task) -> bool:
        """Return whether placing one of several equal pods changes the nodes of the next, beyond the room it takes."""
        return self._columns.one_by_one(task)

    def never(self, tasks: Sequence[Task]) -> str:
        """Return why the tasks could not run together even if all nodes were empty; empty if they could."""
        graph = self._source.graph
        if graph is None or not tasks[0].job.strict:
            return self._columns.never(tasks)
        try:
            wanted = self._ask(tasks)
        except (UnservedError, RequestError) as error:
            return str(error)
        if wanted.there:
            return ""
        masks = self._cache.cluster.masks
        feasible = [masks.selector(part[0].pod.spec.selector).allows for part in wanted.parts]
        refused = satisfiability(graph, wanted.request, feasible)
        return f"{refused}, if all nodes were empty" if refused is not None else ""

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return what is equal for tasks that fit where the others fit; None where that is not known."""
        job = tasks[0].job
        kind = self._feasibility.kind(tasks) if not job.occupied else None
        if kind is None:
            return None
        return (kind, job.group.topology if job.group is not None else None, self._queue_policy(tasks[0]))

    def reasons(self, task: Task) -> Reasons:
        """Return why no node can have the task as things stand."""
        return self._feasibility.reasons(task, BY_ITSELF)

    def trial(self, tasks: Sequence[Task], effort: SliceBudget) -> Steps[Trial | None]:
        """Return what can be asked where the tasks would go with other room; None for what must be placed one by one.

        That are pods with rules about other pods and with host ports: which node the next may use depends on the last.
        """
        graph = yield from self._source.obtain()
        graph.sync()
        try:
            wanted = self._ask(tasks)
        except (UnservedError, RequestError):
            return None
        feasibility, columns = self._feasibility, graph.columns
        found: list[Bools] = []
        for index, part in enumerate(wanted.parts):
            first = part[0]
            if feasibility.ties(first) or feasibility.exclusive(first.pod.spec):
                return None
            rows, allowed = feasibility.usable(first).copy(), feasibility.allowed(first)
            if allowed is not None:
                rows &= allowed
            least = columns.axis.request(first.pod.request).least
            rows &= np.logical_and.reduce(columns.allocatable[: len(least)] >= least)
            inside = _beside_others(graph, wanted, index)
            found.append(rows if inside is None else rows & inside)
        return Trial(graph, wanted, found, effort)

    def domains(self, task: Task) -> list[Bools]:
        """Return the sets of nodes that the task's job must be within one of; empty where it may be anywhere."""
        graph = self._source.graph
        wish = task.job.group.topology if task.job.group is not None else None
        wish = wish or task.pod.spec.topology
        if graph is None or wish is None or not task.job.strict:
            return []
        graph.sync()
        try:
            levels, required = levels_of(wish, graph.topology)
            # What the pod asks for itself may be refused although what its group asks is not.
            there = self._ask([task]).there if required else ()
        except (UnservedError, RequestError):
            return []
        if not required:
            return []
        if there:
            inside = [_inside(graph, level, there) for level in levels]
            return [rows for rows in inside if rows is not None]
        found: list[Bools] = []
        for level in levels:
            starts, ends = graph.runs(level)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                rows = np.zeros(graph.columns.capacity, np.bool_)
                rows[graph.order.rows[start:end]] = True
                found.append(rows)
        return found

    def _queue_policy(self, task: Task) -> str:
        queue = self._cache.tree.by_name.get(task.job.queue)
        return queue.record.match_policy if queue is not None else ""

    def _ask(self, tasks: Sequence[Task]) -> Ask:
        return ask(
            tasks,
            self._source.topology,
            ignored=self._cache.cluster.columns.lower_rank(tasks[0].priority),
            queue_policy=self._queue_policy(tasks[0]),
            most=[int(self._feasibility.exclusive(part[0].pod.spec)) for part in parts_of(tasks)],
        )

    def _feasible(self, graph: Graph, wanted: Ask) -> list[Bools]:
        """Return the rows that each part may use as things stand."""
        found: list[Bools] = []
        for index, part in enumerate(wanted.parts):
            first = part[0]
            shape = self._columns.shapes.row(first.pod.spec, first.pod.request, first.priority)
            rows = shape.scores != INFEASIBLE
            allowed = self._feasibility.allowed(first)
            if allowed is not None:
                rows &= allowed
            inside = _beside_others(graph, wanted, index)
            if inside is not None:
                rows &= inside
            found.append(rows)
        return found

    def _place_together(self, graph: Graph, wanted: Ask, statement: Statement) -> Steps[str]:
        """Place all tasks in the first domains that hold them; return why there is none."""
        graph.sync()
        feasible = self._feasible(graph, wanted)
        tied = any(self._feasibility.ties(part[0]) for part in wanted.parts)
        why = ""
        for _unused in range(_TRIES):
            found = self._choose(graph, wanted, feasible)
            if isinstance(found, NoMatch):
                return why or str(found)
            mark = statement.savepoint()
            held = yield from self._allocate(graph, wanted, found, statement, tied=tied)
            if held:
                return ""
            yield from statement.rollback_to(mark)
            why = why or f"{found.level} {found.domain}: rules about other pods leave too little room"
            if found.level == CLUSTER:
                break
            graph.sync()
            domain = graph.within(found.level, graph.domain_of(found.level, found.rows[0]))
            feasible = [rows & ~domain for rows in feasible]
            yield
        return why

    def _choose(self, graph: Graph, wanted: Ask, feasible: list[Bools]) -> Selection | NoMatch:
        """Choose where the tasks go; beside other members of their group, if it has some."""
        request = wanted.request
        reasons: list[str] = []
        tried = False
        for level in request.within if wanted.there else ():
            inside = _inside(graph, level, wanted.there)
            if inside is None:
                continue
            tried = True
            found = choose(graph, _only(request, level), [rows & inside for rows in feasible])
            if isinstance(found, Selection):
                return found
            number = graph.domain_of(level, wanted.there[0].entry.row)
            name = _name(graph, level, number)
            reasons.append(f"{level}: too little room in {name}, where others of the group are")
        if tried and request.required:
            return NoMatch(tuple(reasons))
        return choose(graph, request, feasible)

    def _allocate(
        self, graph: Graph, wanted: Ask, found: Selection, statement: Statement, *, tied: bool
    ) -> Steps[bool]:
        """Give all tasks their nodes, in steps; return whether rules about other pods allow it."""
        nodes, pacing, taken = graph.columns.nodes, pauses(_AT_ONCE), Taken()
        domain = graph.within(found.level, graph.domain_of(found.level, found.rows[0])) if tied else None
        for part, share, request in zip(wanted.parts, found.parts, wanted.request.parts, strict=True):
            free = not (request.per_node or request.within or wanted.request.exclusive)
            for task, chosen in zip(part, share.each(), strict=True):
                row = chosen
                if domain is not None:
                    row = self._allowed_row(task, row, domain if free else None)
                node = nodes[row] if row >= 0 else None
                if node is None:
                    return False
                path = _path(graph, row)
                if wanted.request.policy == "numa":
                    numa_node = graph.numa_nodes.advise(row, task.pod.request, taken)
                    path = "/".join(filter(None, (path, node.name, numa_node))) if numa_node else path
                statement.allocate(task, node.name, path)
                if next(pacing):
                    yield
        return True

    def _allowed_row(self, task: Task, row: int, domain: Bools | None) -> int:
        """Return the row if the task may still go there, else the best one of the domain; -1 where there is none."""
        shape = self._columns.shapes.row(task.pod.spec, task.pod.request, task.priority)
        allowed = self._feasibility.allowed(task)
        if shape.scores[row] != INFEASIBLE and (allowed is None or allowed[row]):
            return row
        if domain is None:
            return -1
        return self._columns.shapes.best(shape, domain if allowed is None else domain & allowed)


def _only(request: Request, level: str) -> Request:
    return replace(request, within=(level,), required=True)


def _inside(graph: Graph, level: str, there: Sequence[Task]) -> Bools | None:
    """Return the rows of the domain that all of these are in; None if there is none."""
    numbers = {graph.domain_of(level, task.entry.row) for task in there}
    if len(numbers) != 1 or -1 in numbers:
        return None
    return graph.within(level, numbers.pop())


def _beside_others(graph: Graph, wanted: Ask, index: int) -> Bools | None:
    """Return the rows of the domain where others of the part's sub-group are; None where it may be anywhere."""
    part, there = wanted.request.parts[index], wanted.there_of(index)
    if not (part.required and there):
        return None
    domains = (_inside(graph, level, there) for level in reversed(part.within))
    return next((domain for domain in domains if domain is not None), None)


def _path(graph: Graph, row: int) -> str:
    """Return the names of the row's domains from the outermost level to the innermost."""
    return "/".join(name for name in graph.levels.path(row) or () if name is not None)


def _name(graph: Graph, level: str, number: int) -> str:
    if level in graph.topology.levels:
        return graph.levels.domain_name(level, number)
    node = graph.columns.nodes[number] if level != CLUSTER else None
    return node.name if node is not None else level
