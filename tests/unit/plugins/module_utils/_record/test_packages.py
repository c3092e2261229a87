# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversations with package managers, as data: exactly what is called, and what is made of the answers."""

from __future__ import annotations

import hashlib
import typing as t
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._command import Completed
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.kinds.package import Apt, Rpm, needed
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.model.items import PackageItem

DNF_INSTALL = """\
Dependencies resolved.
================================================================================
 Package              Architecture   Version            Repository         Size
================================================================================
Installing:
 containerd.io        x86_64         1.7.20-3.1.el9     docker-ce          43 M
Installing dependencies:
 container-selinux    noarch         3:2.229.0-1.el9    appstream          55 k

Transaction Summary
================================================================================
Install  2 Packages
Operation aborted.
"""
DNF_UPGRADE = DNF_INSTALL.replace(
    "\nTransaction",
    "Upgrading:\n libseccomp           x86_64         2.5.5-1.el9        baseos             70 k\n\nTransaction",
)
DNF_REMOVE = """\
Removing:
 runc                 x86_64         1.1.12-1.el9       @appstream          9 M
Removing dependent packages:
 podman               x86_64         4.9.4-1.el9        @appstream         50 M

Transaction Summary
"""
ZYPPER_INSTALL = """\
Resolving package dependencies...

The following 2 NEW packages are going to be installed:
  containerd runc

2 new packages to install.
"""
ZYPPER_REMOVE = """\
The following 2 packages are going to be REMOVED:
  podman runc

2 packages to remove.
"""


class Told(Host):
    """Answers as it was told, and keeps what it was asked."""

    def __init__(self, answers: t.Dict[str, str], root: str = "/nonexistent") -> None:
        super().__init__(root)
        self.answers = answers
        self.asked: t.List[str] = []

    def ask(self, argv: t.Sequence[str], *, timeout: float = 60, ok: t.Container[int] = (0,)) -> Completed:
        del timeout, ok
        self.asked.append(" ".join(argv))
        answer = next(text for begin, text in self.answers.items() if self.asked[-1].startswith(begin))
        return Completed(tuple(argv), 0, answer, "")

    def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
        self.asked.append(" ".join(argv))
        return Completed(tuple(argv), 0, "", "")


CONTAINERD = [PackageItem("containerd")]


def test_apt_lists_what_is_wholly_installed() -> None:
    host = Told({"dpkg-query": "installed runc 1.1.5\nconfig-files old 1.0\ninstalled libc6:amd64 2.36\n"})
    assert Apt(host).installed() == {"runc": "1.1.5", "libc6": "2.36"}


def test_apt_lists_what_a_killed_run_left_and_what_was_removed_only_as_something_to_purge() -> None:
    answer = "installed runc 1.1\nunpacked ours 1.0\nhalf-installed half \nconfig-files old 1.0\nnot-installed no \n"
    apt = Apt(Told({"dpkg-query": answer}))
    assert apt.present() == {"runc": "1.1", "ours": "1.0", "half": "half-installed", "old": "config-files"}
    assert apt.configured() == {"old"}


@pytest.mark.parametrize("rows", [["installed libc6:amd64 2", "config-files libc6:i386 1"], ["", ""]])
def test_a_package_of_which_one_architecture_is_installed_is_not_taken_for_removed(rows: t.List[str]) -> None:
    for order in (rows, rows[::-1]):
        apt = Apt(Told({"dpkg-query": "\n".join(order)}))
        assert (apt.present(), apt.configured()) == ({"libc6": "2"} if any(rows) else {}, set())


def test_apt_tells_what_an_installation_brings() -> None:
    host = Told(
        {"apt-get -s": "Inst runc (1.1.5 local [amd64])\nInst containerd (1.6 local [amd64])\nConf runc (1.1.5)\n"}
    )
    assert Apt(host).would_install(CONTAINERD) == ["containerd", "runc"]
    assert host.asked == [
        "apt-get -s -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 install -- containerd",
    ]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("Inst libc6 [2.35] (2.36 local [amd64])\n", "package libc6 2.35 would be upgraded"),
        ("Remv docker [20.10]\nInst containerd (1.6 local)\n", "package docker would be removed"),
    ],
)
def test_apt_refuses_what_would_change_the_site(answer: str, says: str) -> None:
    with pytest.raises(RecordError, match=says):
        Apt(Told({"apt-get -s": answer})).would_install(CONTAINERD)


class Refusing(Host):
    """A node whose package manager ends with an error, with these words of the real one."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__("/nonexistent")
        self.status, self.words = status, words

    def ask(self, argv: t.Sequence[str], *, timeout: float = 60, ok: t.Container[int] = (0,)) -> Completed:
        del timeout
        if self.status not in ok:
            raise RecordError(f"{' '.join(argv)}: exit status {self.status}: {self.words}")
        return Completed(tuple(argv), self.status, "Last metadata expiration check: 0:01:02 ago.\n", f"{self.words}\n")


SOURCES = ": add a package source that has them, or refresh its lists"


@pytest.mark.parametrize(
    ("tool", "status", "words", "advice"),
    [
        ("apt", 100, "E: Unable to locate package kubelet", SOURCES),
        ("apt", 100, "E: Package 'kubelet' has no installation candidate", SOURCES),
        ("apt", 100, "E: Version '1.36.3' for 'kubelet' was not found", SOURCES),
        ("apt", 100, "E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", ""),
        ("dnf", 1, "Error: Unable to find a match: kubelet", SOURCES),
        ("zypper", 104, "'kubelet' not found in package names. Trying capabilities.", SOURCES),
    ],
)
def test_a_package_that_cannot_be_installed_is_named_with_what_to_do(
    tool: str, status: int, words: str, advice: str
) -> None:
    node = Refusing(status, words)
    packages = Apt(node) if tool == "apt" else Rpm(node, tool)
    with pytest.raises(RecordError) as refused:
        packages.would_install([PackageItem("kubelet")])
    assert str(refused.value) == f"packages kubelet cannot be installed: {words}{advice}"


def test_apt_purges_when_it_is_told_so_and_never_removes_by_itself() -> None:
    host = Told({})
    Apt(host).remove(["runc"])
    Apt(host).purge(["runc"])
    Apt(host).install(CONTAINERD)
    assert host.asked == [
        "apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 remove -- runc",
        "apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 purge -- runc",
        "apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confdef "
        "-o Dpkg::Options::=--force-confold --no-remove install -- containerd",
    ]


def test_a_half_installed_package_of_ours_is_configured_and_one_of_the_sites_is_named() -> None:
    host = Told({"dpkg-query": "installed base 1.0\nunpacked ours 1.0\n"})
    Apt(host).repair({"ours"})
    assert host.asked[-1] == "dpkg --configure -a"
    with pytest.raises(RecordError, match="package ours is half installed, and not by us"):
        Apt(host).repair(set())


def test_dnf_tells_what_an_installation_brings_and_refuses_upgrades() -> None:
    host = Told({"dnf": DNF_INSTALL})
    assert Rpm(host, "dnf").would_install(CONTAINERD) == ["container-selinux", "containerd.io"]
    assert host.asked == ["dnf -y --setopt=clean_requirements_on_remove=0 install --assumeno containerd"]
    with pytest.raises(RecordError, match="package libseccomp would be changed"):
        Rpm(Told({"dnf": DNF_UPGRADE}), "dnf").would_install(CONTAINERD)


def test_dnf_tells_who_would_go_too() -> None:
    assert needed(Rpm(Told({"dnf": DNF_REMOVE}), "dnf"), ["runc"]) == {"runc": "podman"}


def test_zypper_tells_what_comes_and_who_would_go_too() -> None:
    host = Told({"zypper --non-interactive install": ZYPPER_INSTALL, "zypper --non-interactive remove": ZYPPER_REMOVE})
    assert Rpm(host, "zypper").would_install(CONTAINERD) == ["containerd", "runc"]
    assert needed(Rpm(host, "zypper"), ["runc"]) == {"runc": "podman"}


@pytest.mark.parametrize(
    ("tool", "command"),
    [
        ("dnf", "dnf -y --setopt=clean_requirements_on_remove=0 remove runc"),
        ("zypper", "zypper --non-interactive remove runc"),
    ],
)
def test_rpm_has_nothing_to_purge_beyond_what_a_removal_takes(tool: str, command: str) -> None:
    host = Told({})
    Rpm(host, tool).purge(["runc"])
    assert host.asked == [command]


def test_configuration_is_told_from_what_a_package_brought_by_dpkg_and_by_rpm(tmp_path: Path) -> None:
    """Of rpm only files with the flag of configuration; a digest is one of sha256, or of md5 in old packages."""
    md5, sha256 = hashlib.md5(b"came\n").hexdigest(), hashlib.sha256(b"came\n").hexdigest()
    for name, text in (("came", "came\n"), ("changed", "changed\n"), ("data", "came\n")):
        (tmp_path / name).write_text(text)
    dpkg = f"runc:amd64\n\n /came {md5}\n /changed {md5} obsolete\n /gone {md5}\n\nother\n\n"
    rpm = f"runc 17 {sha256} /came\nrunc 1 {md5} /changed\nrunc 1 {md5} /gone\nrunc 0 {sha256} /data\n"
    rpm += "package x is not installed\n"
    wanted = [("runc", "/came", True, True), ("runc", "/changed", True, False), ("runc", "/gone", False, False)]
    assert Apt(Told({"dpkg-query": dpkg}, str(tmp_path))).own_files(["runc", "other"]) == wanted
    assert Rpm(Told({"rpm": rpm}, str(tmp_path)), "dnf").own_files(["runc", "x"]) == wanted
    assert Rpm(Told({"rpm": rpm.replace(sha256, md5)}, str(tmp_path)), "zypper").own_files(["runc", "x"]) == wanted


def test_rpm_lists_versions_with_their_release() -> None:
    host = Told({"rpm": "runc 1.1.12-1.el9\ngpg-pubkey 1-2\n"})
    assert Rpm(host, "dnf").installed() == {"runc": "1.1.12-1.el9", "gpg-pubkey": "1-2"}
