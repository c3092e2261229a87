# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugins of one configuration, put together: the orders, the vetoes and the scores."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.objects.pod import Pod
from placement.policy.jobs.job import Job, Task, TaskKey
from placement.policy.plugins.builtin.conformance import Conformance
from placement.policy.plugins.builtin.drf import Drf
from placement.policy.plugins.builtin.gang import Gang
from placement.policy.plugins.builtin.nodeorder import NodeOrder
from placement.policy.plugins.builtin.predicates import Predicates
from placement.policy.plugins.builtin.priority import Priority
from placement.policy.plugins.builtin.proportion import Proportion
from placement.policy.plugins.configuration import Configuration
from placement.policy.plugins.plugin import Plugin
from placement.policy.queues.queue import QueueInfo
from placement.state.nodes.score_table import Scorer

PLUGINS: Final[dict[str, type[Plugin]]] = {
    plugin.name: plugin for plugin in (Conformance, Drf, Gang, NodeOrder, Predicates, Priority, Proportion)
}


class PluginSet:
    """What the configuration's plugins say together."""

    def __init__(self, configuration: Configuration) -> None:
        self.actions = configuration.actions
        self.enqueues = "enqueue" in configuration.actions
        plugins = [PLUGINS[choice.name](choice) for choice in configuration.plugins() if choice.site is None]
        # Plugins of the site, in order, each once.
        site = {choice.name: choice for choice in reversed([*configuration.plugins()]) if choice.site is not None}
        self.site = tuple(reversed(site.values()))

        def with_option(option: str) -> list[Plugin]:
            return [plugin for plugin in plugins if plugin.choice.on(option)]

        self._job_order = with_option("job_order")
        self._task_order = with_option("task_order")
        self._queue_order = with_option("queue_order")
        # Only those that say something about it: these are asked for every pod.
        self._overusing = [plugin for plugin in plugins if type(plugin).overused is not Plugin.overused]
        self._sparing = [plugin for plugin in plugins if type(plugin).spares is not Plugin.spares]
        self.gangs = any(plugin.gangs() for plugin in with_option("job_ready"))
        # The first of these that finds victims decides, as with kube-batch's tiers.
        self.preempting = [plugin for plugin in with_option("preemptable") if plugin.preempts]
        reclaiming = with_option("reclaimable")
        self._reclaiming = [plugin for plugin in reclaiming if type(plugin).may_reclaim is not Plugin.may_reclaim]
        orders = [plugin for plugin in with_option("node_order") if isinstance(plugin, NodeOrder)]
        self._node_order = orders[0] if orders else None

    def job_order(self, job: Job, total: Mapping[str, int]) -> tuple[object, ...]:
        """Return the job's key among those of its queue."""
        return (*(plugin.job_key(job, total) for plugin in self._job_order), job.created, job.key)

    def task_order(self, pod: Pod) -> TaskKey:
        """Return the task's key among those of its job."""
        first = next((key for plugin in self._task_order if (key := plugin.task_key(pod))), 0)
        return (first, pod.created, pod.uid)

    def queue_order(self, queue: QueueInfo) -> tuple[object, ...]:
        """Return the queue's key among all leaves: that of its topmost ancestor first."""
        return tuple(
            (-node.record.priority, *(plugin.queue_key(node) for plugin in self._queue_order), node.name)
            for node in reversed(queue.path)
        )

    def overused(self, queue: QueueInfo) -> bool:
        """Whether some plugin says that the queue has enough."""
        return any(plugin.overused(queue) for plugin in self._overusing)

    def needed(self, job: Job) -> int:
        """How many pending tasks must be placed together."""
        return max(1, job.missing) if self.gangs else 1

    def spares(self, victim: Task) -> bool:
        """Whether some plugin protects the task from eviction."""
        return any(plugin.spares(victim) for plugin in self._sparing)

    def may_reclaim(self, victims: Sequence[Task], queue: QueueInfo) -> bool:
        """Whether some plugin lets another queue have the victims' room."""
        return any(plugin.may_reclaim(victims, queue) for plugin in self._reclaiming)

    def scorer(self) -> Scorer:
        """How good nodes are by what is free on them."""
        return (self._node_order.scorer() if self._node_order else None) or _all_alike

    @property
    def node_preference(self) -> int:
        """The weight of a pod's preferences among nodes."""
        return self._node_order.node_preference if self._node_order else 0

    @property
    def pod_preference(self) -> int:
        """The weight of a pod's preferences about other pods."""
        return self._node_order.pod_preference if self._node_order else 0


def _all_alike(_size: NDArray[np.float32], left: NDArray[np.int64]) -> NDArray[np.float32]:
    return np.zeros(left.shape[1], np.float32)
