# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""reclaim: a queue with less than it deserves takes room back from queues that have more."""

from collections.abc import Hashable, Sequence
from functools import partial

from placement.model.slicing import Steps
from placement.policy.framework.session import Session
from placement.policy.jobs.job import Job, Task
from placement.policy.preemption.candidates import evictable
from placement.policy.preemption.disruption_budgets import DisruptionBudgets
from placement.policy.preemption.evaluator import Evaluator, PreemptionPolicy
from placement.policy.preemption.preemptors import needs_room, serve_preemptors
from placement.policy.preemption.victims import VictimRules
from placement.policy.queues.queue import QueueInfo

REASON = "Reclaimed"


def reclaim(session: Session) -> Steps[None]:
    """Find victims in queues that have more than they deserve."""
    making = Evaluator(session, _terms(session), DisruptionBudgets(session.cache, session.exhausted_budgets))
    yield from session.reclaiming.gather()
    queues = sorted(session.reclaiming.concerned(), key=session.plugins.queue_order)

    def may(queue: QueueInfo) -> bool:
        return not any(session.plugins.overused(at) for at in queue.path)

    def claims(job: Job) -> bool:
        return needs_room(session, job, job.reclaim_tried_at)

    def served(job: Job) -> None:
        job.reclaim_tried_at = session.cache.versions.retry

    yield from serve_preemptors(session, session.reclaiming, queues, [making], claims=claims, served=served, may=may)


def _terms(session: Session) -> PreemptionPolicy:
    def key(preemptor: Task) -> Hashable:
        # A queue that has not what it deserves loses nothing itself, so its siblings have the same candidates.
        queue = session.cache.tree.by_name.get(preemptor.job.queue)
        return tuple(above.name for above in queue.path[1:]) if queue is not None else preemptor.job.queue

    def possible(preemptor: Task) -> bool:
        others = (queue for queue in session.cache.tree.by_name.values() if queue.name != preemptor.job.queue)
        return any(
            queue.record.reclaimable and queue.allocated.get(name, 0) > part
            for queue in others
            for name, part in queue.deserved.items()
        )

    def rules(preemptor: Task, budgets: DisruptionBudgets) -> VictimRules:
        # The preemptor may go while nodes are searched; what is found then is for others like it.
        name = preemptor.job.queue

        def losers(task: Task) -> tuple[QueueInfo, ...]:
            """Return the victim's queue and those above it that the preemptor is not in."""
            tree = session.cache.tree.by_name
            mine = tree.get(name)
            theirs = tree.get(task.queue)
            if mine is None or theirs is None or mine is theirs:
                return ()
            return tuple(queue for queue in theirs.path if queue not in mine.path)

        def alone(task: Task) -> bool:
            queues = losers(task)
            if not queues or not all(queue.record.reclaimable for queue in queues):
                return False
            return all(session.plugins.may_reclaim((task,), queue) for queue in queues)

        def together(tasks: Sequence[Task]) -> bool:
            by_queue: dict[QueueInfo, list[Task]] = {}
            for task in tasks:
                for queue in losers(task):
                    by_queue.setdefault(queue, []).append(task)
            return all(session.plugins.may_reclaim(members, queue) for queue, members in by_queue.items())

        def like(task: Task) -> Hashable:
            gang = task.job.key if not task.is_archived and task.job.min_member > 1 else None
            return (task.queue, task.priority, task.pod.request, gang)

        return VictimRules(partial(evictable, session), alone, together, budgets, like)

    # What a queue lacks because of its own capability it does not get from others.
    return PreemptionPolicy(key, rules, lambda _preemptor: (), possible, REASON)
