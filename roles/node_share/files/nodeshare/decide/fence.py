# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods may have beside the jobs of this node: cores, memory and weight. Pure.

Counts alone do not keep cores apart. With `cores` the pods' cpuset is what the jobs' cpusets leave. With `split` it is
always the site's own share for pods. With `counts` nothing keeps them apart, and the site knows that.
"""

from typing import FrozenSet, Iterable, Mapping, NamedTuple, Optional, Tuple

from ..model.cpu_list import format_cpus, parse_cpus
from ..model.jobs.lease import Lease
from ..model.pods.placeholder import is_whole
from ..model.settings import CORES, SPLIT, Settings

JOB_CGROUPS = {"pbs": "pbs_jobs.service/jobid/"}  # where a batch system puts its jobs, unless the caller says


class Fence(NamedTuple):
    """`cpus`: None leaves the cpuset as it was. `memory`: bytes that jobs hold. `weight`: of `of` parts."""

    cpus: Optional[str]
    memory: int
    weight: int
    of: int
    missing: Tuple[str, ...] = ()  # cgroups of jobs that should have a cpuset, and have none


def cgroup_of(lease: Lease) -> str:
    """Return the job's cgroup below its hierarchy; empty if it is not known."""
    top = JOB_CGROUPS.get(lease.key.wlm)
    return lease.cgroup or (top + lease.key.job if top else "")


def cgroups_needed(leases: Iterable[Lease], settings: Settings) -> Tuple[str, ...]:
    """Return the cgroups whose cpusets must be read. A job of the whole node, or of no core, needs none."""
    if settings.fence != CORES:
        return ()
    return tuple(
        cgroup_of(lease) or str(lease.key)
        for lease in leases
        if not is_whole(lease) and lease.cores and not lease.corrupt
    )


def draw(
    leases: Tuple[Lease, ...], settings: Settings, *, online: FrozenSet[int], held: Mapping[str, FrozenSet[int]]
) -> Fence:
    """`held`: by cgroup, the cores of its cpuset; a cgroup without one is not in it.

    A job that should have a cpuset and has none may run on any core, so pods have no more of them than they must.
    """
    needed = cgroups_needed(leases, settings)
    missing = tuple(group for group in needed if group not in held)
    taken = frozenset(cpu for group in needed for cpu in held.get(group, ()))
    free: Optional[FrozenSet[int]] = None
    if settings.fence == SPLIT:
        free = parse_cpus(settings.pod_cpus)
    elif settings.fence == CORES and leases:
        free = online - taken
    if missing or any(is_whole(lease) for lease in leases) or free == frozenset():
        free = _spared(parse_cpus(settings.housekeeping_cpus), online - taken)
    counted = sum(lease.cores or 0 for lease in leases)
    weight = len(free & online) if free is not None else len(online) - counted
    return Fence(
        None if free is None else format_cpus(free),
        sum(lease.memory or 0 for lease in leases),
        len(online) if settings.fence == SPLIT else max(0, weight),
        len(online),
        missing,
    )


def _spared(housekeeping: FrozenSet[int], nobodys: FrozenSet[int]) -> FrozenSet[int]:
    """Return cores for the pods that stay: as many as housekeeping has, but none that is known to be a job's."""
    cores = sorted(housekeeping & nobodys) or sorted(nobodys)
    return frozenset(cores[: len(housekeeping)]) or housekeeping
