# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Share the plugins, the queues, the total and the version counters between the parts of the job cache."""

from dataclasses import dataclass, field

from placement.model.amounts.totals import Totals
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.queues.tree import QueueTree


@dataclass(slots=True)
class Versions:
    """Count the changes after which work that failed is worth another attempt."""

    # Grows when something that did not fit may fit now, and which jobs this can help is not known.
    room: int = 0
    # Grows when a pod has left its node: the jobs that this can help are tried again.
    departures: int = 0
    # Grows when pods may be evicted that could not be before: a binding is confirmed, or shares change.
    eviction: int = 0
    # Grows when pods may be cheaper to evict, or become evictable, without any change of their nodes.
    evictability: int = 0

    @property
    def fit(self) -> int:
        """Return a number that grows when something that did not fit may fit now, be it on one node alone."""
        return self.room + self.departures

    @property
    def retry(self) -> int:
        """Return a number that grows when there may be new room, free or by eviction."""
        return self.fit + self.eviction


@dataclass(slots=True)
class Context:
    """Hold what the parts of the job cache read in common; the job cache alone replaces it."""

    plugins: PluginSet
    tree: QueueTree
    # Amounts that the queues divide: what is free, and what our pods hold already.
    total: Totals = field(default_factory=dict)
