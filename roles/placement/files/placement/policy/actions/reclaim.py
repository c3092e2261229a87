# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""reclaim: a queue with less than it deserves takes room back from queues that have more."""

from collections.abc import Hashable, Iterator, Sequence
from functools import partial

from placement.policy.budgets import Budgets
from placement.policy.claimants import parked_by_queue, serve, waits
from placement.policy.jobs import Job, Task
from placement.policy.making import Making, Taking
from placement.policy.queues import QueueNode
from placement.policy.seeker import evictable
from placement.policy.session import Session
from placement.policy.victims import Question

REASON = "Reclaimed"


def reclaim(session: Session) -> Iterator[None]:
    """The action."""
    making = Making(session, _terms(session), Budgets(session.book))
    parked = parked_by_queue(session)
    queues = sorted(session.book.tree.by_name.values(), key=session.rules.queue_order)
    lines = [parked[queue.name] for queue in queues if queue.name in parked]

    def claims(job: Job) -> bool:
        queue = session.book.tree.by_name.get(job.queue)
        if queue is None or not waits(session, job, job.reclaimed):
            return False
        return not any(session.rules.overused(at) for at in queue.path)

    def served(job: Job) -> None:
        job.reclaimed = session.book.prospects

    yield from serve(session, lines, [making], claims=claims, served=served)


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
        # The claimant may go while nodes are searched; what is found then is for others like it.
        name = claimant.job.queue

        def losers(task: Task) -> tuple[QueueNode, ...]:
            """The victim's queue and those above it that the claimant is not in."""
            tree = session.book.tree.by_name
            mine = tree.get(name)
            theirs = tree.get(task.job.queue)
            if mine is None or theirs is None or mine is theirs:
                return ()
            return tuple(queue for queue in theirs.path if queue not in mine.path)

        def alone(task: Task) -> bool:
            queues = losers(task)
            if not queues or not all(queue.record.reclaimable for queue in queues):
                return False
            return all(session.rules.may_reclaim((task,), queue) for queue in queues)

        def together(tasks: Sequence[Task]) -> bool:
            by_queue: dict[QueueNode, list[Task]] = {}
            for task in tasks:
                for queue in losers(task):
                    by_queue.setdefault(queue, []).append(task)
            return all(session.rules.may_reclaim(members, queue) for queue, members in by_queue.items())

        def like(task: Task) -> Hashable:
            job = task.job
            gang = job.key if job.min_member > 1 else None
            return (job.queue, job.priority, task.pod.request, gang, tuple(budgets.of(task)))

        return Question(partial(evictable, session), alone, together, budgets, like)

    return Taking(key, question, possible, REASON)
