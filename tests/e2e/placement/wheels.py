# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of the placement daemon, for hosts without a way to the package index.

`python -m e2e.placement.wheels 3.11` says where they lie for that version of Python.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from e2e.placement.role import ROLE
from e2e.wheel_folders import as_folder, as_index, fetched

__all__ = ["as_folder", "as_index", "wheels"]


def wheels(*, python: str) -> Path:
    """A folder with the wheels of what the role installs, for this version of Python."""
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    return fetched("placement", defaults["placement_requirements"], python=python)


if __name__ == "__main__":
    print(wheels(python=sys.argv[1]), end="")
