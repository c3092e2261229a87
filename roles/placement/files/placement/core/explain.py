# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to `why` and `queues`: from what the scheduler knows at this moment, without changing anything."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.graph.matching.filling import suffices
from placement.graph.topology import CLUSTER
from placement.graph.tree.fits import fitting
from placement.model.amounts.totals import frozen, shown
from placement.model.messages.report import Explanation, NodeReason, QueueReport
from placement.model.objects.node import Node
from placement.model.slicing import Steps
from placement.policy.backing.foreign.foreign_jobs import (
    describe_job,
    holders_of,
    lease_of,
    names_more_holders,
    sentences,
)
from placement.policy.framework.placers.domain_clearing import Trial, Unit, Units
from placement.policy.framework.session import Session
from placement.policy.framework.status_reporter import StatusReporter
from placement.policy.jobs.job import ON_NODE, Job, Status, Task
from placement.policy.queues.queue import QueueInfo
from placement.policy.queues.reservations import NO_SHADOW, Kept, Reservation
from placement.state.nodes.node_columns import BATCH_FLAGS, HELD
from placement.state.nodes.node_filters import Bools
from placement.state.pods.pod_table import PodEntry

# Nodes that are looked at for what would have to end, those that lack the least.
_NODES: Final = 32
# Nodes that batch jobs hold which are read for the next end.
_HELD: Final = 256
_ANSWERS: Final = 3
_NAMED: Final = 5
_LINES: Final = 8
# Jobs of a queue that are looked at in one go: a millisecond or two.
_AT_ONCE: Final = 500


class Explainer:
    """Explains the state of one session."""

    def __init__(self, session: Session, reporter: StatusReporter) -> None:
        self._session = session
        self._reporter = reporter

    def place(self, namespace: str, name: str) -> Steps[tuple[int, int]]:
        """Which of how many the pod's job is in its queue, 0 if none; between two answers others may have a turn.

        A job that can never run, or not before something is mended, is before no other.
        """
        session, cache = self._session, self._session.cache
        task = cache.jobs.tasks.get(cache.cluster.pods.named(namespace, name) or "")
        if task is None or task.status not in (Status.PENDING, Status.PIPELINED):
            return (0, 0)
        job = task.job
        queue = cache.tree.by_name.get(job.queue)
        jobs = list(queue.jobs.values()) if queue is not None else []
        before = waiting = 0
        for start in range(0, len(jobs), _AT_ONCE):
            if start:
                yield
            # By the rules of this moment, for keys of others cannot be compared with these.
            own = session.plugins.job_order(job, cache.total)
            for one in jobs[start : start + _AT_ONCE]:
                if one.pending and one.problem is None:
                    waiting += 1
                    before += one is not job and session.plugins.job_order(one, cache.total) < own
        return (before + 1 if job.pending and job.problem is None else 0, waiting)

    def pod(
        self, namespace: str, name: str, place: tuple[int, int], together: tuple[str, ...] = ()
    ) -> Explanation | None:
        """Why the pod is where it is; None where it is not known. `together` is what `must_end_together` has said."""
        cluster = self._session.cache.cluster
        uid = cluster.pods.named(namespace, name)
        if uid is None:
            return None
        task = self._session.cache.jobs.tasks.get(uid)
        if task is None:
            entry = cluster.pods.by_uid[uid]
            limit = f"the pod names the scheduler {entry.pod.spec.scheduler_name!r}"
            return Explanation(
                uid=uid, namespace=namespace, name=name, state="Foreign", node=entry.pod.node, limit=limit
            )
        job = task.job
        found = self._session.placer(job).reasons(task) if task.status is Status.PENDING else None
        refusing = found.refusing if found else ()
        return Explanation(
            uid=uid,
            namespace=namespace,
            name=name,
            state=task.status.name.capitalize(),
            node=task.node,
            group=str(job),
            queue=job.queue,
            position=place[0],
            waiting=place[1],
            limit=self._limit(task),
            nodes=tuple(NodeReason(reason=item.reason, nodes=item.nodes, examples=item.examples) for item in refusing),
            must_end=together or tuple(self._must_end(task)) if task.status is Status.PENDING else (),
            kept=tuple(islice(self._kept(task), _ANSWERS)) if task.status is Status.PENDING else (),
            batch=tuple(islice(self._batch(task), _ANSWERS)),
        )

    def _limit(self, task: Task) -> str:
        """Say in one sentence which rule keeps the task from running."""
        match task.status:
            case Status.GATED:
                return "the pod has scheduling gates"
            case Status.REFUSED:
                return f"not supported: {', '.join(task.pod.spec.unsupported)}"
            case Status.PIPELINED:
                return f"room on node {task.node} is kept for it until others have left"
            case Status.PENDING:
                refused = self._reporter.why(task.job)
                if refused is None:
                    return "it has not had its turn yet"
                nodes = str(refused.nodes) if refused.nodes else ""
                return f"{refused.reason}: {': '.join(filter(None, (refused.message, nodes)))}"
        return ""

    def must_end_together(self, namespace: str, name: str) -> Steps[tuple[str, ...]]:
        """Say what would have to end in one rack, so that all that must start together fit there.

        Nothing where the tree does not decide, where nothing that ends would help, or where something has changed
        while that was searched. Between two steps others may have a turn.
        """
        session, columns = self._session, self._session.cache.cluster.columns
        task = session.cache.jobs.tasks.get(session.cache.cluster.pods.named(namespace, name) or "")
        if task is None or task.status is not Status.PENDING or not task.job.strict:
            return ()
        job = task.job
        tasks = job.next_tasks(session.plugins.needed(job))
        for other in tasks:
            job.wait(other)
        trial = yield from session.graph_placer.trial(tasks or [task], session.effort)
        if trial is None:
            return ()
        steps = self._in_one_domain(trial, job)
        before = (columns.changes, columns.facts.count)
        while before == (columns.changes, columns.facts.count):
            try:
                next(steps)
            except StopIteration as ended:
                answer: tuple[str, ...] = ended.value
                return answer
            yield
        return ()

    def _in_one_domain(self, trial: Trial, job: Job) -> Steps[tuple[str, ...]]:
        """Find the domain, of those that lack least, in which the fewest would have to end."""
        session, columns = self._session, self._session.cache.cluster.columns
        room = columns.unpromised_for(len(columns.axis), columns.lower_rank(trial.wanted.parts[0][0].priority)).copy()
        held = np.not_equal(columns.flags & BATCH_FLAGS, 0)
        trial.feasible = [
            rows | (held & self._suits(part[0])) for rows, part in zip(trial.feasible, trial.wanted.parts, strict=True)
        ]
        units: Units[tuple[str, str]] = Units()
        for row in np.flatnonzero(trial.rows).tolist():
            node = columns.nodes[row]
            session.effort.spend(1)
            if session.effort.is_due():
                yield
            if node is None:
                continue
            if held[row]:
                jobs = self._jobs_on(node)
                units.add(Unit(((node.name, jobs),), (0, 0), {row: room[:, row].copy()}))
                room[:, row] = 0
            for entry in session.cache.cluster.pods.at_node(node.name):
                if entry.charged and entry.pod.uid not in job.tasks:
                    frees = {row: columns.charged(row, entry.pod.request).dense}
                    units.add(Unit(((node.name, self._called(entry, node.name)),), (0, 0), frees))
        for domains in trial.levels():
            found: list[tuple[int, str, list[tuple[str, str]]]] = []
            part = trial.wanted.request.parts[0]
            slots = fitting(np.maximum(room, 0), columns.axis.request(part.request)) * trial.feasible[0]
            values, _needed = suffices(part, slots)
            for domain in sorted(domains, key=lambda domain: -int(values[domain.rows].sum()))[:_ANSWERS]:
                cleared = yield from trial.clear(domain, units, room)
                if cleared is not None and cleared.units:
                    where = "in the cluster" if domain.level == CLUSTER else f"in {domain.level} {domain.name}"
                    members = [member for unit in cleared.units for member in unit.members]
                    found.append((len(members), where, members))
            if found:
                _number, where, members = min(found, key=lambda item: item[:2])
                return tuple(_by_node(where, members))
        return ()

    def _suits(self, task: Task) -> Bools:
        """Return the nodes that the task selects, that declare its features and that are large enough."""
        cluster, spec = self._session.cache.cluster, task.pod.spec
        vector = cluster.columns.axis.request(task.pod.request)
        if vector.unknown:
            return np.zeros(cluster.columns.capacity, np.bool_)
        large: Bools = np.logical_and.reduce(cluster.columns.allocatable[: len(vector.least)] >= vector.least)
        suits = large & cluster.masks.selector(spec.selector).allows
        return suits & cluster.masks.declared_part(spec.features).compute() if spec.features else suits

    def _called(self, entry: PodEntry, node: str) -> str:
        """Return what a pod is called: a placeholder by its batch job, and when that ends if this is known."""
        key = lease_of(entry.pod)
        if not key:
            return f"{entry.pod.namespace}/{entry.pod.name}"
        foreign, since = self._session.batch_jobs.foreign, self._session.now - self._session.batch_jobs.read
        for run in foreign.held.get(node, ()):
            if run.key == key:
                return describe_job(run.job, left=run.left, begins=run.begins, since=since)
        system, job, *_run = key.split("/")
        return f"job {job} of {system}"

    def _jobs_on(self, node: Node) -> str:
        """Return the batch jobs that hold a whole node, and when they end if this is known."""
        since = self._session.now - self._session.batch_jobs.read
        there = self._session.batch_jobs.foreign.held.get(node.name, ())
        known = [describe_job(run.job, left=run.left, begins=run.begins, since=since) for run in there]
        least = "" if known or not names_more_holders(node) else "at least "
        known = known or [text for _left, text in holders_of(node, now=self._wall_clock())]
        more = f" and {least}{len(known) - _NAMED} more" if len(known) > _NAMED else ""
        return ", ".join(known[:_NAMED]) + more or "batch jobs that are not known"

    def _wall_clock(self) -> float | None:
        """Return the seconds since 1970; None if they are not known."""
        epoch = self._session.reservations.epoch
        return None if epoch is None else self._session.now + epoch

    def _on_held_nodes(self, rows: Bools) -> list[str]:
        """Say of these nodes which jobs the controllers have written on them, the next ends first."""
        columns, foreign = self._session.cache.cluster.columns, self._session.batch_jobs.foreign
        held = np.flatnonzero(rows & np.not_equal(columns.flags & HELD, 0))[:_HELD].tolist()
        nodes = (columns.nodes[row] for row in held)
        found = [
            (left, f"on node {node.name} {text}")
            for node in nodes
            if node is not None and node.name not in foreign.held
            for left, text in holders_of(node, now=self._wall_clock())
        ]
        return [text for _left, text in sorted(found)]

    def _must_end(self, task: Task) -> Iterator[str]:
        """On a few nodes that lack the least: which pods, fewest first, hold what the task lacks."""
        session = self._session
        columns = session.cache.cluster.columns
        vector = columns.axis.request(task.pod.request)
        queue = session.cache.tree.by_name.get(task.job.queue)
        if queue is not None and session.plugins.overused(queue):
            yield f"in queue {queue.name}, which holds {shown(frozen(queue.allocated))}: any pod"
        if vector.unknown:
            return
        fits = session.feasibility.usable(task) & np.logical_and.reduce(
            columns.allocatable[: len(vector.least)] >= vector.least
        )
        allowed = session.feasibility.allowed(task)
        rows = np.flatnonzero(fits if allowed is None else fits & allowed)
        unpromised = columns.unpromised_for(len(columns.axis), columns.lower_rank(task.priority))
        domains = session.placer(task.job).domains(task)
        if domains:
            # In the rack that lacks the least.
            asked = np.flatnonzero(vector.dense)
            slots = np.zeros(columns.capacity, np.int64)
            slots[rows] = np.maximum(unpromised[np.ix_(asked, rows)] // vector.dense[asked, None], 0).min(axis=0)
            rows = rows[max(domains, key=lambda domain: int(slots[domain].sum()))[rows]]
        lacking = np.maximum(vector.dense[:, None] - unpromised[:, rows], 0) / np.maximum(vector.dense[:, None], 1)
        nearest = rows[np.argsort(lacking.max(axis=0), kind="stable")[:_NODES]]
        answers: list[tuple[int, str]] = []
        for row in nearest.tolist():
            node = columns.nodes[row]
            short = np.maximum(vector.dense - unpromised[:, row], 0)
            short[vector.dense == 0] = 0
            leaving = self._holders(node.name, short) if node is not None and short.any() else []
            if node is not None and leaving:
                named = ", ".join(self._called(entry, node.name) for entry in leaving[:_NAMED])
                more = f" and {len(leaving) - _NAMED} more" if len(leaving) > _NAMED else ""
                answers.append((len(leaving), f"on node {node.name}: {named}{more}"))
        yield from (text for _unused, text in sorted(answers)[:_ANSWERS])

    def _kept(self, task: Task) -> Iterator[str]:
        """Yield what is kept for the task's job and what that waits for, then what is kept for jobs before it."""
        kept, now = self._session.reservations, self._session.now
        own = kept.of(task.job)
        head = kept.heads.get(task.job.queue)
        if own is not None:
            yield f"{_named(own.nodes)} kept for {task.job} for {now - own.since:.0f} s{self._until(own)}"
        elif task.job.key in kept.passed_over:
            yield f"no nodes are kept for {task.job}: too few can become free for it, or it waits for more than room"
        elif head is not None and head.job is task.job:
            left = max(0.0, kept.reserve_after - kept.waited(task.job))
            yield f"{task.job} is the first of queue {task.job.queue}; nodes are kept for it in {left:.0f} s"
        for item in kept.binding(task):
            yield f"{_named(item.nodes)} kept for {item.job} of queue {item.job.queue}{self._until(item)}"

    def _until(self, item: Reservation) -> str:
        left = item.shadow - self._session.now
        if left == NO_SHADOW:
            return "; when the pods there end is not known"
        return f"; it can start in {left:.0f} s" if left > 0 else "; it can start now"

    def _batch(self, task: Task) -> Iterator[str]:
        """Of its own job, else of others': expected where it is, or now on nodes that it could be on without them."""
        session, columns = self._session, self._session.cache.cluster.columns
        since = session.now - session.batch_jobs.read
        own = session.batch_jobs.job_of(task)
        if own is not None:
            if own.runs or own.begins is not None:
                yield describe_job(own.id, left=own.left, begins=own.begins, since=since)
            return
        foreign = session.batch_jobs.foreign
        if foreign.doubted[0]:
            yield f"jobs of the batch system are not known: {session.batch_jobs.trouble}"
        if task.node:
            yield from sentences({task.node: foreign.expected.get(task.node, [])}, since=since)
        elif task.status is Status.PENDING:
            held = np.not_equal(columns.flags & BATCH_FLAGS, 0)
            rows = (session.feasibility.usable(task) | held) & self._suits(task)
            near = {name: foreign.held[name] for name in foreign.held.keys() & columns.rows.keys()}
            near = {name: there for name, there in near.items() if rows[columns.rows[name]]}
            yield from sentences(near, since=since)
            yield from self._on_held_nodes(rows)

    def _holders(self, node: str, short: NDArray[np.int64]) -> list[PodEntry]:
        """Pods that hold what is short, the largest first, until it is covered; nothing where they hold too little."""
        columns = self._session.cache.cluster.columns
        entries = [entry for entry in self._session.cache.cluster.pods.at_node(node) if entry.charged]
        main = int(short.argmax())

        def size(entry: PodEntry) -> tuple[int, str]:
            return (-int(columns.charged(columns.rows[node], entry.pod.request).dense[main]), entry.pod.uid)

        left, found = short.copy(), list[PodEntry]()
        for entry in sorted(entries, key=size):
            if (left <= 0).all():
                break
            left -= columns.charged(columns.rows[node], entry.pod.request).dense
            found.append(entry)
        return found if (left <= 0).all() else []

    def queues(self) -> list[QueueReport]:
        """All queues, parents before children."""
        queues = list(self._session.cache.tree.in_order())
        numbers: dict[str, tuple[int, int, int]] = {}
        # Children come after their parents, and are counted into them.
        for queue in reversed(queues):
            parts = (_numbers(queue), *(numbers.get(child.name, (0, 0, 0)) for child in queue.children))
            pending, running, pods = (sum(part) for part in zip(*parts, strict=True))
            numbers[queue.name] = (pending, running, pods)
        return [self._queue(queue, *numbers[queue.name]) for queue in queues]

    def _queue(self, queue: QueueInfo, pending: int, running: int, pods: int) -> QueueReport:
        parts = (1000 * queue.allocated.get(name, 0) // part if part else 0 for name, part in queue.deserved.items())
        return QueueReport(
            name=queue.name,
            parent=queue.record.parent,
            weight=queue.record.weight,
            priority=queue.record.priority,
            is_open=queue.record.is_open,
            share=max(parts, default=0),
            allocated=frozen(queue.allocated),
            deserved=frozen(queue.deserved),
            requested=frozen(queue.requests),
            guarantee=queue.record.guarantee,
            capability=queue.record.capability,
            pending_groups=pending,
            running_groups=running,
            pending_pods=pods,
            begins=self._begins(queue) if queue.record.backed else None,
            problem=queue.problem,
        )

    def _begins(self, queue: QueueInfo) -> float | None:
        backing = self._session.batch_jobs
        own = [backing.job_of(task) for job in queue.jobs.values() for task in job.tasks.values()]
        times = [job.begins for job in own if job is not None and job.begins is not None]
        return max(0.0, min(times) - (self._session.now - backing.read)) if times else None


def _by_node(where: str, members: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield what would have to end on each node, for some nodes."""
    nodes: dict[str, list[str]] = {}
    for node, name in members:
        nodes.setdefault(node, []).append(name)
    for node, names in sorted(nodes.items())[:_LINES]:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{where}, on node {node}: {', '.join(names[:_NAMED])}{more}"
    if len(nodes) > _LINES:
        yield f"{where}: pods and jobs on {len(nodes) - _LINES} more nodes"


def _named(nodes: Kept) -> str:
    """Return the first of these nodes by name, and how many more there are."""
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    named = f"{', '.join(islice(nodes, _NAMED))}{more}"
    return f"nodes {named} are" if len(nodes) > 1 else f"node {named} is"


def _numbers(queue: QueueInfo) -> tuple[int, int, int]:
    """Count the queue's own groups with waiting pods, those with pods on nodes, and its waiting pods."""
    # A pod at rest is on its node, and nothing waits.
    pending, running, pods = 0, sum(map(len, queue.archived.values())), 0
    for job in queue.jobs.values():
        waiting = job.counts[Status.PENDING]
        pods += waiting
        pending += waiting > 0
        running += any(job.counts[status] for status in ON_NODE)
    return pending, running, pods
