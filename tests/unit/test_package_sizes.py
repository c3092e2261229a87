# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look takes in each folder of the product: it has few files and packages."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
MOST: Final = 8
_PLUGINS: Final = "Ansible finds a plugin by the name of its file in this one folder"
_PROGRAM: Final = (
    "the packages are the layers of docs/architecture.md; `shared` is a copy, `__main__` only starts the program"
)
EXCEPTIONS: Final = {
    "plugins/action": _PLUGINS,
    "plugins/filter": _PLUGINS,
    "plugins/modules": _PLUGINS,
    "plugins/module_utils": "a folder more would lengthen each import by its full path and remove no arrow",
    "roles/node_share/files/nodeshare": _PROGRAM,
    "roles/placement/files/placement": _PROGRAM,
}


def has_code(path: Path) -> bool:
    """Return whether a file says more than what it is for."""
    return any(not isinstance(part, ast.Expr) for part in ast.parse(path.read_bytes()).body)


def sizes(folder: Path) -> dict[Path, int]:
    """Return how many modules and packages each folder below this one has; an `__init__` counts if it has code."""
    modules = {path for path in folder.rglob("*.py") if path.name != "__init__.py" or has_code(path)}
    packages = {path.parent for path in folder.rglob("*.py")} - {folder}
    found: dict[Path, int] = {}
    for path in modules | packages:
        found[path.parent] = found.get(path.parent, 0) + 1
    return found


def crowded(checkout: Path) -> set[str]:
    """Return the folders of the product that have more modules and packages than one look takes in."""
    tops = [checkout / "plugins", *checkout.glob("roles/*/files")]
    found = {path: size for top in tops for path, size in sizes(top).items()}
    return {str(path.relative_to(checkout)) for path, size in found.items() if size > MOST}


@pytest.mark.prose
def test_no_folder_of_the_product_is_crowded_without_a_reason() -> None:
    assert crowded(CHECKOUT) == set(EXCEPTIONS)


def test_modules_and_packages_are_counted_together(tmp_path: Path) -> None:
    folder = tmp_path / "roles/example/files/example"
    folder.mkdir(parents=True)
    for number in range(MOST - 1):
        (folder / f"module{number}.py").touch()
    (folder / "__init__.py").write_text('"""What it is for."""\n')
    (folder / "package").mkdir()
    (folder / "package/__init__.py").touch()
    assert crowded(tmp_path) == set()
    (folder / "__init__.py").write_text("NAMES = ()\n")
    assert crowded(tmp_path) == {"roles/example/files/example"}
