# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that opens what its gate does not read is seen, however it opens it, and is run by the gate that reads all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gates import catalogue, lengthy, with_pytest
from gates.gate import Context

CHECKOUT = catalogue.CHECKOUT
# For a gate that reads playbooks and roles, and neither the daemon nor documentation.
GATE = "rehearsals"
UNREAD = ["docs/architecture.md", "roles/node_share/README.md", "roles/placement/files/placement/__main__.py"]
READ = ["roles/node_share/defaults/main.yml", "roles/placement/tasks/main.yml", "Makefile", "docs/no_such_file.md"]
UNREAD_FOLDERS = ["roles/placement/files/placement/core", "tests/placement/app"]
READ_FOLDERS = ["roles/node_share", "playbooks"]

OPENING = """
import contextlib
import pytest

def opened(path):
    with contextlib.suppress(FileNotFoundError):
        open(path).close()

@pytest.fixture
def begins(request):
    opened(request.param)

@pytest.fixture
def ends(request):
    yield
    opened(request.param)

every = pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))

@every
def test_itself(path):
    opened(path)

@pytest.mark.parametrize("begins", PATHS, indirect=True, ids=range(len(PATHS)))
def test_begin(begins):
    pass

@pytest.mark.parametrize("ends", PATHS, indirect=True, ids=range(len(PATHS)))
def test_end(ends):
    pass

@pytest.mark.prose
@every
def test_marked(path):
    opened(path)
"""
LISTING = """
import os, pathlib
import pytest

@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
@pytest.mark.parametrize("how", [os.listdir, os.scandir, lambda path: list(pathlib.Path(path).glob("*"))], ids="abc")
def test_list(path, how):
    how(path)
"""


def below(gate: str) -> list[str]:
    """Return the gates that have a folder below that of this gate."""
    return {"placement": ["placement-app"], "rehearsals": ["rehearsals-conversion"]}.get(gate, [])


def watched(folder: Path, text: str, gate: str = GATE) -> subprocess.CompletedProcess[str]:
    """Run a module of tests with the plugin."""
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    # No other plugin: pytest would compile the whole of its package first.
    argv = [sys.executable, "-m", "pytest", "-v", "--disable-plugin-autoload", "-p", "gates.reading"]
    argv += [f"--gate={gate}", "-c", "/dev/null", "."]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def said_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return the last word on each test: that on its fixtures' ends comes after that on itself."""
    return dict(re.findall(r"::(\w+\[\S+\]) (PASSED|FAILED|ERROR) ", done.stdout))


def test_a_test_opens_no_file_that_its_gate_does_not_read(tmp_path: Path) -> None:
    collection = Path(os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0], "ansible_collections/converged/hpc")
    folder = tmp_path / "tests"
    folder.mkdir()
    (tmp_path / "link").symlink_to(CHECKOUT)
    paths = {str(root / name): name for root in (CHECKOUT, collection, tmp_path / "link") for name in UNREAD + READ}

    done = watched(folder, f"PATHS = {[*paths]!r}\n{OPENING}")

    said = said_of(done)
    for number, (path, name) in enumerate(paths.items()):
        bad = name in UNREAD
        assert said[f"test_itself[{number}]"] == ("FAILED" if bad else "PASSED"), path
        assert said[f"test_begin[{number}]"] == ("ERROR" if bad else "PASSED"), path
        assert said[f"test_end[{number}]"] == ("ERROR" if bad else "PASSED"), path
        assert said[f"test_marked[{number}]"] == "PASSED", path
    assert f"opens docs/architecture.md, which the gate '{GATE}' does not read" in done.stdout


def test_a_test_lists_no_folder_of_which_its_gate_reads_no_file(tmp_path: Path) -> None:
    paths = [str(CHECKOUT / name) for name in UNREAD_FOLDERS + READ_FOLDERS]

    said = said_of(watched(tmp_path, f"PATHS = {paths!r}\n{LISTING}"))

    for number in range(len(paths)):
        word = "FAILED" if number < len(UNREAD_FOLDERS) else "PASSED"
        assert [said[f"test_list[{how}-{number}]"] for how in "abc"] == [word] * 3, paths[number]


def test_the_search_for_a_module_in_all_folders_is_no_listing(tmp_path: Path) -> None:
    search = "importlib.invalidate_caches()\n    assert not importlib.util.find_spec('no_such_module')"
    text = f"import importlib.util, sys\n\ndef test_one():\n    sys.path.append(FOLDER)\n    {search}\n"

    done = watched(tmp_path, f"FOLDER = {str(CHECKOUT / UNREAD_FOLDERS[0])!r}\n{text}")

    assert "1 passed" in done.stdout, done.stdout


def test_a_module_that_opens_such_a_file_when_it_is_imported_is_refused(tmp_path: Path) -> None:
    opens = f"open({str(CHECKOUT / 'README.md')!r}).close()\n"

    done = watched(tmp_path, f"{opens}\ndef test_one():\n    pass\n")

    assert done.returncode == 4
    assert "test_it.py opens README.md when it is imported" in done.stderr


@pytest.mark.parametrize("word", ["", "placement.model.messages"])
def test_what_a_conftest_opens_or_imports_is_refused(word: str, tmp_path: Path) -> None:
    opens = f"import {word}\n" if word else f"open({str(CHECKOUT / 'README.md')!r}).close()\n"
    (tmp_path / "conftest.py").write_text(opens, encoding="utf-8")

    done = watched(tmp_path, "def test_one():\n    pass\n")

    assert done.returncode == 4
    assert re.search(r"a conftest.py opens (README.md|roles/placement/files/placement/\S+) when", done.stderr)


def test_a_module_that_bears_the_mark_as_a_whole_is_not_imported(tmp_path: Path) -> None:
    text = "import pytest\n\npytestmark = pytest.mark.prose\nimport placement.model.messages\n"
    (tmp_path / "test_other.py").write_text("def test_one():\n    pass\n", encoding="utf-8")

    done = watched(tmp_path, f"{text}\ndef test_two():\n    pass\n")

    assert re.findall(r"::(\w+) PASSED", done.stdout) == ["test_one"], done.stdout + done.stderr


def test_a_gate_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    done = watched(tmp_path, "def test_one():\n    pass\n", gate="untold")

    assert done.returncode == 4
    assert "--gate is 'untold'; it takes one of: payloads, sanity, " in done.stderr


@dataclass(frozen=True, kw_only=True)
class Noting(Context):
    """A context that runs nothing."""

    commands: list[list[str]] = field(default_factory=list)

    def run(self, argv: object, **_options: object) -> None:
        self.commands.append([str(word) for word in argv])  # type: ignore[attr-defined]


@pytest.fixture
def noting(tmp_path: Path) -> Noting:
    return Noting(
        checkout=CHECKOUT,
        cache=tmp_path,
        own=tmp_path,
        scratch=tmp_path,
        logs=tmp_path,
        seed=None,
        quick=True,
        environ={},
        log=tmp_path / "log",
        deadline=time.monotonic() + 60,
    )


@pytest.mark.prose
def test_every_run_of_pytest_shows_where_a_test_hangs_before_its_gate_ends(noting: Noting) -> None:
    random = [gate for gate in catalogue.gates() if gate.name in lengthy.RANDOM_PARTS]
    scopes = [gate for gate in catalogue.gates() if gate.group == "e2e"]
    others = [gate for gate in catalogue.gates() if gate.name in (*with_pytest.FOLDERS, "unit-prose")]
    assert random
    assert scopes
    assert len(others) == len(with_pytest.FOLDERS) + 1
    for gate in (*random, *scopes, *others):
        gate.action(noting)
        assert f"faulthandler_timeout={with_pytest.SHOWN_AFTER}" in noting.commands[-1], gate.name
        assert gate.limit > with_pytest.SHOWN_AFTER


def test_the_tests_of_each_folder_are_run_once_and_watched_for_their_gate(noting: Noting) -> None:
    for gate in catalogue.gates():
        if gate.name in with_pytest.FOLDERS:
            gate.action(noting)
            words = noting.commands[-1]
            assert words[-1] == with_pytest.FOLDERS[gate.name]
            left = [word for word in words if word.startswith("--ignore")]
            assert left == [f"--ignore={with_pytest.FOLDERS[name]}" for name in below(gate.name)]
            assert f"--gate={gate.name}" in words
            assert words[words.index("gates.reading") - 1] == "-p"


@pytest.mark.prose  # it collects files that `unit` does not read
def test_modules_beside_the_folder_of_a_gate_are_none_of_its_reading() -> None:
    gate = "rehearsals-conversion"
    argv = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "gates.reading", f"--gate={gate}"]
    argv += ["-p", "no:cacheprovider", with_pytest.FOLDERS[gate]]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout


# How a module can have the mark in its text: in full, or by a name that is kept elsewhere.
SAYS_MARK = re.compile(rf"\bmark\.{with_pytest.MARK}\b|getattr\(.*\bmark,")


@pytest.mark.prose
def test_every_test_that_bears_the_mark_is_run_by_one_gate(noting: Noting) -> None:
    by_gate = {}
    for gate in catalogue.gates():
        if gate.name in (*with_pytest.FOLDERS, "unit-prose"):
            gate.action(noting)
            by_gate[gate.name] = noting.commands[-1]
    marks = {name: argv[argv.index("-m", 3) + 1] for name, argv in by_gate.items()}
    assert {name: mark for name, mark in marks.items() if "not prose" not in mark} == {
        "unit-prose": "prose and not soak"
    }
    modules = [word for word in by_gate["unit-prose"] if word.startswith("tests/")]
    assert len(modules) == len({*modules})
    # A test has the mark from its own module: no conftest.py and no module that tests import may give it.
    folders = [CHECKOUT / folder for folder in with_pytest.FOLDERS.values()]
    texts = {path: path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")}
    texts |= {path: path.read_text(encoding="utf-8") for path in CHECKOUT.glob("tests/*_kit/*.py")}
    texts[CHECKOUT / "tests/conftest.py"] = (CHECKOUT / "tests/conftest.py").read_text(encoding="utf-8")
    marked = {path.relative_to(CHECKOUT).as_posix() for path, text in texts.items() if SAYS_MARK.search(text)}
    assert marked == {*modules}, "give the mark in the module of the test, as pytest.mark.prose"
    assert all(Path(module).name.startswith("test_") for module in modules)
    assert {module.split("/")[1] for module in modules} >= {"unit", "placement"}
