# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for a job by evicting others: what preempt and reclaim have in common.

All members that must start together get a place, on free room or on that of victims, or nothing happens. Room that
victims leave is promised to the members, so nobody else takes it, and the members are bound when it is free.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from placement.model.action import Evict, PodCondition
from placement.policy.amounts import Totals
from placement.policy.budgets import Budgets
from placement.policy.jobs import Job, Status, Task, wanted_by
from placement.policy.mates import Mates
from placement.policy.queue_node import QueueNode
from placement.policy.seeker import Seeker
from placement.policy.session import Session
from placement.policy.sparing import Sparing
from placement.policy.statement import Statement
from placement.policy.victims import Question

# Kinds of claimants whose openings are kept between runs: each takes some hundred bytes for every node.
_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class Taking:
    """On what terms room is taken."""

    # Claimants with equal keys have the same openings.
    key: Callable[[Task], Hashable]
    question: Callable[[Task, Budgets], Question]
    # Who shares the claimant's queue and might have to leave because that has all it may have.
    mates: Callable[[Task], Iterable[Task]]
    # Whether there can be any victim at all: it saves looking for them on every node.
    possible: Callable[[Task], bool]
    reason: str
    # Under which name openings are kept for the next run; empty where shares decide, which move all the time.
    kept_as: str = ""


class Making:
    """Makes room, for one action run."""

    def __init__(self, session: Session, taking: Taking, budgets: Budgets) -> None:
        self._session = session
        self._taking = taking
        self._seekers: dict[Hashable, Seeker] = {}
        self._asked: list[Seeker] = []
        self._mates: dict[Hashable, Mates] = {}
        self._budgets = budgets

    def room_for(self, job: Job) -> Generator[None, None, bool]:
        """Makes room for what of the job must start together, if it can; between two answers others may have a turn."""
        try:
            return (yield from self._room_for(job))
        finally:
            # The claimant may go, and a kept seeker must not keep it in memory.
            for seeker in self._asked:
                seeker.question = None
            self._asked.clear()

    def _room_for(self, job: Job) -> Generator[None, None, bool]:
        session, tree = self._session, self._session.book.tree
        begun = session.slice
        first, queue = job.peek(), tree.by_name.get(job.queue)
        if first is None or queue is None or not self._preempts(job, first) or not self._taking.possible(first):
            return False
        yield from self._look_around(job, first, queue)
        if session.slice != begun and not self._unchanged(job, queue):
            return False
        needed = session.rules.needed(job)
        tasks = job.next_tasks(needed)
        victims: list[Task] | None = None
        statement = session.statement()
        try:
            if len(tasks) == needed and self._preempts(job, *tasks):
                victims = yield from self._victims(job, queue, tasks, statement)
        finally:
            if victims is None:
                statement.discard()
                for task in tasks:
                    if task.status is Status.PENDING:
                        job.wait(task)
        if victims is None:
            return False
        statement.commit()
        self._tell(job, tasks, victims)
        return True

    def _victims(
        self, job: Job, queue: QueueNode, tasks: Sequence[Task], statement: Statement
    ) -> Generator[None, None, list[Task] | None]:
        """Promises the tasks room, and asks others to leave; None where there are none who could, or would."""
        session = self._session
        spoken_for = session.book.tree.spoken_for()
        evicted: list[Task] = []
        for task in tasks:
            if not (yield from self._one(task, queue, statement, evicted, len(tasks))):
                return None
            yield
        for task in tasks:
            if task.status is not Status.PROMISED:
                statement.promise(task, task.node)
        # A gang that is not whole does not become so by members who take the place of others.
        halved = job.occupied < job.min_member and session.rules.gangs
        idle = not evicted and not any(self._takes_over(task) for task in tasks)
        if halved or idle or not self._within_bounds(queue, tasks, spoken_for):
            return None
        agreed = partial(self._within_bounds, queue, tasks, spoken_for)
        kept = yield from Sparing(session, queue, tasks, statement, agreed).kept(evicted)
        return kept if self._budgets.violations(kept) is not None else None

    def _look_around(self, job: Job, first: Task, queue: QueueNode) -> Iterator[None]:
        """Searches the nodes, and the queue where that has too little left for the job."""
        yield from self._seeker(first).refresh(first)
        tasks = job.next_tasks(self._session.rules.needed(job))
        for task in tasks:
            job.wait(task)
        wanted = wanted_by(tasks)
        if self._session.book.tree.excess(queue, wanted, wanted):
            yield from self._mates_of(first).sort_out()

    def _preempts(self, job: Job, *tasks: Task) -> bool:
        """Whether others may be asked to leave for all of these: their own classes say so, and that of their group."""
        return all(task.pod.spec.preempts for task in tasks) and self._session.book.groups.preempts(job.group)

    def _unchanged(self, job: Job, queue: QueueNode) -> bool:
        book = self._session.book
        return book.jobs.get(job.key) is job and book.admits(job) and book.tree.by_name.get(job.queue) is queue

    def _seeker(self, claimant: Task) -> Seeker:
        # What room is promised to lesser ones is open to the claimant, and so are other nodes than to these.
        ignored = self._session.book.cluster.columns.lower_rank(claimant.priority)
        kept, seekers = self._taking.kept_as, self._session.seekers
        key = (kept, claimant.pod.spec, claimant.pod.request, ignored, self._taking.key(claimant))
        seeker = seekers.get(key) if kept else self._seekers.get(key)
        if seeker is None:
            seeker = Seeker(self._session)
        if kept:
            # The last one asked is the last to be forgotten.
            seekers.pop(key, None)
            seekers[key] = seeker
            if len(seekers) > _KEPT:
                del seekers[next(iter(seekers))]
        else:
            self._seekers[key] = seeker
        seeker.question = self._taking.question(claimant, self._budgets)
        self._asked.append(seeker)
        return seeker

    def _mates_of(self, claimant: Task) -> Mates:
        key = self._taking.key(claimant)
        question = self._taking.question(claimant, self._budgets)
        mates = self._mates.get(key)
        if mates is None:
            mates = self._mates[key] = Mates(
                self._session.book, question, self._taking.mates(claimant), self._session.effort
            )
        mates.question = question
        return mates

    def _one(
        self, task: Task, queue: QueueNode, statement: Statement, evicted: list[Task], tasks: int
    ) -> Generator[None, None, bool]:
        """Finds one of so many tasks a node, and who leaves: from that node, and from a queue that has all it may."""
        node, victims = self._session.chooser.best(task), list[Task]()
        if not node:
            opening = yield from self._seeker(task).best(task)
            if opening is None:
                return False
            node, victims = opening.node, [*opening.found.victims]
        for victim in victims:
            statement.evict(victim)
        # Promises are nothing to the rules: where those matter, the next is to find this one there.
        tied = self._session.chooser.one_by_one(task) or self._session.feasibility.exclusive(task.pod.spec)
        (statement.place if tied else statement.promise)(task, node)
        evicted += victims
        excess = self._session.book.tree.excess(queue, wanted_by([task]))
        if not excess:
            return True
        found = yield from self._mates_of(task).cheapest(excess, tasks)
        for victim in found.victims if found is not None else ():
            statement.evict(victim)
            evicted.append(victim)
        return found is not None

    def _takes_over(self, task: Task) -> bool:
        """Return whether the promised task relies on room that is promised to tasks of lower rank, too."""
        columns = self._session.book.cluster.columns
        row, wanted = columns.rows[task.node], columns.axis.request(task.pod.request).dense > 0
        left = columns.free[:, row] + columns.releasing[:, row] - columns.nominated[:, row]
        return bool(np.any(left[wanted] < 0))

    def _within_bounds(self, queue: QueueNode, tasks: Sequence[Task], spoken_for: Mapping[str, Totals]) -> bool:
        """Whether no capability of what the tasks ask for is exceeded, nor what is guaranteed to others touched."""
        book = self._session.book
        return not book.tree.excess(queue, wanted_by(tasks)) and not book.tree.encroaches(spoken_for, book.total)

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
            session.book.settled[pod.uid] = None
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
