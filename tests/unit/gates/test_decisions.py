# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What single gates decide: skips, roles, interpreters, documentation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gates import reference, skips
from gates.interpreters import first_of_each, of_every_change, version_in_name, version_of
from gates.lengthy import RANDOM
from gates.payloads import memory_folder, overlooked_in
from gates.roles import judge
from gates.sanity import STAND_IN, skips_in, wanted_pip

TESTS = Path(__file__).resolve().parents[2]

OPTION = {"type": "int", "default": 60, "description": "d"}


def specs(**options: dict[str, Any]) -> dict[str, Any]:
    return {"argument_specs": {"main": {"options": options}}}


def test_a_reason_on_the_list_may_be_followed_by_details() -> None:
    allowed = skips.allowed_reasons("# a comment\n\nno GPU\n")
    seen = [skips.Skip("t1", "no GPU: nvidia-smi is missing"), skips.Skip("t2", "flaky"), skips.Skip("t3", "")]

    assert skips.refused(seen, allowed) == [seen[1], seen[2]]
    assert skips.report(seen, allowed)[0] == "skipped: 3, not allowed: 2"
    assert "allowed: t1: no GPU: nvidia-smi is missing" in skips.report(seen, allowed)


def test_without_a_list_no_skip_is_allowed() -> None:
    assert skips.refused([skips.Skip("t", "because")], []) != []


@pytest.mark.parametrize("how", ["pytest.skip('not today')", "pytest.xfail('some day')"])
def test_a_pytest_run_fails_on_a_skip_that_is_not_on_the_list(how: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        f"import pytest\n\n\ndef test_one():\n    pass\n\n\ndef test_two():\n    {how}\n", encoding="utf-8"
    )
    argv = [sys.executable, "-m", "pytest", "-q", "-c", TESTS.parent / "pyproject.toml", "--rootdir", tmp_path]

    done = subprocess.run(
        [*argv, "-p", "conftest", tmp_path / "test_it.py"], capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "NOT ALLOWED: " in done.stdout


INTERRUPTING = """
import os, signal, subprocess, sys


def test_itself():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return
    raise AssertionError


def test_a_program():
    interrupt = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", interrupt], capture_output=True)
    assert b"KeyboardInterrupt" in done.stderr
"""


def test_interrupts_reach_tests_and_their_programs_where_the_shell_has_them_ignored(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(INTERRUPTING, encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-q", "-c", TESTS.parent / "pyproject.toml", "--rootdir", tmp_path]

    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *argv, "-p", "conftest", tmp_path / "test_it.py"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert "2 passed" in done.stdout, done.stdout + done.stderr


DRAWING = """
import os

from hypothesis import given, strategies


@given(strategies.integers())
def test_examples(number):
    print("drawn", number)


def test_another_way(chosen):
    print("drawn", chosen.random())
"""


def drawn(folder: Path, *options: str, **environ: str) -> list[str]:
    """Return what random tests draw in a run of pytest with these options and variables."""
    (folder / "test_it.py").write_text(DRAWING, encoding="utf-8")
    argv = [sys.executable, "-m", "pytest", "-qs", "-c", TESTS.parent / "pyproject.toml", "--rootdir", folder]
    inherited = {name: value for name, value in os.environ.items() if name != "CONVERGED_SEED"}
    done = subprocess.run(
        [*argv, "-p", "conftest", *options, folder / "test_it.py"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={**inherited, **environ},
    )
    return [line.lstrip(".") for line in done.stdout.splitlines() if line.lstrip(".").startswith("drawn")]


def test_random_tests_draw_the_same_in_every_run_that_has_no_seed(tmp_path: Path) -> None:
    runs = [drawn(tmp_path, PYTHONHASHSEED=seed) for seed in ("1", "2")]

    assert len(runs[0]) > 50
    assert runs[0] == runs[1]


def test_random_tests_are_drawn_by_the_seed_under_continuous_integration_too(tmp_path: Path) -> None:
    one, other = (drawn(tmp_path, CONVERGED_SEED=seed, CI="1") for seed in ("1", "2"))

    assert one == drawn(tmp_path, CONVERGED_SEED="1")
    assert one[:-1] != other[:-1], "examples of Hypothesis"
    assert one[-1] != other[-1], "draws of a test's own"
    assert other == drawn(tmp_path, "--hypothesis-seed=2", CONVERGED_SEED="1"), "the option goes before the variable"


def test_a_soak_draws_twenty_times_as_many_examples_and_takes_up_a_test_that_draws_without_hypothesis(
    tmp_path: Path,
) -> None:
    soak = ("-m", RANDOM, "--hypothesis-profile=soak")
    said = drawn(tmp_path, *soak, CONVERGED_SEED="1")

    assert len(said) == 2001
    (other,) = drawn(tmp_path, *soak, "-k", "another_way", CONVERGED_SEED="2")
    assert other != said[-1]


@pytest.mark.parametrize(
    ("defaults", "options", "problem"),
    [
        ({"r_a": 60}, {"r_a": OPTION}, None),
        ({}, {"r_a": {"type": "str", "required": True}}, None),
        ({}, {"converged_wlm": {"type": "str", "required": True}}, None),
        ({"r_a": 60, "r_b": 1}, {"r_a": OPTION}, "r: r_b is in defaults/main.yml and not in"),
        ({}, {"r_a": OPTION}, "r: r_a has a default in meta/argument_specs.yml and not in"),
        ({"r_a": 61}, {"r_a": OPTION}, "r: r_a is 61 in defaults/main.yml and 60 in the specs"),
        ({"r_a": 1}, {"r_a": {"type": "int", "required": True}}, "r: r_a is required, and defaults/main.yml sets it"),
        ({}, {"r_a": {"type": "int"}}, "r: r_a has no default and is not required"),
        ({"port": 1}, {"port": {"type": "int", "default": 1}}, "r: port does not begin with the role's name"),
    ],
)
def test_defaults_and_argument_specs_say_the_same(
    defaults: dict[str, Any], options: dict[str, Any], problem: str | None
) -> None:
    problems = list(judge("r", defaults, specs(**options)))

    assert len(problems) == (problem is not None)
    assert not problem or problems[0].startswith(problem)


def test_a_role_without_specs_is_named() -> None:
    assert list(judge("r", {}, {})) == ["r: meta/argument_specs.yml is missing or empty"]


def test_only_names_of_interpreters_count() -> None:
    assert version_in_name("python3.8") == (3, 8)
    assert [version_in_name(name) for name in ("python3", "python3.8-config", "python2.7", "python3.13t")] == [None] * 4


def test_the_first_interpreter_that_runs_is_taken_for_each_version(tmp_path: Path) -> None:
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    broken = tmp_path / name
    broken.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    broken.chmod(0o755)
    real = Path(sys.executable).with_name(name)

    assert first_of_each([broken, real], lowest=(3, 6)) == {sys.version_info[:2]: real}
    assert first_of_each([real], lowest=(3, 99)) == {}


def test_a_payloads_test_that_takes_memory_without_bound_fails_before_it_has_the_machines(tmp_path: Path) -> None:
    greedy = (
        "import unittest\n\n\nclass Greedy(unittest.TestCase):\n    def test_it(self):\n        bytearray(16 << 30)\n"
    )
    (tmp_path / "test_greedy.py").write_text(greedy, encoding="utf-8")
    argv = [sys.executable, str(TESTS / "gates/unittest_under.py"), str(tmp_path / "result"), str(tmp_path)]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert "MemoryError" in ran.stdout


def test_what_a_payloads_test_leaves_open_or_fails_in_a_thread_is_found_in_what_python_prints(tmp_path: Path) -> None:
    leaving = (
        "import socket, threading, unittest\n\n\nclass Leaving(unittest.TestCase):\n"
        "    def test_open(self):\n        socket.socket()\n\n"
        "    def test_thread(self):\n        one = threading.Thread(target=int, args=['x'])\n"
        "        one.start()\n        one.join()\n\n"
        "    def test_well(self):\n        socket.socket().close()\n"
    )
    (tmp_path / "test_leaving.py").write_text(leaving, encoding="utf-8")
    program = str(TESTS / "gates/unittest_under.py")
    argv = [sys.executable, "-W", "error", program, str(tmp_path / "result"), str(tmp_path)]

    ran = subprocess.run(argv, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)

    assert ran.returncode == 0
    opened, failed = overlooked_in(ran.stdout)
    assert opened.startswith("Exception ignored in: <socket.socket")
    assert failed.startswith("Exception in thread Thread-1")


def test_payloads_have_a_folder_in_memory_of_their_own_that_goes(tmp_path: Path) -> None:
    with memory_folder(tmp_path) as one, memory_folder(tmp_path) as other:
        assert one != other
        assert Path(one["TMPDIR"]).parent == tmp_path
        Path(one["TMPDIR"], "left").touch()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("flags", "blocks"), [(os.ST_NOEXEC, 10**9), (0, 10)], ids=["mounted without execution", "hardly any room"]
)
def test_payloads_leave_a_disk_in_memory_alone_that_runs_no_programs_or_is_small(
    flags: int, blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_flag=flags, f_bavail=blocks, f_frsize=4096))
    with memory_folder(tmp_path) as settings:
        assert (settings, [*tmp_path.iterdir()]) == ({}, [])


def test_payloads_need_no_disk_in_memory(tmp_path: Path) -> None:
    with memory_folder(tmp_path / "none") as settings:
        assert settings == {}


def test_the_text_of_a_version_is_read() -> None:
    assert version_of("3.6") == (3, 6)


@pytest.mark.parametrize(
    ("there", "every_change", "quick"),
    [([6, 7, 11, 13], [6, 13], [6]), ([6, 13], [6, 13], [6]), ([11], [11], [11]), ([], [], [])],
)
def test_payloads_run_under_the_oldest_and_the_newest_python(
    there: list[int], every_change: list[int], quick: list[int]
) -> None:
    found = {(3, minor): Path(f"/usr/bin/python3.{minor}") for minor in there}
    assert of_every_change(found) == {(3, minor): found[3, minor] for minor in every_change}
    assert of_every_change(found, quick=True) == {(3, minor): found[3, minor] for minor in quick}


def test_the_stand_in_for_get_pip_is_python_and_names_its_wheel() -> None:
    program = STAND_IN.format(wheel="/x/pip.whl")

    compile(program, "get_pip.py", "exec")
    assert "'/x/pip.whl'" in program


def test_the_pip_that_ansible_test_wants_is_found() -> None:
    assert wanted_pip().count(".") >= 1


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("[a](docs/a.md) [b](docs/b.md#x) [c](https://example.org)\n", encoding="utf-8")
    (tmp_path / "docs/b.md").touch()

    assert list(reference.broken_links(tmp_path, [Path("README.md")])) == [
        "README.md: the link to docs/a.md leads nowhere"
    ]


def test_the_readme_lists_all_content() -> None:
    assert list(reference.unlisted("`node_state` and `status`", ["node_state", "status", "node"])) == [
        "README.md does not list node"
    ]


def test_what_ansible_test_leaves_out_is_judged_by_the_same_list() -> None:
    said = (
        'Running sanity test "compile" on Python 3.8\n'
        'WARNING: Skipping sanity test "compile" on Python 3.9 because it could not be found.\n'
        'WARNING: Skipping sanity test "yamllint" on Python 3.11 due to missing libyaml support in PyYAML.\n'
    )
    found = skips_in(said)
    assert found == [
        skips.Skip("compile on Python 3.9", "because it could not be found."),
        skips.Skip("yamllint on Python 3.11", "due to missing libyaml support in PyYAML."),
    ]
    assert skips.refused(found, ["because it could not be found."]) == found[1:]
