# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins this node to a cluster and takes it out again: the acts around kubeadm, in an order that survives a kill.

The directories that kubeadm fills enter the record first. From then on everything in them is ours, because a node on
which they already held something is refused.

PRIVATE to the collection.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import typing as t

from ... import _command
from ..._record.host.host import Host
from ..._record.kinds.package import is_installed
from ..._record.kinds.packet_filter import RULESET
from ..._record.model.items import Desired, DirectoryItem, MadeItem, key
from ..._record.request.contents import Contents
from ..._record.request.desired import resolve
from ..._record.run.session import Session
from ..errors import KubeError
from . import membership
from .leftovers import KUBELET_STATE, Sweep
from .membership import BOOTSTRAP_CONF, CA_CERTIFICATE, KUBELET_CONF

JSON = t.Dict[str, t.Any]
ROLE = "kube_join"
FOLDER = "/etc/kubernetes"
MANIFESTS = f"{FOLDER}/manifests"
_DIRECTORIES = (
    DirectoryItem(FOLDER, mode=0o755),
    DirectoryItem(MANIFESTS, mode=0o755),
    DirectoryItem(f"{FOLDER}/pki", mode=0o755),
    DirectoryItem(KUBELET_STATE),
    DirectoryItem("/usr/libexec/kubernetes/kubelet-plugins/volume/exec"),  # the kubelet makes it when it starts
)
# What a kubelet changes when it starts, unless it is told to protect the kernel's defaults (setupKernelTunables in
# pkg/kubelet/cm/container_manager_linux.go). It mounts its directory on itself where mounts are not shared.
KUBELET_MAKES = (
    MadeItem("sysctl", "vm.overcommit_memory", "1"),
    MadeItem("sysctl", "vm.panic_on_oom", "0"),
    MadeItem("sysctl", "kernel.panic", "10"),
    MadeItem("sysctl", "kernel.panic_on_oops", "1"),
    MadeItem("sysctl", "kernel.keys.root_maxkeys", "1000000"),
    MadeItem("sysctl", "kernel.keys.root_maxbytes", "25000000"),
    MadeItem("mount", KUBELET_STATE, "on itself"),
    MadeItem("filter", RULESET, "more tables and chains"),
)
_CONFS = (KUBELET_CONF, BOOTSTRAP_CONF)
# Folders of files that kubeadm and the kubelet write without fsync, and those of them that no join leaves empty.
_WRITTEN = (f"{FOLDER}/pki", FOLDER, f"{KUBELET_STATE}/pki", KUBELET_STATE)
_NEVER_EMPTY = (KUBELET_CONF, CA_CERTIFICATE, f"{KUBELET_STATE}/config.yaml")
_KEPT = ("lost+found",)
_QUICK = 30.0
_STOP = 120.0
_RESET = 180.0


class Join(t.NamedTuple):
    """What a join needs; the token is empty where the cluster knows the node already."""

    node: str
    endpoint: str
    pinned: t.List[str]
    token: str
    socket: str
    kubeadm: str
    ignore: t.List[str]
    taints: t.List[JSON]
    timeout: int


def join(session: Session, wanted: Join, *, check: bool) -> JSON:
    """Join the node; do nothing where it is in this cluster already. A join that lost its power is done again."""
    conf = read(KUBELET_CONF)
    empty = [] if conf is None else [path for path in _NEVER_EMPTY if not read(path)]
    # Where all files are whole, as in most runs, the record need not be read.
    ours = is_ours(session) if conf is None or empty else False
    if conf is not None and not (empty and ours):
        return {"changed": False, "server": membership.same_cluster(conf, wanted.pinned), "steps": [], "ignored": []}
    _refuse_strangers(ours=ours)
    step = f"join {wanted.node} to the cluster at {wanted.endpoint}"
    ignore = [*wanted.ignore, *_cgroup_v1()]
    result: JSON = {"changed": True, "server": f"https://{wanted.endpoint}", "steps": [step], "ignored": ignore}
    if check:
        return result
    if not wanted.token and empty:
        raise KubeError(
            f"{wanted.node}: its join was cut off, as by a loss of power: {empty[0]} is empty or missing, and the "
            f"cluster has its Node already: kubectl delete node {wanted.node}, and run again"
        )
    if not wanted.token:
        raise KubeError(
            f"{wanted.node}: the cluster has a Node of this name, and this machine has not joined: two machines of one "
            f"name, or a leftover; make sure of it, then: kubectl delete node {wanted.node}, and run again"
        )
    _check_socket(wanted.socket)
    session.converge(
        resolve(session.host, Desired(role=ROLE, directories=_DIRECTORIES, made=KUBELET_MAKES)), Contents()
    )
    if ours:
        _systemctl("stop", "kubelet.service")
        forget(Sweep(check=False))
    _kubeadm_join(wanted._replace(ignore=ignore))
    _write_out(session.host)
    return result


class Leave(t.NamedTuple):
    """What a node has that leaves; units and directories are the runtime's, and count where we installed it."""

    kubeadm: str
    socket: str
    links: t.Sequence[str]
    runtime_package: str
    stop: t.Sequence[str]
    directories: t.Sequence[str]
    only_runtime: bool = False


def leave(session: Session, wanted: Leave, *, check: bool) -> t.Tuple[Sweep, bool]:
    """Take the node out of the cluster, if the join was ours. Pods end first, while their runtime still answers.

    A runtime that we installed is emptied also where the node has not joined yet, as after a conversion that was broken
    off. The record keeps the join, so that a way back that is broken off knows whether the Node object is ours. With
    `only_runtime` a node that is in a cluster stays as it is.
    """
    sweep = Sweep(check=check)
    ours = is_ours(session) and not wanted.only_runtime
    runtime_too = _installed_by_us(session, wanted.runtime_package) and (ours or read(KUBELET_CONF) is None)
    if ours:
        _end_membership(sweep, wanted, check=check)
    if runtime_too and not check:
        for unit in wanted.stop:
            _systemctl("stop", unit)
    if ours or runtime_too:
        sweep.processes()
        if ours:
            sweep.cgroups()
        sweep.mounts()
        sweep.links(wanted.links)
        sweep.chains()
    if ours:
        forget(sweep)
    for folder in wanted.directories if runtime_too else ():
        sweep.contents(folder)
    return sweep, ours


def _end_membership(sweep: Sweep, wanted: Leave, *, check: bool) -> None:
    strangers = _names(MANIFESTS)
    if strangers:
        raise KubeError(f"{MANIFESTS}: holds {', '.join(strangers)}, which is not ours: move it away, then run again")
    if not check:
        _systemctl("stop", "kubelet.service")
        if read(KUBELET_CONF) is not None or _names(KUBELET_STATE):  # else it has left before
            _end_pods(sweep, wanted.kubeadm, wanted.socket)


def _write_out(host: Host) -> None:
    """Write the files of a join to the disk: after a power cut the newest files can be empty."""
    for folder in _WRITTEN:
        names = host.names(folder)
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # the kubelet runs, and has files that come and go
                host.sync_file(f"{folder}/{name}")
        if names:
            host.sync_directory(folder)


def _installed_by_us(session: Session, package: str) -> bool:
    view, this = session.store.load(), key("package", package)
    entry = view.entries.get(this)
    return entry is not None and not is_installed(entry.state) and bool(view.wrote.get(this))


def forget(sweep: Sweep) -> None:
    """Remove the files that make this machine a member, and the kubelet's own."""
    for path in (KUBELET_CONF, BOOTSTRAP_CONF, CA_CERTIFICATE):
        sweep.file(path)
    sweep.contents(KUBELET_STATE)


def is_ours(session: Session) -> bool:
    """Return whether the record says that we joined this node, or were about to."""
    return any(ROLE in roles for roles in session.store.load().claims.values())


def read(path: str) -> t.Optional[str]:
    """Return a file's text; None where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _refuse_strangers(*, ours: bool) -> None:
    """Refuse parts of a Kubernetes that is not ours; a join that was interrupted left parts that are."""
    if ours:
        return
    for folder in (KUBELET_STATE, f"{FOLDER}/pki", MANIFESTS):
        found = [name for name in _names(folder) if name not in _KEPT]
        if found:
            raise KubeError(f"{folder}: holds {found[0]}, from another Kubernetes: take that away first")


def _cgroup_v1() -> t.List[str]:
    """Leave kubeadm's check out on cgroup v1, which it refuses from 1.35 on, whatever the kubelet is told."""
    return [] if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else ["SystemVerification"]


def _check_socket(socket: str) -> None:
    path = socket[len("unix://") :] if socket.startswith("unix://") else socket
    if not path.startswith("/"):
        raise KubeError(f"runtime socket {socket!r}: expected unix:///path")
    if not os.path.exists(path):
        raise KubeError(f"runtime socket {path}: does not exist: start the container runtime, or name its socket")


def _kubeadm_join(wanted: Join) -> None:
    version = membership.kubeadm_version(_run([wanted.kubeadm, "version", "--output=short"], timeout=_QUICK).out)
    configuration = membership.join_configuration(
        version=version,
        node=wanted.node,
        endpoint=wanted.endpoint,
        token=wanted.token,
        pinned=wanted.pinned,
        socket=wanted.socket,
        ignore=wanted.ignore,
        taints=wanted.taints,
        timeout=wanted.timeout,
    )
    with tempfile.NamedTemporaryFile("w", prefix="kubeadm-", dir="/run") as file:
        json.dump(configuration, file)
        file.flush()
        argv = [wanted.kubeadm, "join", "--config", file.name]
        said = _run(argv, timeout=2 * wanted.timeout + _QUICK, ok=range(256), env={"NO_PROXY": "*", "no_proxy": "*"})
    if said.rc != 0:
        why = membership.complaint(said.out, said.err, token=wanted.token)
        _systemctl("stop", "kubelet.service")
        forget(Sweep(check=False))
        raise KubeError(f"{wanted.node}: kubeadm join failed and was taken back: {why}")


def _end_pods(sweep: Sweep, kubeadm: str, socket: str) -> None:
    """End pods by the runtime's own interface, which kubeadm speaks; what still runs then is killed afterwards.

    kubeadm also removes files of control planes, which it never wrote here: where the site has such, it is not asked.
    """
    strange = [name for name in _names(FOLDER) if name.endswith(".conf") and f"{FOLDER}/{name}" not in _CONFS]
    strange += [name for name in _names(f"{FOLDER}/pki") if name != os.path.basename(CA_CERTIFICATE)]
    if strange or not (os.path.exists(kubeadm) and os.path.exists(socket[len("unix://") :])):
        return
    try:
        _command.run([kubeadm, "reset", "phase", "cleanup-node", "--cri-socket", socket], timeout=_RESET)
        sweep.removed.append("pods, by kubeadm reset phase cleanup-node")
    except _command.CommandError as error:
        sweep.removed.append(f"pods, by force: {error}")


def _systemctl(verb: str, unit: str) -> None:
    # 5: there is no such unit any more.
    _run(["systemctl", verb, "--", unit], timeout=_STOP, ok=(0, 5))


def _run(argv: t.Sequence[str], **how: t.Any) -> _command.Completed:
    try:
        return _command.run(argv, **how)
    except _command.CommandError as error:
        raise KubeError(str(error)) from error


def _names(folder: str) -> t.List[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
