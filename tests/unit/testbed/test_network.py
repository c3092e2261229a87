# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken out of the firewall when the network of a bed goes."""

from __future__ import annotations

from testbed.network import rule_removals

NAT = """*nat
:POSTROUTING ACCEPT [0:0]
:NETAVARK-1 - [0:0]
:NETAVARK-2 - [0:0]
-A POSTROUTING -s 10.89.3.0/24 -j NETAVARK-1
-A POSTROUTING -s 10.89.30.0/24 -j NETAVARK-2
-A NETAVARK-1 -d 10.89.3.0/24 -j ACCEPT
-A NETAVARK-1 ! -d 224.0.0.0/4 -j MASQUERADE
-A NETAVARK-2 -d 10.89.30.0/24 -j ACCEPT
COMMIT
"""
FILTER = """*filter
:NETAVARK_FORWARD - [0:0]
-A NETAVARK_FORWARD -d 10.89.3.0/24 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A NETAVARK_FORWARD -d 10.89.30.0/24 -m comment --comment "a bed" -j ACCEPT
COMMIT
"""


def removals(saved: str, subnet: str) -> list[str]:
    return [" ".join(words) for words in rule_removals(saved, subnet)]


def test_the_chain_of_a_subnet_goes_with_all_that_leads_there() -> None:
    assert removals(NAT, "10.89.3.0/24") == [
        "--delete POSTROUTING -s 10.89.3.0/24 -j NETAVARK-1",
        "--delete NETAVARK-1 -d 10.89.3.0/24 -j ACCEPT",
        "--flush NETAVARK-1",
        "--delete-chain NETAVARK-1",
    ]


def test_a_chain_that_all_networks_share_stays() -> None:
    rule = "NETAVARK_FORWARD -d 10.89.3.0/24 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
    assert removals(FILTER, "10.89.3.0/24") == [f"--delete {rule}"]


def test_a_chain_of_published_ports_stays() -> None:
    rule = "NETAVARK-HOSTPORT-SETMARK -s 10.89.3.0/24 -j NETAVARK-HOSTPORT-MASQ"
    assert removals(f"*nat\n-A {rule}\nCOMMIT\n", "10.89.3.0/24") == [f"--delete {rule}"]


def test_nothing_is_taken_out_for_a_subnet_that_no_rule_names() -> None:
    assert removals(NAT + FILTER, "10.89.0.0/24") == []
