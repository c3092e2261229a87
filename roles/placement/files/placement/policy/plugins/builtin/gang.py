# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Order jobs that lack members to their minimum before others, and have the members of a group start together.

The plugin decides no start itself: where it is configured, the actions start a job with its minimum or not at all
(`PluginSet.needed`).
"""

from collections.abc import Mapping

from placement.policy.jobs.job import Job
from placement.policy.plugins.plugin import Plugin


class Gang(Plugin):
    """kube-batch's plugin of this name."""

    name = "gang"

    def job_key(self, job: Job, total: Mapping[str, int]) -> int:
        """Return 0 for a job that lacks ready members to its minimum, else 1: the smaller key comes first."""
        return int(job.ready >= job.min_member)

    def gangs(self) -> bool:
        """Return that members of a group start together."""
        return True
