# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""backfill: pods that request nothing go wherever they may, after those that do; no reservations are made for it."""

from placement.model.slicing import Steps
from placement.policy.actions.allocate import place_first
from placement.policy.framework.queue_loop import visit_queues
from placement.policy.framework.session import Session
from placement.policy.queues.queue import QueueInfo


def backfill(session: Session) -> Steps[None]:
    """Place pods that request nothing."""
    yield from visit_queues(session, _visit)


def _visit(session: Session, queue: QueueInfo, alone: bool) -> Steps[bool]:
    # Shares do not concern those that take none.
    return place_first(session, queue, queue.best_effort, alone)
