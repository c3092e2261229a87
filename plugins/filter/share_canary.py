# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that decide to which hosts a run goes, and how far a conversion: one node first, and then the rest."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.plugin_utils._planned import would_change

STOP = "stop"
GO_ON = "go_on"
# Groups that a run makes. Renewed nodes were converted by an earlier run and have something new to do.
DONE = "converged_done"
PENDING = "converged_pending"
RENEWED = "converged_renewed"
CONVERTED = "converged_converted"
SKIPPED = "converged_skipped"
# What a run leaves alone: by the inventory, and as it could not be read.
LEFT_ALONE = ("converged_excepted", "converged_left_out")
# Tags that stand for others: a task with the tag `always` is skipped by each.
SKIP_CHECKS = ("always", "tagged")
Groups = t.Mapping[str, t.Sequence[str]]


def share_hosts(groups: Groups, group: str, named: t.Collection[str]) -> str:
    """Return the pattern of the hosts of a group that this run goes to; `named` are those that it is asked to go to."""
    those = groups.get(group) or ()
    names = (
        group if set(those) <= set(named) else ":".join(host for host in those if host in named) or f"{group}:!{group}"
    )
    return names + "".join(f":!{name}" for name in LEFT_ALONE if groups.get(name))


def share_checked(pattern: t.Any, playbook: str, skip_tags: t.Collection[str]) -> t.Any:
    """Return the pattern of the hosts to which a playbook goes after its checks, which bear the tag `always`.

    Raise AnsibleFilterError where `skip_tags` leave them out.
    """
    for tag in SKIP_CHECKS:
        if tag in skip_tags:
            raise AnsibleFilterError(
                f"--skip-tags {tag} does not go with {playbook}, as it would skip the checks: leave it out;"
                " nothing was done on any host"
            )
    return pattern


def share_sorted(known: t.Mapping[str, t.Any], pending: bool) -> dict[str, t.Any]:
    """Return the group of a node, with its parents: what is pending is new, or renewed where a run has converted it."""
    if not pending:
        return {"key": DONE, "parents": ["all"]}
    return {"key": RENEWED if _was_converted(known) else "converged_new", "parents": [PENDING]}


def _was_converted(known: t.Mapping[str, t.Any]) -> bool:
    """Batch scripts act there, and pods may come: both are the last steps of a conversion."""
    found = (known.get("__share_preflight_host") or {}).get("found") or {}
    if not found.get("enabled"):
        return False
    node = str(known.get("converged_kube_node") or known["inventory_hostname_short"])
    return not would_change(known.get("__node_kubelet_join")) and node not in (
        (known.get("__node_kubelet_admitted") or {}).get("untainted") or ()
    )


def share_batches(groups: Groups, serial: t.Any, after_canary: str) -> t.Any:
    """Return how many nodes at a time: one first where no node is proved yet, whatever `serial` says."""
    if after_canary not in (STOP, GO_ON):
        raise AnsibleFilterError(f"converged_after_canary is {after_canary!r}: expected {STOP} or {GO_ON}")
    return [1] if after_canary == STOP and _is_first(groups) else serial


def share_stops(groups: Groups, after_canary: str) -> bool:
    """Return whether the run ends here, behind the first node that was ever converted."""
    return after_canary == STOP and _is_first(groups) and bool(groups.get(CONVERTED))


def share_proves_nothing(groups: Groups) -> bool:
    """Return whether the nodes so far were skipped, so that none shows how a conversion ends."""
    return bool(groups.get(SKIPPED)) and _is_first(groups) and not groups.get(CONVERTED)


def share_waiting(groups: Groups) -> list[str]:
    """Return the nodes that a run which stopped behind its canary leaves to the next one."""
    over = {*(groups.get(CONVERTED) or ()), *(groups.get(SKIPPED) or ())}
    return [host for host in groups.get(PENDING) or () if host not in over]


def _is_first(groups: Groups) -> bool:
    return not groups.get(DONE) and not groups.get(RENEWED)


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "share_batches": share_batches,
            "share_checked": share_checked,
            "share_hosts": share_hosts,
            "share_proves_nothing": share_proves_nothing,
            "share_sorted": share_sorted,
            "share_stops": share_stops,
            "share_waiting": share_waiting,
        }
