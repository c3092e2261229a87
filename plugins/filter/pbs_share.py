# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a PBS server is ours, so that nothing else is ever deleted, and which jobs hold a host."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.module_utils import _quantity

KINDS = {"hooks": "hook", "queues": "queue"}
# Everything else has not begun, or has left its hosts. A suspended job still has its memory.
_ON_ITS_HOSTS = frozenset("RSUE")
# What a vnode's `sharing` lets in beside a job, from the most to the least.
_DEFAULT = "default_shared"
_SHARING = ("ignore_excl", _DEFAULT, "default_excl", "default_exclhost", "force_excl", "force_exclhost")


def pbs_share_memory(
    info: t.Mapping[str, t.Any],
    wished: t.Mapping[str, t.Sequence[str]],
    remembered: t.Mapping[str, t.Sequence[str]] | None = None,
) -> dict[str, list[str]]:
    """Return the hooks and queues that are ours: those to be made, and those of earlier runs that are still there.

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
    jobs: t.Iterable[t.Mapping[str, t.Any]],
    nodes: t.Iterable[t.Mapping[str, t.Any]],
    host: str,
    sizes: t.Mapping[str, t.Any] | None = None,
) -> list[str]:
    """`JOB/RUN` for each job of `pbs_info` that holds the host, or the vnode, of this name.

    With the hook's configuration as `sizes`, what it has there follows, in the words in which the hook would tell it.
    """
    here = [node for node in nodes if host in (node["name"], node["host"])]
    sharing = next(iter(pbs_sharing(dict(node, host=host) for node in here).values()), _DEFAULT)
    vnodes = {str(node["name"]) for node in here}
    found = []
    for job in jobs:
        chunks = [chunk["resources"] for chunk in job["chunks"] if chunk["vnode"] in vnodes]
        if chunks and job["state"] in _ON_ITS_HOSTS:
            share = [] if sizes is None else _share(job, chunks, sharing, sizes)
            found.append(" ".join([f"{job['id']}/{job['run']}", *share]))
    return sorted(found)


def _share(
    job: t.Mapping[str, t.Any],
    chunks: t.Iterable[t.Mapping[str, t.Any]],
    sharing: str,
    sizes: t.Mapping[str, t.Any],
) -> list[str]:
    amounts: dict[str, int] = {}
    for resource, amount in (one for chunk in chunks for one in chunk.items()):
        if resource in ("ncpus", "mem", *sizes["devices"]):
            if not isinstance(amount, int):
                return ["--exclusive"]  # it is here, and may have anything
            amounts[resource] = amounts.get(resource, 0) + amount
    if sizes["default_mem"]:
        amounts.setdefault("mem", _quantity.pbs_size(sizes["default_mem"]))
    memory = [f"--mem={amounts['mem']}"] if "mem" in amounts else []
    if job["state"] == "S":
        return ["--cpus=0", *memory]  # PBS has given its cores away
    words = [f"--cpus={amounts.get('ncpus', 0)}", *memory]
    devices = sorted(sizes["devices"].items())
    words += [f"--device={device}={amounts[resource]}" for resource, device in devices if amounts.get(resource)]
    words += ["--exclusive"] if _is_exclusive(job["placement"].split(":"), sharing) else []
    if sizes["cgroup_prefix"]:
        words.append(f"--cgroup={sizes['cgroup_prefix']}.service/jobid/{job['id']}")
    return words


def _is_exclusive(place: t.Sequence[str], sharing: str) -> bool:
    if sharing in ("force_excl", "force_exclhost"):
        return True
    if sharing in ("default_excl", "default_exclhost"):
        return "shared" not in place
    return sharing != "ignore_excl" and not {"excl", "exclhost"}.isdisjoint(place)


def pbs_sharing(nodes: t.Iterable[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """By host, the C(sharing) of its strictest vnode, where that is another than PBS's default."""
    found: dict[str, str] = {}
    for node in nodes:
        host, how = str(node["host"]), str(node.get("sharing") or _DEFAULT)
        if how not in _SHARING:
            known = ", ".join(_SHARING)
            raise AnsibleFilterError(f"pbs_sharing: {node['name']} has sharing {how!a}: known are {known}")
        found[host] = max(found.get(host, how), how, key=_SHARING.index)
    return {host: how for host, how in found.items() if how != _DEFAULT}


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"pbs_share_memory": pbs_share_memory, "pbs_jobs_on": pbs_jobs_on, "pbs_sharing": pbs_sharing}
