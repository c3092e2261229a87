# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which networks of this machine are in use, so that a bed takes none of them, and what is left of one that goes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from typing import Any

from testbed.podman import Podman
from testbed.run import run
from testbed.state import BedStore, bed_names

Taken = tuple[IPv4Network, str]


def taken(podman: Podman) -> list[Taken]:
    """Every IPv4 network that the machine knows, with who uses it."""
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"], timeout=10).out or "[]")
    addresses = json.loads(run(["ip", "-json", "-4", "address"], timeout=10).out or "[]")
    names = podman.call("network", "ls", "--quiet").out.split()
    # A bed that goes down just now takes its network away between these two calls; the others are told all the same.
    networks = json.loads(podman.call("network", "inspect", *names, check=False).out or "[]") if names else []
    beds = [(IPv4Network(bed.subnet), f"bed '{name}'") for name in bed_names() if (bed := BedStore(name).load())]
    return [*beds, *of_podman(networks), *of_addresses(addresses), *of_routes(routes)]


def of_routes(routes: Iterable[dict[str, Any]]) -> list[Taken]:
    """Networks of `ip -json route`; the default route is everybody's."""
    found = []
    for route in routes:
        destination = route.get("dst", "default")
        if destination != "default" and destination != "0.0.0.0/0":
            found.append((IPv4Network(destination, strict=False), f"a route on {route.get('dev', '?')}"))
    return found


def of_addresses(links: Iterable[dict[str, Any]]) -> list[Taken]:
    """Networks of `ip -json address`."""
    return [
        (IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False), f"interface {link['ifname']}")
        for link in links
        for address in link.get("addr_info", [])
        if address.get("family") == "inet"
    ]


def of_podman(networks: Iterable[dict[str, Any]]) -> list[Taken]:
    """Networks of `podman network inspect`, which need not be up."""
    return [
        (IPv4Network(subnet["subnet"]), f"podman network '{network['name']}'")
        for network in networks
        for subnet in network.get("subnets") or []
        if ":" not in subnet["subnet"]
    ]


def clear(bridge: str, subnet: str) -> None:
    """Remove the interface and the firewall's rules of a network that has no container any more.

    The engine does so with the last container. On a busy machine it left either of them now and then, without an error.
    """
    for table in ("nat", "filter"):
        saved = run(["iptables-save", "--table", table], timeout=30).out
        for words in rule_removals(saved, subnet):
            run(["iptables", "--wait", "20", "--table", table, *words], timeout=60)
    links = json.loads(run(["ip", "-json", "link"], timeout=10).out or "[]")
    if any(link["ifname"] == bridge for link in links):
        run(["ip", "link", "delete", bridge], timeout=10)


def rule_removals(saved: str, subnet: str) -> Iterator[list[str]]:
    """Yield the words for iptables that take a subnet out of a table that `iptables-save` shows."""
    rules = [shlex.split(line) for line in saved.splitlines() if line.startswith("-A ")]
    own = [words for words in rules if subnet in words]
    for _append, *words in own:
        yield ["--delete", *words]
    targets = [words[words.index("-j") + 1] for words in own if "-j" in words]
    # Chains of published ports are shared by all networks.
    chains = [target for target in targets if target.startswith("NETAVARK-") and "HOSTPORT" not in target]
    for chain in dict.fromkeys(chains):
        yield ["--flush", chain]
        yield ["--delete-chain", chain]
