# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A spoilt record, a full disk, a checkout that stays clean: one line where something is wrong, and nothing left."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e import machine
from testbed import api, images
from testbed.cgroups import Way
from testbed.podman import Podman
from testbed.recipe import DEFAULT_DEBIAN, Recipe
from testbed.run import run

NAME = f"faults-{os.getpid()}"
PLAIN = ("--no-kube", "--nodes", "1")
AS_ROOT = () if os.geteuid() == 0 else ("sudo", "-n")


@pytest.fixture(autouse=True)
def gone() -> Iterator[None]:
    """Whatever a test does, its bed does not outlive it."""
    yield
    api.command_line("down", NAME, timeout=300, check=False)


def test_a_bed_whose_record_is_spoilt_is_taken_down_all_the_same() -> None:
    bed = api.bring_up(NAME, *PLAIN)
    known = machine.ask("facts", NAME)
    assert len(known["containers"]) == 2
    run([*AS_ROOT, "sh", "-c", 'echo "{" > "$1"', "sh", str(bed.bed.dir / "state.json")], timeout=10)

    asked = api.command_line("status", NAME, check=False)
    assert (asked.rc, asked.err.count("\n")) == (1, 1)
    assert "no record of a bed (Expecting" in asked.err
    assert asked.err.endswith(f"testbed down {NAME}\n")

    api.command_line("down", NAME, timeout=300)
    assert machine.ask("leftovers", known=known) == []


def test_a_bed_leaves_the_checkout_as_it_was(tmp_path: Path) -> None:
    """A copy of what is tracked, because somebody may be at work in the checkout itself."""
    root = api.TESTS.parent
    for name in run(["git", "-C", str(root), "ls-files", "tests", "pyproject.toml"], timeout=30).out.splitlines():
        if (root / name).exists():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, tmp_path / name)
    before = everything(tmp_path)
    for words in (["up", "--name", NAME, *PLAIN], ["status", NAME], ["inventory", NAME], ["down", NAME]):
        environ = {**os.environ, "PYTHONPATH": str(tmp_path / "tests"), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [sys.executable, "-m", "testbed", *words]
        subprocess.run(argv, cwd=tmp_path, env=environ, timeout=api.UP_SECONDS, check=True, capture_output=True)
    assert everything(tmp_path) == before


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    """Each file with its owner and when it was written."""
    states = {str(path): path.stat() for path in folder.rglob("*")}
    return {name: (state.st_uid, state.st_mtime_ns if Path(name).is_file() else 0) for name, state in states.items()}


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache on a file system of its own with hardly more room than a bed asks for; images come from the real one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    image = images.cached(Recipe(DEFAULT_DEBIAN)).folder
    monkeypatch.setenv("CONVERGED_CACHE", str(folder))
    run([*AS_ROOT, "mount", "-t", "tmpfs", "-o", "size=1100m,mode=0755", "tmpfs", str(folder)], timeout=30)
    try:
        run([*AS_ROOT, "mkdir", str(folder / "images")], timeout=10)
        run([*AS_ROOT, "ln", "-s", str(image), str(folder / "images")], timeout=10)
        yield folder
    finally:
        run([*AS_ROOT, "umount", "--recursive", "--lazy", str(folder)], timeout=30)
        run([*AS_ROOT, "rm", "-rf", *{str(Podman(way).run_dir.parent) for way in Way}], timeout=30)


@pytest.mark.parametrize("step", [pytest.param("import", marks=pytest.mark.soak), "keys, folders, network"])
def test_a_disk_that_runs_full_is_said_in_one_line_and_nothing_is_left(small_disk: Path, step: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(api.TESTS), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "-m", "testbed", "up", "--name", NAME, *PLAIN]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=environ) as up:
        assert up.stderr is not None
        for line in up.stderr:
            if line.startswith("  ..") and step in line:
                break
        filled = ["dd", "if=/dev/zero", f"of={small_disk}/ballast", "bs=1M", "status=none"]
        # It must not be done before the disk is full.
        run([*AS_ROOT, "kill", "-STOP", str(up.pid)], timeout=30)
        run([*AS_ROOT, *filled], timeout=60, check=False)
        run([*AS_ROOT, "kill", "-CONT", str(up.pid)], timeout=30)
        said = up.stderr.read().splitlines()
    assert up.returncode == 1
    assert said[-1].startswith("testbed: "), said
    # In the words of whichever program meets it first.
    assert re.search("no space left on device|the disk is full", said[-1], re.IGNORECASE), said
    assert not (small_disk / "beds" / NAME).exists()
    assert run([*AS_ROOT, "podman", "network", "exists", NAME], timeout=30, check=False).rc == 1
