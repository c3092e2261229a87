# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for a job by evicting others: what preempt and reclaim have in common.

All members that must start together get a place, on free room or on that of victims, or nothing happens. Room that
victims leave is promised to the members, so nobody else takes it, and the members are bound when it is free.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from placement.model.action import Evict, PodCondition
from placement.policy.budgets import Budgets
from placement.policy.jobs import Job, Status, Task
from placement.policy.membership import GroupKey
from placement.policy.seeker import Seeker
from placement.policy.session import Session
from placement.policy.statement import Statement
from placement.policy.victims import Question


@dataclass(frozen=True, slots=True)
class Taking:
    """On what terms room is taken."""

    # Claimants with equal keys have the same openings.
    key: Callable[[Task], Hashable]
    question: Callable[[Task, Budgets], Question]
    # Whether there can be any victim at all: it saves looking for them on every node.
    possible: Callable[[Task], bool]
    reason: str


class Making:
    """Makes room, for one action run."""

    def __init__(self, session: Session, taking: Taking, budgets: Budgets) -> None:
        self._session = session
        self._taking = taking
        self._seekers: dict[Hashable, Seeker] = {}
        self._budgets = budgets

    def room_for(self, job: Job) -> Iterator[bool]:
        """Makes room for what of the job must start together; yields False to end a slice, and once True if it did."""
        session = self._session
        begun = session.slice
        first = job.peek()
        if first is None or not first.pod.spec.preempts or not self._taking.possible(first):
            return
        yield from (False for _unused in self._seeker(first).refresh(first))
        if session.slice != begun and (session.book.jobs.get(job.key) is not job or job.problem is not None):
            return
        needed = session.rules.needed(job)
        tasks = job.next_tasks(needed)
        tree, statement = session.book.tree, session.statement()
        spoken_for = tree.spoken_for()
        evicted: list[Task] = []
        done = len(tasks) == needed and all(self._one(task, statement, evicted) for task in tasks)
        # A gang that is not whole does not become so by members who take the place of others.
        done = done and (job.occupied >= job.min_member or not session.rules.gangs)
        queue = tree.by_name.get(job.queue)
        taken = bool(evicted) and queue is not None and not tree.beyond(queue)
        if not done or not taken or tree.encroaches(spoken_for, session.book.total):
            statement.discard()
            for task in tasks:
                if task.status is Status.PENDING:
                    job.wait(task)
            return
        kept = self._irreducible(tasks, evicted, statement)
        statement.commit()
        self._tell(job, tasks, kept)
        yield True

    def _seeker(self, claimant: Task) -> Seeker:
        key = (claimant.pod.spec, claimant.pod.request, self._taking.key(claimant))
        question = self._taking.question(claimant, self._budgets)
        seeker = self._seekers.get(key)
        if seeker is None:
            seeker = self._seekers[key] = Seeker(self._session, question)
        # Whoever asked first may be gone by now.
        seeker.question = question
        return seeker

    def _one(self, task: Task, statement: Statement, evicted: list[Task]) -> bool:
        node = self._session.chooser.best(task)
        if node:
            statement.promise(task, node)
            return True
        seeker = self._seeker(task)
        opening = seeker.best(task)
        if opening is None:
            return False
        for victim in opening.found.victims:
            statement.evict(victim)
            evicted.append(victim)
        statement.promise(task, opening.node)
        return True

    def _irreducible(self, tasks: Sequence[Task], evicted: Sequence[Task], statement: Statement) -> list[Task]:
        """Spares whom the later choices have made unnecessary, the dearest first."""
        units: dict[GroupKey | str, list[Task]] = {}
        for victim in evicted:
            whole = victim.job.min_member > 1 and victim.job.ready < victim.job.min_member
            units.setdefault(victim.job.key if whole else victim.uid, []).append(victim)
        kept: list[Task] = []
        for unit in sorted(units.values(), key=lambda unit: (-unit[0].job.priority, -len(unit))):
            mark = statement.mark()
            for victim in unit:
                statement.spare(victim, Status.RUNNING if victim.pod.phase == "Running" else Status.BOUND)
            if not self._covered(tasks):
                statement.back_to(mark)
                kept += unit
        return kept

    def _covered(self, tasks: Sequence[Task]) -> bool:
        """Whether every promise still has room to come."""
        cluster = self._session.book.cluster
        columns = cluster.columns
        for task in tasks:
            row = columns.rows[task.node]
            wanted = columns.axis.request(task.pod.request).dense > 0
            left = columns.free[:, row] + columns.releasing[:, row] - columns.nominated[:, row]
            if np.any(left[wanted] < 0):
                return False
            ports = task.pod.spec.host_ports
            for entry in cluster.pods.at_node(task.node) if ports else ():
                held = entry.charged and not entry.leaving and entry.pod.uid != task.uid
                if held and any(mine.clashes(theirs) for mine in ports for theirs in entry.pod.spec.host_ports):
                    return False
        return True

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
