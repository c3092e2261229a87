# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel and programs of a node print, read into plain data. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import json
import re
import typing as t

LISTENING = "0A"
_FAMILIES = {
    **dict.fromkeys(("debian", "ubuntu"), "Debian"),
    **dict.fromkeys(("rhel", "centos", "rocky", "almalinux", "fedora"), "RedHat"),
    **dict.fromkeys(("sles", "suse", "opensuse", "sle_hpc"), "Suse"),
}
# Made by runtimes, hypervisors and pod networks; no cluster is reached by them.
_VIRTUAL = re.compile(
    r"(lo|docker|cni|veth|virbr|vnet|flannel|cali|cilium|tunl|vxlan|kube-|nodelocaldns|br-[0-9a-f]{12})"
)
_ACCELERATOR = re.compile(r"nvidia[0-9]+|nvidia-uvm|kfd|dri/renderD[0-9]+|accel/accel[0-9]+|davinci[0-9]+", re.ASCII)


def family(text: str) -> str:
    """Return the family of a distribution from its os-release, in Ansible's words; "" for one that is not known."""
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    words = f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".replace('"', "").replace("'", "").lower().split()
    return next((_FAMILIES[word] for word in words if word in _FAMILIES), "")


def cgroup_mode(found: t.Mapping[str, t.Tuple[str, bool]]) -> str:
    """Return v2 where the unified hierarchy is the only one, else v1, also where both are mounted."""
    return "v2" if found.get("/sys/fs/cgroup", ("", False))[0] == "cgroup2" else "v1"


def swap_devices(text: str) -> t.List[str]:
    """Read /proc/swaps, without compressed memory."""
    names = [line.split()[0] for line in text.splitlines()[1:] if line.split()]
    return [name for name in names if not name.startswith("/dev/zram")]


def listeners(text: str) -> t.Dict[int, str]:
    """Read /proc/net/tcp or tcp6: the inode of the socket that listens on each port."""
    found = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and words[3] == LISTENING:
            found[int(words[1].rpartition(":")[2], 16)] = words[9]
    return found


def addresses(text: str) -> t.Dict[str, t.List[str]]:
    """Read `ip -json address`: global addresses by interface, those of pods and virtual machines left out."""
    found: t.Dict[str, t.List[str]] = {}
    for link in json.loads(text or "[]"):
        name = str(link.get("ifname", ""))
        known = [one["local"] for one in link.get("addr_info", []) if one.get("scope") == "global" and "local" in one]
        if known and not _VIRTUAL.match(name):
            found[name] = known
    return found


def unit_states(text: str) -> t.Dict[str, str]:
    """Read the active state of every unit that exists from `systemctl show --property=Id,LoadState,ActiveState`."""
    found = {}
    for block in text.split("\n\n"):
        values = dict(line.partition("=")[::2] for line in block.splitlines())
        if values.get("Id") and values.get("LoadState") not in ("not-found", None):
            found[values["Id"]] = values.get("ActiveState", "")
    return found


def printed_version(text: str) -> str:
    """Return the first release number that a program prints; "" where there is none."""
    match = re.search(r"\bv?(\d+\.\d+(?:\.\d+)?)", text)
    return match.group(1) if match else ""


def accelerators(names: t.Iterable[str]) -> t.List[str]:
    """Return those of the names below /dev that are accelerators, as nodeshare knows them."""
    return sorted(name for name in names if _ACCELERATOR.fullmatch(name))


def top_level(text: str, keys: t.Container[str]) -> t.Dict[str, str]:
    """Return the scalars of these keys at the top level of a YAML file, as they are written, without quotes."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"([A-Za-z]+):[ \t]+(\S+)[ \t]*(?:#.*)?\Z", line, re.ASCII)
        if match and match.group(1) in keys:
            found[match.group(1)] = match.group(2).strip("'\"")
    return found


def total_memory(text: str) -> int:
    """Return bytes of memory from /proc/meminfo; 0 where it does not say."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", text, re.ASCII | re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def runtime_endpoint(config: str, flags: str) -> str:
    """Return the socket by which the kubelet of this node asks its runtime; empty where no kubelet has been told one.

    Kubeadm writes it into the KubeletConfiguration, and up to 1.34 into the arguments of the kubelet.
    """
    found = re.search(r"""--container-runtime-endpoint[= ]["']?([^"'\s]+)""", flags) or re.search(
        r"""^containerRuntimeEndpoint:[ \t]*["']?([^"'\s]+)""", config, re.MULTILINE
    )
    return found.group(1) if found else ""
