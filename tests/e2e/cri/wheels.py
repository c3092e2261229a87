# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of the bridge to CRI v1, for nodes without a way to the package index; `python -m e2e.cri.wheels 3.11`."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml
from e2e.wheel_folders import fetched

DEFAULTS = Path(__file__).resolve().parents[3] / "roles/singularity_cri/defaults/main.yml"


def wheels(*, python: str) -> Path:
    """A folder with the wheels of what the role installs, for this version of Python."""
    defaults = yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    return fetched("cri-bridge", defaults["singularity_cri_v1_requirements"], python=python)


if __name__ == "__main__":
    print(wheels(python=sys.argv[1]), end="")
