# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of PBS: names, hooks and nodes, as far as sharing depends on them. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight import names
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CORE_MODES,
    JSON,
    Findings,
    note,
    refuse,
    shown,
    warn,
)

# PBS brings this hook, whose job cgroups say which cores a job has.
CGROUPS = "pbs_cgroups"
OUR_ORDER = 200


def cluster(pbs: JSON) -> Findings:
    """The server, and the site's hooks around ours."""
    if "nodes" not in pbs:
        yield refuse("pbs", f"PBS does not answer: {pbs.get('error', '')}", "start the server first")
        return
    for hook in pbs.get("hooks", ()):
        attributes = hook["attributes"]
        events = str(attributes.get("event", "")).strip('"').split(",")
        order = str(attributes.get("order", ""))
        begins = "execjob_begin" in events and _is_enabled(attributes)
        if begins and order.isdigit() and int(order) > OUR_ORDER:
            yield warn(
                "hook_order",
                f"hook {hook['name']} has order {order} and runs after ours: where it refuses a job, our lease stays"
                " until the next repair",
                f"give it an order below {OUR_ORDER}",
            )


def node(name: str, pbs: JSON, hostname: str) -> Findings:
    """A host by its name in PBS."""
    vnodes = vnodes_of(name, pbs)
    if not vnodes:
        known = {one for each in pbs["nodes"] for one in (each["name"], each["host"])}
        yield from names.in_batch_system(name, known, "PBS")
        return
    yield from names.same_machine(name, vnodes[0]["host"], hostname, "PBS")
    if len(vnodes) > 1:
        yield note("vnodes", f"PBS has {len(vnodes)} vnodes on it, which are one Node here")
    states = {state for one in vnodes for state in one["states"]}
    if states & {"down", "state-unknown"}:
        yield warn("state", f"PBS says {', '.join(sorted(states))}", "see to its MoM first")
    elif "offline" in states:
        comments = sorted({one["comment"] for one in vnodes if one["comment"]})
        yield note("state", f"is offline ({shown(comments)})")


def cores(pbs: JSON, share_mode: object, fence: object) -> Findings:
    """What keeps pods off the cores of jobs, where both run on a node."""
    if share_mode not in CORE_MODES or fence == "split":
        return
    if fence == "counts":
        text = "pods and jobs are counted, and may run on the same core: node_share_fence is counts"
        yield warn(
            "cores", text, f"enable {CGROUPS} and set node_share_fence: cores where pods must not slow jobs down"
        )
        return
    hooks = {hook["name"]: hook["attributes"] for hook in pbs.get("hooks", ())}
    order = str(hooks.get(CGROUPS, {}).get("order", ""))
    if CGROUPS not in hooks or not _is_enabled(hooks[CGROUPS]):
        text = f"{CGROUPS} is not enabled, so nobody can tell which cores a job has"
        yield refuse("cores", text, f"enable {CGROUPS}, or set node_share_fence: split, or counts")
    elif order.isdigit() and int(order) >= OUR_ORDER:
        text = f"{CGROUPS} has order {order}: a job has no cores yet when our hook asks for them"
        yield refuse("cores", text, f"give it an order below {OUR_ORDER}; PBS's own is 100")


def vnodes_of(name: str, pbs: JSON) -> t.List[JSON]:
    """All vnodes of the host that a name stands for, its own or that of a vnode."""
    hosts = {one["host"] for one in pbs["nodes"] if name in (one["name"], one["host"])}
    return [one for one in pbs["nodes"] if one["host"] in hosts]


def left_out(hosts: t.Container[str], pbs: JSON) -> t.Iterator[str]:
    """The hosts in PBS that nobody converts."""
    for host in sorted({str(one["host"]) for one in pbs.get("nodes", ())}):
        if not any(name in hosts for one in vnodes_of(host, pbs) for name in (host, one["name"])):
            yield host


def _is_enabled(attributes: JSON) -> bool:
    return str(attributes.get("enabled", "")).lower() == "true"
