# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read off the machine: its cgroups, its networks, its package settings, its programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from testbed import cgroups, network, rootfs, supplies
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.run import run


@pytest.mark.parametrize(
    ("version", "debian", "way", "limits"),
    [
        (2, 12, Way.V2, True),
        (2, 13, Way.V2, True),
        (1, 12, Way.V1, True),
        (1, 13, Way.PRIVATE_V2, False),
    ],
)
def test_nodes_get_the_best_cgroups_that_their_systemd_accepts(
    version: int, debian: int, way: Way, limits: bool
) -> None:
    assert cgroups.choose(version=version, debian=debian) is way
    assert way.has_limits is limits


def test_the_cgroup_version_is_read_from_the_mount(tmp_path: Path) -> None:
    with pytest.raises(BedError, match="neither cgroup v2 nor a v1 memory controller"):
        cgroups.host_version(tmp_path)
    (tmp_path / "memory").mkdir()
    assert cgroups.host_version(tmp_path) == 1
    (tmp_path / "cgroup.controllers").touch()
    assert cgroups.host_version(tmp_path) == 2


def test_networks_in_use_are_found_in_routes_addresses_and_podman() -> None:
    routes = [
        {"dst": "default", "dev": "e"},
        {"dst": "10.1.0.0/16", "dev": "tun0"},
        {"dst": "10.2.0.9", "type": "local"},
    ]
    addresses = [
        {"ifname": "e", "addr_info": [{"family": "inet", "local": "10.3.0.5", "prefixlen": 24}, {"family": "inet6"}]}
    ]
    podman = [
        {"name": "p", "subnets": [{"subnet": "10.4.0.0/24"}, {"subnet": "fd00::/64"}]},
        {"name": "none", "subnets": None},
    ]
    found = [*network.of_routes(routes), *network.of_addresses(addresses), *network.of_podman(podman)]
    assert [(str(net), owner) for net, owner in found] == [
        ("10.1.0.0/16", "a route on tun0"),
        ("10.2.0.9/32", "a route on ?"),
        ("10.3.0.0/24", "interface e"),
        ("10.4.0.0/24", "podman network 'p'"),
    ]


DUMP = """\
APT "";
Acquire "";
Acquire::http "";
Acquire::http::Proxy "http://proxy:3128/";
Acquire::https::CaInfo "/etc/ssl/site.pem";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::http::Proxy::local "DIRECT";
"""


def test_a_build_shares_only_what_decides_whether_packages_can_be_fetched() -> None:
    assert rootfs.fetch_settings(DUMP) == [
        'Acquire::http::Proxy "http://proxy:3128/";',
        'Acquire::https::CaInfo "/etc/ssl/site.pem";',
        'Acquire::Check-Valid-Until "false";',
        'Acquire::http::Proxy::local "DIRECT";',
        rootfs.RETRIES,
    ]
    own, delay = 'acquire::retries "0";', 'Acquire::Retries::Delay "false";'
    assert rootfs.fetch_settings(own) == [own]
    assert rootfs.fetch_settings(delay) == [delay, rootfs.RETRIES]


# As mmdebstrap ends when a mirror does not give a package, without the lines of what it has got.
LOST = """\
E: Failed to fetch http://deb.debian.org/debian/pool/main/p/perl/perl-base_5.36.0_amd64.deb  503  Service Unavailable
E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?
E: apt download failed: E: apt-get --yes -oDPkg::Use-Pty=false failed
I: main() received signal PIPE: waiting for setup...
E: mmdebstrap failed to run
"""


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (LOST, r"^Failed to fetch http:\S+  503  Service Unavailable; can this machine reach http://deb\.debian\.org"),
        ("E: no space\n", r"^mmdebstrap: exit status 25: E: no space$"),
    ],
)
def test_a_suite_that_cannot_be_installed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, message: str
) -> None:
    program = tmp_path / "mmdebstrap"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}END\nexit 25\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(rootfs, "KEYRING", program)
    monkeypatch.setattr(rootfs, "confined", list)
    with pytest.raises(BedError, match=message):
        rootfs.install_suite("bookworm", tmp_path / "root", variant="minbase", packages=["curl"])


@pytest.mark.parametrize(("way", "runtime"), [(Way.V1, "runc"), (Way.V2, "crun"), (Way.PRIVATE_V2, "crun")])
def test_missing_programs_are_named_with_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way, runtime: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BedError, match="podman: not found on this machine; type: apt-get install podman"):
        supplies.check_programs(way)
    for program in supplies.PROGRAMS:
        (tmp_path / program).touch(mode=0o755)
    with pytest.raises(BedError, match=f"type: apt-get install {runtime}"):
        supplies.check_programs(way)
    (tmp_path / runtime).touch(mode=0o755)
    supplies.check_programs(way)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no-such-program-here"], "no-such-program-here: not found; install it, or put its folder on PATH"),
        (["sh", "-c", "echo one >&2; echo two >&2; exit 3"], "exit status 3: one / two"),
        (["sh", "-c", "echo only out; exit 1"], "exit status 1: only out"),
        (["false"], "false: exit status 1: (no output)"),
        (["sleep", "900"], "sleep 900: no end after 0.2 s"),
    ],
)
def test_a_failed_command_says_which_and_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], message: str
) -> None:
    if argv[0] == "sleep":
        monkeypatch.setattr("testbed.run.STALL_SECONDS", 0.0)
    with pytest.raises(BedError) as failed:
        run(argv, timeout=0.2 if argv[0] == "sleep" else 120)
    assert str(failed.value).endswith(message)
    assert "\n" not in str(failed.value)


def test_a_command_gets_its_input_and_environment() -> None:
    done = run(["sh", "-c", 'cat; printf "$WORD"; exit 4'], timeout=120, input="in ", check=False, env={"WORD": "out"})
    assert (done.rc, done.out, done.err) == (4, "in out", "")


LEAVES = 'echo early; (until test -e "$1"; do sleep 0.05; done) & exit 3'


def test_a_command_has_ended_although_what_it_left_holds_its_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.run.STALL_SECONDS", 0.0)
    told = tmp_path / "told"
    try:
        done = run(["sh", "-c", LEAVES, "sh", str(told)], timeout=60, check=False)
    finally:
        told.touch()
    assert (done.rc, done.out, done.err) == (3, "early\n", "")


def test_outputs_larger_than_a_pipe_are_whole() -> None:
    size = 3_000_000
    done = run(["sh", "-c", f"head -c {size} /dev/zero & wait; cat >&2"], timeout=120, input="x" * size)
    assert (len(done.out), len(done.err)) == (size, size)
