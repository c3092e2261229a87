# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a machine before anything is changed on it: what cannot work is refused in one line that says what to type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from urllib.parse import urlsplit

from bootstrap.machine import Machine

GIB = 1024**3
SUPPORTED = {("debian", "12"), ("debian", "13"), ("ubuntu", "24.04")}
ARCHITECTURES = {"x86_64", "aarch64"}
ENOUGH_INOTIFY_INSTANCES = 512
# The test bed probes the same ranges, in this order, for a /24 of its own.
RANGES = ("10.89.0.0/16", "172.16.0.0/12", "192.168.0.0/16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a target asks of the machine."""

    test_bed: bool
    machines: bool = False  # nodes that are virtual machines
    memory: int
    disk: int

    def cached(self) -> Need:
        """Return what is left to ask where Kubernetes' programs were built already, and with them most of the cache."""
        return replace(self, disk=min(self.disk, CACHED_DISK))


CODE_ONLY = Need(test_bed=False, memory=1 * GIB, disk=2 * GIB)
# One bed, and before it the build: 4 GiB of Go's caches, 3 of its work folder, and 2 of environment, image and bed.
DEMO = Need(test_bed=True, memory=4 * GIB, disk=10 * GIB)
# Four beds of about 1 GiB of memory at a time and what tests them; two Debian releases, more layers and environments.
TESTS = Need(test_bed=True, machines=True, memory=6 * GIB, disk=16 * GIB)
CACHED_DISK = 4 * GIB
# One process of the build was seen to take as much.
FREE_MEMORY = 2 * GIB


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the machine: refused (nothing is started) or only worth a line."""

    refused: bool
    text: str


def check(machine: Machine, need: Need) -> list[Finding]:
    """Everything that stands in the way, refusals first."""
    found = [*_system(machine), *_rights(machine, need), *_room(machine, need), *_proxies(machine.proxies)]
    if need.test_bed:
        found += [*_containers(machine), *_networks(machine), *_forwarding(machine.forwarding_rules)]
    return sorted(found, key=lambda finding: not finding.refused)


def _refuse(text: str) -> Finding:
    return Finding(True, text)


def _note(text: str) -> Finding:
    return Finding(False, text)


def _system(machine: Machine) -> Iterator[Finding]:
    if (machine.distribution, machine.release) not in SUPPORTED:
        found = f"{machine.distribution or 'unknown'} {machine.release}".strip()
        yield _refuse(f"the distribution is {found}; use a machine or VM with Debian 12, Debian 13 or Ubuntu 24.04.")
    if machine.architecture not in ARCHITECTURES:
        yield _refuse(f"the architecture is {machine.architecture}; use a machine with x86_64 or aarch64.")
    if machine.container == "wsl":
        yield _refuse(
            "this is WSL2, where nodes under systemd do not run; use a virtual machine (multipass launch 24.04)."
        )
    elif machine.container == "lxc":
        yield _refuse(
            "this is an LXC container, which may not start containers with systemd; use a virtual machine or the host."
        )
    elif not machine.whole_user_range:
        yield _refuse(
            "this is a rootless container or user namespace; run it on the host, or in a virtual machine, as root."
        )


def _rights(machine: Machine, need: Need) -> Iterator[Finding]:
    may_be_root = machine.root or machine.sudo
    folder = f"/var/cache/converged-hpc-{machine.user}" if may_be_root else "$HOME/.cache/converged-hpc"
    if not may_be_root and need.test_bed:
        yield _refuse(
            f"user {machine.user} is not root and 'sudo -n true' asks for a password; run make as root, "
            f"or type: su -c 'echo \"{machine.user} ALL=(ALL) NOPASSWD: ALL\" > /etc/sudoers.d/{machine.user}'"
        )
    elif not may_be_root and not machine.cache_possible and machine.cache_owner is None:
        yield _refuse(f"user {machine.user} may not make {machine.cache}; type: export CONVERGED_CACHE={folder}")
    if machine.cache_owner not in (None, machine.user):
        yield _refuse(
            f"{machine.cache} belongs to {machine.cache_owner}, not to {machine.user}; "
            f"type: export CONVERGED_CACHE={folder}"
        )


def _room(machine: Machine, need: Need) -> Iterator[Finding]:
    if machine.memory < need.memory * 0.9:  # the kernel keeps a part of what the machine has
        yield _refuse(
            f"{machine.memory / GIB:.1f} GiB of memory; {need.memory / GIB:.0f} GiB are needed: give the machine more."
        )
    elif need.test_bed and machine.memory_free < FREE_MEMORY:
        yield _refuse(
            f"{machine.memory_free / GIB:.1f} GiB of memory are free; {FREE_MEMORY / GIB:.0f} GiB are needed: "
            "end what takes the rest; see: ps axo rss,args --sort -rss"
        )
    if machine.disk_free is None:
        yield _refuse(f"{machine.cache} cannot be made; type: export CONVERGED_CACHE=/a/folder/with/room")
    elif machine.disk_free < need.disk:
        yield _refuse(
            f"{machine.disk_free / GIB:.1f} GiB free for {machine.cache}; {need.disk / GIB:.0f} GiB are needed: "
            "free some, or type: export CONVERGED_CACHE=/a/folder/with/room"
        )


def _containers(machine: Machine) -> Iterator[Finding]:
    if machine.cgroup == "none":
        yield _refuse(
            "no cgroup hierarchy is mounted; boot with systemd, or type: mount -t cgroup2 cgroup2 /sys/fs/cgroup"
        )
    elif machine.cgroup != "v2":
        yield _note(f"cgroup {machine.cgroup}: works, but a service that stops inside a node may take up to 90 s.")
    if 0 < machine.inotify_instances < ENOUGH_INOTIFY_INSTANCES:
        yield _note(
            f"fs.inotify.max_user_instances is {machine.inotify_instances}; the test bed raises it while it is up."
        )


def _networks(machine: Machine) -> Iterator[Finding]:
    if free_network(machine.routes) is None:
        yield _refuse(
            f"no free /24 network in {', '.join(RANGES)}: all are routed (a VPN?); disconnect it, or see: ip route"
        )


def free_network(routes: Iterable[IPv4Network]) -> IPv4Network | None:
    """The first /24 of the ranges that no route overlaps."""
    taken = list(routes)
    for candidates in RANGES:
        for network in IPv4Network(candidates).subnets(new_prefix=24):
            if not any(network.overlaps(route) for route in taken):
                return network
    return None


def _forwarding(rules: Iterable[str]) -> Iterator[Finding]:
    """A policy of DROP (Docker, ufw) is harmless: podman adds rules of its own. A last rule that rejects all is not."""
    known = list(rules)
    if any(re.fullmatch(r"-A ufw-(\w+-)?reject-forward -j (REJECT|DROP)( .*)?", rule) for rule in known):
        yield _refuse(
            "ufw rejects forwarded packets, so containers cannot reach each other; type: sudo ufw default allow routed"
        )
    elif any(re.fullmatch(r"-A FORWARD -j (REJECT|DROP)( .*)?", rule) for rule in known):
        yield _refuse(
            "the firewall's chain FORWARD ends with a rule that rejects everything; "
            "type: sudo iptables -I FORWARD -i podman+ -j ACCEPT"
        )
    elif "-P FORWARD DROP" in known:
        yield _note(
            "the firewall drops forwarded packets by default (Docker or ufw do so); podman adds rules for its networks."
        )


def _proxies(proxies: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    for name, value in proxies:
        if urlsplit(value).scheme not in ("http", "https", "socks5", "socks5h") or not urlsplit(value).hostname:
            yield _refuse(f"{name} is set to something that is no proxy address; type: export {name}=http://HOST:PORT")
            return
    if any(True for _ in proxies):
        yield _note("a proxy is set: it is passed on, and NO_PROXY gets the test bed's networks.")
