# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said about a machine before anything is installed on it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest
from bootstrap.checks import CODE_ONLY, DEMO, GIB, TESTS, check, free_network
from bootstrap.machine import Machine, cgroup_version, memory_of, networks, os_release

GOOD = Machine(
    distribution="debian",
    release="12",
    architecture="x86_64",
    kernel="6.1.0",
    container="",
    whole_user_range=True,
    root=True,
    sudo=False,
    user="root",
    memory=8 * GIB,
    memory_free=7 * GIB,
    disk_free=50 * GIB,
    cache="/var/cache/converged-hpc",
    cache_owner=None,
    cache_possible=True,
    cgroup="v2",
    inotify_instances=1024,
    forwarding_rules=("-P FORWARD ACCEPT",),
    routes=(),
    proxies=(),
)

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"distribution": "fedora", "release": "43"},
        "the distribution is fedora 43",
        "Debian 12, Debian 13 or Ubuntu 24.04",
    ),
    ({"distribution": "", "release": ""}, "the distribution is unknown", "Debian 12"),
    ({"architecture": "riscv64"}, "the architecture is riscv64", "x86_64 or aarch64"),
    ({"container": "wsl"}, "this is WSL2", "virtual machine"),
    ({"container": "lxc"}, "this is an LXC container", "virtual machine"),
    ({"whole_user_range": False}, "rootless container", "on the host"),
    ({"root": False, "user": "eve"}, "user eve is not root", "su -c"),
    ({"memory": 2 * GIB}, "2.0 GiB of memory; 6 GiB", "give the machine more"),
    ({"memory_free": GIB}, "1.0 GiB of memory are free; 2 GiB", "ps axo rss"),
    ({"disk_free": 15 * GIB}, "15.0 GiB free for /var/cache/converged-hpc; 16 GiB", "export CONVERGED_CACHE="),
    ({"disk_free": None}, "/var/cache/converged-hpc cannot be made", "export CONVERGED_CACHE="),
    ({"cache_owner": "alice"}, "belongs to alice, not to root", "export CONVERGED_CACHE="),
    ({"cgroup": "none"}, "no cgroup hierarchy", "mount -t cgroup2"),
    ({"routes": tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))}, "no free /24", "ip route"),
    ({"forwarding_rules": ("-A FORWARD -j REJECT --reject-with icmp",)}, "ends with a rule", "iptables -I FORWARD"),
    ({"forwarding_rules": ("-A ufw-reject-forward -j REJECT",)}, "ufw rejects", "ufw default allow routed"),
    ({"proxies": (("https_proxy", "proxy:3128"),)}, "https_proxy is set to something", "export https_proxy="),
]

NOTED: list[tuple[dict[str, Any], str]] = [
    ({"cgroup": "hybrid"}, "cgroup hybrid"),
    ({"inotify_instances": 128}, "max_user_instances is 128"),
    ({"forwarding_rules": ("-P FORWARD DROP", "-A FORWARD -j DOCKER-USER")}, "drops forwarded packets"),
    ({"proxies": (("http_proxy", "http://proxy:3128"),)}, "a proxy is set"),
]


def test_a_good_machine_gets_no_remark() -> None:
    assert check(GOOD, TESTS) == []


@pytest.mark.parametrize(("facts", "what", "remedy"), REFUSED)
def test_what_cannot_work_is_refused_in_one_line_that_says_what_to_do(
    facts: dict[str, Any], what: str, remedy: str
) -> None:
    (finding,) = check(replace(GOOD, **facts), TESTS)

    assert finding.refused
    assert what in finding.text
    assert remedy in finding.text
    assert "\n" not in finding.text


@pytest.mark.parametrize(("facts", "what"), NOTED)
def test_what_works_but_surprises_is_only_noted(facts: dict[str, Any], what: str) -> None:
    (finding,) = check(replace(GOOD, **facts), TESTS)

    assert not finding.refused
    assert what in finding.text


def test_refusals_come_before_notes() -> None:
    findings = check(replace(GOOD, cgroup="hybrid", forwarding_rules=("-A FORWARD -j DROP",)), TESTS)

    assert [finding.refused for finding in findings] == [True, False]


def test_a_password_in_a_proxy_is_never_printed() -> None:
    findings = check(replace(GOOD, proxies=(("http_proxy", "eve:secret@proxy"),)), TESTS)

    assert findings
    assert not any("secret" in finding.text for finding in findings)


def test_tests_that_need_no_cluster_do_not_ask_for_root_or_networks() -> None:
    machine = replace(GOOD, root=False, user="eve", cache_owner="eve", cgroup="none", memory=2 * GIB, memory_free=GIB)

    assert check(machine, CODE_ONLY) == []


def test_a_cache_that_a_user_may_not_make_is_moved_to_the_home() -> None:
    machine = replace(GOOD, root=False, user="eve", cache_possible=False)

    (finding,) = check(machine, CODE_ONLY)

    assert finding.text.endswith("type: export CONVERGED_CACHE=$HOME/.cache/converged-hpc")


def test_the_first_network_that_no_route_overlaps_is_free() -> None:
    assert free_network([]) == IPv4Network("10.89.0.0/24")
    assert free_network([IPv4Network("10.89.0.0/23")]) == IPv4Network("10.89.2.0/24")
    assert free_network([IPv4Network("10.0.0.0/8")]) == IPv4Network("172.16.0.0/24")


@pytest.mark.parametrize(
    ("mounts", "version"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", "v2"),
        ("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0", "hybrid"),
        ("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0", "v1"),
        ("tmpfs /tmp tmpfs rw 0 0", "none"),
    ],
)
def test_the_cgroup_version_is_read_from_the_mounts(mounts: str, version: str) -> None:
    assert cgroup_version(mounts) == version


def test_routes_are_read_without_the_default_route() -> None:
    table = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    )

    assert networks(table) == (IPv4Network("192.168.0.0/24"),)


def test_memory_and_distribution_are_read_from_their_files() -> None:
    read = "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n"
    assert [memory_of(read, name) for name in ("MemTotal", "MemAvailable", "Else")] == [16 * 1024**2, 2 * 1024**2, 0]
    assert os_release('ID=ubuntu\nVERSION_ID="24.04"\n# note\n') == {"ID": "ubuntu", "VERSION_ID": "24.04"}


@pytest.mark.parametrize(
    ("memory", "disk", "demo", "tests"),
    [
        (16, 50, True, True),
        (4, 50, True, False),
        (16, 10, True, False),
        (16, 9, False, False),
        (3, 50, False, False),
    ],
)
def test_the_demo_wants_less_of_a_machine_than_the_tests(memory: int, disk: int, demo: bool, tests: bool) -> None:
    machine = replace(GOOD, memory=memory * GIB, memory_free=3 * GIB, disk_free=disk * GIB)
    assert (check(machine, DEMO) == []) is demo
    assert (check(machine, TESTS) == []) is tests


def test_what_was_built_already_needs_no_room_any_more() -> None:
    assert check(replace(GOOD, disk_free=4 * GIB), TESTS.cached()) == []
    (finding,) = check(replace(GOOD, disk_free=3 * GIB), TESTS.cached())
    assert "3.0 GiB free for /var/cache/converged-hpc; 4 GiB are needed" in finding.text
    assert CODE_ONLY.cached() == CODE_ONLY
