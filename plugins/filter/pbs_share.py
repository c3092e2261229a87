# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a PBS server is ours, so that nothing else is ever deleted, and which jobs hold a host."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

KINDS = {"hooks": "hook", "queues": "queue"}
# Everything else has not begun, or has left its hosts. A suspended job still has its memory.
_ON_ITS_HOSTS = frozenset("RSUE")


def pbs_share_memory(
    info: t.Mapping[str, t.Any],
    wished: t.Mapping[str, t.Sequence[str]],
    remembered: t.Mapping[str, t.Sequence[str]] | None = None,
) -> dict[str, list[str]]:
    """The hooks and queues that are ours: those to be made, and those of earlier runs that are still there.

    One that is there and was not made by us is an error.
    """
    memory = {}
    for kind, word in KINDS.items():
        there = {str(one["name"]) for one in info[kind]}
        ours = set((remembered or {}).get(kind) or ())
        foreign = sorted(there & set(wished[kind]) - ours)
        if foreign:
            raise AnsibleFilterError(
                f"pbs_share_memory: PBS has a {word} {foreign[0]} already, which is not ours: "
                f"choose another name in pbs_share_{word}"
            )
        memory[kind] = sorted(set(wished[kind]) | ours & there)
    return memory


def pbs_jobs_on(
    jobs: t.Iterable[t.Mapping[str, t.Any]], nodes: t.Iterable[t.Mapping[str, t.Any]], host: str
) -> list[str]:
    """`JOB/RUN` for each job of `pbs_info` that holds the host, or the vnode, of this name."""
    here = {str(node["name"]) for node in nodes if host in (node["name"], node["host"])}
    return sorted(
        f"{job['id']}/{job['run']}"
        for job in jobs
        if job["state"] in _ON_ITS_HOSTS and here & {str(chunk["vnode"]) for chunk in job["chunks"]}
    )


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pbs_share_memory": pbs_share_memory, "pbs_jobs_on": pbs_jobs_on}
