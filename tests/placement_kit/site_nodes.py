# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of our site for GPU nodes and floating licences."""

from typing import ClassVar

import numpy as np
from placement.policy.plugins.site_plugin import (
    Amounts,
    Asking,
    Bools,
    Nodes,
    PodSpec,
    Rooms,
    Scores,
    SitePlugin,
    requested,
)

GPU = "nvidia.com/gpu"
LICENCE = "site.example/licence"


class SiteNodes(SitePlugin):
    """Keeps a partition for GPUs, counts licences, and leaves free GPUs alone."""

    arguments: ClassVar = {"licences": 2, "gpu.weight": 3}
    labels = (LICENCE,)

    def mask(self, spec: PodSpec, request: Amounts, nodes: Nodes) -> Bools | None:
        """Keep pods without a GPU off the partition `gpu`."""
        if requested(request, GPU):
            return None
        return ~nodes.labelled("site.example/partition", "gpu")

    def allowed(self, pod: Asking, nodes: Rooms) -> Bools | None:
        """Let no more pods run with a licence than there are."""
        if LICENCE not in pod.labels:
            return None
        in_use = nodes.pods(LICENCE, pod.labels[LICENCE]).sum()
        return np.full(len(nodes), in_use < self.given["licences"])

    def score(self, spec: PodSpec, request: Amounts, nodes: Rooms) -> Scores | None:
        """Prefer nodes without a free GPU for pods without one."""
        if requested(request, GPU):
            return None
        return np.where(nodes.free(GPU) > 0, 0, 100 * self.given["gpu.weight"]).astype(np.float32)
