# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for a job by evicting others: what preempt and reclaim have in common.

All members that must start together get a place, on free room or on that of victims, or nothing happens. Room that
victims leave is promised to the members, so no other job takes it, and the members are bound when it is free.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from placement.model.amounts.totals import Totals
from placement.model.messages.action import Evict, PodCondition
from placement.model.slicing import Steps, finish, to_the_end
from placement.policy.framework.placers.domain_clearing import placed
from placement.policy.framework.session import Session
from placement.policy.framework.statement import Statement
from placement.policy.jobs.job import Job, Status, Task, wanted_by
from placement.policy.preemption.candidates import CandidateFinder
from placement.policy.preemption.disruption_budgets import DisruptionBudgets
from placement.policy.preemption.domain_victims import cheapest_domain
from placement.policy.preemption.queue_victims import QueueVictims
from placement.policy.preemption.reprieve import Reprieve
from placement.policy.preemption.victims import VictimRules
from placement.policy.queues.queue import QueueInfo

# Kinds of preemptors whose candidates are kept between runs: each takes some hundred bytes for every node.
_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """On what terms room is taken."""

    # Preemptors with equal keys have the same candidates.
    key: Callable[[Task], Hashable]
    rules: Callable[[Task, DisruptionBudgets], VictimRules]
    # Pods that share the preemptor's queue and may have to leave because the queue has all it may have.
    mates: Callable[[Task], Iterable[Task]]
    # Whether there can be any victim at all: it saves looking for them on every node.
    possible: Callable[[Task], bool]
    reason: str
    # Under which name candidates are kept for the next run; empty where shares decide, which move all the time.
    kept_as: str = ""


class Evaluator:
    """Makes room, for one action run."""

    def __init__(self, session: Session, taking: PreemptionPolicy, budgets: DisruptionBudgets) -> None:
        self._session = session
        self._taking = taking
        self._finders: dict[Hashable, CandidateFinder] = {}
        self._used: list[CandidateFinder] = []
        self._mates: dict[Hashable, QueueVictims] = {}
        self._budgets = budgets

    def room_for(self, job: Job) -> Steps[bool]:
        """Make room for the tasks of the job that must start together, if that is possible, in steps."""
        try:
            return (yield from self._room_for(job))
        finally:
            # The preemptor may go, and a kept finder must not keep it in memory.
            for finder in self._used:
                finder.rules = None
            self._used.clear()

    def _room_for(self, job: Job) -> Steps[bool]:
        session, tree = self._session, self._session.cache.tree
        begun = session.slice
        first, queue = job.peek(), tree.by_name.get(job.queue)
        if first is None or queue is None or not self._preempts(job, first) or not self._taking.possible(first):
            return False
        if not job.strict:
            yield from self._look_around(job, first, queue)
        if session.slice != begun and not self._unchanged(job, queue):
            return False
        needed = session.plugins.needed(job)
        tasks = job.next_tasks(needed)
        victims: list[Task] | None = None
        statement = session.statement()
        try:
            if len(tasks) == needed and self._preempts(job, *tasks):
                search = self._in_one_domain if job.strict else self._victims
                victims = yield from search(job, queue, tasks, statement)
            if victims is None:
                yield from statement.discard()
        finally:
            if victims is None:
                finish(statement.discard())
                for task in tasks:
                    if task.status is Status.PENDING:
                        job.wait(task)
        if victims is None:
            return False
        yield from to_the_end(self._commit_and_tell(statement, job, tasks, victims))
        return True

    def _commit_and_tell(
        self, statement: Statement, job: Job, tasks: Sequence[Task], victims: Sequence[Task]
    ) -> Steps[None]:
        yield from statement.commit()
        self._tell(job, tasks, victims)

    def _victims(
        self, job: Job, queue: QueueInfo, tasks: Sequence[Task], statement: Statement
    ) -> Steps[list[Task] | None]:
        """Promise the tasks room, and evict the victims; return those that have to leave.

        Return None where the tasks cannot be given room within the queue's limits, or a victim's budget has refused
        before.
        """
        session = self._session
        spoken_for = session.cache.tree.claimed_totals()
        evicted: list[Task] = []
        for task in tasks:
            if not (yield from self._one(task, queue, statement, evicted, len(tasks))):
                return None
            yield
        for task in tasks:
            if task.status is not Status.PIPELINED:
                statement.pipeline(task, task.node)
        # A gang that is not whole does not become so by members that take the place of others.
        incomplete = job.occupied < job.min_member and session.plugins.gangs
        moves_nothing = not evicted and not any(self._takes_over(task) for task in tasks)
        if incomplete or moves_nothing or not self._within_bounds(queue, tasks, spoken_for):
            return None
        agreed = partial(self._within_bounds, queue, tasks, spoken_for)
        kept = yield from Reprieve(session, queue, tasks, statement, agreed).kept(evicted)
        return kept if self._budgets.violations(kept) is not None else None

    def _in_one_domain(
        self, job: Job, queue: QueueInfo, tasks: Sequence[Task], statement: Statement
    ) -> Steps[list[Task] | None]:
        """Do the same for tasks that the tree must place together: all victims are in one domain."""
        session = self._session
        trial = yield from session.graph_placer.trial(tasks, session.effort)
        if trial is None:
            return None
        spoken_for = session.cache.tree.claimed_totals()
        rules = self._taking.rules(tasks[0], self._budgets)
        found = yield from cheapest_domain(session, trial, rules)
        if found is None or not found.victims:
            return None
        for victim in found.victims:
            statement.evict(victim)
        for task, node in placed(trial, found.found):
            statement.pipeline(task, node)
        incomplete = job.occupied < job.min_member and session.plugins.gangs
        return None if incomplete or not self._within_bounds(queue, tasks, spoken_for) else [*found.victims]

    def _look_around(self, job: Job, first: Task, queue: QueueInfo) -> Steps[None]:
        """Search the nodes, and the queue if it has too little left for the job."""
        yield from self._finder(first).refresh(first)
        tasks = job.next_tasks(self._session.plugins.needed(job))
        for task in tasks:
            job.wait(task)
        wanted = wanted_by(tasks)
        if self._session.cache.tree.over_capability(queue, wanted, wanted):
            yield from self._mates_of(first).sort_out()

    def _preempts(self, job: Job, *tasks: Task) -> bool:
        """Whether others may be asked to leave for all of these: their own classes say so, and that of their group."""
        groups = self._session.cache.admission.groups
        return all(task.pod.spec.preempts for task in tasks) and groups.preempts(job.group)

    def _unchanged(self, job: Job, queue: QueueInfo) -> bool:
        cache = self._session.cache
        return (
            cache.jobs.by_key.get(job.key) is job
            and cache.admission.admits(job)
            and cache.tree.by_name.get(job.queue) is queue
        )

    def _finder(self, preemptor: Task) -> CandidateFinder:
        # What room is promised to lesser ones is open to the preemptor, and so are other nodes than to these.
        ignored = self._session.cache.cluster.columns.lower_rank(preemptor.priority)
        kept, finders = self._taking.kept_as, self._session.finders
        key = (kept, preemptor.pod.spec, preemptor.pod.request, ignored, self._taking.key(preemptor))
        finder = finders.get(key) if kept else self._finders.get(key)
        if finder is None:
            finder = CandidateFinder(self._session)
        if kept:
            # The finder that was used last is the last to be forgotten.
            finders.pop(key, None)
            finders[key] = finder
            if len(finders) > _KEPT:
                del finders[next(iter(finders))]
        else:
            self._finders[key] = finder
        finder.rules = self._taking.rules(preemptor, self._budgets)
        self._used.append(finder)
        return finder

    def _mates_of(self, preemptor: Task) -> QueueVictims:
        key = self._taking.key(preemptor)
        rules = self._taking.rules(preemptor, self._budgets)
        mates = self._mates.get(key)
        if mates is None:
            mates = self._mates[key] = QueueVictims(
                self._session.cache, rules, self._taking.mates(preemptor), self._session.effort
            )
        mates.rules = rules
        return mates

    def _one(self, task: Task, queue: QueueInfo, statement: Statement, evicted: list[Task], tasks: int) -> Steps[bool]:
        """Find a node and victims for one of so many tasks: on that node, and in a queue that has all it may."""
        node, victims = self._session.host_selector.best(task), list[Task]()
        if not node:
            candidate = yield from self._finder(task).best(task)
            if candidate is None:
                return False
            node, victims = candidate.node, [*candidate.found.victims]
        for victim in victims:
            statement.evict(victim)
        # Promises are nothing to the rules: where those matter, the next is to find this one there.
        tied = self._session.host_selector.one_by_one(task) or self._session.feasibility.exclusive(task.pod.spec)
        (statement.allocate if tied else statement.pipeline)(task, node)
        evicted += victims
        excess = self._session.cache.tree.over_capability(queue, wanted_by([task]))
        if not excess:
            return True
        found = yield from self._mates_of(task).cheapest(excess, tasks)
        for victim in found.victims if found is not None else ():
            statement.evict(victim)
            evicted.append(victim)
        return found is not None

    def _takes_over(self, task: Task) -> bool:
        """Return whether the promised task relies on room that is promised to tasks of lower rank, too."""
        columns = self._session.cache.cluster.columns
        row, wanted = columns.rows[task.node], columns.axis.request(task.pod.request).dense > 0
        left = columns.free[:, row] + columns.releasing[:, row] - columns.nominated[:, row]
        return bool(np.any(left[wanted] < 0))

    def _within_bounds(self, queue: QueueInfo, tasks: Sequence[Task], spoken_for: Mapping[str, Totals]) -> bool:
        """Whether no capability of what the tasks ask for is exceeded, nor what is guaranteed to others touched."""
        cache = self._session.cache
        return not cache.tree.over_capability(queue, wanted_by(tasks)) and not cache.tree.breaks_guarantee(
            spoken_for, cache.total
        )

    def _tell(self, job: Job, tasks: Sequence[Task], victims: Sequence[Task]) -> None:
        session, reason = self._session, self._taking.reason
        for victim in victims:
            pod = victim.pod
            self._budgets.take(victim)
            message = f"{reason} for {job} of priority {job.priority} in queue {job.queue}"
            session.actions.append(
                Evict(uid=pod.uid, namespace=pod.namespace, name=pod.name, reason=reason, message=message)
            )
        for task in tasks:
            pod = task.pod
            # Whatever is said of it next is news again.
            session.cache.settled[pod.uid] = None
            message = f"waits on node {task.node} for {len(victims)} pods to leave"
            if not victims:
                message = f"waits on node {task.node} for pods to leave, in place of one of lower priority"
            session.actions.append(
                PodCondition(
                    uid=pod.uid,
                    namespace=pod.namespace,
                    name=pod.name,
                    reason="Unschedulable",
                    message=message,
                    nominated_node=task.node,
                )
            )
