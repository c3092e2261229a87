# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The map from files to gates: complete, true to what tests import, and no wider than a change should cost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gates import catalogue, file_sets
from gates.gate import listed_files

CHECKOUT = catalogue.CHECKOUT
MAP = file_sets.load()
FILES = listed_files(CHECKOUT)
# Where absolute imports of the tests are found.
ROOTS = (CHECKOUT / "tests", CHECKOUT / "roles/node_share/files", CHECKOUT / "roles/placement/files")


def gates_that_read(path: str) -> set[str]:
    return {gate.name for gate in catalogue.gates() if gate.reads is not None and MAP.inputs(gate.reads, [Path(path)])}


def test_every_tracked_file_belongs_to_a_set_that_a_gate_reads() -> None:
    homeless = [str(path) for path in FILES if MAP.set_of(path.as_posix()) is None]
    assert not homeless, f"{homeless[0]} belongs to no set of tests/gates/scopes.toml; until then it runs every gate"
    read = {name for gate in catalogue.gates() for name in gate.reads or ()} | {file_sets.EVERYWHERE}
    assert {MAP.set_of(path.as_posix()) for path in FILES} <= read


def test_no_set_is_left_without_a_file() -> None:
    assert {MAP.set_of(path.as_posix()) for path in FILES} == set(MAP.sets)


def test_every_end_to_end_test_belongs_to_one_scope() -> None:
    tests = {path for path in FILES if path.match("tests/e2e/test_*.py") or path.match("tests/e2e/*/test_*.py")}
    for path in sorted(tests):
        owners = [scope.name for scope in MAP.scopes if any(path.is_relative_to(one) for one in scope.tests)]
        assert len(owners) == 1, f"{path} is run by {owners or 'no scope'} of tests/gates/scopes.toml"
    for scope in MAP.scopes:
        for one in scope.tests:
            assert (CHECKOUT / one).exists(), f"{scope.name} runs {one}, which does not exist"


def test_a_scope_says_whether_soak_has_tests_of_it() -> None:
    for scope in MAP.scopes:
        folders = [CHECKOUT / one for one in scope.tests]
        files = [path for one in folders for path in ([one] if one.is_file() else one.glob("test_*.py"))]
        text = "".join(path.read_text(encoding="utf-8") for path in files)
        assert scope.soak == bool(re.search(r"mark\.(soak|drawn)|^@given", text, re.MULTILINE)), scope.name
        assert bool(scope.repeated) == ("mark.repeated" in text), scope.name


def imported(path: Path) -> Iterator[Path]:
    """Yield the files of the project that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.replace(".", "/")
            yield from (root / f"{parts}.py" for root in ROOTS if (root / f"{parts}.py").is_file())


def reached(start: list[Path]) -> set[Path]:
    """Return all files of the project that these modules import, and those import."""
    seen: set[Path] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imported(path)
    return seen


@pytest.mark.parametrize("scope", MAP.scopes, ids=lambda scope: scope.name)
def test_a_scope_reads_every_file_that_its_tests_import(scope: file_sets.Scope) -> None:
    tests = [
        path
        for one in scope.tests
        for path in ([CHECKOUT / one] if one.endswith(".py") else (CHECKOUT / one).glob("*.py"))
    ]
    for path in sorted(reached([*tests, CHECKOUT / "tests/e2e/conftest.py"])):
        own = path.relative_to(CHECKOUT)
        assert MAP.inputs(scope.reads, [own]), (
            f"{scope.name} imports {own} and does not read the set '{MAP.set_of(own.as_posix())}'"
        )


def test_the_demo_reads_every_file_that_it_imports() -> None:
    reads = MAP.gates["demo"]
    for path in reached(list((CHECKOUT / "tests/demo").glob("*.py"))):
        assert MAP.inputs(reads, [path.relative_to(CHECKOUT)]), path


def test_a_change_runs_what_reads_it() -> None:
    every = {gate.name for gate in catalogue.gates() if gate.reads is not None}
    daemon = gates_that_read("roles/placement/files/placement/core/scheduler.py")
    nodeshare = gates_that_read("roles/node_share/files/nodeshare/decide.py")
    beds = {name for name in every if name.startswith(("e2e-", "molecule-", "demo"))}

    assert gates_that_read("pyproject.toml") == gates_that_read("a/file/of/no/set") == every
    assert not gates_that_read("docs/architecture.md") & beds
    assert {"docs", "unit", "importer"} <= gates_that_read("docs/architecture.md")
    assert {name for name in daemon & beds if "placement" not in name} == {"e2e-pbs-site"}
    assert {"unit", "types", "molecule-placement"} <= daemon
    assert not {name for name in nodeshare if "placement" in name}
    assert {"payloads", "e2e-handover", "demo"} <= nodeshare


def test_a_map_that_names_what_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scopes.toml"
    path.write_text("[files]\na = []\n[groups]\n[gates]\nlint = ['b']\n[scopes]\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'lint' reads the set 'b', which is not in"):
        file_sets.load(path)


def test_a_star_is_every_set_and_a_minus_takes_one_away(tmp_path: Path) -> None:
    path = tmp_path / "scopes.toml"
    path.write_text(
        "[files]\na = []\nb = []\nc = []\n[groups]\nboth = ['a', 'b']\n[gates]\n"
        "x = ['*', '-both']\ny = ['both']\n[scopes]\n",
        encoding="utf-8",
    )
    assert file_sets.load(path).gates == {"x": ("c",), "y": ("a", "b")}
