# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All or nothing: a job starts with its minimum or not at all, and jobs that still need it come first."""

from collections.abc import Mapping

from placement.policy.jobs.job import Job
from placement.policy.plugins.plugin import Plugin


class Gang(Plugin):
    """kube-batch's plugin of this name."""

    name = "gang"

    def job_key(self, job: Job, total: Mapping[str, int]) -> int:
        """Jobs whose minimum is there wait behind those whose is not."""
        return int(job.ready >= job.min_member)

    def gangs(self) -> bool:
        """Return that members of a group start together."""
        return True
