# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands in containers, with programs that stand for podman and nsenter."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from testbed import namespaces, podman
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.podman import Podman

# Says what the file `inspected` has, and counts how often it was asked; runs what nsenter is to run.
FAKES = {
    "podman": '#!/bin/sh\necho asked >> "{folder}/asked"\ncat "{folder}/inspected"\n',
    "nsenter": '#!/bin/sh\necho "$@" >> "{folder}/entered"\nwhile [ "$1" != -C ]; do shift; done\nshift\nexec "$@"\n',
}


class Container:
    """A container whose main process is one of ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.main: subprocess.Popen[bytes] | None = None

    def boot(self, *, names: str = '"PATH=/usr/bin:/bin", "HOME=/root", "container_uuid=1"') -> int:
        """Have another main process, as after a restart."""
        self.stop()
        self.main = subprocess.Popen(["sleep", "600"])
        environment = json.loads(f"[{names.replace('/usr/bin', f'{self.folder}:/usr/bin')}]")
        self.tell(self.main.pid, environment)
        return self.main.pid

    def tell(self, pid: int, environment: list[str]) -> None:
        limits = [{"Name": "RLIMIT_NOFILE", "Soft": 99, "Hard": 100}]
        inspected = {"State": {"Pid": pid}, "Config": {"Env": environment}, "HostConfig": {"Ulimits": limits}}
        (self.folder / "inspected").write_text(json.dumps([inspected]))

    def stop(self) -> None:
        if self.main is not None:
            self.main.kill()
            self.main.wait()
            self.tell(0, [])

    def asked(self) -> int:
        return len((self.folder / "asked").read_text().splitlines())


@pytest.fixture
def container(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Container]:
    folder = tmp_path / "fakes"
    folder.mkdir()
    for name, text in FAKES.items():
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SECRET", "of the caller")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(podman, "MAIN_PROCESSES", {})
    made = Container(folder)
    yield made
    made.stop()


def shell(command: str, *, check: bool = True, input: str | None = None) -> tuple[int, str, str]:
    done = Podman(Way.V1).exec("b-n1", ["sh", "-c", command], timeout=60, check=check, input=input)
    return done.rc, done.out, done.err


def test_a_command_has_the_containers_environment_and_limits_and_nothing_of_ours(container: Container) -> None:
    pid = container.boot()
    old = os.umask(0o077)
    try:
        _rc, out, _err = shell('echo "$HOME $SECRET$container_uuid"; ulimit -n; umask')
    finally:
        os.umask(old)
    assert out.split() == ["/root", "99", "0022"]
    assert (container.folder / "entered").read_text().startswith(f"-t {pid} -m -u -i -n -p -C sh -c ")


def test_input_outputs_and_status_are_those_of_the_command(container: Container) -> None:
    container.boot()
    assert shell("cat; echo err >&2; exit 7", check=False, input="in\n") == (7, "in\n", "err\n")
    assert shell("cat") == (0, "", "")
    assert shell("kill -9 $$", check=False)[0] == 137
    with pytest.raises(BedError, match=r"^b-n1: sh: exit status 3: why$"):
        shell("echo why >&2; exit 3")


def test_podman_is_asked_once_for_each_boot_of_a_container(container: Container) -> None:
    first = container.boot()
    shell("true")
    shell("true")
    assert container.asked() == 1
    second = container.boot()
    shell("true")
    shell("true")
    assert container.asked() == 2
    entered = [line.split()[1] for line in (container.folder / "entered").read_text().splitlines()]
    assert entered == [str(first)] * 2 + [str(second)] * 2


def test_a_number_that_another_process_has_now_is_no_container(container: Container) -> None:
    container.boot()
    main = Podman(Way.V1).main_process("b-n1")
    assert main is not None
    assert main.runs()
    assert not namespaces.MainProcess(main.pid, "1", (), ()).runs()


def test_containers_of_the_same_name_in_two_storages_are_two(container: Container) -> None:
    container.boot()
    assert Podman(Way.V1).main_process("b-n1") == Podman(Way.V2).main_process("b-n1")
    assert container.asked() == 2


def test_nothing_runs_in_a_container_that_does_not(container: Container) -> None:
    container.boot()
    shell("true")
    container.stop()
    assert shell("true", check=False) == (255, "", "the container does not run")
    with pytest.raises(BedError, match=r"^b-n1: sh: exit status 255: the container does not run$"):
        shell("true")
    assert len((container.folder / "entered").read_text().splitlines()) == 1


def test_a_process_that_nobody_has_waited_for_does_not_run() -> None:
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert namespaces.started(ended.pid) is None
    assert namespaces.started(os.getpid()) is not None


def test_who_is_not_root_enters_through_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    inspected: dict[str, Any] = {"State": {"Pid": os.getpid()}, "Config": {"Env": ["A=b c"]}, "HostConfig": {}}
    main = namespaces.main_process(inspected)
    assert main is not None
    words = ["env", "-i", "A=b c", "nsenter", "-t", str(os.getpid()), "-m", "-u", "-i", "-n", "-p", "-C", "id"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert main.command(["id"]) == words
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main.command(["id"]) == ["sudo", "-n", *words]
