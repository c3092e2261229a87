# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of PBS: names, hooks and nodes, as far as sharing depends on them. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import fnmatch
import typing as t

from ... import _share_mode
from ..._pbs.client import CGROUPS
from .. import names
from ..model import JSON, Findings, note, refuse, shown, warn

OURS, OUR_ORDER = "converged", 200


def cluster(pbs: JSON, wanted: JSON, *, with_server: bool = True) -> Findings:
    """Judge the server, and the site's hooks around ours, which a run without the server's hosts cannot make."""
    if "nodes" not in pbs:
        yield refuse("pbs", f"PBS does not answer: {pbs.get('error', '')}", "start the server first")
        return
    ours = str(wanted.get("hook", OURS))
    if not with_server and ours not in {hook["name"] for hook in pbs.get("hooks", ())}:
        text = f"PBS has no hook {ours}, and no host of converged_controllers is in this run to make it"
        yield refuse("hook", text, "run it for one of them, too: jobs would not be seen on the nodes")
    yield from queue(wanted)
    our_order = order_of(wanted)
    for hook in pbs.get("hooks", ()):
        if hook["name"] == ours:
            continue
        attributes = hook["attributes"]
        events = str(attributes.get("event", "")).strip('"').split(",")
        order = str(attributes.get("order", ""))
        begins = "execjob_begin" in events and _is_enabled(attributes)
        if begins and order.isdigit() and int(order) > our_order:
            yield warn(
                "hook_order",
                f"hook {hook['name']} has order {order} and runs after ours: where it refuses a job, our lease stays"
                " until the next repair",
                f"give it an order below {our_order}, or set pbs_share_order",
            )


def queue(wanted: JSON) -> Findings:
    """Judge the queue with jobs that the hook leaves alone: it is the placement daemon's alone."""
    users = {str(user).lstrip("+") for user in wanted.get("queue_users") or () if not str(user).startswith("-")}
    if wanted.get("backed_queue") and not wanted.get("queue_hosts") and (len(users) > 1 or "*" in "".join(users)):
        text = f"what {shown(sorted(users))} submit to {wanted['backed_queue']} themselves runs unseen by our hook"
        yield warn("open_queue", text, "set pbs_share_queue_hosts to the placement daemon's hosts")


def order_of(wanted: JSON) -> int:
    """Return the order of our hook among the site's."""
    return int(wanted.get("hook_order", OUR_ORDER))


def node(name: str, pbs: JSON, hostname: str) -> Findings:
    """Judge a host by its name in PBS."""
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


def host_name(name: str, pbs: JSON, share_mode: object) -> Findings:
    """Judge the host's name beside jobs: its Node says what PBS calls it, since jobs tell of hosts by that."""
    hosts = sorted({one["host"] for one in vnodes_of(name, pbs)} - {name})
    if share_mode in _share_mode.BESIDE and hosts:
        text = f"{name} is a vnode of PBS, and jobs say {hosts[0]} of its host"
        yield refuse("vnode_name", text, f"set converged_wlm_node: {hosts[0]}")


def sharing(name: str, pbs: JSON, share_mode: object) -> Findings:
    """Judge sharing: pods make room for a job alone on a node, which the daemon knows by its `place` only."""
    ignoring = sorted(one["name"] for one in vnodes_of(name, pbs) if one.get("sharing") == "ignore_excl")
    if share_mode == _share_mode.PLACEHOLDER and ignoring:
        text = f"a job with place=excl has {shown(ignoring)} not for itself (sharing is ignore_excl)"
        yield warn("sharing", text, "set pbs_make_room: false in placement_settings, or more pods leave than must")


def cores(pbs: JSON, wanted: JSON, *, cgroup: str = "") -> Findings:
    """Judge what keeps pods off the cores of jobs, where both run on a node. ``cgroup`` is the node's version."""
    if wanted.get("share_mode") not in _share_mode.BESIDE or wanted.get("fence") == "split":
        return
    if wanted.get("fence") == "counts":
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
        return
    if cgroup == "v2":
        text = f"{CGROUPS} of OpenPBS knows cgroup v1 alone, and this node has v2: there the hook fails"
        advice = "see that yours knows v2, boot with systemd.unified_cgroup_hierarchy=0, or set node_share_fence: split"
        yield warn("cores", text, advice)
    if order.isdigit() and int(order) >= order_of(wanted):
        text = f"{CGROUPS} has order {order}: a job has no cores yet when our hook asks for them"
        yield refuse("cores", text, f"give it an order below {order_of(wanted)}; PBS's own is 100")
    vnodes = vnodes_of(str(wanted.get("wlm_node")), pbs)
    # its MoM knows itself by its own vnode's name
    names_of_host = {str(one["host"]) for one in vnodes} | {str(one["name"]).partition("[")[0] for one in vnodes}
    yield from _cpusets(_object(pbs, "cgroups"), wanted, names_of_host)


def _cpusets(config: JSON, wanted: JSON, host: t.Set[str]) -> Findings:
    """Judge what the hook of cgroups is configured to do on this host."""
    cpuset = _object(_object(config, "cgroup"), "cpuset")
    everything, cpusets = _is_on(config, host, otherwise=True), _is_on(cpuset, host, otherwise=False)
    if everything is False or cpusets is False:
        text = f"{CGROUPS} is configured to make no cpusets on this host, so no job has cores of its own here"
        advice = "enable its section cpuset, and see to the lists of hosts"
        yield refuse("cores", text, f"{advice}, or set node_share_fence: split, or counts")
    elif everything is None or cpusets is None:
        conditions = shown([str(one["enabled"]) for one in (config, cpuset) if isinstance(one.get("enabled"), str)])
        text = f"{CGROUPS} makes cpusets under a condition that is not judged here: {conditions}"
        yield warn("cores", text, "see that it holds for this host: a job without a cpuset is a failure of begin")
    prefix, ours = config.get("cgroup_prefix"), wanted.get("cgroup_prefix")
    if prefix and ours and prefix != ours:
        text = f"{CGROUPS} names job cgroups after {prefix}, and our hook looks below {ours}"
        yield refuse("cores", text, f"set pbs_share_cgroup_prefix: {prefix}")


def _is_on(section: JSON, host: t.Set[str], *, otherwise: bool) -> t.Optional[bool]:
    """Read a section as the hook of cgroups does; None where that depends on more than the host's names.

    Kinds of vnodes that a section excludes are not judged: by default it excludes one that sites give to hosts by hand.
    """
    enabled = section.get("enabled", otherwise)
    if isinstance(enabled, str):
        kind, _colon, patterns = enabled.partition(":")
        listed = {"host in": True, "host not in": False}.get(kind.strip().lower())
        enabled = None if listed is None else _matches(host, patterns.split(",")) is listed
    if _matches(host, section.get("exclude_hosts")):
        enabled = False
    if _matches(host, section.get("include_hosts")):
        enabled = True
    only = section.get("run_only_on_hosts")
    return enabled if not only or _matches(host, only) else False


def _matches(host: t.Set[str], patterns: object) -> bool:
    found = [str(one).strip() for one in patterns] if isinstance(patterns, list) else []
    return any(fnmatch.fnmatchcase(name, pattern) for name in host for pattern in found)


def _object(config: JSON, key: str) -> JSON:
    found = config.get(key)
    return found if isinstance(found, dict) else {}


def vnodes_of(name: str, pbs: JSON) -> t.List[JSON]:
    """Return all vnodes of the host that a name stands for, its own or that of a vnode."""
    hosts = {one["host"] for one in pbs["nodes"] if name in (one["name"], one["host"])}
    return [one for one in pbs["nodes"] if one["host"] in hosts]


def left_out(hosts: t.Container[str], pbs: JSON) -> t.Iterator[str]:
    """Yield the hosts in PBS that are not converted."""
    for host in sorted({str(one["host"]) for one in pbs.get("nodes", ())}):
        if not any(name in hosts for one in vnodes_of(host, pbs) for name in (host, one["name"])):
            yield host


def _is_enabled(attributes: JSON) -> bool:
    return str(attributes.get("enabled", "")).lower() == "true"
