# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that make up a level of tests, and how to read what they say."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gates.with_pytest import FOLDERS, others_below

from mutations.faults import Fault

PAYLOADS = "tests/payloads"
BED_TESTS = "tests/e2e/"
SCENARIOS = "extensions/molecule/"
HINT_SECONDS = 400.0
STAGE_SECONDS = 1500.0
BED_SECONDS = 2400.0
# `FAILED tests/x.py::test_y[1] - why`, `ERROR tests/x.py - why`; a parameter may have blanks in it.
_PYTEST = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
# `FAIL: test_y (test_x.Case.test_y)`; before Python 3.11 without the method in the parentheses.
_UNITTEST = re.compile(r"^(?:FAIL|ERROR): (\w+) \((\w+)(?:\.(\w+))?[\w.]*\)", re.MULTILINE)
_MISSING = re.compile(r"^ERROR: (\w+) \(unittest\.loader\._FailedTest", re.MULTILINE)
_BEGUN = re.compile(r"^(?:(tests/\S+::\S+)|(test\w+) \(([\w.]+)\))", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Tests to run in the copy; `cwd` and `path` (for PYTHONPATH, before what is there) are relative to it."""

    what: str
    argv: tuple[str, ...]
    seconds: float
    cwd: str = "."
    path: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def hinted(fault: Fault, checkout: Path) -> Iterator[Command]:
    """Yield the commands for the files that should notice, those without payload tests first."""
    there = [hint for hint in fault.hints if (checkout / hint).exists()]
    own = [hint for hint in there if not _is_payload(hint)]
    if own:
        yield _pytest("hinted files", own, seconds=HINT_SECONDS)
    modules = [Path(hint).stem for hint in there if _is_payload(hint)]
    if modules:
        yield _unittest("hinted payload tests", modules, checkout, seconds=HINT_SECONDS)


def fast(checkout: Path) -> Iterator[Command]:
    """Yield the whole fast level: what needs no bed."""
    words = ["discover", "-s", ".", "-t", "."]
    yield _unittest(PAYLOADS, words, checkout, seconds=STAGE_SECONDS)
    parts = {folder for gate in FOLDERS for folder in others_below(gate)}
    for folder in sorted({*FOLDERS.values()} - parts):
        yield _pytest(folder, [folder], seconds=STAGE_SECONDS)


def on_beds(fault: Fault) -> Iterator[Command]:
    """Yield what looks at this fault on test beds."""
    for name in fault.beyond:
        if name.startswith(BED_TESTS):
            yield _pytest(name, [name], seconds=BED_SECONDS)
        elif name.startswith(SCENARIOS):
            argv = ("molecule", "test", "-s", Path(name).name)
            env = {"NO_COLOR": "1"}
            yield Command(what=name, argv=argv, seconds=BED_SECONDS, env=env)
        elif name == "demo":
            yield Command(what=name, argv=(sys.executable, "-m", "demo"), seconds=BED_SECONDS)


def again(test: str, checkout: Path) -> Command:
    """Return the command that runs one test again, all its parameters included."""
    if test.startswith("tests/"):
        return _pytest(test, [test.partition("[")[0]], seconds=STAGE_SECONDS)
    if test.startswith("test_"):
        return _unittest(test, [test], checkout, seconds=STAGE_SECONDS)
    return next(command for command in fast(checkout) if command.what == test)


def failed_test(said: str) -> str:
    """Return the first test that failed by what pytest or unittest has said; empty where neither names one."""
    found = _PYTEST.search(said)
    if found:
        return found[1]
    missing = _MISSING.search(said)
    if missing:
        return missing[1]
    found = _UNITTEST.search(said)
    if not found:
        return ""
    name, module, case = found.groups()
    return ".".join(filter(None, (module, case, name if name.startswith("test") else "")))


def last_begun(said: str) -> str:
    """Return the test that was under way when the output ended, as far as the output shows it."""
    found = [*_BEGUN.finditer(said)]
    if not found:
        return ""
    node, name, case = found[-1].groups()
    return str(node) if node else f"{case.removesuffix('.' + name)}.{name}"


def _is_payload(hint: str) -> bool:
    return hint.startswith(PAYLOADS + "/")


def _pytest(what: str, targets: Iterable[str], *, seconds: float) -> Command:
    options = ["-x", "-v", "-m", "not soak", "--tb=short"]
    argv = (sys.executable, "-m", "pytest", *options, *targets)
    return Command(what=what, argv=argv, seconds=seconds)


def _unittest(what: str, words: Iterable[str], checkout: Path, *, seconds: float) -> Command:
    roots = {path.relative_to(checkout).parts[:3] for path in checkout.glob("roles/*/files/**/*.py")}
    # The daemon has tests of its own; everything else below roles/*/files is a payload.
    path = tuple(sorted("/".join(root) for root in roots if root[1] != "placement"))
    argv = (sys.executable, "-B", "-W", "error", "-m", "unittest", *_first(words))
    return Command(what=what, argv=argv, seconds=seconds, cwd=PAYLOADS, path=path)


def _first(words: Iterable[str]) -> tuple[str, ...]:
    """Put the options that stop at the first failure where unittest takes them."""
    given = tuple(words)
    if given[:1] == ("discover",):
        return ("discover", "-f", "-v", *given[1:])
    return ("-f", "-v", *given)
