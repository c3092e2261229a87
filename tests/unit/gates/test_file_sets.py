# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The map from files to gates: complete, true to what tests import, and no wider than a change should cost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from bootstrap.environment import PACKAGES
from gates import catalogue, file_sets
from gates.gate import listed_files
from gates.with_pytest import FOLDERS, MARK, others_below

# It opens modules of all gates, to see what they import.
pytestmark = pytest.mark.prose
CHECKOUT = catalogue.CHECKOUT
MAP = file_sets.load()
FILES = listed_files(CHECKOUT)
# Where absolute imports of the tests are found; modules of the collection begin at the checkout.
ROOTS = (CHECKOUT, *(CHECKOUT / folder for folder in PACKAGES), CHECKOUT / "tests/payloads")
NODESHARE = "roles/node_share/files/nodeshare"
MAP_READS = {**MAP.gates, **{scope.name: scope.reads for scope in MAP.scopes}}
# Tests in `unit` start programs of all gates; what these tests themselves import is seen when they run (gates.reading).
TEST_FOLDERS = [name for name in (*FOLDERS, "payloads") if name != "unit"]
RUN_MODULES = [name for name in MAP_READS if name.startswith(("e2e-", "molecule-")) or name in ("demo", *TEST_FOLDERS)]
# A program of the project that a molecule scenario starts, and a role of the collection that YAML names.
PROGRAM = re.compile(r"python, -m, ([\w.]+)")
ROLE = re.compile(r"\bconverged\.hpc\.(\w+)")


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


@cache
def imported(path: Path) -> tuple[Path, ...]:
    """Return the files of the project that a module imports, or starts by `python -m`, with their packages' own.

    What a function of nodeshare imports does not count, since the settings say which batch system's modules it loads:
    tests/payloads/test_loaded_modules.py holds that these are no others.
    """
    found: list[Path] = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if path.is_relative_to(CHECKOUT / NODESHARE) else ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [path for alias in node.names for path in module(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.level:
            start = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found += [file for one in (start, *(start / alias.name for alias in node.names)) for file in files_of(one)]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += module(node.module)
            found += [path for alias in node.names for path in module(f"{node.module}.{alias.name}")]
        elif isinstance(node, (ast.List, ast.Tuple)):
            words = [word.value if isinstance(word, ast.Constant) else None for word in node.elts]
            found += [path for option, name in pairwise(words) if option == "-m" for path in program(str(name))]
    return tuple(found)


@cache
def module(name: str) -> tuple[Path, ...]:
    """Return the files of a module of the project: its own, and those of the packages that hold it."""
    parts = name.removeprefix("ansible_collections.converged.hpc.").split(".")
    found: list[Path] = []
    for root in ROOTS:
        for number in range(1, len(parts) + 1):
            found += files_of(root.joinpath(*parts[:number]))
    return tuple(found)


def files_of(path: Path) -> list[Path]:
    """Return the file of the module or package at a path without an ending; none where there is no such module."""
    return [one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()]


def program(name: str) -> tuple[Path, ...]:
    """Return the files of a module that is started by `python -m`."""
    return module(name) + module(f"{name}.__main__")


def reached(start: Iterable[Path]) -> set[Path]:
    """Return all files of the project that these modules import, and those import."""
    seen: set[Path] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imported(path)
    return seen


def begins(gate: str) -> list[Path]:
    """Return the modules with which a gate begins: its tests, the conftest.py files above them, and its programs."""
    if gate == "demo":
        return [*(CHECKOUT / "tests/demo").glob("*.py"), *program("testbed")]
    if gate.startswith("molecule-"):
        return [path for text in yaml_of(gate) for name in PROGRAM.findall(text) for path in program(name)]
    if gate in TEST_FOLDERS:
        tests = [FOLDERS.get(gate, f"tests/{gate}")]
    else:
        tests = [one for scope in MAP.scopes if scope.name == gate for one in scope.tests]
    others = [CHECKOUT / folder for folder in (others_below(gate) if gate in FOLDERS else ())]
    files = [
        path
        for one in tests
        for path in ([CHECKOUT / one] if one.endswith(".py") else sorted((CHECKOUT / one).rglob("*.py")))
        if not any(path.is_relative_to(folder) for folder in others)
    ]
    above = {folder / "conftest.py" for path in files for folder in path.parents if folder.is_relative_to(CHECKOUT)}
    on_bed = program("testbed") if gate.startswith("e2e-") else ()
    return [*files, *(path for path in sorted(above) if path.is_file()), *on_bed]


DRAWS = re.compile(
    r"^\s*@(hypothesis\.)?given\(|StateMachine\b|\bchosen: random|\bseeds\.(seeds|first)\(|^from seeds import",
    re.MULTILINE,
)
ONLY_SOAK = re.compile(r"^pytestmark = .*\bmark\.soak\b", re.MULTILINE)


def draws(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return bool(DRAWS.search(text)) and not ONLY_SOAK.search(text)


def modules_of(gate: str) -> list[Path]:
    """Return the modules that a gate has for its tests."""
    if gate == "unit-prose":
        known = (path for folder in FOLDERS.values() for path in (CHECKOUT / folder).rglob("*.py"))
        return [path for path in known if f"mark.{MARK}" in path.read_text(encoding="utf-8")]
    if gate == "unit":
        return list((CHECKOUT / FOLDERS[gate]).rglob("*.py"))
    shared = {CHECKOUT / "tests/conftest.py", *program("testbed")}
    return [path for path in begins(gate) if path not in shared]


WITH_TESTS = [name for name in MAP_READS if name.startswith("e2e-") or name in (*FOLDERS, "payloads", "unit-prose")]


@pytest.mark.parametrize("gate", WITH_TESTS)
def test_a_gate_with_tests_that_draw_is_known_as_such(gate: str) -> None:
    tests = modules_of(gate)
    assert tests
    found = sorted(path.name for path in tests if draws(path))
    assert bool(found) == (gate in catalogue.DRAWING), f"{gate}: {found}"


def yaml_of(gate: str) -> list[str]:
    """Return the texts of a molecule scenario, with those that all scenarios share."""
    folders = [CHECKOUT / "extensions/molecule" / name for name in (gate[9:].replace("-", "_"), "shared")]
    return [path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.rglob("*.yml"))]


def roles_of(gate: str) -> set[str]:
    """Return the roles that a gate names; with the playbooks, all that these import (Ansible parses them all)."""
    if gate.startswith("molecule-"):
        named = {name for text in yaml_of(gate) for name in ROLE.findall(text)}
    else:
        named = {
            str(node.value).partition("/")[0]
            for path in reached(begins(gate))
            if path.is_relative_to(CHECKOUT / "tests/e2e") or path.is_relative_to(CHECKOUT / "tests/demo")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant)
        }
    if MAP.inputs(MAP_READS[gate], [Path("playbooks/site.yml")]):
        for playbook in sorted((CHECKOUT / "playbooks").glob("*.yml")):
            named |= {*ROLE.findall(playbook.read_text(encoding="utf-8"))}
    return named & {path.name for path in (CHECKOUT / "roles").iterdir()}


@pytest.mark.parametrize("gate", RUN_MODULES)
def test_a_gate_reads_every_module_that_its_tests_and_programs_import(gate: str) -> None:
    start = begins(gate)
    assert start
    for path in sorted(reached(start)):
        own = path.relative_to(CHECKOUT)
        assert MAP.inputs(MAP_READS[gate], [own]), (
            f"{gate} imports {own} and does not read the set '{MAP.set_of(own.as_posix())}'"
        )


@pytest.mark.parametrize("gate", [name for name in RUN_MODULES if name not in TEST_FOLDERS])
def test_a_gate_reads_every_role_that_it_runs_or_that_its_playbooks_import(gate: str) -> None:
    for role in sorted(roles_of(gate)):
        assert MAP.inputs(MAP_READS[gate], [Path(f"roles/{role}/tasks/main.yml")]), f"{gate} runs the role {role}"


def test_the_search_for_roles_and_programs_finds_those_of_a_known_gate() -> None:
    assert roles_of("molecule-pbs-share") >= {"node_share", "pbs_share"}
    assert roles_of("e2e-placeholder") == {"node_kubelet", "node_runtime", "node_share"}
    assert roles_of("demo") >= {"pbs_share", "singularity_cri"}
    assert CHECKOUT / "tests/e2e/placement/role.py" in reached(begins("molecule-placement"))
    assert CHECKOUT / "tests/testbed/supplies.py" in reached(begins("e2e-handover"))
    assert CHECKOUT / "tests/payloads/seeds.py" in reached(begins("pbs"))


@pytest.mark.parametrize(
    ("path", "gate"),
    [
        ("tests/e2e/singularity/ask.go", "molecule-singularity-cri"),
        ("tests/pbs/cgroups_hook.py", "e2e-pbs-site"),
    ],
)
def test_a_gate_reads_a_file_that_it_copies_or_gives_to_a_program(path: str, gate: str) -> None:
    assert (CHECKOUT / path).is_file()
    assert gate in gates_that_read(path)


def test_a_change_runs_what_reads_it() -> None:
    every = {gate.name for gate in catalogue.gates() if gate.reads is not None}
    daemon = gates_that_read("roles/placement/files/placement/core/scheduler.py")
    nodeshare = gates_that_read(f"{NODESHARE}/decide/decide.py")
    beds = {name for name in every if name.startswith(("e2e-", "molecule-", "demo"))}

    assert gates_that_read("pyproject.toml") == gates_that_read("a/file/of/no/set") == every
    texts = {"docs", "english", "importer", "roles", "sanity-prose", "unit-prose", "yamllint"}
    assert gates_that_read("docs/architecture.md") == gates_that_read("README.md") == texts
    changelog = gates_that_read("changelogs/fragments/placement.yml")
    assert changelog == {*texts, "changelog"} - {"english", "roles"}
    assert "ansible-lint" in gates_that_read("extensions/molecule/share/converge.yml")
    assert "ansible-lint" in gates_that_read("roles/node_share/tasks/main.yml") & gates_that_read("galaxy.yml")
    assert "ansible-lint" not in gates_that_read("tests/unit/gates/test_file_sets.py") | nodeshare | daemon
    assert {name for name in daemon & beds if "placement" not in name} == {"e2e-pbs-site", "e2e-racks", "e2e-spark"}
    assert {"placement", "types", "molecule-placement"} <= daemon
    assert not daemon & {"payloads", "rehearsals", "rehearsals-conversion", "unit"}
    assert gates_that_read("tests/placement/core/test_scheduler.py") & {*FOLDERS} == {"placement"}
    assert gates_that_read("tests/placement/app/test_loop.py") & {*FOLDERS} == {"placement-app"}
    assert gates_that_read("tests/rehearsals/test_verify.py") & {*FOLDERS} == {"rehearsals"}
    assert gates_that_read("tests/rehearsals/conversion/test_batches.py") & {*FOLDERS} == {"rehearsals-conversion"}
    assert gates_that_read("roles/placement/tasks/main.yml") >= {"placement", "rehearsals", "unit"}
    assert "rehearsals-conversion" in gates_that_read("roles/placement/tasks/main.yml")
    assert {"payloads", "pbs", "torque", "e2e-handover", "e2e-pbs-site", "demo"} <= nodeshare
    assert not {name for name in nodeshare if "placement" in name or name.startswith("rehearsals")}
    assert {"placement", "rehearsals", "rehearsals-conversion"} <= gates_that_read(f"{NODESHARE}/model/settings.py")
    slurm, pbs = (gates_that_read(f"{NODESHARE}/batch/{name}.py") for name in ("slurm", "pbs"))
    assert slurm < nodeshare
    assert pbs < nodeshare
    assert (slurm - pbs) & {*FOLDERS, *beds} >= {"demo", "e2e-handover"}
    assert (pbs - slurm) & {*FOLDERS, *beds} >= {"pbs", "torque", "e2e-pbs-site", "e2e-torque-site"}


def test_what_ansible_lint_does_not_read_is_python() -> None:
    not_linted = {name for name in MAP.sets if name.startswith("nodeshare-")} | {"role-placement"}
    kinds = {path.suffix for path in FILES if MAP.set_of(path.as_posix()) in not_linted}
    assert kinds == {".py", ".typed"}


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


def test_what_only_another_processor_can_run_is_no_gate_of_this_host_and_is_named() -> None:
    names = {machine: {gate.name for gate in catalogue.gates(machine=machine)} for machine in ("x86_64", "aarch64")}
    assert {name.removeprefix("soak-").partition("-vm")[0] for name in names["x86_64"] - names["aarch64"]} == {"e2e"}
    assert names["aarch64"] < names["x86_64"]
    assert catalogue.left_out(machine="x86_64") == ""
    assert catalogue.left_out(machine="aarch64").startswith(
        "not on a host with aarch64, and so not proved here: e2e-vm, "
    )
