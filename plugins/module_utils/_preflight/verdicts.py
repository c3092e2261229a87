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

from .. import _share_mode
from .._slurm import ours
from . import names
from .batch import pbs as batch_pbs
from .batch import slurm as batch_slurm
from .batch import torque as batch_torque
from .model import (
    ALONE,
    CLUSTER,
    CONTROLLER,
    JSON,
    LEFT_OUT,
    SCRIPTS,
    SHARED,
    UNJUDGED,
    Finding,
    Findings,
    Machine,
    Verdict,
    note,
    refuse,
    shown,
    verdict,
    warn,
)
from .node import machine, placeholder_mode, pods, releases, room, singularity, storage

# Of any host, and of those that are to be shared.
_ANYWHERE = (machine.owners, machine.api)
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
    releases.fenced_services,
    releases.toolkit,
    releases.distribution,
    releases.cri_version,
    releases.kubelet_version,
    singularity.kind_of_node,
    singularity.limits,
    placeholder_mode.placeholders,
)


# What Slurm's scripts are written below; on a node that is not shared nothing else is.
_OF_SCRIPTS = ("/etc", "/var/lib/converged")
_UNUSED = {"DOWN", "UNKNOWN"}
# Ansible's own words where no module was started.
_UNREACHED = "Failed to connect to the host"


class Settings(t.NamedTuple):
    """What the site says about preflight itself.

    Nodes by their names in the batch system: those of `excepted` are left out of the conversion, those of `listed` are
    named in slurm_share_excepted, those of `unjudged` in share_preflight_excepted. The inventory has those of `aside`,
    to which this run does not go.
    """

    wlm: str = "slurm"
    controllers: t.Tuple[str, ...] = ()
    excepted: t.Tuple[str, ...] = ()
    listed: t.Tuple[str, ...] = ()
    unjudged: t.Tuple[str, ...] = ()
    aside: t.Tuple[str, ...] = ()
    accepted: t.Tuple[str, ...] = ()
    max_skew: float = 30.0
    min_free: float = 5.0
    limit: int = 90
    kubelet: str = ""
    slurm_conf: str = "auto"


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
    torque: JSON = {}  # noqa: RUF012 - of a tuple, and never written

    def slurm_nodes(self) -> t.Dict[str, JSON]:
        return {node["name"]: node for node in self.slurm.get("nodes", ())}

    def kubelet(self, settings: Settings) -> str:
        """Return the release that nodes are going to run."""
        return settings.kubelet or str(self.kube.get("version", "")).lstrip("v")

    def calls_ours(self) -> bool:
        """Return whether Slurm calls our scripts already."""
        return ours.is_called(self.slurm.get("config") or {})


def verdicts(nodes: t.Mapping[str, JSON], cluster: Cluster, settings: Settings) -> t.Dict[str, Verdict]:
    """Return verdicts by host. ``nodes`` has ``wanted`` of each host, and ``found`` with ``offset``, or ``error``."""
    left, wrong = names.excepted(settings.excepted)
    listed, wrong_listed = names.excepted(settings.listed)
    unjudged, wrong_unjudged = names.excepted(settings.unjudged)
    those = {host: one for host, one in nodes.items() if one["wanted"].get("is_node", True)}
    wlm_names = {host: str(one["wanted"]["wlm_node"]) for host, one in those.items()}
    kube_names = {host: str(one["wanted"]["kube_node"]) for host, one in those.items() if _is_shared(one)}
    ranges = {host: str(one["wanted"].get("pod_cidr") or "") for host, one in those.items() if _is_shared(one)}
    twice = (
        names.twice(wlm_names, "converged_wlm_node"),
        names.twice(kube_names, "converged_kube_node"),
        pods.overlapping(ranges),
    )
    reference = _reference(nodes, settings)
    found: t.Dict[str, t.List[Finding]] = {
        CLUSTER: [*wrong, *wrong_listed, *wrong_unjudged, *_cluster(cluster, settings, nodes)]
    }
    fit = {CLUSTER: "in order"}
    for host, one in nodes.items():
        name = wlm_names.get(host)
        fit[host] = _purpose(one, settings)
        if name in left:
            fit[host], found[host] = LEFT_OUT, [_left_out(settings)]
        elif name in unjudged:
            fit[host], found[host] = UNJUDGED, [note("excepted", "share_preflight_excepted names it: it is not judged")]
        else:
            found[host] = [of[host] for of in twice if host in of]
            found[host] += _listed(settings) if name in listed else ()
            if one.get("found") is None:
                found[host].append(_unreachable(one, cluster, settings))
                fit[host] = LEFT_OUT
            else:
                found[host] += _host(one, cluster, settings, reference)
    known = {*wlm_names.values(), *settings.aside, *left, *listed, *unjudged}
    for name in sorted(set(cluster.slurm_nodes()) - known):
        if not {name.lower()} & {one.lower() for one in wlm_names.values()}:
            found.setdefault(name, []).append(_not_in_inventory(cluster.slurm_nodes()[name]))
    for name in batch_pbs.left_out(known, cluster.pbs):
        text = "PBS has this node, and converged_nodes does not: it stays with jobs alone"
        found.setdefault(name, []).append(note("not_in_inventory", text))
    for name in batch_torque.left_out(known, cluster.torque):
        text = "Torque has this node, and converged_nodes does not: it stays with jobs alone"
        found.setdefault(name, []).append(note("not_in_inventory", text))
    return {
        host: verdict(ones, accepted=settings.accepted, fit=fit.get(host, LEFT_OUT)) for host, ones in found.items()
    }


def _is_shared(one: JSON) -> bool:
    return bool(one["wanted"].get("is_node", True) and one["wanted"].get("is_shared", True))


def _purpose(one: JSON, settings: Settings) -> str:
    """Return what a host is judged for."""
    if not one["wanted"].get("is_node", True):
        return CONTROLLER
    if _is_shared(one):
        return SHARED
    return SCRIPTS if settings.wlm == "slurm" else ALONE


def _cluster(cluster: Cluster, settings: Settings, nodes: t.Mapping[str, JSON]) -> Findings:
    if settings.wlm == "pbs":
        wanted = next((one["wanted"] for one in nodes.values() if one.get("found") is not None), {})
        with_server = not settings.controllers or not nodes.keys().isdisjoint(settings.controllers)
        yield from batch_pbs.cluster(cluster.pbs, wanted, with_server=with_server)
    elif settings.wlm == "torque":
        yield from batch_torque.cluster(cluster.torque)
    elif settings.wlm != "slurm":
        served = "and only slurm, pbs and torque are served"
        yield refuse("wlm", f"converged_wlm is {settings.wlm!r}, {served}", "set one of them")
    elif "config" not in cluster.slurm:
        error = str(cluster.slurm.get("error", ""))
        yield refuse("slurm", f"Slurm does not answer: {error}", _for_silent_slurm(error))
    else:
        config = cluster.slurm["config"]
        yield from batch_slurm.prolog_flags(config)
        yield from batch_slurm.timeouts(config, settings.limit)
        yield from batch_slurm.controllers(config, settings.controllers)
        if settings.aside and not cluster.calls_ours():
            text = "Slurm does not call our scripts yet, and this run does not go to all of its nodes"
            yield refuse(
                "not_prepared", text, "run site once without converged_convert: it converts one node and stops"
            )
        if settings.slurm_conf == "auto":
            answered = {host: one["found"]["slurm"] for host, one in nodes.items() if one.get("found") is not None}
            yield from batch_slurm.conf_mode(answered, settings.controllers) if answered else ()
    if "version" not in cluster.kube:
        error = str(cluster.kube.get("error", ""))
        yield refuse("kube_api", f"the Kubernetes API does not answer: {error}", _for_silent_api(error))
    else:
        yield from releases.made_by(str(cluster.kube["version"]))
        if not cluster.kube.get("python_client", True):
            text = "the host in converged_kube lacks the Python package kubernetes, which tasks there need"
            yield refuse("python_client", text, "install python3-kubernetes there, or kubernetes by pip")


def _for_silent_slurm(error: str) -> str:
    """Return what to do where Slurm was not read, by the words of the error."""
    if "slurm_bin_dir" in error:
        return "put it into group_vars/all.yml"
    if _UNREACHED in error or "sudo" in error:
        return (
            "see that Ansible reaches the first host of converged_controllers by ssh and becomes root there (-K asks"
            " for the password of sudo)"
        )
    return "start slurmctld first"


def _for_silent_api(error: str) -> str:
    """Return what to do where the Kubernetes API was not read, by the words of the error."""
    if _UNREACHED in error:
        return "see that Ansible reaches the host in converged_kube"
    if "sudo" in error:
        return "leave out ansible_become for the host in converged_kube, as kubectl needs a kubeconfig and not root"
    if "loading config file" in error and "permission denied" in error:
        return (
            "name a kubeconfig that the user of this run can read there, or set ansible_become: true for the host in"
            " converged_kube"
        )
    return "correct converged_kubeconfig, or see to the API"


def _host(one: JSON, cluster: Cluster, settings: Settings, reference: Reference) -> Findings:
    """Judge a host that answered; most of it only where it is a node that is to be shared."""
    wanted, found = one["wanted"], one["found"]
    is_node = wanted.get("is_node", True)
    server = str(cluster.kube.get("version", ""))
    node = Machine(wanted, found, cluster.kubelet(settings), server, settings.min_free)
    if is_node and not _is_shared(one):
        yield from _unshared(node, cluster, settings, reference)
        return
    yield from skew(one["offset"], reference, settings.max_skew)
    if settings.wlm == "slurm":
        if batch_slurm.uses_munge(cluster.slurm.get("config") or {}):
            yield from machine.munge(node)
        yield from batch_slurm.local(
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
    if is_node and settings.wlm == "torque":
        yield from _in_torque(wanted, found, cluster)


def _in_torque(wanted: JSON, found: JSON, cluster: Cluster) -> Findings:
    name = str(wanted["wlm_node"])
    yield from batch_torque.mom(found["torque"], wanted)
    yield from batch_torque.outcomes(wanted)
    yield from batch_torque.beside(wanted)
    if "nodes" in cluster.torque:
        yield from batch_torque.node(name, cluster.torque)
        if wanted.get("share_mode") in _share_mode.BESIDE:
            yield from batch_torque.room(name, cluster.torque, int(found["cpus"]))


def _unshared(node: Machine, cluster: Cluster, settings: Settings, reference: Reference) -> Findings:
    """Judge a node that is not to be shared: Slurm's scripts, which do nothing there, and where Slurm finds them.

    Nothing else is asked of it, but the way to the API of a batch controller.
    """
    wanted, found = node.wanted, node.found
    if found.get("enabled"):
        text = "was converted, and converged_shared does not have it: it stays as it is"
        yield warn("still_shared", text, "put it into the group, or take it back: converged.hpc.restore --limit HOST")
    yield from machine.api(node)  # only a batch controller was asked
    if settings.wlm != "slurm":
        return
    yield from batch_slurm.local(found, host=reference.host, digest=reference.digest, edited=reference.edited)
    yield from machine.owners(node)
    disks = {path: disk for path, disk in found["disks"].items() if path in _OF_SCRIPTS}
    yield from storage.stateless(node._replace(found={**found, "disks": disks}))
    if "config" in cluster.slurm:
        name, known = str(wanted["wlm_node"]), cluster.slurm_nodes()
        yield from names.in_batch_system(name, known, "Slurm")
        if name in known:
            yield from names.same_machine(name, known[name]["hostname"], found["hostname"], "Slurm")
            yield from batch_slurm.cloud(known[name], shared=False)


def _in_slurm(wanted: JSON, found: JSON, cluster: Cluster) -> Findings:
    name, known = str(wanted["wlm_node"]), cluster.slurm_nodes()
    yield from names.in_batch_system(name, known, "Slurm")
    node = known.get(name)
    if node is not None:
        config, partitions = cluster.slurm["config"], cluster.slurm.get("partitions", ())
        yield from names.same_machine(name, node["hostname"], found["hostname"], "Slurm")
        yield from batch_slurm.state(node)
        yield from batch_slurm.cloud(node, shared=True)
        yield from batch_slurm.power_saving(config, node, partitions)
        yield from batch_slurm.oversubscription(config, node, partitions, wanted.get("share_mode"))


def skew(offset: t.Sequence[float], reference: Reference, most: float) -> Findings:
    """Judge two clocks, each known between two bounds; only what is certain counts."""
    certain = max(offset[0] - reference.offset[1], reference.offset[0] - offset[1], 0.0)
    if certain > most / 10:
        yield (refuse if certain > most else warn)(
            "time",
            f"its clock is at least {certain:.0f} s off that of {reference.host}",
            "set the time (chrony): munge, certificates and job records depend on it",
        )


def _reference(nodes: t.Mapping[str, JSON], settings: Settings) -> Reference:
    """Return the first controller, else the first host."""
    answered = [host for host, one in nodes.items() if one.get("found") is not None]
    for host in (*settings.controllers, *answered):
        if host in answered:
            found = nodes[host]["found"]
            edited = batch_slurm.EDITS in found["record"]
            return Reference(host, tuple(nodes[host]["offset"]), found["slurm"]["digest"], edited)
    return Reference()


def _unreachable(one: JSON, cluster: Cluster, settings: Settings) -> Finding:
    """Refuse a node that cannot be read only where slurm.conf is to name scripts that it lacks while it runs jobs."""
    error = str(one.get("error") or "no answer")
    text = f"could not be read: {error}"
    no_root = "let Ansible become root there (-K asks for the password of sudo)" if "sudo" in error else ""
    if not one["wanted"].get("is_node", True):
        return refuse("unreachable", text, no_root or "mend it: batch controllers are needed")
    advice = f"{no_root or 'mend it'}, or put the host into the group converged_excepted"
    if settings.wlm != "slurm" or cluster.calls_ours():
        return warn("unreachable", f"{text}; it is left as it is", advice)
    node = cluster.slurm_nodes().get(str(one["wanted"]["wlm_node"])) or {}
    if node.get("state") in _UNUSED or "NOT_RESPONDING" in node.get("flags", ()):
        return warn("unreachable", f"{text}; Slurm has it down, and it is drained until a run reaches it", advice)
    return refuse("unreachable", f"{text}, and Slurm starts jobs there, for which it would lack our scripts", advice)


def _left_out(settings: Settings) -> Finding:
    drained = " it is drained in Slurm, and" if settings.wlm == "slurm" else ""
    return note("excepted", f"converged_excepted has it:{drained} no run goes there")


def _listed(settings: Settings) -> t.Iterator[Finding]:
    if settings.wlm == "slurm":
        text = "slurm_share_excepted names it, and this run goes there"
        yield refuse("excepted", text, "put the host into the group converged_excepted instead, or take the name out")


def _not_in_inventory(node: JSON) -> Finding:
    partitions = shown(sorted(node.get("partitions") or ()))
    where = f" in partition {partitions}" if partitions else ""
    return refuse(
        "not_in_inventory",
        f"Slurm has this node{where}, and converged_nodes does not: slurm.conf is one for all nodes, so one that lacks"
        " the Prolog would be drained at its next job",
        "add it to converged_nodes, which shares nothing (converged_shared does), or list it in slurm_share_excepted",
    )
