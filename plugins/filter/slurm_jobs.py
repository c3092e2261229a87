# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that says which runs of which jobs hold a node now, as `nodeshare adopt` wants them."""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._shared.slurm_states import ENDING, HOLDING

_ON_ITS_NODES = HOLDING | ENDING


def slurm_jobs_on(jobs: t.Iterable[t.Mapping[str, t.Any]], node: str) -> list[str]:
    """`JOB/RUN` for each job of `slurm_info` that holds the node."""
    return sorted(f"{job['id']}/{job['run']}" for job in jobs if job["state"] in _ON_ITS_NODES and node in job["nodes"])


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"slurm_jobs_on": slurm_jobs_on}
