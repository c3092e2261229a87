# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scores for tests and figures; the real ones are policy."""

import numpy as np
from numpy.typing import NDArray


def least_allocated(size: NDArray[np.float32], left: NDArray[np.int64]) -> NDArray[np.float32]:
    """The mean of the free shares of CPU and memory after placing."""
    share: NDArray[np.float32] = left[:2].astype(np.float32)
    share /= size
    mean: NDArray[np.float32] = share[0] + share[1]
    mean *= np.float32(50)
    return mean
