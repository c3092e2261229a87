# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bindings that were refused while their pods could not be read: whether an earlier try has landed is not known.

The plan stands meanwhile, and the binding is sent again now and then. The API takes a binding once, so the answer to
the repeated one, or the pod, says what has become of the first. One that would be wrong by now is not sent again: it
waits until its node may have the pod again, and is given up when its node is gone.
"""

from typing import Final

from placement.model.messages.action import Bind, BindVolume
from placement.policy.cache.job_cache import JobCache
from placement.policy.framework.feasibility import Feasibility
from placement.state.cluster import Cluster

AGAIN_SECONDS: Final = 10.0

Binding = Bind | BindVolume


class UndeterminedBindings:
    """Keep them, the newest for each pod and volume."""

    def __init__(self, cluster: Cluster, cache: JobCache) -> None:
        self._cluster = cluster
        self._cache = cache
        # By pod and volume; with the time at which it is looked at again.
        self._due: dict[tuple[str, str], tuple[float, Binding]] = {}

    def note(self, binding: Binding, now: float) -> None:
        """Keep a binding whose result is not known."""
        volume = binding.volume if isinstance(binding, BindVolume) else ""
        self._due[binding.uid, volume] = (now + AGAIN_SECONDS, binding)

    def take_due(self, now: float, feasibility: Feasibility) -> tuple[list[Binding], list[Binding]]:
        """Return the bindings that are to be sent again now, and those whose plan is to be undone."""
        again: list[Binding] = []
        lost: list[Binding] = []
        for key, (at, binding) in list(self._due.items()):
            if at > now:
                continue
            del self._due[key]
            entry, task = self._cluster.pods.by_uid.get(binding.uid), self._cache.jobs.tasks.get(binding.uid)
            if entry is None or task is None or entry.plan.assumed != binding.node:
                # The pod is gone, or its plan: what became of the binding is known.
                continue
            if binding.node not in self._cluster.columns.rows:
                lost.append(binding)
            elif feasibility.stands(task):
                again.append(binding)
            else:
                self.note(binding, now)
        return again, lost

    def take_all(self) -> list[Binding]:
        """Return all of them, and keep none."""
        found = [binding for _at, binding in self._due.values()]
        self._due.clear()
        return found
