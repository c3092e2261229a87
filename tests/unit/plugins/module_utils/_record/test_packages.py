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
    steps = "Inst runc (1.1.5 local [amd64])\nInst containerd (1.6 local [amd64])\nConf runc (1.1.5)\n"
    host = Told({"apt-get -s": steps, "dpkg-query": ""})
    assert Apt(host).would_install(CONTAINERD) == ["containerd", "runc"]
    assert [line for line in host.asked if not line.startswith("dpkg-query")] == [
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
        Apt(Told({"apt-get -s": answer, "dpkg-query": "installed libc6 2.35\n"})).would_install(CONTAINERD)


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


def test_dpkg_takes_away_only_what_is_named_and_apt_removes_nothing_by_itself() -> None:
    host = Told({"dpkg-query": "installed runc 1.1\nhalf-configured theirs 2.0\n", CHECK: ""})
    Apt(host).remove(["runc"])
    Apt(host).purge(["runc"])
    Apt(host).install(CONTAINERD)
    assert changes(host) == [
        "dpkg --remove -- runc",
        "dpkg --purge -- runc",
        "apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confdef "
        "-o Dpkg::Options::=--force-confold --no-remove install -- containerd",
    ]


# What dpkg 1.21.22 and apt 2.6.1 of Debian 12 say of containerd after a cut in the middle of unpacking it.
HALF = "half-installed containerd 1.6.20~ds1-1+deb12u3\ninstalled runc 1.1.5+ds1-1+deb12u1\n"
AGAIN = "Inst containerd [1.6.20~ds1-1+deb12u3] (1.6.20~ds1-1+deb12u3 Debian:12.15/oldstable [amd64])\n"
SIMULATED = "apt-get -s -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 --reinstall install -- "
UNPACK_AGAIN = (
    "apt-get -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confdef "
    "-o Dpkg::Options::=--force-confold --no-remove --reinstall install -- "
)
NO_ARCHIVE = "E: The package containerd needs to be reinstalled, but I can't find an archive for it."
CHECK = "apt-get -q -o DPkg::Lock::Timeout=120 check"
LOCKED = (
    "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4169 (python3)...\n"
    "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?\n"
)
IN_A_BAD_STATE = (
    "dpkg: error processing package containerd (--remove):\n package is in a very bad inconsistent state; you should\n"
    " reinstall it before attempting a removal\ndpkg: too many errors, stopping\nErrors were encountered while "
    "processing:\n containerd\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n"
)


class Failing(Told):
    """Ends calls that begin like this with an error and these words."""

    def __init__(self, answers: t.Dict[str, str], failures: t.Dict[str, str], root: str = "/nonexistent") -> None:
        super().__init__(answers, root)
        self.failures = failures

    def ask(self, argv: t.Sequence[str], *, timeout: float = 60, ok: t.Container[int] = (0,)) -> Completed:
        return self._failed(argv, ok) or super().ask(argv)

    def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
        return self._failed(argv, how["ok"]) or super().run(argv)

    def _failed(self, argv: t.Sequence[str], ok: t.Container[int]) -> t.Optional[Completed]:
        words = next((text for begin, text in self.failures.items() if " ".join(argv).startswith(begin)), "")
        if not words:
            return None
        self.asked.append(" ".join(argv))
        if 100 not in ok:
            raise RecordError(f"{self.asked[-1]}: exit status 100: {words.splitlines()[-1]}")
        return Completed(tuple(argv), 100, "", words)


CONFIGURE = "dpkg --force-confdef --force-confold --configure -a"


def changes(host: Told) -> t.List[str]:
    """Return the calls that change packages."""
    return [line for line in host.asked if not line.startswith(("dpkg-query", "dpkg --dry-run", "apt-get -s", CHECK))]


@pytest.mark.parametrize("state", ["unpacked", "half-configured", "triggers-awaited"])
def test_what_a_cut_run_left_of_ours_is_configured_without_a_question_about_configuration(state: str) -> None:
    """dpkg would ask about a file that the site had before the package, read no answer, and fail at every run."""
    host = Told({"dpkg-query": f"installed base 1.0\n{state} ours 1.0\n", CHECK: ""})
    Apt(host).repair({"ours"})
    assert changes(host) == [CONFIGURE]


def test_the_books_that_a_cut_dpkg_left_open_are_closed_if_the_record_knows_a_package(tmp_path: Path) -> None:
    """Else apt refuses everything: `E: dpkg was interrupted, you must manually run 'dpkg --configure -a'`."""
    updates = tmp_path / "var/lib/dpkg/updates"
    updates.mkdir(parents=True)
    (updates / "tmp.i").touch()
    host = Told({"dpkg-query": "installed ours 1.0\n", CHECK: ""}, str(tmp_path))
    Apt(host).repair({"ours"})
    assert changes(host) == []
    (updates / "0000").touch()
    Apt(host).repair(set())
    assert changes(host) == []
    Apt(host).repair({"ours"})
    assert changes(host) == [CONFIGURE]


def test_a_package_of_ours_that_was_cut_while_it_was_unpacked_is_unpacked_again_in_the_same_version() -> None:
    host = Told({"dpkg-query": HALF, "apt-get -s": AGAIN, CHECK: ""})
    Apt(host).repair({"containerd", "runc"})
    assert changes(host) == [CONFIGURE, f"{UNPACK_AGAIN}containerd=1.6.20~ds1-1+deb12u3"]


def test_it_is_unpacked_in_the_version_that_there_is_now_if_its_own_is_no_longer_offered() -> None:
    newer = AGAIN.replace("(1.6.20~ds1-1+deb12u3", "(1.6.20~ds1-1+deb12u4")
    refusal = "E: Version '1.6.20~ds1-1+deb12u3' for 'containerd' was not found"
    host = Failing({"dpkg-query": HALF, "apt-get -s": newer, CHECK: ""}, {f"{SIMULATED}containerd=": refusal})
    Apt(host).repair({"containerd"})
    assert changes(host)[-1] == f"{UNPACK_AGAIN}containerd"


def test_unpacking_in_another_version_brings_no_package_that_the_record_does_not_know() -> None:
    """It would stay after `restore`."""
    newer = AGAIN.replace("(1.6.20~ds1-1+deb12u3", "(1.6.20~ds1-1+deb12u4") + "Inst libnew1 (1.0 Debian [amd64])\n"
    refusal = "E: Version '1.6.20~ds1-1+deb12u3' for 'containerd' was not found"
    host = Failing({"dpkg-query": HALF, "apt-get -s": newer, CHECK: ""}, {f"{SIMULATED}containerd=": refusal})
    with pytest.raises(RecordError) as refused:
        Apt(host).repair({"containerd", "runc"})
    assert str(refused.value) == (
        "packages containerd: a run of ours was cut while it unpacked them, and what is offered now brings libnew1 as "
        "well, which is in no record: install that yourself, and run again"
    )
    assert changes(host) == [CONFIGURE]
    Apt(host).repair({"containerd", "runc", "libnew1"})
    assert changes(host)[-1] == f"{UNPACK_AGAIN}containerd"


def test_a_package_that_cannot_be_unpacked_again_is_named_with_what_to_do() -> None:
    host = Failing({"dpkg-query": HALF, CHECK: ""}, {"apt-get -s": NO_ARCHIVE})
    with pytest.raises(RecordError) as refused:
        Apt(host).repair({"containerd"})
    assert str(refused.value) == (
        "packages containerd: a run of ours was cut while it unpacked them, and they cannot be unpacked again: "
        f"{NO_ARCHIVE}: give this node a package source that has them, and run again"
    )


def test_unpacking_again_changes_nothing_else_of_the_sites() -> None:
    host = Told({"dpkg-query": HALF, "apt-get -s": f"{AGAIN}Inst libc6 [2.35] (2.36 local [amd64])\n", CHECK: ""})
    with pytest.raises(RecordError, match="package libc6 2.35 would be upgraded"):
        Apt(host).repair({"containerd"})
    assert changes(host) == [CONFIGURE]


def test_a_plan_takes_unpacking_again_for_no_upgrade_and_an_installed_package_for_one() -> None:
    both = f"{AGAIN}Inst containernetworking-plugins (1.1.1+ds1-3+b5 Debian:12.15/oldstable [amd64])\n"
    named = [PackageItem("containernetworking-plugins")]
    apt = Apt(Told({"dpkg-query": HALF, "apt-get -s": both}))
    assert apt.would_install(named) == ["containerd", "containernetworking-plugins"]
    whole = Apt(Told({"dpkg-query": HALF.replace("half-", ""), "apt-get -s": both}))
    with pytest.raises(RecordError, match="package containerd 1.6.20.* would be upgraded by installing containernet"):
        whole.would_install(named)


def test_dpkg_is_asked_once_however_much_an_installation_brings() -> None:
    steps = "".join(f"Inst ours{number} [1] (2 Debian [amd64])\n" for number in range(3))
    host = Told({"dpkg-query": "".join(f"half-installed ours{number} 1\n" for number in range(3)), "apt-get -s": steps})
    assert Apt(host).would_install([PackageItem("ours0")]) == ["ours0", "ours1", "ours2"]
    Apt(host).check(["ours0", "ours1", "ours2"])
    assert [line.split()[0] for line in host.asked] == ["apt-get", "dpkg-query", "dpkg-query"]


@pytest.mark.parametrize(
    ("state", "way"),
    [
        ("half-installed", "apt-get install --reinstall theirs"),
        ("unpacked", "dpkg --configure -a"),
        ("half-configured", "dpkg --configure -a"),
    ],
)
def test_what_the_site_left_half_way_is_named_where_it_would_be_ended_with_ours(state: str, way: str) -> None:
    host = Told({"dpkg-query": f"unpacked ours 1.0\n{state} theirs 2.0\n", CHECK: ""})
    for judge in (Apt(host).check, Apt(host).repair):
        with pytest.raises(RecordError) as refused:
            judge({"ours"})
        assert str(refused.value) == f"package theirs is {state}, and not by us: end that first, as by `{way}`"
    assert changes(host) == []


def test_what_the_site_left_half_way_is_no_reason_to_refuse_where_nothing_of_ours_is_to_be_ended(
    tmp_path: Path,
) -> None:
    """Not even where dpkg has to close its books, which a removal does by itself."""
    updates = tmp_path / "var/lib/dpkg/updates"
    updates.mkdir(parents=True)
    (updates / "0000").touch()
    answer = "installed ours 1.0\ntriggers-pending waits 1.0\nhalf-configured theirs 2.0\n"
    host = Told({"dpkg-query": answer, CHECK: ""}, str(tmp_path))
    Apt(host).repair({"ours", "waits"})
    assert changes(host) == []


def test_a_package_of_the_sites_that_only_waits_for_triggers_is_installed_and_no_reason_to_refuse() -> None:
    host = Told({"dpkg-query": "triggers-pending man-db 2.11.2-2\ntriggers-awaited base 1.0\n"})
    Apt(host).check(())
    Apt(host).repair(())
    assert Apt(host).installed() == {"man-db": "2.11.2-2", "base": "1.0"}
    assert changes(host) == []


def test_another_apt_at_work_is_waited_for_and_named_by_its_process() -> None:
    held = "/var/lib/dpkg/lock-frontend is held by process 4169 (python3): run again when that has ended"
    host = Failing({"dpkg-query": "unpacked containerd 1.0\n"}, {CHECK: LOCKED})
    calls: t.List[t.Callable[[t.List[str]], None]] = [Apt(host).repair, Apt(host).purge, lambda _: Apt(host).check([])]
    for call in calls:
        with pytest.raises(RecordError) as refused:
            call(["containerd"])
        assert str(refused.value) == held
        assert changes(host) == []
    with pytest.raises(RecordError) as failed:
        Apt(Failing({}, {"apt-get -y": LOCKED})).install(CONTAINERD)
    assert str(failed.value).endswith(f"exit status 100: {held}")


def test_a_lock_that_was_freed_in_time_is_no_reason_for_what_fails_afterwards() -> None:
    waited = LOCKED.splitlines()[0]
    with pytest.raises(
        RecordError, match=r"exit status 100: dpkg: error processing package containerd \(--remove\):.*"
    ):
        Apt(Failing({}, {"apt-get -y": f"{waited}\n{IN_A_BAD_STATE}"})).install(CONTAINERD)


def test_a_failed_removal_is_told_in_the_words_of_dpkg() -> None:
    with pytest.raises(RecordError) as failed:
        Apt(Failing({"dpkg-query": HALF, CHECK: ""}, {"dpkg --purge": IN_A_BAD_STATE})).purge(["containerd"])
    assert str(failed.value).endswith(
        "exit status 100: dpkg: error processing package containerd (--remove): package is in a very bad inconsistent "
        "state; you should reinstall it before attempting a removal"
    )


# What dpkg 1.21.22 of Debian 12 says: `podman` needs `containerd`, and `runc` by one of two names that it offers.
NEEDED = """\
dpkg: dependency problems prevent removal of containerd:
 podman:i386 depends on containerd (>= 1.6).

dpkg: error processing package containerd (--remove):
 dependency problems - not removing
dpkg: dependency problems prevent removal of runc:
 podman:i386 pre-depends on oci-runtime; however:
  Package runc is to be removed.
  Package oci-runtime is not installed.

dpkg: error processing package runc (--remove):
 dependency problems - not removing
Errors were encountered while processing:
 containerd
 runc
"""
LOCKED_NOW = (
    "dpkg: error: dpkg frontend lock was locked by another process with pid 4169\nNote: removing the lock file\n"
)


def test_dpkg_tells_what_would_go_too_and_what_needs_that() -> None:
    second = NEEDED.replace("podman:i386", "pod-tools").replace("containerd", "podman")
    answers = {"dpkg --dry-run --remove -- containerd podman": second, "dpkg --dry-run --remove -- containerd": NEEDED}
    answers["dpkg --dry-run --remove -- containerd podman pod-tools"] = ""
    host = Told({**dict(sorted(answers.items(), key=lambda pair: -len(pair[0]))), "dpkg-query": ""})
    assert Apt(host).would_remove(["containerd"]) == ["containerd", "pod-tools", "podman"]
    assert changes(host) == []


def test_of_a_package_in_two_architectures_the_nodes_own_one_goes() -> None:
    """dpkg says `ambiguous package name` otherwise."""
    rows = "installed lib:amd64 1\ninstalled lib:i386 1\ninstalled runc 1\nnot-installed runc:i386 \n"
    host = Told({"dpkg-query": rows, "dpkg --print-architecture": "amd64\n", "dpkg --dry-run": "", CHECK: ""})
    assert Apt(host).would_remove(["lib", "runc"]) == ["lib", "runc"]
    Apt(host).purge(["lib", "runc"])
    assert [line for line in host.asked if line.endswith("-- lib:amd64 runc")] == [
        "dpkg --dry-run --remove -- lib:amd64 runc",
        "dpkg --purge -- lib:amd64 runc",
    ]


@pytest.mark.parametrize("times", [2, 3])
def test_a_lock_that_is_taken_again_before_dpkg_gets_it_is_waited_for_a_few_times(times: int) -> None:
    class Again(Told):
        def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
            super().run(argv, **how)
            locked = len(changes(self)) <= times
            return Completed(tuple(argv), 2 if locked else 0, "", LOCKED_NOW if locked else "")

    host = Again({"dpkg-query": "installed runc 1.1\n", CHECK: ""})
    if times == 2:
        Apt(host).purge(["runc"])
    else:
        with pytest.raises(RecordError, match="locked by another process with pid 4169"):
            Apt(host).purge(["runc"])
    assert host.asked[1:] == [CHECK, "dpkg --purge -- runc"] * 3


def test_dnf_tells_what_an_installation_brings_and_refuses_upgrades() -> None:
    host = Told({"dnf": DNF_INSTALL})
    assert Rpm(host, "dnf").would_install(CONTAINERD) == ["container-selinux", "containerd.io"]
    assert host.asked == ["dnf -y --setopt=clean_requirements_on_remove=0 install --assumeno containerd"]
    with pytest.raises(RecordError, match="package libseccomp would be changed"):
        Rpm(Told({"dnf": DNF_UPGRADE}), "dnf").would_install(CONTAINERD)


@pytest.mark.parametrize("tool", ["dnf", "zypper"])
def test_rpm_has_no_half_way_state_to_end(tool: str) -> None:
    """A package is listed once its files are there: a cut one is missing, and is installed again."""
    host = Told({})
    Rpm(host, tool).check({"ours"})
    Rpm(host, tool).repair({"ours"})
    assert host.asked == []


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
