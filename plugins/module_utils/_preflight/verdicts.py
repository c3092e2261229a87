# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict for each node, from what was found on all hosts and in both clusters. Pure.

A node that only the batch system knows gets a verdict too, under its name there; what concerns all nodes stands under
CLUSTER.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils import _share_mode
from ansible_collections.converged.hpc.plugins.module_utils._preflight import (
    batch,
    batch_pbs,
    beside,
    machine,
    names,
    releases,
    room,
    storage,
)
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CLUSTER,
    JSON,
    Finding,
    Findings,
    Machine,
    Verdict,
    note,
    refuse,
    verdict,
    warn,
)

# Of any host, and of those that are to be shared.
_ANYWHERE = (machine.owners,)
_ON_NODES = (
    machine.swap,
    machine.ports,
    machine.addresses,
    machine.services,
    machine.kubernetes,
    machine.killing,
    machine.kernel,
    machine.cgroup_mode,
    machine.kubelet_cgroups,
    machine.devices,
    storage.room,
    storage.stateless,
    releases.site_runtime,
    releases.cri_version,
    releases.kubelet_version,
    beside.placeholders,
)


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
    edited: bool = False


class Cluster(t.NamedTuple):
    """Both clusters, as their modules returned them, with ``error`` where there is none."""

    slurm: JSON
    kube: JSON
    pbs: JSON

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
    found: t.Dict[str, t.List[Finding]] = {CLUSTER: [*wrong, *_cluster(cluster, settings, nodes)]}
    for host, one in nodes.items():
        if host in shared and wlm_names[host] in excepted:
            drained = " it will be drained in Slurm and" if settings.wlm == "slurm" else ""
            found[host] = [note("excepted", f"is excepted:{drained} not converted")]
            continue
        found[host] = [of[host] for of in twice.values() if host in of]
        if one.get("found") is None:
            found[host].append(_unreachable(one))
        else:
            found[host] += _host(one, cluster, settings, reference)
    for name in sorted(set(cluster.slurm_nodes()) - set(wlm_names.values()) - excepted):
        if not {name.lower()} & {one.lower() for one in wlm_names.values()}:
            found.setdefault(name, []).append(_not_in_inventory())
    for name in batch_pbs.left_out({*wlm_names.values(), *excepted}, cluster.pbs):
        text = "PBS has this node, and converged_nodes does not: it stays with jobs alone"
        found.setdefault(name, []).append(note("not_in_inventory", text))
    return {host: verdict(ones, accepted=settings.accepted) for host, ones in found.items()}


def _cluster(cluster: Cluster, settings: Settings, nodes: t.Mapping[str, JSON]) -> Findings:
    if settings.wlm == "pbs":
        wanted = next((one["wanted"] for one in nodes.values() if one.get("found") is not None), {})
        with_server = not settings.controllers or not nodes.keys().isdisjoint(settings.controllers)
        yield from batch_pbs.cluster(cluster.pbs, wanted, with_server=with_server)
    elif settings.wlm != "slurm":
        yield refuse("wlm", f"converged_wlm is {settings.wlm!r}, and only slurm and pbs are served", "set one of them")
    elif "config" not in cluster.slurm:
        yield refuse("slurm", f"Slurm does not answer: {cluster.slurm.get('error', '')}", "start slurmctld first")
    else:
        config = cluster.slurm["config"]
        yield from batch.prolog_flags(config)
        yield from batch.timeouts(config, settings.limit)
        yield from batch.controllers(config, settings.controllers)
    if "version" not in cluster.kube:
        text = f"the Kubernetes API does not answer: {cluster.kube.get('error', '')}"
        yield refuse("kube_api", text, "correct converged_kubeconfig, or see to the API")


def _host(one: JSON, cluster: Cluster, settings: Settings, reference: Reference) -> Findings:
    """Of a host that answered; most of it only where it is a node."""
    wanted, found = one["wanted"], one["found"]
    is_node = wanted.get("is_node", True)
    server = str(cluster.kube.get("version", ""))
    node = Machine(wanted, found, cluster.kubelet(settings), server, settings.min_free)
    yield from skew(one["offset"], reference, settings.max_skew)
    if settings.wlm == "slurm":
        yield from machine.munge(node)
        yield from batch.local(
            found, host=reference.host, digest=reference.digest, edited=reference.edited, is_node=is_node
        )
    for check in (*_ANYWHERE, *(_ON_NODES if is_node else ())):
        yield from check(node)
    if is_node:
        yield from names.share_mode(wanted, settings.wlm)
        yield from names.backed(wanted)
        yield from names.in_kubernetes(str(wanted["kube_node"]), cluster.kube.get("nodes", {}), found)
    if is_node and "config" in cluster.slurm:
        yield from _in_slurm(wanted, found, cluster)
        known = cluster.slurm_nodes().get(str(wanted["wlm_node"]), {})
        yield from machine.eviction(node, int(known.get("memory_mebibytes") or 0) << 20)
    if is_node and "nodes" in cluster.pbs:
        yield from batch_pbs.node(str(wanted["wlm_node"]), cluster.pbs, found["hostname"])
        yield from batch_pbs.host_name(str(wanted["wlm_node"]), cluster.pbs, wanted.get("share_mode"))
        yield from batch_pbs.sharing(str(wanted["wlm_node"]), cluster.pbs, wanted.get("share_mode"))
        yield from batch_pbs.cores(cluster.pbs, wanted, cgroup=str(found.get("cgroup", "")))
        vnodes = batch_pbs.vnodes_of(str(wanted["wlm_node"]), cluster.pbs)
        yield from room.what_pbs_gives(vnodes, node)
        if wanted.get("share_mode") not in _share_mode.BESIDE:  # there the finding before says it
            given = sum(int((one.get("available") or {}).get("mem") or 0) for one in vnodes)
            yield from machine.eviction(node, given)


def _in_slurm(wanted: JSON, found: JSON, cluster: Cluster) -> Findings:
    name, known = str(wanted["wlm_node"]), cluster.slurm_nodes()
    yield from names.in_batch_system(name, known, "Slurm")
    node = known.get(name)
    if node is not None:
        config, partitions = cluster.slurm["config"], cluster.slurm.get("partitions", ())
        yield from names.same_machine(name, node["hostname"], found["hostname"], "Slurm")
        yield from batch.state(node)
        yield from batch.power_saving(config, node, partitions)
        yield from batch.oversubscription(config, node, partitions, wanted.get("share_mode"))


def skew(offset: t.Sequence[float], reference: Reference, most: float) -> Findings:
    """Both clocks are known between two bounds; only what is certain counts."""
    certain = max(offset[0] - reference.offset[1], reference.offset[0] - offset[1], 0.0)
    if certain > most / 10:
        yield (refuse if certain > most else warn)(
            "time",
            f"its clock is at least {certain:.0f} s off that of {reference.host}",
            "set the time (chrony): munge, certificates and job records depend on it",
        )


def _reference(nodes: t.Mapping[str, JSON], settings: Settings) -> Reference:
    """The first controller, else the first host."""
    answered = [host for host, one in nodes.items() if one.get("found") is not None]
    for host in (*settings.controllers, *answered):
        if host in answered:
            found = nodes[host]["found"]
            edited = batch.EDITS in found["record"]
            return Reference(host, tuple(nodes[host]["offset"]), found["slurm"]["digest"], edited)
    return Reference()


def _unreachable(one: JSON) -> Finding:
    text = f"could not be read: {one.get('error') or 'no answer'}"
    return refuse("unreachable", text, "mend it, or put the host into the group converged_excepted")


def _not_in_inventory() -> Finding:
    return refuse(
        "not_in_inventory",
        "Slurm has this node, and converged_nodes does not: a Prolog that it lacks would drain it",
        "add it to converged_nodes, or list it in slurm_share_excepted",
    )
