# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that several programs share have one source."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gates import shared

pytestmark = pytest.mark.prose
CHECKOUT = Path(__file__).resolve().parents[3]
FOLDERS = (shared.SOURCE, shared.NODESHARE, shared.PLACEMENT)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout that has nothing but the source and its copies."""
    for folder in FOLDERS:
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_each_copy_is_its_source_to_the_byte() -> None:
    assert list(shared.differences(CHECKOUT)) == []


def test_a_copy_that_was_edited_is_named_with_the_command_that_mends_it(tree: Path) -> None:
    copy = shared.NODESHARE / "hostlist.py"
    (tree / copy).write_text("# edited\n", encoding="utf-8")
    assert list(shared.differences(tree)) == [
        f"{copy} is not plugins/module_utils/_shared/hostlist.py: edit the source, then type: make shared"
    ]
    assert shared.copy(tree) == [copy]
    assert list(shared.differences(tree)) == []
    assert shared.copy(tree) == []


def test_a_missing_copy_is_written(tree: Path) -> None:
    copy = shared.PLACEMENT / "hostlist.py"
    (tree / copy).unlink()
    assert [line.partition(" ")[0] for line in shared.differences(tree)] == [str(copy)]
    assert shared.copy(tree) == [copy]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_shared_file_that_has_no_copies_or_no_source_is_named(tree: Path, folder: Path) -> None:
    (tree / folder / "lonely.py").touch()
    assert list(shared.differences(tree)) == [f"{folder / 'lonely.py'} is in no line of COPIES in shared.py"]
