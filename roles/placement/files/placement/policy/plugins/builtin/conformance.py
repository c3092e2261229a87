# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster itself runs is never evicted."""

from typing import Final

from placement.policy.jobs.job import Task
from placement.policy.plugins.plugin import Plugin

_SYSTEM_NAMESPACE: Final = "kube-system"
_SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(Plugin):
    """kube-batch's plugin of this name."""

    name = "conformance"

    def spares(self, victim: Task) -> bool:
        """Pods of kube-system, and those of the two critical classes."""
        return victim.pod.namespace == _SYSTEM_NAMESPACE or victim.pod.spec.priority_class in _SYSTEM_CLASSES
