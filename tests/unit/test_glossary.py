# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The glossary and the architecture name classes, members and files of ours as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.prose

CHECKOUT = Path(__file__).resolve().parents[2]
ROOTS = (
    "roles/placement/files/placement",
    "roles/placement/files/placement/policy",
    "roles/node_share/files/nodeshare",
)


def ours() -> list[str]:
    """Return what stands in backticks in the last column of the tables for code."""
    text = (CHECKOUT / "docs/glossary.md").read_text(encoding="utf-8").split("## The way there and back", maxsplit=1)[0]
    rows = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1])]


def test_each_class_and_file_that_the_glossary_names_is_there() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for root in ROOTS for path in (CHECKOUT / root).rglob("*.py"))
    classes = [name for name in ours() if re.fullmatch(r"[A-Z]\w+", name)]
    paths = [name for name in ours() if "/" in name]
    assert len(classes) > 5
    assert len(paths) > 3
    assert [name for name in classes if not re.search(rf"^class {name}\b", code, re.MULTILINE)] == []
    assert [p for p in paths if not any((CHECKOUT / root / f"{p}.py").is_file() for root in ROOTS)] == []


def existing_paths() -> set[str]:
    """Return all files and folders of product and tests, and the files without their endings as well."""
    files = [path for top in ("plugins", "roles", "tests") for path in (CHECKOUT / top).rglob("*") if path.is_file()]
    relative = {path.relative_to(CHECKOUT) for path in files if "__pycache__" not in path.parts}
    folders = {parent for path in relative for parent in path.parents}
    return {f"/{path.as_posix()}" for path in relative | folders | {path.with_suffix("") for path in relative}}


def test_each_path_class_and_member_that_the_architecture_names_is_there() -> None:
    text = (CHECKOUT / "docs/architecture.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([^`\n]+)`", text))
    paths = {name for name in names if re.fullmatch(r"[\w.]+(/[\w.]+)+", name)}
    members = {name for name in names if re.fullmatch(r"([A-Z][a-z]+)+(\.\w+)?", name)}
    code = "\n".join(
        path.read_text(encoding="utf-8") for top in ("plugins", "roles") for path in (CHECKOUT / top).rglob("*.py")
    )
    assert len(paths) > 40
    assert len(members) > 10
    existing = "\n".join(existing_paths()) + "\n"
    assert sorted(path for path in paths if f"/{path}\n" not in existing) == []
    classes = {name.partition(".")[0] for name in members}
    assert sorted(name for name in classes if not re.search(rf"^class {name}\b", code, re.MULTILINE)) == []
    fields = {name.partition(".")[2] for name in members if "." in name}
    assert sorted(name for name in fields if not re.search(rf"\b{name}\b", code)) == []
