# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory plugins, asked as an administrator asks them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest


@pytest.fixture
def listed(request: pytest.FixtureRequest, tmp_path: Path, programs: t.Any) -> t.Callable[..., tuple[str, str]]:
    """Output and errors of ansible-inventory, by the plugin that a test's file is named after."""
    plugin = request.path.stem.removeprefix("test_")

    def ask(calls: list[dict[str, t.Any]], **options: t.Any) -> tuple[str, str]:
        programs.expect(calls)
        settings = {"plugin": f"converged.hpc.{plugin}", "bin_dir": str(programs.folder), **options}
        source = tmp_path / f"{plugin}.yml"
        source.write_text(json.dumps(settings))
        argv = [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(source), "--list"]
        env = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1", "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp")}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **env})
        return done.stdout, done.stderr

    return ask
