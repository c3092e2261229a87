# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a host has its slurm.conf, and how a site keeps the file: a copy on each host, one shared file, or configless.

PRIVATE to the collection.
"""

from __future__ import annotations

import os
import typing as t

from ..._texts import mount_of, mounts, text_of
from ..errors import ConfError

LOCAL, SHARED, FETCHED, UNKNOWN, NONE = "local", "shared", "fetched", "unknown", "none"
CONFIGLESS = "configless"
# Where slurmd puts what it has fetched from slurmctld; then where packages and installations of their own have it.
FETCHED_TO = "/run/slurm/conf/slurm.conf"
PLACES = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")
_ON_OTHER_HOSTS = (
    *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "panfs", "wekafs", "9p", "afs", "orangefs"),
    *("fuse.glusterfs", "fuse.ceph", "fuse.sshfs", "glusterfs", "virtiofs", "gfs2", "ocfs2"),
)


def places(told: str, bin_dir: str | None) -> list[str]:
    """Return the paths at which a host may have slurm.conf, the likeliest first; ``told`` is what slurmctld says."""
    beside = [os.path.join(os.path.dirname(bin_dir), "etc/slurm.conf")] if bin_dir else []
    return list(dict.fromkeys([FETCHED_TO, *([told] if told else []), *PLACES, *beside]))


def kept(path: str, real: str, mounted: t.Mapping[str, tuple[str, bool]]) -> str:
    """Return how this host has a file: fetched by slurmd, on a file system of other hosts, or its own.

    ``mounted`` is the file system by mount point. A network root may be one host's or everyone's: unknown.
    """
    if not path:
        return NONE
    if path == FETCHED_TO or "/conf-cache/" in real:
        return FETCHED
    point = mount_of(real, mounted)
    if mounted.get(point, ("", False))[0] not in _ON_OTHER_HOSTS:
        return LOCAL
    return UNKNOWN if point == "/" else SHARED


def here(told: str, bin_dir: str | None) -> tuple[str, str]:
    """Return the path of this host's slurm.conf, "" where it has none, and how it is kept."""
    path = next((place for place in places(told, bin_dir) if os.path.isfile(place)), "")
    return path, how(path)


def how(path: str) -> str:
    """Return how this host keeps the file at a path."""
    mounted = mounts(text_of("/proc/self/mounts"))
    return kept(path, os.path.realpath(path) if path else "", mounted)


def mode(found: t.Mapping[str, str], controllers: t.Container[str]) -> str:
    """Return local, shared or configless for a site, by how each host keeps slurm.conf.

    Raise ConfError where the hosts do not agree, which only an administrator can explain.
    """
    of_nodes = {host: one for host, one in found.items() if host not in controllers}
    of_controllers = {host: one for host, one in found.items() if host in controllers and one != FETCHED}
    kinds = set(of_nodes.values())
    if kinds == {FETCHED} and of_controllers and set(of_controllers.values()) <= {LOCAL, SHARED}:
        return SHARED if set(of_controllers.values()) == {SHARED} else CONFIGLESS
    everywhere = kinds | set(of_controllers.values())
    if everywhere in ({LOCAL}, {SHARED}):
        return everywhere.pop()
    groups: dict[str, list[str]] = {}
    for host, one in found.items():
        groups.setdefault(one, []).append(host)
    seen = "; ".join(f"{one} on {', '.join(hosts[:4])}{' ...' * (len(hosts) > 4)}" for one, hosts in groups.items())
    raise ConfError(
        f"slurm.conf is kept in more than one way ({seen or 'no host answered'}):"
        " set slurm_share_conf to local, shared or configless"
    )
