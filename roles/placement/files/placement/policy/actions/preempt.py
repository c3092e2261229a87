# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""preempt: a job takes room from others of its queue, and a pod from lesser ones of its own job.

The plugins that say something about it are asked in order, and the first that finds victims decides.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from placement.model.slicing import Steps
from placement.policy.framework.session import Session
from placement.policy.jobs.job import ON_NODE, Job, Task
from placement.policy.plugins.plugin import Plugin
from placement.policy.preemption.candidates import evictable
from placement.policy.preemption.disruption_budgets import DisruptionBudgets
from placement.policy.preemption.evaluator import Evaluator, PreemptionPolicy
from placement.policy.preemption.preemptors import needs_room, serve_preemptors
from placement.policy.preemption.victims import VictimRules
from placement.policy.queues.queue import QueueInfo

REASON = "Preempted"


def preempt(session: Session) -> Steps[None]:
    """Find victims of lower priority within the preemptor's queue."""
    plugins, budgets = session.plugins.preempting, DisruptionBudgets(session.cache, session.exhausted_budgets)
    ways = [(plugin, False) for plugin in plugins]
    ways += [(plugin, True) for plugin in plugins if not plugin.looks_at_job]
    evaluators = [Evaluator(session, _terms(session, plugin, within=within), budgets) for plugin, within in ways]

    def claims(job: Job) -> bool:
        return needs_room(session, job, job.preempt_tried_at)

    def served(job: Job) -> None:
        job.preempt_tried_at = session.cache.versions.retry

    preemptors = session.preempting
    yield from preemptors.gather()
    queues = sorted(preemptors.concerned(), key=session.plugins.queue_order)
    for queue in queues:
        # Allocate does not visit a queue that has enough.
        if session.plugins.overused(queue):
            yield from preemptors.join(queue)
    yield from serve_preemptors(session, preemptors, queues, evaluators, claims=claims, served=served)


def _terms(session: Session, plugin: Plugin, *, within: bool) -> PreemptionPolicy:
    def key(preemptor: Task) -> Hashable:
        by_job = preemptor.job.key if within or plugin.looks_at_job else None
        return (preemptor.job.queue, preemptor.job.priority, preemptor.pod.spec.priority if within else 0, by_job)

    def possible(preemptor: Task) -> bool:
        job = preemptor.job
        queue = session.cache.tree.by_name.get(job.queue)
        if queue is None:
            return False
        victims = _placed(job) if within else _one_of_each(queue, job, by_size=plugin.looks_at_job)
        return any(plugin.may_preempt(preemptor, (task,), session.cache.total) for task in victims)

    def rules(preemptor: Task, budgets: DisruptionBudgets) -> VictimRules:
        total = session.cache.total
        # The preemptor may go while nodes are searched; what is found then is for others like it.
        name = preemptor.job.queue

        def alone(task: Task) -> bool:
            if task.queue != name or (task.owner is preemptor.job) is not within:
                return False
            return plugin.may_preempt(preemptor, (task,), total)

        def together(tasks: Sequence[Task]) -> bool:
            by_job: dict[object, list[Task]] = {}
            for task in tasks:
                # About pods by themselves all has been said.
                if not task.is_archived:
                    by_job.setdefault(task.job.key, []).append(task)
            return all(plugin.may_preempt(preemptor, members, total) for members in by_job.values())

        def like(task: Task) -> Hashable:
            gang = not task.is_archived and task.job.min_member > 1
            alike = task.job.key if plugin.looks_at_job or within or gang else None
            lesser = task.pod.spec.priority if within else 0
            own = task.owner is preemptor.job
            return (task.queue, task.priority, own, lesser, task.pod.request, alike)

        return VictimRules(partial(evictable, session), alone, together, budgets, like)

    def mates(preemptor: Task) -> Iterable[Task]:
        queue = session.cache.tree.by_name.get(preemptor.job.queue)
        if queue is None or within:
            return [*_placed(preemptor.job)]
        return _of_others(preemptor.job, [*queue.archived_tasks()], [*queue.begun.values()])

    kept_as = "" if plugin.looks_at_job else f"{plugin.name} within jobs" if within else plugin.name
    return PreemptionPolicy(key, rules, mates, possible, REASON, kept_as)


def _one_of_each(queue: QueueInfo, preemptor: Job, *, by_size: bool) -> Iterator[Task]:
    """One placed pod of each other job says it for all of its size, and unless the size matters, for all of the job.

    Pods by themselves come first, and one for all that have the same priority and size: plugins ask for nothing else.
    """
    for alike in queue.archived.values():
        yield from islice(alike.values(), 1)
    for job in queue.begun.values():
        if job is not preemptor:
            placed = _placed(job)
            yield from {task.amounts: task for task in placed}.values() if by_size else islice(placed, 1)


def _of_others(job: Job, resting: Iterable[Task], begun: Iterable[Job]) -> Iterator[Task]:
    yield from resting
    for other in begun:
        yield from [*_placed(other)] if other is not job else ()


def _placed(job: Job) -> Iterator[Task]:
    return (task for task in job.tasks.values() if task.status in ON_NODE)
