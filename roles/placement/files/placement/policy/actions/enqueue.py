# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""enqueue: groups that say what they need at least are let in when that is free, in order; all others are in at once.

This is Volcano's action. It spares the others the search for room that cannot be there.
"""

from collections.abc import Iterator

from placement.policy.amounts import add, covers
from placement.policy.session import Session


def enqueue(session: Session) -> Iterator[None]:
    """The action."""
    book = session.book
    idle = book.idle()
    for job in book.jobs.values() if book.outside else ():
        # Those that are in and have not started yet have been promised theirs.
        if job.inqueue and job.group is not None and not job.occupied and job.problem is None:
            add(idle, job.group.min_resources, -1)
    for job in sorted(book.outside.values(), key=lambda job: session.rules.job_order(job, book.total)):
        queue = book.tree.by_name.get(job.queue)
        if job.group is None or queue is None or book.outside.get(job.key) is not job:
            continue
        wanted = {name: amount for name, amount in job.group.min_resources if name in book.total}
        if covers(idle, wanted) and not book.tree.limit(queue, wanted, book.total):
            add(idle, wanted.items(), -1)
            book.let_in(job)
        yield
