# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The APIs that know groups and queues, one file each, over the one inner model.

`DIALECTS` is in the order of precedence: where a pod's reference matches groups of several APIs, the first counts.
"""

from typing import Final

from placement.kube.dialects import converged, coscheduling, kube_batch, upstream, volcano
from placement.kube.dialects.dialect import Dialect

DIALECTS: Final[tuple[Dialect, ...]] = (
    upstream.DIALECT,
    upstream.ALPHA_DIALECT,
    converged.DIALECT,
    kube_batch.INCUBATOR_DIALECT,
    kube_batch.SIGS_DIALECT,
    volcano.DIALECT,
    coscheduling.DIALECT,
)
BY_NAME: Final = {dialect.name: dialect for dialect in DIALECTS}

__all__ = ["BY_NAME", "DIALECTS", "Dialect"]
