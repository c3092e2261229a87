# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""preempt: a job takes room from others of its queue, and a pod from lesser ones of its own job.

The plugins that say something about it are asked in order, and the first that finds victims decides.
"""

from collections.abc import Generator, Hashable, Iterator, Sequence
from itertools import islice

from placement.policy.budgets import Budgets
from placement.policy.jobs import PLACED, Job, Task
from placement.policy.making import Making, Taking
from placement.policy.plugin import Plugin
from placement.policy.queues import QueueNode
from placement.policy.seeker import evictable
from placement.policy.session import Session
from placement.policy.victims import Question

REASON = "Preempted"
# So many jobs of a queue in a row that find nothing are enough for one cycle.
VAIN = 16


def preempt(session: Session) -> Iterator[None]:
    """The action."""
    makings = [Making(session, _terms(session, plugin, within=False)) for plugin in session.rules.preempting]
    makings += [
        Making(session, _terms(session, plugin, within=True))
        for plugin in session.rules.preempting
        if not plugin.looks_at_job
    ]
    for queue in list(session.book.tree.by_name.values()):
        claimants = [job for job in _tried_or_barred(session, queue) if _claims(session, job)]
        vain = 0
        for job in sorted(claimants, key=lambda job: session.rules.job_order(job, session.book.total)):
            if vain == VAIN:
                # The rest have their turn in the next cycle.
                session.unfinished = True
                break
            vain += 1
            while _claims(session, job) and (yield from _first(makings, job)):
                vain = 0
                yield
            # Until something changes there is nothing more for this job.
            job.sought = session.book.generation
            yield


def _claims(session: Session, job: Job) -> bool:
    waits = bool(job.pending) and job.problem is None and job.sought != session.book.generation
    return waits and session.book.enough(job)


def _tried_or_barred(session: Session, queue: QueueNode) -> list[Job]:
    """Jobs that allocate has tried in vain, and all of a queue that it does not visit because that has enough."""
    if session.rules.overused(queue):
        return list(queue.jobs.values())
    return [job for job in session.book.parked.values() if job.queue == queue.name]


def _first(makings: Sequence[Making], job: Job) -> Generator[None, None, bool]:
    for making in makings:
        for made in making.room_for(job):
            if made:
                return True
            yield
    return False


def _terms(session: Session, plugin: Plugin, *, within: bool) -> Taking:
    def key(claimant: Task) -> Hashable:
        by_job = claimant.job.key if within or plugin.looks_at_job else None
        return (claimant.job.queue, claimant.job.priority, claimant.pod.spec.priority if within else 0, by_job)

    def possible(claimant: Task) -> bool:
        queue = session.book.tree.by_name.get(claimant.job.queue)
        jobs = queue.jobs.values() if queue is not None else ()
        for job in [claimant.job] if within else jobs:
            if (job is claimant.job) is within:
                # Between jobs the first says it for all; within one they differ.
                placed = (task for task in job.tasks.values() if task.status in PLACED)
                asked = placed if within else islice(placed, 1)
                if any(plugin.may_preempt(claimant, (task,), session.book.total) for task in asked):
                    return True
        return False

    def question(claimant: Task, budgets: Budgets) -> Question:
        total = session.book.total

        def alone(task: Task) -> bool:
            if task.job.queue != claimant.job.queue or (task.job is claimant.job) is not within:
                return False
            return evictable(session, task) and plugin.may_preempt(claimant, (task,), total)

        def together(tasks: Sequence[Task]) -> bool:
            by_job: dict[object, list[Task]] = {}
            for task in tasks:
                by_job.setdefault(task.job.key, []).append(task)
            return all(plugin.may_preempt(claimant, members, total) for members in by_job.values())

        def like(task: Task) -> Hashable:
            alike = task.job.key if plugin.looks_at_job or task.job.min_member > 1 else None
            return (task.job.priority, task.pod.request, alike, tuple(budgets.of(task)))

        return Question(alone, together, budgets.of, budgets.allowed, like)

    return Taking(key, question, possible, REASON)
