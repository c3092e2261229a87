# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What beds are made of: what a demo and all tests need, and how work is done side by side."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testbed import api, binaries, images, supplies
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.parallel import side_by_side
from testbed.podman import Podman
from testbed.recipe import ACCOUNTING, OPENPBS, Recipe
from testbed.run import run
from testbed.state import file_lock

WAIT = 'touch "$1"; until test -e "$2"; do sleep 0.05; done'


def wait_for(file: Path, *, beside: Callable[[], object] = lambda: None) -> None:
    """Wait until another thread or process has made the file; call `beside` meanwhile.

    Raises:
        AssertionError: there is no such file after a minute.
    """
    deadline = time.monotonic() + 60
    while not file.exists():
        beside()
        assert time.monotonic() < deadline, f"nothing made {file} within a minute"
        time.sleep(0.05)


def test_the_demo_wants_no_kwok_and_one_image() -> None:
    names, recipes = supplies.wanted_for("demo")
    assert binaries.ALL - set(names) == {"kwok"}
    assert recipes == [Recipe(12)]


@pytest.mark.parametrize("installed", ["/opt/pbs", None])
def test_all_tests_want_every_release_and_the_layers_that_this_machine_can_have(
    monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    monkeypatch.setattr(supplies, "installation", lambda: installed)
    names, recipes = supplies.wanted_for("all")
    assert set(names) == binaries.ALL
    layers = [Recipe(12, ACCOUNTING), *([Recipe(12, OPENPBS)] if installed else [])]
    assert recipes == [Recipe(12), Recipe(13), *layers]


def test_layers_come_after_what_they_lie_on_and_releases_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recipe] = []
    meet = threading.Barrier(2, timeout=60)

    def ensure(recipe: Recipe, podman: Podman) -> None:
        assert podman.way is Way.V2
        if not recipe.layer:
            meet.wait()
        made.append(recipe)

    monkeypatch.setattr(images, "ensure", ensure)
    recipes = [Recipe(12, ACCOUNTING), Recipe(12), Recipe(13)]
    side_by_side(supplies.image_work(dict.fromkeys(recipes, Podman(Way.V2))))
    assert sorted(made, key=recipes.index) == recipes
    assert made.index(Recipe(12)) < made.index(Recipe(12, ACCOUNTING))


def test_a_failure_ends_what_runs_beside_it(tmp_path: Path) -> None:
    running, never = tmp_path / "running", tmp_path / "never"

    def fail() -> None:
        wait_for(running)
        raise BedError("no room")

    def endless() -> None:
        run(["sh", "-c", WAIT, "sh", str(running), str(never)], timeout=600)

    with pytest.raises(BedError, match="^no room$"):
        side_by_side([endless, fail])


SIDE_BY_SIDE = """
import sys
from testbed.parallel import side_by_side
from testbed.run import run
side_by_side([lambda: run(["sh", "-c", sys.argv[1], "sh", *sys.argv[2:]], timeout=600), lambda: None])
"""


# An interrupt that comes when the first work has begun, and before the second has.
AMID_THE_BEGINNING = """
import os, signal, sys, time
from testbed.parallel import side_by_side
from testbed.run import run

class Work(list):
    def __iter__(self):
        yield self[0]
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        yield self[1]

side_by_side(Work([lambda: run(["sh", "-c", sys.argv[1], "sh", *sys.argv[2:]], timeout=600), lambda: None]))
"""


def still_runs(work: subprocess.Popen[bytes]) -> None:
    assert work.poll() is None


@contextlib.contextmanager
def begun(script: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start long work that makes the file `running` in this folder, and never ends by itself."""
    argv = [sys.executable, "-c", script, WAIT, str(folder / "running"), str(folder / "never")]
    environment = {**os.environ, "PYTHONPATH": str(api.TESTS)}
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE) as work:
        try:
            yield work
        finally:
            work.kill()
            (folder / "never").touch()


def test_an_interrupt_ends_long_work(tmp_path: Path) -> None:
    with begun(SIDE_BY_SIDE, tmp_path) as work:
        wait_for(tmp_path / "running", beside=lambda: still_runs(work))
        work.send_signal(signal.SIGINT)
        _out, said = work.communicate(timeout=120)
    assert b"KeyboardInterrupt" in said


def test_an_interrupt_ends_long_work_of_which_a_part_has_not_begun(tmp_path: Path) -> None:
    with begun(AMID_THE_BEGINNING, tmp_path) as work:
        _out, said = work.communicate(timeout=120)
    assert b"KeyboardInterrupt" in said


def test_a_lock_that_was_given_back_is_free_although_a_later_command_of_its_process_runs(
    cache: Path, tmp_path: Path
) -> None:
    running, end = tmp_path / "running", tmp_path / "end"
    with file_lock("x", timeout=1, what="x"):
        beside = threading.Thread(
            target=run, args=(["sh", "-c", WAIT, "sh", str(running), str(end)],), kwargs={"timeout": 600}
        )
        beside.start()
        wait_for(running)
    try:
        with file_lock("x", timeout=0, what="x"):
            pass
    finally:
        end.touch()
        beside.join()
