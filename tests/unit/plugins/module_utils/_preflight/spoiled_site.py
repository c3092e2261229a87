# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site on which preflight finds nothing to say, and the ways to spoil one thing of it.

Shared by the tests of its verdicts, which are parted by what they are about: machines, Slurm, and the site as a whole.
"""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import Verdict
from ansible_collections.converged.hpc.plugins.module_utils._preflight.verdicts import Cluster, Settings, verdicts

GIB = 1024**3


def host(name: str, *, is_node: bool = True) -> dict[str, t.Any]:
    """A machine on which there is nothing to find fault with."""
    disk = {"mount": "/", "type": "ext4", "read_only": False, "size": 100 * GIB, "free": 60 * GIB}
    return {
        "wanted": {
            "is_node": is_node,
            "wlm_node": name,
            "kube_node": name,
            "share_mode": "handover",
            "node_ip": "",
            "kubelet_config": {},
            "socket": "unix:///run/containerd/containerd.sock",
            "runtime_manage": True,
        },
        "offset": [-0.2, 0.1],
        "found": {
            "hostname": name,
            "family": "Debian",
            "nvidia_in_config": False,
            "kernel": "6.1.0-28-amd64",
            "container": "",
            "cgroup": "v2",
            "swap": [],
            "ports": {},
            "disks": {"/etc": disk, "/usr": dict(disk), "/var/lib/kubelet": dict(disk)},
            "addresses": {"eth0": ["10.0.0.1"]},
            "units": {"munge.service": "active"},
            "kubernetes": [],
            "kubelet": "",
            "runtimes": {},
            "cri_disabled": False,
            "socket": False,
            "munge": "",
            "selinux": "",
            "overcommit": "0",
            "owners": [],
            "killing": [],
            "record": [],
            "slurm": {
                "conf": "/etc/slurm/slurm.conf",
                "kept": "local",
                "bin_dir": "/usr/bin",
                "squeue": True,
                "error": "",
                "digest": "d1",
                "scripts": [],
                "missing": [],
            },
        },
    }


def slurm_node(name: str) -> dict[str, t.Any]:
    return {"name": name, "hostname": name, "state": "IDLE", "flags": [], "partitions": ["batch"], "reason": ""}


class Site:
    """Two nodes and a controller, to be spoiled."""

    def __init__(self) -> None:
        self.nodes = {"n1": host("n1"), "n2": host("n2"), "ctl": host("ctl", is_node=False)}
        self.config: dict[str, t.Any] = {
            "PrologFlags": "Alloc,DeferBatch",
            "PrologEpilogTimeout": "65534",
            "MessageTimeout": "100 sec",
            "BatchStartTimeout": "100 sec",
            "SuspendTime": "INFINITE",
            "SuspendProgram": None,
            "SuspendExcNodes": None,
            "SuspendExcParts": None,
            "PreemptMode": "OFF",
            "SlurmctldHost": ["ctl(10.0.0.9)"],
        }
        self.partitions = [
            {
                "name": "batch",
                "nodes": ["n1", "n2"],
                "oversubscribe": "NO",
                "preempt_mode": "OFF",
                "suspend_time": "GLOBAL",
            }
        ]
        self.slurm_nodes = [slurm_node("n1"), slurm_node("n2")]
        self.kube: dict[str, t.Any] = {"version": "v1.36.3", "nodes": {}}
        self.slurm_error = ""
        self.settings = Settings(controllers=("ctl",))

    @property
    def n1(self) -> dict[str, t.Any]:
        """What was found on n1."""
        return t.cast("dict[str, t.Any]", self.nodes["n1"]["found"])

    @property
    def wanted(self) -> dict[str, t.Any]:
        """What the inventory wants of n1."""
        return t.cast("dict[str, t.Any]", self.nodes["n1"]["wanted"])

    def judge(self) -> dict[str, Verdict]:
        slurm = {"config": self.config, "nodes": self.slurm_nodes, "partitions": self.partitions, "version": "22.05.8"}
        return verdicts(
            copy.deepcopy(self.nodes),
            Cluster({"error": self.slurm_error} if self.slurm_error else slurm, self.kube, {}),
            self.settings,
        )


def setting(where: str, key: str, value: t.Any) -> t.Callable[[Site], None]:
    """Spoils one value of n1 (found, wanted), of Slurm's config, of its first node or of its partition."""

    def spoil(site: Site) -> None:
        places = {
            "found": site.n1,
            "wanted": site.wanted,
            "config": site.config,
            "slurm_node": site.slurm_nodes[0],
            "partition": site.partitions[0],
            "kube": site.kube,
            "host": site.nodes["n1"],
            "slurm": site.n1["slurm"],
            "disk": site.n1["disks"]["/var/lib/kubelet"],
        }
        places[where][key] = value

    return spoil


def several(*spoils: t.Callable[[Site], None]) -> t.Callable[[Site], None]:
    def spoil(site: Site) -> None:
        for one in spoils:
            one(site)

    return spoil


def settled(**values: t.Any) -> t.Callable[[Site], None]:
    def spoil(site: Site) -> None:
        site.settings = site.settings._replace(**values)

    return spoil


def unread(site: Site) -> None:
    site.nodes["n1"] = {"wanted": site.wanted, "error": "no route to host"}


def silent(site: Site) -> None:
    site.slurm_error = "scontrol: timed out"


def a_third(site: Site) -> None:
    site.slurm_nodes.append(slurm_node("n3"))


def said(spoil: t.Callable[[Site], None], where: str, words: str) -> list[tuple[str, str]]:
    """Level and code of each finding about `where` that has these words in it, once the site is spoiled."""
    site = Site()
    spoil(site)
    return [(one.level, one.code) for one in site.judge()[where].findings if words in one.text]


POWER = several(setting("config", "SuspendTime", "300 sec"), setting("config", "SuspendProgram", "/usr/sbin/off"))
OWN = several(setting("wanted", "runtime_manage", False), setting("found", "socket", True))
SYCRI = several(OWN, setting("wanted", "socket", "unix:///var/run/singularity.sock"))
