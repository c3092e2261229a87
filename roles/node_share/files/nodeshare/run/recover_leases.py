# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make leases from what a caller tells of a job: at its begin, or later, where its begin has left none."""

from argparse import ArgumentTypeError
from typing import Any, List, Sequence, Tuple

from ..host.host import Host
from ..model.jobs import job_key
from ..model.jobs.lease import Lease
from ..model.settings import Settings
from ..store.files import StoreError
from ..store.lease_store import LeaseStore
from . import arguments

LONGEST_HOLD = 0.5  # seconds of the store's lock in one go: the begin and the end of a job wait for it
MOST_SHOWN = 5


def lease_of(key: job_key.JobKey, world: Host, options: Any) -> Lease:
    """Return the job's lease with the share of this node that the caller tells."""
    return Lease(
        key,
        world.boot_id(),
        world.now(),
        cores=options.cpus,
        memory=options.mem,
        devices=tuple(options.device),
        exclusive=options.exclusive,
        cgroup=options.cgroup or "",
    )


def recover_leases(
    words: Sequence[str], wlm: str, *, store: LeaseStore, settings: Settings, world: Host
) -> List[Tuple[str, object]]:
    """Leases of jobs whose begin has left none. One that ended not long ago ran when the caller looked, and is over.

    Nothing stops the repair of all else: a word that means nothing is named, and a lease that the disk does not take
    counts in this call.
    """
    leases: List[Lease] = []
    errors: List[str] = []
    for word in words:
        try:
            job = arguments.adopted(word)
            lease = lease_of(job_key.parse(wlm, job.job, job.run), world, job)
        except (ArgumentTypeError, job_key.JobIdError) as error:
            errors.append(str(error))
            continue
        if _is_listed(lease.key, settings):
            leases.append(lease)
    new = 0
    while leases:
        with store.locked():
            give_up = world.now() + LONGEST_HOLD
            while leases:
                try:
                    new += store.begin(leases.pop(0), mark_life=settings.mark_life, adopted=True) == "new"
                except StoreError as error:
                    errors.append(str(error))
                if world.now() > give_up:
                    break
    shown = "; ".join(errors[:MOST_SHOWN])
    more = len(errors) - MOST_SHOWN
    return [("new", new or ""), ("error", "{}; and {} more".format(shown, more) if more > 0 else shown)]


def _is_listed(key: job_key.JobKey, settings: Settings) -> bool:
    """Whether the batch system's daemon of this node has the job; a batch system that keeps no list is not asked."""
    if key.wlm == "pbs":
        from ..batch import pbs

        return pbs.is_listed(key, home=settings.pbs_home)
    if key.wlm == "torque" and settings.torque_home:
        from ..batch import torque

        return torque.is_listed(key, home=settings.torque_home)
    return True
