# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""That a run which is forked from a server is a run of the program, and ends when its time or its session ends."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from rehearsals.fork_server import Server, ansible_playbook, program

# What a process inherits.
SHOWN = "pwd; umask; ulimit -a; grep Sig[BIC] /proc/self/status; ls /proc/self/fd; env | sort"


def plays(*tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a play for one node, behind one that warns as it reaches no host."""
    return [{"hosts": "none"}, {"hosts": "n1", "gather_facts": False, "tasks": list(tasks)}]


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_by_a_server_says_and_does_what_the_program_does(rehearsal: Any, fails: bool) -> None:
    asked = plays(
        {"name": "Put", "converged.hpc.node_state": {"role": "node_share"}},
        {"name": "See as Ansible", "ansible.builtin.debug": {"msg": f"{{{{ lookup('pipe', '{SHOWN}') }}}}"}},
        {"name": "See as a module", "ansible.builtin.command": {"argv": ["sh", "-c", SHOWN]}, "register": "seen"},
        {"name": "Say it", "ansible.builtin.debug": {"var": "seen.stdout_lines"}},
        {"name": "End", "ansible.builtin.assert": {"that": [not fails]}},
    )
    done = []
    for start in (program, ansible_playbook, ansible_playbook):
        rehearsal.start = start
        done.append(rehearsal.play(asked, word="x"))
        # What another run was given is not there afterwards.
        assert rehearsal.play(plays({"ansible.builtin.assert": {"that": ["word is undefined"]}}), other="y").passed
    assert str(done[0].calls[0]) == "node_state node_share"
    assert "Could not match supplied host pattern" in done[0].said
    assert done[0].passed is not fails
    assert done[1] == done[0]
    assert done[2] == done[0], "a run does not know the run before"


def play(folder: Path, *tasks: dict[str, Any]) -> list[str]:
    """Return the words for a play on this host."""
    (folder / "play.yml").write_text(yaml.safe_dump(plays(*tasks)), encoding="utf-8")
    return ["-i", "n1,", "-e", "ansible_connection=local", str(folder / "play.yml")]


def test_runs_share_neither_their_random_numbers_nor_their_temporary_folder_nor_the_exit_status(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    environ = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(folder)}
    words = play(
        tmp_path,
        {"ansible.builtin.debug": {"msg": f"{{{{ (10 ** 15) | random }}}} {{{{ lookup('pipe', 'ls {folder}') }}}}"}},
    )
    said = [ansible_playbook(words, tmp_path, environ).stdout for _run in range(2)]
    one, other = [found.groups() for text in said if (found := re.search(r'"msg": "(\d+) ([\w-]+)"', text))]
    assert one[0] != other[0]
    assert one[1] != other[1]
    assert not [*folder.iterdir()]
    for start in (program, ansible_playbook):
        assert start(["none.yml"], tmp_path).returncode == 1
        assert start(["--none"], tmp_path).returncode == 2


def test_a_run_leaves_nothing_in_its_working_folder(tmp_path: Path) -> None:
    words = play(tmp_path, {"ansible.builtin.copy": {"content": "x", "dest": str(tmp_path / "put")}})
    environ = {name: value for name, value in os.environ.items() if name != "ANSIBLE_LOCAL_TEMP"}
    assert ansible_playbook(words, tmp_path, environ).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["play.yml", "put"]


def hanging(folder: Path) -> list[str]:
    """Return the words for a play of which a module hangs; it leaves its process id."""
    hang = {"ansible.builtin.command": {"argv": ["sh", "-c", f"echo $$ >{folder}/pid; exec sleep 1000"]}}
    return play(folder, {"ansible.builtin.debug": {"msg": "this was said"}}, hang)


def comes(true: Callable[[], bool], seconds: float = 10) -> bool:
    """Say whether something becomes true in time."""
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    return true()


def has_ended(folder: Path) -> bool:
    """Say whether what hung is no process any more."""
    return not Path("/proc", (folder / "pid").read_text(encoding="utf-8").strip()).exists()


def test_a_run_that_hangs_is_ended_with_all_its_processes_and_what_it_said_is_shown(tmp_path: Path) -> None:
    words = hanging(tmp_path)
    for seconds in (2, 20, 200):  # the first is enough but on a machine that is very busy
        with pytest.raises(subprocess.TimeoutExpired) as found:
            ansible_playbook(words, tmp_path, seconds=seconds)
        if (tmp_path / "pid").exists():
            break
    assert "this was said" in str(found.value.output)
    assert comes(lambda: has_ended(tmp_path))
    assert ansible_playbook(["--version"], tmp_path).returncode == 0, "the next run is made"


def test_a_run_beside_another_does_not_wait_for_its_end(tmp_path: Path) -> None:
    go, there = tmp_path / "go", tmp_path / "there"
    wait = f"touch {there}; until test -e {go}; do sleep 0.05; done"
    words = play(tmp_path, {"ansible.builtin.command": {"argv": ["sh", "-c", wait]}})
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ansible_playbook, words, tmp_path)
        try:
            assert comes(there.exists, seconds=60)
            assert ansible_playbook(["--version"], tmp_path, seconds=60).returncode == 0
        finally:
            go.touch()
        assert first.result().returncode == 0


def test_a_server_ends_with_its_run_when_nothing_can_ask_it_any_more(tmp_path: Path) -> None:
    server = Server(os.environ)
    server.ask(hanging(tmp_path), tmp_path, os.environ, 1000)
    assert comes((tmp_path / "pid").exists, seconds=60)
    server.end()
    assert comes(lambda: has_ended(tmp_path))


def test_a_server_that_cannot_begin_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="could not initialize the preferred locale"):
        ansible_playbook(["--version"], tmp_path, {**os.environ, "LC_ALL": "none"})
