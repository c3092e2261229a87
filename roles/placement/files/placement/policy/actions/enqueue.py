# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""enqueue: groups that say what they need at least are let in when that is free, in order; all others are in at once.

This is Volcano's action. It spares the others the search for room that cannot be there. Groups that ask for the same in
the same queue are told the same, so only the first of them is looked at until it is let in.

What is kept for a group that is in is kept for CLAIM_SECONDS while it lacks the pods to begin with. Then the group
waits again, behind all that have not let their room lapse: one that never gets pods would keep the others out for ever.
So would one that has its pods but lacks something that no pod has, such as a claim that does not exist. If nodes refuse
it for CLAIM_SECONDS, and none of them for what others have, it stays in and nothing is kept for it. Room is kept for it
again once a node refuses it for what others have: room, ports, volumes, or a place away from other pods.

The first group of a queue is let in without that once it has waited for the `reserve_after` of reservations, one group
at a time. Else small jobs could take all that falls free, because `reserve` keeps nodes only for groups that are in.
"""

from heapq import heappop, heappush
from math import inf
from typing import Final

from placement.model.amounts.totals import add, covers
from placement.model.slicing import Steps, paced
from placement.policy.cache.scheduling_queue.lazy_heap import LazyHeap
from placement.policy.framework.session import Session
from placement.policy.jobs.job import Job
from placement.policy.queues.queue import QueueEntry

# So many kinds of groups are looked at in one go.
_AT_ONCE: Final = 256


def enqueue(session: Session) -> Steps[None]:
    """Admit groups whose minimum resources are free."""
    cache = session.cache
    yield from cache.queue.lapse()
    firsts: list[tuple[QueueEntry, LazyHeap]] = []
    for (kind, ranking), pause in paced(list(cache.queue.gated_by_request.items()), _AT_ONCE):
        if pause:
            yield
        ranking.tidy()
        place = ranking.peek()
        if place is not None:
            heappush(firsts, (place, ranking))
        elif cache.queue.gated_by_request.get(kind) is ranking:
            del cache.queue.gated_by_request[kind]
    idle = cache.usage.idle()
    # Those that are in and have not started yet have been promised theirs.
    add(idle, cache.queue.reserved.items(), -1)
    session.reservations.due_outside = inf
    passed: set[str] = set()
    while firsts:
        (_order, ticket, job), ranking = heappop(firsts)
        if job.position == ticket:
            wanted = _wanted(session, job)
            limited = _limited(session, job, wanted)
            first = not limited and job.queue not in passed
            passed |= {job.queue} if not limited else set()
            if limited or not (covers(idle, wanted) or (first and _has_waited(session, job, wanted, idle))):
                # Nor can any other of the kind be let in.
                yield
                continue
            add(idle, wanted.items(), -1)
            cache.queue.admit(job)
        place = ranking.peek()
        if place is not None:
            heappush(firsts, (place, ranking))
        yield


def _has_waited(session: Session, job: Job, wanted: dict[str, int], idle: dict[str, int]) -> bool:
    """Return whether the first group of a queue has waited long enough, and fits into the empty cluster."""
    kept, queue = session.reservations, session.cache.tree.by_name.get(job.queue)
    if queue is None or session.plugins.overused(queue):
        return False
    left = kept.reserve_after - kept.waited(job)
    if left > 0:
        kept.due_outside = min(kept.due_outside, session.now + left)
        return False
    return all(idle.get(name, 0) >= 0 for name in wanted) and covers(session.cache.total, wanted)


def _wanted(session: Session, job: Job) -> dict[str, int]:
    """As far as there is any of it."""
    asked = job.group.min_resources if job.group is not None else ()
    return {name: amount for name, amount in asked if name in session.cache.total}


def _limited(session: Session, job: Job, wanted: dict[str, int]) -> bool:
    queue = session.cache.tree.by_name.get(job.queue)
    return queue is None or bool(session.cache.tree.limit(queue, wanted, session.cache.total))
