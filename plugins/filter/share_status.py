# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that say how hosts are shared: each in one line, and all of them together.

What could not be asked is said to be unknown, and never taken for "nothing".
"""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight import report
from ansible_collections.converged.hpc.plugins.module_utils._share_mode import SERVED, mode_of

# Where the playbook keeps what the first task has returned of a host.
READ = "__status_share"
KUBE = "__status_kube"
# What the playbook asks once for all hosts, by where it keeps the answer.
ASKED = {
    KUBE: "Kubernetes",
    "__status_slurm": "Slurm",
    "__status_pbs": "PBS",
    "__status_torque": "Torque",
}
# The roles that hold a kubelet. While a record names one of them, the way back ends that kubelet.
KUBELET_ROLES = frozenset(("kube_join", "kubelet_config", "node_kubelet"))
# What systemd says of a service that does not run.
ENDED = ("inactive", "failed", "unknown")
OFF = "switched off"
GOING_OFF = "being switched off"


def share_status(
    known: t.Mapping[str, t.Any],
    kube: t.Mapping[str, t.Any] | None = None,
    batch: t.Mapping[str, t.Any] | None = None,
) -> str:
    """From a host's variables and the answers of `kube_info` and `slurm_info`, `pbs_info` or `torque_info`."""
    fact = known["ansible_facts"]["converged_share"]
    host = str(known["inventory_hostname"])
    if not fact["present"]:
        return f"{host}: {fact['summary']}"
    parts = [fact["summary"]]
    if "converged_nodes" in known["group_names"]:
        mode = mode_of(known)
        parts += [f"mode {mode}", *_node(fact["sharing"]), _batch(known, batch), *_kube(known, kube)]
    if "converged_controllers" in known["group_names"]:
        parts.append(f"controller {_service(fact['sharing'], 'converged-controller')}")
        if known.get("converged_wlm") not in ("pbs", "torque"):
            parts[-1] += f", its scripts {'act' if fact['sharing']['enabled'] else 'are inert'}"
    return f"{host}: {'; '.join(parts)}"


def _node(sharing: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    yield "batch scripts act" if sharing["enabled"] else "batch scripts are inert"
    if sharing["error"]:
        yield f"state not known: {sharing['error']}"
    shown = sharing["node"]
    if shown:
        off = f", {_off(shown)}" if shown["off"] else ""
        way = f" by {shown['way']}" if shown["way"] else ""
        yield f"node {shown['phase']}{way}{off}"
        leases = [f"{one['wlm']}/{one['job']}/{one['run']}" for one in shown["leases"]]
        yield f"leases {' '.join(leases) or 'none'}"
    yield f"kubelet {_service(sharing, 'kubelet')}"


def _service(sharing: t.Mapping[str, t.Any], name: str) -> str:
    return str(sharing["services"].get(name, "unknown"))


def _batch(known: t.Mapping[str, t.Any], batch: t.Mapping[str, t.Any] | None) -> str:
    """Return the node's states; in PBS a host is told by those of all its vnodes."""
    name = str(known.get("converged_wlm_node") or known["inventory_hostname_short"])
    system = {"pbs": "PBS", "torque": "Torque"}.get(str(known.get("converged_wlm")), "Slurm")
    if not batch or "nodes" not in batch:
        return f"{system} unknown"
    mine = [node for node in batch["nodes"] if name in (node["name"], node.get("host"))]
    if system != "Slurm":
        words = sorted({word for node in mine for word in node["states"]})
    else:
        words = [word for node in mine for word in (node["state"], *node["flags"])]
    return f"{system} {'+'.join(words)}" if words else f"not in {system}"


def _kube(known: t.Mapping[str, t.Any], kube: t.Mapping[str, t.Any] | None) -> t.Iterator[str]:
    name = str(known.get("converged_kube_node") or known["inventory_hostname_short"])
    if not kube or "nodes" not in kube:
        yield "Kubernetes unknown"
        return
    node = kube["nodes"].get(name)
    if node is None:
        yield "not in Kubernetes"
        return
    ours = [one for one in node.get("taints", ()) if one.startswith("converged.hpc/")]
    words = ["Ready" if node["ready"] else "NotReady", *(["cordoned"] if node["unschedulable"] else []), *ours]
    held = f", held by {node['held_by']}" if node.get("held_by") else ""
    yield f"Kubernetes {' '.join(words)}{held}"


def share_summary(hostvars: t.Mapping[str, t.Any], hosts: t.Iterable[str]) -> list[str]:
    """Return how many hosts are shared and held, and which need a look, from the facts of those that were reached."""
    those_of = {host: hostvars[host] for host in hosts}
    answers = {name: _answer(those_of.values(), name) for name in ASKED}
    facts = {host: (known.get("ansible_facts") or {}).get("converged_share") for host, known in those_of.items()}
    converted = any(fact and _shown(fact) for fact in facts.values())
    states: dict[str, list[str]] = {}
    looks: dict[str, list[str]] = {}
    for host, known in those_of.items():
        fact = facts[host]
        if fact is None:
            looks.setdefault(_without_facts(known), []).append(host)
            continue
        if "converged_nodes" in known["group_names"]:
            states.setdefault(_state(fact), []).append(host)
        for look in _looks(known, fact, answers[KUBE], converted):
            looks.setdefault(look, []).append(host)
    count = sum(len(those) for those in states.values())
    counted = ", ".join(f"{len(those)} {state}" for state, those in sorted(states.items()))
    said = [f"look at {ASKED[name]}: it did not answer" for name, one in answers.items() if one and "nodes" not in one]
    said += _unasked(those_of.values(), answers) if converted else []
    said += [f"look at {report.hosts(those)}: {look}" for look, those in sorted(looks.items())]
    return [f"{count} node{'s' * (count != 1)}: {counted}", *(said or ["nothing needs a look"])]


def _answer(those: t.Iterable[t.Mapping[str, t.Any]], name: str) -> t.Mapping[str, t.Any] | None:
    """Return what came of asking, which every host has alike; a task that was skipped has asked nothing."""
    found = (known.get(name) for known in those)
    return next((one for one in found if one and not one.get("skipped")), None)


def _unasked(
    those: t.Collection[t.Mapping[str, t.Any]], answers: t.Mapping[str, t.Mapping[str, t.Any] | None]
) -> t.Iterator[str]:
    """Name the variables that kept this run from asking the batch system or Kubernetes."""
    wrong = sorted({str(known.get("converged_wlm") or "") for known in those} - set(SERVED))
    if wrong and not any(answer for name, answer in answers.items() if name != KUBE):
        found = " and ".join(repr(one) if one else "not set" for one in wrong)
        yield f"look at converged_wlm: it is {found}, expected one of {', '.join(SERVED)}, so no batch system was asked"
    if not answers[KUBE] and any(known.get("converged_kubeconfig") is None for known in those):
        yield "look at converged_kubeconfig: it is not set, so Kubernetes was not asked"


def _without_facts(known: t.Mapping[str, t.Any]) -> str:
    """Say why a host has no facts. On a host that was reached, the task that reads them has failed."""
    read = known.get(READ)
    if not read or read.get("unreachable"):
        return "not reached"
    return "no answer in time" if read.get("timedout") else "its record could not be read: see its error above"


def _shown(fact: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any] | None:
    """Return what nodeshare says of a host; a host without nodeshare is not converted."""
    return (fact["sharing"]["node"] or None) if fact["present"] else None


def _state(fact: t.Mapping[str, t.Any]) -> str:
    """Name what a node is to pods now: with jobs alone, or shared and in which phase."""
    shown = _shown(fact)
    if fact["sharing"]["error"]:
        return "unknown"
    if _has_kubelet_alone(fact):
        return "with a kubelet and no nodeshare"
    if not shown:
        return "with jobs alone"
    return f"shared, {_off(shown) or shown['phase']}"


def _off(shown: t.Mapping[str, t.Any]) -> str:
    """Say how far the kill switch has come, if it was used: nodeshare holds the node once no pod is left."""
    if not shown["off"]:
        return ""
    return OFF if shown["phase"] == "held" else GOING_OFF


def _has_kubelet_alone(fact: t.Mapping[str, t.Any]) -> bool:
    """Return whether a kubelet of ours runs without nodeshare, as after a way back that was killed."""
    if not fact["present"] or fact["sharing"]["error"] or fact["sharing"]["node"]:
        return False
    return not KUBELET_ROLES.isdisjoint(fact["roles"]) and _service(fact["sharing"], "kubelet") not in ENDED


def _looks(
    known: t.Mapping[str, t.Any],
    fact: t.Mapping[str, t.Any],
    kube: t.Mapping[str, t.Any] | None,
    converted: bool,
) -> t.Iterator[str]:
    """Say what needs a look on a host; `converted` says whether any node of the site is."""
    groups, shown = known["group_names"], _shown(fact)
    if fact["sharing"]["error"]:
        yield "its state is not known: see its line above"
    # Slurm's scripts are on every node, converted or not. Where the state is not known, this is not known either.
    elif "converged_shared" in groups and not shown:
        yield "in converged_shared, and not converted"
    if not fact["present"]:
        if "converged_controllers" in groups and converted:
            yield "a batch controller without the controller's service"
        return
    sharing = fact["sharing"]
    if _has_kubelet_alone(fact):
        yield "a kubelet runs there without nodeshare: converged.hpc.restore ends it"
    if "converged_controllers" in groups and _service(sharing, "converged-controller") != "active":
        yield "the controller's service is not active"
    if not shown:
        return
    if _off(shown) == GOING_OFF:
        yield "switched off, and pods may run on: read `nodeshare show` there"
    # A conversion lets scripts act once the node has joined. The way back makes them inert before all else.
    if "converged_nodes" in groups and not sharing["enabled"] and _off(shown) != OFF:
        yield "batch scripts are inert, so pods do not make way for jobs"
    if kube and "nodes" in kube:
        node = kube["nodes"].get(str(known.get("converged_kube_node") or known["inventory_hostname_short"]))
        if node is None:
            yield "not in Kubernetes"
        elif not node["ready"] and shown["phase"] == "open":
            yield "open, and not Ready in Kubernetes"


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"share_status": share_status, "share_summary": share_summary}
