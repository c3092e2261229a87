# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""reclaim: a queue with less than it deserves takes room back from queues that have more."""

from collections.abc import Generator, Hashable, Iterator, Sequence

from placement.policy.actions.preempt import VAIN
from placement.policy.budgets import Budgets
from placement.policy.jobs import Job, Task
from placement.policy.making import Making, Taking
from placement.policy.queues import QueueNode
from placement.policy.seeker import evictable
from placement.policy.session import Session
from placement.policy.victims import Question

REASON = "Reclaimed"


def reclaim(session: Session) -> Iterator[None]:
    """The action."""
    making = Making(session, _terms(session))
    for queue in sorted(session.book.tree.by_name.values(), key=session.rules.queue_order):
        claimants = [job for job in session.book.parked.values() if job.queue == queue.name and _claims(session, job)]
        vain = 0
        for job in sorted(claimants, key=lambda job: session.rules.job_order(job, session.book.total)):
            if vain == VAIN:
                session.unfinished = True
                break
            vain += 1
            while _claims(session, job) and (yield from _once(making, job)):
                vain = 0
                yield
            job.reclaimed = session.book.generation
            yield


def _claims(session: Session, job: Job) -> bool:
    waits = bool(job.pending) and job.problem is None and session.book.enough(job)
    if not waits or job.key not in session.book.parked or job.reclaimed == session.book.generation:
        return False
    queue = session.book.tree.by_name.get(job.queue)
    return queue is not None and not any(session.rules.overused(at) for at in queue.path)


def _once(making: Making, job: Job) -> Generator[None, None, bool]:
    for made in making.room_for(job):
        if made:
            return True
        yield
    return False


def _terms(session: Session) -> Taking:
    def key(claimant: Task) -> Hashable:
        # Whose queue has not what it deserves loses nothing itself, so siblings have the same openings.
        queue = session.book.tree.by_name.get(claimant.job.queue)
        return tuple(above.name for above in queue.path[1:]) if queue is not None else claimant.job.queue

    def possible(claimant: Task) -> bool:
        others = (queue for queue in session.book.tree.by_name.values() if queue.name != claimant.job.queue)
        return any(
            queue.record.reclaimable and queue.allocated.get(name, 0) > part
            for queue in others
            for name, part in queue.deserved.items()
        )

    def question(claimant: Task, budgets: Budgets) -> Question:
        def losers(task: Task) -> tuple[QueueNode, ...]:
            """The victim's queue and those above it that the claimant is not in."""
            tree = session.book.tree.by_name
            mine = tree.get(claimant.job.queue)
            theirs = tree.get(task.job.queue)
            if mine is None or theirs is None or mine is theirs:
                return ()
            return tuple(queue for queue in theirs.path if queue not in mine.path)

        def alone(task: Task) -> bool:
            queues = losers(task)
            if not queues or not all(queue.record.reclaimable for queue in queues) or not evictable(session, task):
                return False
            return all(session.rules.may_reclaim((task,), queue) for queue in queues)

        def together(tasks: Sequence[Task]) -> bool:
            by_queue: dict[QueueNode, list[Task]] = {}
            for task in tasks:
                for queue in losers(task):
                    by_queue.setdefault(queue, []).append(task)
            return all(session.rules.may_reclaim(members, queue) for queue, members in by_queue.items())

        def like(task: Task) -> Hashable:
            gang = task.job.key if task.job.min_member > 1 else None
            return (task.job.queue, task.job.priority, task.pod.request, gang, tuple(budgets.of(task)))

        return Question(alone, together, budgets.of, budgets.allowed, like)

    return Taking(key, question, possible, REASON)
