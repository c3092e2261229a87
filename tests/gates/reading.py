# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold that tests of a gate open no file that the gate does not read: it runs again only where what it reads changed.

As a plugin of pytest (`-p gates.reading --gate=NAME`) it fails every test that opens such a file, or lists a folder
with nothing else in it, and does not bear the mark `prose`. Tests with the mark are run by the gate `unit-prose`, which
reads everything. What a gate reads is in scopes.toml.

It sees this process alone: no file that a program opens which a test has started. A module that is imported counts for
the test that imports it first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from gates.file_sets import load
from gates.gate import listed_files
from gates.with_pytest import MARK

CHECKOUT = Path(__file__).resolve().parents[2]
OPTION = "--gate"
_ROOT = f"{CHECKOUT}/"
# Python's search for a module lists all folders that may have it.
_IMPORTS = "<frozen importlib"

# What was opened or listed since the last judgement, relative to the checkout; the name of a folder ends in a slash.
_seen: set[str] = set()
_unread: set[str] = set()
_imports: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """Note which files and folders of the checkout this process opens, by whichever link."""
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    try:
        path = os.path.realpath(os.fsdecode(arguments[0]))
    except (OSError, ValueError):  # no working folder any more, or no path at all
        return
    if event == "open":
        if path.startswith(_ROOT):
            _seen.add(path.removeprefix(_ROOT))
    elif path.startswith(_ROOT) and not sys._getframe(1).f_code.co_filename.startswith(_IMPORTS):
        _seen.add(f"{path.removeprefix(_ROOT)}/")


# Before any conftest.py is read, and until the process ends.
sys.addaudithook(_watch)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of the gate."""
    parser.addoption(
        OPTION, metavar="NAME", help="the gate whose tests these are: none opens what the gate does not read"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find out which files the gate does not read."""
    name, known = config.getoption(OPTION), load()
    if name not in known.gates:
        raise pytest.UsageError(f"{OPTION} is '{name}'; it takes one of: {', '.join(known.gates)}")
    _unread.update(known.unread(known.gates[name], listed_files(CHECKOUT)))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out modules that bear the mark as a whole, so that what they import is imported for no other test."""
    if collection_path.suffix != ".py":
        return None
    # Pytest also asks about modules beside the folder that it was given. To read one here is not to use it.
    before = {*_seen}
    text = collection_path.read_text(encoding="utf-8")
    _seen.intersection_update(before)
    return f"\npytestmark = pytest.mark.{MARK}\n" in text or None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note what was opened since the last one: by a module that is imported, or by a conftest.py before all."""
    report = yield
    if bad := _taken():
        which = collector.nodeid if isinstance(collector, pytest.Module) else "a conftest.py"
        _imports.append(f"{which} opens {bad} when it is imported")
    return report


def pytest_collection_finish() -> None:
    """Refuse modules that open such a file when they are imported: whoever collects them imports them."""
    if _imports:
        raise pytest.UsageError("\n".join(_imports))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Judge the fixtures of a test."""
    yield
    _judge(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Judge a test that has passed otherwise."""
    yield
    _judge(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Judge the ends of its fixtures."""
    yield
    _judge(item)


def _judge(item: pytest.Item) -> None:
    if (bad := _taken()) and item.get_closest_marker(MARK) is None:
        gate = item.config.getoption(OPTION)
        pytest.fail(
            f"opens {bad}, which the gate '{gate}' does not read (tests/gates/scopes.toml);"
            f" a test that must do so bears the mark '{MARK}'",
            pytrace=False,
        )


def _taken() -> str:
    """Return the first thing that was opened and must not be; begin anew."""
    bad = min(_seen & _unread, default="")
    _seen.clear()
    return bad
