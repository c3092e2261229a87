# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container runtimes that a converged node may have, and what each asks of its Node object. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

CONTAINERD, SINGULARITY_CRI = "containerd", "singularity_cri"
RUNTIMES = (CONTAINERD, SINGULARITY_CRI)
LABEL = "node-restriction.kubernetes.io/converged-runtime"
# Pods must ask for such a node: it cannot do all that a pod may want.
TAINT = "converged.hpc/singularity-cri"


def runtime_of(known: t.Mapping[str, t.Any]) -> str:
    """Return the runtime that a host's variables name."""
    return str(known.get("converged_runtime") or CONTAINERD)


def labels(known: t.Mapping[str, t.Any]) -> t.Dict[str, str]:
    """Return the labels of a host's Node object; none with containerd, which pods may take for granted."""
    runtime = runtime_of(known)
    return {} if runtime == CONTAINERD else {LABEL: runtime}
