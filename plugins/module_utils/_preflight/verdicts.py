# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict for each node, from what was found on all hosts and in both clusters. Pure.

A node that only Slurm knows gets a verdict too, under Slurm's name; what concerns all nodes stands under CLUSTER.

PRIVATE to the collection.
"""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight import batch, machine, names
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CLUSTER,
    JSON,
    NOTE,
    REFUSE,
    WARN,
    Finding,
    Verdict,
    release,
    verdict,
)

Findings = t.Iterator[Finding]


class Settings(t.NamedTuple):
    """What the site says about preflight itself."""

    wlm: str = "slurm"
    controllers: t.Tuple[str, ...] = ()
    excepted: t.Tuple[str, ...] = ()
    accepted: t.Tuple[str, ...] = ()
    max_skew: float = 30.0
    min_free: float = 5.0
    limit: int = 90
    kubelet: str = ""


class Reference(t.NamedTuple):
    """The host whose clock and slurm.conf the others are compared with; empty where no host answered."""

    host: str = ""
    offset: t.Tuple[float, ...] = ()
    digest: str = ""


class Cluster(t.NamedTuple):
    """Both clusters; ``slurm`` and ``kube`` as their modules returned them, with ``error`` where there is none."""

    slurm: JSON
    kube: JSON

    def slurm_nodes(self) -> t.Dict[str, JSON]:
        return {node["name"]: node for node in self.slurm.get("nodes", ())}

    def kubelet(self, settings: Settings) -> str:
        """The release that nodes are going to run."""
        return settings.kubelet or str(self.kube.get("version", "")).lstrip("v")


def verdicts(nodes: t.Mapping[str, JSON], cluster: Cluster, settings: Settings) -> t.Dict[str, Verdict]:
    """By host. ``nodes`` has ``wanted``, and ``found`` with ``offset`` or else ``error``, of each host of the play."""
    excepted, wrong = names.excepted(settings.excepted)
    shared = {host: one for host, one in nodes.items() if one["wanted"].get("is_node", True)}
    wlm_names = {host: str(one["wanted"]["wlm_node"]) for host, one in shared.items()}
    twice = {
        "Slurm": names.twice(wlm_names, "converged_wlm_node"),
        "Kubernetes": names.twice(
            {host: one["wanted"]["kube_node"] for host, one in shared.items()}, "converged_kube_node"
        ),
    }
    reference = _reference(nodes, settings)
    found: t.Dict[str, t.List[Finding]] = {CLUSTER: [*wrong, *_cluster(cluster, settings)]}
    for host, one in nodes.items():
        if host in shared and wlm_names[host] in excepted:
            found[host] = [Finding(NOTE, "excepted", "is excepted: it will be drained in Slurm and not converted")]
            continue
        found[host] = [of[host] for of in twice.values() if host in of]
        if one.get("found") is None:
            found[host].append(_unreachable(one))
        else:
            found[host] += _any_host(one, reference, settings)
            found[host] += _node(one, cluster, settings) if host in shared else ()
    for name in sorted(set(cluster.slurm_nodes()) - set(wlm_names.values()) - excepted):
        if not {name.lower()} & {one.lower() for one in wlm_names.values()}:
            found.setdefault(name, []).append(_not_in_inventory())
    return {host: verdict(ones, accepted=settings.accepted) for host, ones in found.items()}


def _cluster(cluster: Cluster, settings: Settings) -> Findings:
    if settings.wlm != "slurm":
        yield Finding(REFUSE, "wlm", f"converged_wlm is {settings.wlm!r}, and only slurm is served", "correct it")
    elif "config" not in cluster.slurm:
        yield Finding(
            REFUSE, "slurm", f"Slurm does not answer: {cluster.slurm.get('error', '')}", "start slurmctld first"
        )
    else:
        config = cluster.slurm["config"]
        yield from batch.prolog_flags(config)
        yield from batch.timeouts(config, settings.limit)
        yield from batch.controllers(config, settings.controllers)
    if "version" not in cluster.kube:
        yield Finding(
            REFUSE,
            "kube_api",
            f"the Kubernetes API does not answer: {cluster.kube.get('error', '')}",
            "correct converged_kubeconfig, or see to the API",
        )


def _any_host(one: JSON, reference: Reference, settings: Settings) -> Findings:
    """Of nodes and batch controllers alike."""
    yield from skew(one["offset"], reference, settings.max_skew)
    yield from machine.munge(one["wanted"], one["found"])
    yield from machine.owners(one["wanted"], one["found"])
    is_node = one["wanted"].get("is_node", True)
    yield from batch.local(one["found"], host=reference.host, digest=reference.digest, is_node=is_node)


def _node(one: JSON, cluster: Cluster, settings: Settings) -> Findings:
    wanted, found, kubelet = one["wanted"], one["found"], cluster.kubelet(settings)
    checks = (
        machine.swap,
        machine.ports,
        machine.stateless,
        machine.addresses,
        machine.services,
        machine.kubernetes,
        machine.killing,
        machine.kernel,
    )
    yield from names.share_mode(wanted)
    yield from itertools.chain.from_iterable(check(wanted, found) for check in checks)
    yield from machine.cgroup_mode(wanted, found, kubelet)
    yield from machine.runtime(wanted, found, kubelet)
    yield from machine.disks(wanted, found, settings.min_free)
    yield from _kubelet_release(found, str(cluster.kube.get("version", "")), kubelet)
    yield from names.in_kubernetes(str(wanted["kube_node"]), cluster.kube.get("nodes", {}), found)
    if "config" in cluster.slurm:
        yield from _in_slurm(wanted, found, cluster)


def _in_slurm(wanted: JSON, found: JSON, cluster: Cluster) -> Findings:
    name, known = str(wanted["wlm_node"]), cluster.slurm_nodes()
    yield from names.in_slurm(name, known)
    node = known.get(name)
    if node is not None:
        config, partitions = cluster.slurm["config"], cluster.slurm.get("partitions", ())
        yield from names.same_machine(name, node["hostname"], found["hostname"])
        yield from batch.state(node)
        yield from batch.power_saving(config, node)
        yield from batch.oversubscription(config, node, partitions, wanted.get("share_mode"))


def _kubelet_release(found: JSON, server: str, planned: str) -> Findings:
    """A kubelet is never newer than the API server, and at most three minor releases older."""
    for text, where in ((planned, "the kubelet that is wanted"), (found["kubelet"], "the kubelet that is installed")):
        behind = release(server)[1] - release(text)[1]
        if server and text and (release(text)[0] != release(server)[0] or not 0 <= behind <= 3):
            yield Finding(
                REFUSE,
                "kubelet_version",
                f"{where} is {text}, and the API server {server}",
                "a kubelet may be as old as three minor releases before the API server, and never newer",
            )


def skew(offset: t.Sequence[float], reference: Reference, most: float) -> Findings:
    """Both clocks are known between two bounds; only what is certain counts."""
    certain = max(offset[0] - reference.offset[1], reference.offset[0] - offset[1], 0.0)
    if certain > most / 10:
        yield Finding(
            REFUSE if certain > most else WARN,
            "time",
            f"its clock is at least {certain:.0f} s off that of {reference.host}",
            "set the time (chrony): munge, certificates and job records depend on it",
        )


def _reference(nodes: t.Mapping[str, JSON], settings: Settings) -> Reference:
    """The first controller, else the first host."""
    answered = [host for host, one in nodes.items() if one.get("found") is not None]
    for host in (*settings.controllers, *answered):
        if host in answered:
            return Reference(host, tuple(nodes[host]["offset"]), nodes[host]["found"]["slurm"]["digest"])
    return Reference()


def _unreachable(one: JSON) -> Finding:
    return Finding(
        REFUSE,
        "unreachable",
        f"could not be read: {one.get('error') or 'no answer'}",
        "mend it, or list it in share_preflight_excepted",
    )


def _not_in_inventory() -> Finding:
    return Finding(
        REFUSE,
        "not_in_inventory",
        "Slurm has this node, and converged_nodes does not: a Prolog that it lacks would drain it",
        "add it to converged_nodes, or list it in share_preflight_excepted",
    )
