# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How good a node is: kube-batch's five measures with their weights, from 0 to 100 each.

The two about nodes' labels and other pods are preferences of the pod; the others are about what will be free.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.policy.plugins.plugin import Plugin
from placement.state.nodes.score_table import Scorer

_PER_CENT: Final = np.float32(100)


class NodeOrder(Plugin):
    """kube-batch's plugin of this name."""

    name = "nodeorder"

    def scorer(self) -> Scorer:
        """Return the measures that follow from amounts of CPU and memory alone."""
        least = np.float32(self.choice.arguments["leastrequested.weight"])
        most = np.float32(self.choice.arguments["mostrequested.weight"])
        balanced = _PER_CENT * np.float32(self.choice.arguments["balancedresource.weight"])
        # The mean of two shares, so half of the weight for each.
        slope, base = (least - most) * _PER_CENT / np.float32(2), most * _PER_CENT

        def score(size: NDArray[np.float32], left: NDArray[np.int64]) -> NDArray[np.float32]:
            # Shares that are free after the pod has been placed; single precision is exact enough to prefer by.
            shares: NDArray[np.float32] = left[:2].astype(np.float32)
            shares /= size
            cpu, memory = shares
            scores: NDArray[np.float32] = cpu + memory
            scores *= slope
            if most:
                scores += base
            if balanced:
                scores += balanced - balanced * np.abs(cpu - memory)
            return scores

        return score

    @property
    def node_preference(self) -> int:
        """The weight of preferred node affinity."""
        return int(self.choice.arguments["nodeaffinity.weight"])

    @property
    def pod_preference(self) -> int:
        """The weight of preferred pod affinity and of soft topology spread."""
        return int(self.choice.arguments["podaffinity.weight"])
