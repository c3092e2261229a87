# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold that tests of the gate `unit` open no documentation, so that it need not run again where only that has changed.

As a plugin of pytest (`-p gates.prose`) it fails every test that opens such a file in its process and does not bear the
mark `prose`. Tests with the mark are run by the gate `unit-prose`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from gates.file_sets import load

CHECKOUT = Path(__file__).resolve().parents[2]
# The sets of scopes.toml that hold documentation and the changelog.
SETS = ("changelogs", "prose")
MARK = "prose"

_opened: set[str] = set()


def pytest_configure() -> None:
    """Watch which files this process opens, from now on and until it ends."""
    files = load()
    # Modules of the collection are imported through a link to the checkout.
    link = (
        Path(os.environ.get("ANSIBLE_COLLECTIONS_PATH", "/nowhere").split(":")[0]) / "ansible_collections/converged/hpc"
    )
    roots = (f"{CHECKOUT}/", f"{link}/")

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        for root in roots:
            if path.startswith(root) and files.set_of(path.removeprefix(root)) in SETS:
                _opened.add(path.removeprefix(root))

    sys.addaudithook(watch)


def pytest_collection_finish() -> None:
    """Refuse a module that opens such a file when it is imported: all gates on these folders import it."""
    if _opened:
        raise pytest.UsageError(f"a test module opens {min(_opened)} when it is imported")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Begin anew for each test and its fixtures."""
    _opened.clear()
    yield
    _judge(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Judge a test that has passed otherwise."""
    yield
    _judge(item)


def _judge(item: pytest.Item) -> None:
    if _opened and item.get_closest_marker(MARK) is None:
        pytest.fail(f"opens {min(_opened)}; a test that reads documentation bears the mark '{MARK}'", pytrace=False)
