# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways in which a node is shared: which there are, beside which batch system, and what each asks of a node. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import posixpath
import typing as t

HANDOVER, PLACEHOLDER, BACKED = "handover", "placeholder", "backed"
MODES = (HANDOVER, PLACEHOLDER, BACKED)
# In these pods run beside jobs.
BESIDE = (PLACEHOLDER, BACKED)
# By batch system, those that are served: pods are backed by jobs of PBS only.
SERVED = {"slurm": (HANDOVER,), "pbs": MODES, "torque": (HANDOVER, PLACEHOLDER)}
# What keeps pods off the cores of jobs beside them.
FENCES = ("cores", "split", "counts")

# Where placeholders stand. Release 1.0.0 had them on disk, which may be full or slow when a job begins.
PLACEHOLDERS = "/run/converged-placeholders"
PLACEHOLDERS_ON_DISK = "/var/lib/converged/placeholders"

LABEL = "node-restriction.kubernetes.io/converged-share-mode"
# What the daemon knows a node's jobs to take from pods by.
FENCE_LABEL = "node-restriction.kubernetes.io/converged-share-fence"
# The daemon knows a node that others' jobs are on by this, and which pods may be where each is a job by that.
BATCH_NODE_LABEL = "node-restriction.kubernetes.io/converged-batch-node"
BACKED_TAINT = "converged.hpc/backed"


def mode_of(known: t.Mapping[str, t.Any]) -> str:
    """Return the share mode of a host from its variables."""
    return str(known.get("converged_share_mode") or HANDOVER)


def fence_of(known: t.Mapping[str, t.Any]) -> str:
    """Return the fence of a host from its variables."""
    return str(known.get("node_share_fence") or FENCES[0])


def on_node(mode: str) -> str:
    """Return what nodeshare is to do: jobs that back no pod show on a backed node as they do on any other."""
    return PLACEHOLDER if mode in BESIDE else mode


def placeholder_directory(read: str) -> str:
    """Return where placeholders stand unless the site says otherwise; the kubelet `read` static pods there so far.

    A kubelet that reads the directory of release 1.0.0 goes on with it: with another one it would end the placeholders
    of jobs that run.
    """
    return PLACEHOLDERS_ON_DISK if posixpath.normpath(read) == PLACEHOLDERS_ON_DISK else PLACEHOLDERS


def labels(known: t.Mapping[str, t.Any]) -> t.Dict[str, str]:
    """Return the labels that a Node object has for its host."""
    mode = mode_of(known)
    found = {LABEL: mode}
    if known.get("converged_wlm") == "pbs" and mode in BESIDE:
        found[BATCH_NODE_LABEL] = str(known.get("converged_wlm_node") or known["inventory_hostname_short"])
        found[FENCE_LABEL] = fence_of(known)
    return found
