# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a pod may run. The state answers that for every pod, so here is nothing to switch on.

kube-batch can be run without its predicates, and then places pods that the kubelet rejects; we do not offer that. Its
switches for pressure of memory, disk and process ids are about node conditions, which are taints nowadays.
"""

from placement.policy.plugins.plugin import Plugin


class Predicates(Plugin):
    """kube-batch's plugin of this name."""

    name = "predicates"
