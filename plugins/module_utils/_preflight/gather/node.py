# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a node for preflight: one pass, nothing changed, every file and every program bounded.

What a node does not tell (no such file, no such program, no answer in time) is absent from the result; the checks
decide what absence means.

PRIVATE to the collection.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import time
import typing as t
from urllib.parse import urlsplit

from ... import _command
from ..._texts import mount_of, mounts, text_of
from . import parse, script_patterns

SECONDS = 10.0
API_SECONDS = 5.0
UNITS = (
    "docker.service",
    "firewalld.service",
    "ufw.service",
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "snap.microk8s.daemon-kubelite.service",
    "containerd.service",
    "crio.service",
    "sycri.service",
    "munge.service",
    "slurmd.service",
    "slurmctld.service",
    "puppet.service",
    "salt-minion.service",
    "cfengine3.service",
    "chef-client.service",
)
KUBERNETES = (
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/config.yaml",
    "/etc/rancher/k3s",
    "/etc/rancher/rke2",
    "/var/snap/microk8s",
)
# Which decide where the cgroups of pods are, and where static pods.
KUBELET_FIELDS = ("cgroupRoot", "cgroupsPerQOS", "staticPodPath")
RUNTIMES = ("containerd", "crio", "cri-dockerd", "sycri")


def node(
    *, ports: t.Sequence[int], paths: t.Sequence[str], sock: str, files: t.Sequence[str], api_server: str = ""
) -> t.Dict[str, t.Any]:
    """Gather everything but the batch system's side."""
    seen = time.time()
    mounted = mounts(text_of("/proc/self/mounts"))
    return {
        "time": seen,
        "hostname": socket.gethostname(),
        "kernel": platform.release(),
        "family": parse.family(text_of("/etc/os-release")),
        "container": _container(),
        "cpus": os.cpu_count() or 0,
        "memory": parse.total_memory(text_of("/proc/meminfo")),
        "cgroup": parse.cgroup_mode(mounted),
        "swap": parse.swap_devices(text_of("/proc/swaps")),
        "ports": _ports(ports),
        "disks": {path: _disk(path, mounted) for path in paths},
        "addresses": parse.addresses(said("ip", "-json", "address")),
        "units": parse.unit_states(said("systemctl", "show", "--property=Id,LoadState,ActiveState", *UNITS)),
        "kubernetes": [path for path in KUBERNETES if os.path.exists(path)],
        "kubelet_file": parse.top_level(text_of("/var/lib/kubelet/config.yaml"), KUBELET_FIELDS),
        "kubelet_socket": parse.runtime_endpoint(
            text_of("/var/lib/kubelet/config.yaml"), text_of("/var/lib/kubelet/kubeadm-flags.env")
        ),
        "devices": parse.accelerators(_devices()),
        "kubelet": parse.printed_version(said("kubelet", "--version")),
        "runtimes": {name: parse.printed_version(said(name, "--version")) for name in RUNTIMES if found(name)},
        "cri_disabled": "disabled_plugins" in _active_lines("/etc/containerd/config.toml", '"cri"', "grpc.v1.cri"),
        "nvidia_in_config": "nvidia" in _active_lines("/etc/containerd/config.toml", "nvidia-container-runtime"),
        "socket": os.path.exists(sock) if sock else False,
        "munge": _munge(),
        "api_unreached": unreached(api_server),
        "selinux": text_of("/sys/fs/selinux/enforce").strip(),
        "overcommit": text_of("/proc/sys/vm/overcommit_memory").strip(),
        "owners": [owned for owned in (_owner(path) for path in files) if owned],
    }


def found(program: str) -> bool:
    return shutil.which(program, path=_command.PATH) is not None


def said(*argv: str) -> str:
    """Return what a program prints; "" where it is not there or fails."""
    if not found(argv[0]):
        return ""
    try:
        return _command.run(argv, timeout=SECONDS).out
    except _command.CommandError:
        return ""


def _devices() -> t.Iterator[str]:
    """Yield the names below /dev where drivers put accelerators."""
    for folder in ("", "dri/", "accel/"):
        with contextlib.suppress(OSError):
            yield from (folder + name for name in os.listdir("/dev/" + folder))


def _container() -> str:
    """Return what kind of container this node itself is."""
    return text_of("/run/systemd/container").strip()


def _active_lines(path: str, *words: str) -> str:
    lines = (line.strip() for line in text_of(path).splitlines())
    return "\n".join(line for line in lines if not line.startswith("#") and any(word in line for word in words))


def _ports(ports: t.Sequence[int]) -> t.Dict[str, str]:
    """Return the programs that listen on the ports that are wanted."""
    taken = parse.listeners(text_of("/proc/net/tcp6"))
    taken.update(parse.listeners(text_of("/proc/net/tcp")))
    inodes = {taken[port]: port for port in ports if port in taken}
    names = dict.fromkeys((str(port) for port in inodes.values()), "")
    for process in os.listdir("/proc") if inodes else ():
        for inode in _sockets(process) & inodes.keys() if process.isdigit() else ():
            names[str(inodes[inode])] = text_of(f"/proc/{process}/comm").strip()
    return names


def _sockets(process: str) -> t.Set[str]:
    folder = f"/proc/{process}/fd"
    links: t.Set[str] = set()
    try:
        names = os.listdir(folder)
    except OSError:  # it has ended
        return links
    for name in names:
        with contextlib.suppress(OSError):  # closed since: a busy process goes on meanwhile
            links.add(os.readlink(f"{folder}/{name}"))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}


def _disk(path: str, mounted: t.Mapping[str, t.Tuple[str, bool]]) -> t.Dict[str, t.Any]:
    """Return the file system that a path would lie on, though the path may not be there yet."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    point = mount_of(os.path.realpath(path), mounted)
    kind, read_only = mounted.get(point, ("", False))
    room = os.statvfs(path)
    return {
        "mount": point,
        "type": kind,
        "read_only": read_only,
        "size": room.f_blocks * room.f_frsize,
        "free": room.f_bavail * room.f_frsize,
    }


def unreached(server: str) -> str:
    """Return why no connection to the Kubernetes API comes about; "" where one does, or where none is wanted."""
    if not server:
        return ""
    try:
        parts = urlsplit(server if "://" in server else f"https://{server}")
        with socket.create_connection((parts.hostname or "", parts.port or 443), timeout=API_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        return f"{server}: {getattr(error, 'strerror', None) or error}"


def _munge() -> str:
    """Return why a credential cannot be made and read here; "" where it can, or where there is no munge."""
    if not found("munge"):
        return "not installed"
    try:
        credential = _command.run(["munge", "--no-input"], timeout=SECONDS).out
        _command.run(["unmunge", "--no-output"], timeout=SECONDS, text=credential)
    except _command.CommandError as error:
        return str(error)
    return ""


def _owner(path: str) -> t.Dict[str, t.Any]:
    name, line = script_patterns.owner(text_of(path)) if os.path.isfile(path) else ("", 0)
    return {"path": path, "line": line, "owner": name} if name else {}
