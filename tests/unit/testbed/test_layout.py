# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, addresses and hosts of a bed."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testbed import layout
from testbed.errors import BedError, UsageError
from testbed.layout import Request


@pytest.mark.parametrize("name", ["a", "bed", "bed-2", "a" * 20, "x9"])
def test_ordinary_names_are_taken(name: str) -> None:
    layout.check_name(name)


@pytest.mark.parametrize(
    "name", ["", "Bed", "-bed", "bed-", "9bed", "bed_1", "bed.1", "a/b", "../x", "b" * 21, "bed\n", "bed one", "bäd"]
)
def test_odd_names_are_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(UsageError, match="give 1 to 20 lower-case letters") as refused:
        layout.check_name(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(nodes=0), "--nodes 0: give a number from 1 to 64"),
        (Request(nodes=65), "--nodes 65: give a number from 1 to 64"),
        (Request(controllers=0), "--controllers 0: give a number from 1 to 3"),
        (Request(controllers=2, slurmdbd=True), "--slurmdbd needs --controllers 1, found --controllers 2"),
        (Request(wlm="sge"), "--wlm sge: unknown; give one of slurm, pbs, torque, none"),
        (Request(slurm_conf="nfs"), "--slurm-conf nfs: unknown; give one of local, shared, configless"),
        (Request(debian=11), "--debian 11: unknown; give one of 12, 13"),
        (Request(slurmdbd=True, wlm="none"), "--slurmdbd needs --wlm slurm, found --wlm none"),
    ],
)
def test_impossible_requests_are_refused_by_name_and_value(request_: Request, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        layout.check(request_)
    assert str(refused.value) == message


networks = st.builds(
    lambda address, prefix: IPv4Network((address, prefix), strict=False),
    st.integers(0x0A590000, 0x0A59FFFF) | st.integers(0xAC100000, 0xAC1FFFFF) | st.integers(0xC0A80000, 0xC0A8FFFF),
    st.integers(14, 32),
)


@given(st.lists(networks, max_size=20))
def test_the_chosen_subnet_is_nobody_elses(taken: list[IPv4Network]) -> None:
    try:
        chosen = layout.choose_subnet(None, [(network, "somebody") for network in taken])
    except BedError:
        assert all(any(one.overlaps(network) for network in taken) for one in layout.candidates())
    else:
        assert chosen.prefixlen == 24
        assert chosen.is_private
        assert not any(chosen.overlaps(network) for network in taken)


def test_the_first_free_subnet_is_taken() -> None:
    taken = [(IPv4Network("10.89.0.0/24"), "a"), (IPv4Network("10.89.1.128/25"), "b")]
    assert str(layout.choose_subnet(None, taken)) == "10.89.2.0/24"


def test_a_machine_with_everything_taken_is_told_so() -> None:
    with pytest.raises(BedError, match="no free /24"):
        layout.choose_subnet(None, [(IPv4Network("0.0.0.0/0"), "a tunnel")])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("10.89.1.0/24", "taken, 10.89.0.0/16 is used by interface eth7"),
        ("10.244.3.0/24", "taken, 10.244.0.0/16 is used by the cluster of the bed"),
        ("10.89.1.7/24", "has host bits set"),
        ("lan", "give something like 10.89.5.0/24"),
        ("192.168.1.0/28", "16 addresses are too few; give a /24 or larger"),
        ("8.8.8.0/24", "not private; give one within 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16"),
        ("127.0.0.0/24", "not private"),
        ("0.0.0.0/0", "not private"),
    ],
)
def test_an_unfit_subnet_is_refused_with_the_reason(wanted: str, message: str) -> None:
    with pytest.raises(BedError, match=message):
        layout.choose_subnet(wanted, [(IPv4Network("10.89.0.0/16"), "interface eth7")])


@given(
    st.integers(1, layout.MAX_NODES),
    st.integers(1, layout.MAX_CONTROLLERS),
    st.sampled_from(layout.WLMS),
    st.booleans(),
)
def test_every_host_has_its_own_name_and_address_within_the_subnet(
    nodes: int, controllers: int, wlm: str, kube: bool
) -> None:
    subnet = IPv4Network("172.16.5.0/24")
    request = Request(name="b", nodes=nodes, controllers=controllers, wlm=wlm, kube=kube)
    bed = layout.layout(request, subnet=subnet, way=layout.Way.V2, uid=0)
    addresses = [host.ip for host in bed.hosts]
    assert len({host.name for host in bed.hosts}) == len(set(addresses)) == len(bed.hosts)
    assert set(addresses) <= {str(address) for address in subnet.hosts()} - {bed.gateway}
    assert [host.name for host in bed.controllers] == ["ctl", "ctl2", "ctl3"][: controllers * (wlm != "none")]
    assert [host.name for host in bed.nodes] == [f"n{number}" for number in range(1, nodes + 1)]
    assert {host.role for host in bed.hosts} == {"node"} | ({"controller"} - {wlm == "none" and "controller"}) | (
        {"kube"} if kube else set()
    )


def test_a_bed_is_compared_with_a_request_in_words() -> None:
    subnet = IPv4Network("172.16.5.0/24")
    bed = layout.layout(Request(), subnet=subnet, way=layout.Way.V1, uid=0)
    assert layout.differences(bed, Request()) == []
    assert layout.differences(bed, Request(nodes=4, kube=False)) == [
        "nodes 2 (asked for 4)",
        "kube True (asked for False)",
    ]
