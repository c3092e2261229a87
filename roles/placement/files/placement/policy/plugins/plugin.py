# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plugin of ours can decide. Each has one file in `plugins/builtin/` and overrides only what it is about.

A plugin of the site derives from `site_plugin.SitePlugin` instead.

Orders are integers, smallest first. The key of a job or queue is made of those of all plugins in the configuration's
order. It compares like kube-batch's chain of functions and is made only when something has changed.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from placement.model.objects.pod import Pod
from placement.policy.jobs.job import Job, Task
from placement.policy.plugins.configuration import PluginChoice
from placement.policy.queues.queue import QueueInfo
from placement.state.nodes.score_table import Scorer


class Plugin:
    """Decides nothing."""

    name: ClassVar[str]
    # Whether it says more about preemption than `Plugin` does, and whether it looks at the preemptor's job to do so.
    preempts: ClassVar[bool] = False
    looks_at_job: ClassVar[bool] = False

    def __init__(self, choice: PluginChoice) -> None:
        self.choice = choice

    def job_key(self, job: Job, total: Mapping[str, int]) -> int:
        """Which of a queue's jobs comes first."""
        return 0

    def task_key(self, pod: Pod) -> int:
        """Which of a job's tasks comes first."""
        return 0

    def queue_key(self, queue: QueueInfo) -> int:
        """Which of several sibling queues comes first."""
        return 0

    def overused(self, queue: QueueInfo) -> bool:
        """Whether the queue gets nothing more for now."""
        return False

    def gangs(self) -> bool:
        """Whether a job starts with all of its minimum or not at all."""
        return False

    def spares(self, victim: Task) -> bool:
        """Return whether the task must not be evicted, whatever job needs its room."""
        return False

    def may_preempt(self, preemptor: Task, victims: Sequence[Task], total: Mapping[str, int]) -> bool:
        """Whether the preemptor may have the room of these victims, which are of one job and of its own queue."""
        return False

    def may_reclaim(self, victims: Sequence[Task], queue: QueueInfo) -> bool:
        """Whether this queue, which is above the victims, can be made to give their room to another."""
        return False

    def scorer(self) -> Scorer | None:
        """How good a node is."""
        return None
