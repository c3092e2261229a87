# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the ranges of addresses that the inventory gives to nodes' pods: no address may be given twice. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ..model import Finding, refuse

ADVICE = "give each node a range of its own, in host_vars"


def overlapping(ranges: t.Mapping[str, str]) -> t.Dict[str, Finding]:
    """Return by host that its range is none, or has addresses of another host's; "" is no range and no finding."""
    found = {}
    those = []
    for host, text in ranges.items():
        try:
            those += [(ipaddress.ip_network(text), host)] if text else []
        except ValueError as error:
            found[host] = refuse("pod_cidr", f"node_runtime_pod_cidr is {text!a}: {error}", ADVICE)
    widest: t.Optional[t.Tuple[t.Any, str]] = None
    # Ranges of this kind lie within each other or apart, and one that holds others comes before them.
    for network, host in sorted(those, key=lambda one: (one[0].version, one[0].network_address, one[0].prefixlen)):
        if widest is not None and widest[0].version == network.version and network.subnet_of(widest[0]):
            for mine, other in ((host, widest[1]), (widest[1], host)):
                text = f"its pods get addresses of {ranges[mine]}, and those of {other} of {ranges[other]}"
                found.setdefault(mine, refuse("pod_cidr", text, ADVICE))
        else:
            widest = (network, host)
    return found
