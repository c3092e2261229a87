# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop over queues: always visit the queue that is first in order, until no queue has more to do."""

from heapq import heapify, heappop, heappush
from typing import Final

from placement.model.slicing import Steps
from placement.policy.framework.session import QueueVisit, Session
from placement.policy.queues.queue import QueueInfo

# Slices after which the next action begins, although there is more to do.
_SLICES: Final = 50


def visit_queues(session: Session, visit: QueueVisit) -> Steps[None]:
    """Visit queues, in steps, until each visit returns false; a visit is told whether its queue is the last one."""
    cache = session.cache
    cache.queue.unfinished_visits.add(visit)
    for _unused in range(_SLICES):
        begun = session.slice
        order = session.plugins.queue_order
        # The names in the keys are unique, so queues are never compared themselves.
        places = [(order(queue), queue) for queue in session.cache.tree.by_name.values() if _used(queue)]
        heapify(places)
        while places and session.slice == begun:
            key, queue = heappop(places)
            # Shares only grow while tasks are placed, so a stale key is too small.
            if places and (now := order(queue)) != key:
                heappush(places, (now, queue))
                continue
            if (yield from visit(session, queue, not places)):
                heappush(places, (order(queue), queue))
            yield
        if session.slice == begun:
            cache.queue.unfinished_visits.discard(visit)
            session.unfinished |= cache.queue.returning
            return
    session.unfinished = True


def _used(queue: QueueInfo) -> bool:
    # Of a thousand queues few have waiting jobs.
    return bool(queue.waiting) and not queue.children and not queue.problem
