# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How good a node is: kube-batch's five measures with their weights, from 0 to 100 each.

The two about nodes' labels and other pods are preferences of the pod; the others are about what will be free.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.policy.plugin import Plugin
from placement.state.shapes import Scorer

_PER_CENT: Final = np.float32(100)


class NodeOrder(Plugin):
    """kube-batch's plugin of this name."""

    name = "nodeorder"

    def scorer(self) -> Scorer:
        """The measures that follow from amounts of CPU and memory alone."""
        least = np.float32(self.choice.arguments["leastrequested.weight"])
        most = np.float32(self.choice.arguments["mostrequested.weight"])
        balanced = np.float32(self.choice.arguments["balancedresource.weight"])

        def score(
            alloc: NDArray[np.int64], opened: NDArray[np.int64], request: NDArray[np.int64]
        ) -> NDArray[np.float32]:
            room = np.maximum(alloc[:2], 1).astype(np.float32)
            # Shares that are free after the pod has been placed; single precision is exact enough to prefer by.
            shares = (opened[:2] - request[:2, None]).astype(np.float32) / room
            cpu, memory = shares
            mean = (cpu + memory) * np.float32(0.5)
            scores = (least - most) * mean + most
            if balanced:
                scores = scores + balanced * (np.float32(1) - np.abs(cpu - memory))
            weighted: NDArray[np.float32] = scores * _PER_CENT
            return weighted

        return score

    @property
    def node_preference(self) -> int:
        """The weight of preferred node affinity."""
        return int(self.choice.arguments["nodeaffinity.weight"])

    @property
    def pod_preference(self) -> int:
        """The weight of preferred pod affinity and of soft topology spread."""
        return int(self.choice.arguments["podaffinity.weight"])
