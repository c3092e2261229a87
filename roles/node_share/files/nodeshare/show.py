# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `nodeshare show` prints: who holds this node, how it is served, and what nodeshare has stopped."""

import json
from typing import Mapping, Optional

from .leases import LeaseStore
from .memory import MemoryStore


def text(
    store: LeaseStore,
    memories: MemoryStore,
    *,
    boot_id: str,
    as_json: bool,
    placed: Optional[Mapping[str, str]] = None,
) -> str:
    """`placed`: the placeholders in the kubelet's directory, in the share mode that has them."""
    memory, remark = memories.load(boot_id=boot_id)
    leases = store.leases()
    if as_json:
        rows = [
            {
                "wlm": lease.key.wlm,
                "job": lease.key.job,
                "run": lease.key.run,
                "start": lease.start,
                "cores": lease.cores,
                "memory": lease.memory,
                "devices": list(lease.devices),
                "exclusive": lease.exclusive,
                "cgroup": lease.cgroup,
                "doubtful": lease.doubtful,
                "unreadable": lease.corrupt,
                "this_boot": lease.boot_id == boot_id,
            }
            for lease in leases
        ]
        return (
            json.dumps(
                {
                    "phase": memory.phase,
                    "way": memory.way,
                    "off": memory.off,
                    "stopped": list(memory.stopped),
                    "confined": memory.confined,
                    "leases": rows,
                    "placeholders": None if placed is None else sorted(placed),
                    "remark": remark,
                },
                indent=2,
                sort_keys=True,
            )
            + "\n"
        )
    lines = [
        "node: {}{}{}".format(
            memory.phase, " by " + memory.way if memory.way else "", "; switched off: batch only" if memory.off else ""
        )
    ]
    if memory.stopped:
        lines.append("stopped by nodeshare: " + ", ".join(memory.stopped))
    if remark:
        lines.append("attention: " + remark)
    if placed is not None:
        lines.append("placeholders: {}".format(len(placed)))
    lines.append("leases: {}".format(len(leases)))
    for lease in leases:
        earlier = lease.boot_id != boot_id and not lease.corrupt
        marks = [
            name
            for name, holds in (
                ("unreadable", lease.corrupt),
                ("doubtful", lease.doubtful),
                ("of an earlier boot", earlier),
            )
            if holds
        ]
        lines.append("  {}{}".format(lease.key, " ({})".format(", ".join(marks)) if marks else ""))
    return "\n".join(lines) + "\n"
