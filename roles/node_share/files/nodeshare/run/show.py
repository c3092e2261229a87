# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `nodeshare show` prints: which jobs hold this node, how it is served, and what nodeshare has stopped."""

import json
from typing import Mapping, Optional

from ..model.jobs.lease import Lease
from ..store.lease_store import LeaseStore
from ..store.state_store import StateStore


def text(
    store: LeaseStore,
    memories: StateStore,
    *,
    boot_id: str,
    as_json: bool,
    placed: Optional[Mapping[str, str]] = None,
) -> str:
    """`placed`: the placeholders in the kubelet's directory, in the share mode that has them."""
    memory, remark = memories.load(boot_id=boot_id)
    leases = store.leases()
    if as_json:
        facts = {
            "phase": memory.phase,
            "way": memory.way,
            "off": memory.off,
            "stopped": memory.stopped,
            "confined": memory.confined,
            "leases": [_row(lease, boot_id) for lease in leases],
            "placeholders": None if placed is None else sorted(placed),
            "remark": remark,
        }
        return json.dumps(facts, indent=2, sort_keys=True) + "\n"
    way = " by " + memory.way if memory.way else ""
    lines = ["node: {}{}{}".format(memory.phase, way, "; switched off: batch only" if memory.off else "")]
    if memory.stopped:
        lines.append("stopped by nodeshare: " + ", ".join(memory.stopped))
    if remark:
        lines.append("attention: " + remark)
    if placed is not None:
        lines.append("placeholders: {}".format(len(placed)))
    lines.append("leases: {}".format(len(leases)))
    lines.extend(_line(lease, boot_id) for lease in leases)
    return "\n".join(lines) + "\n"


def _row(lease: Lease, boot_id: str) -> Mapping[str, object]:
    return dict(
        lease.told(),
        cgroup=lease.cgroup,
        doubtful=lease.doubtful,
        unreadable=lease.corrupt,
        this_boot=lease.boot_id == boot_id,
    )


def _line(lease: Lease, boot_id: str) -> str:
    earlier = lease.boot_id != boot_id and not lease.corrupt
    found = (("unreadable", lease.corrupt), ("doubtful", lease.doubtful), ("of an earlier boot", earlier))
    marks = ", ".join(mark for mark, holds in found if holds)
    return "  {}{}".format(lease.key, " ({})".format(marks) if marks else "")
