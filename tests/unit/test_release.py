# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the next release will say of itself, made of a copy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
pytestmark = pytest.mark.prose


def test_a_release_takes_every_fragment_under_its_heading(tmp_path: Path) -> None:
    copy = tmp_path / "ansible_collections/converged/hpc"
    for name in ("changelogs", "plugins", "meta", "roles"):
        shutil.copytree(CHECKOUT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(CHECKOUT / "galaxy.yml", copy)
    argv = [str(BIN / "antsibull-changelog"), "release", "--version", "1.0.0", "--date", "2026-12-01"]

    done = subprocess.run(argv, cwd=copy, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not list((copy / "changelogs/fragments").glob("*.yml"))
    release = yaml.safe_load((copy / "changelogs/changelog.yaml").read_text(encoding="utf-8"))["releases"]["1.0.0"]
    fragments = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CHECKOUT / "changelogs/fragments").glob("*")
    ]
    written = sum(len(lines) for fragment in fragments for lines in fragment.values())
    assert sum(len(lines) for lines in release["changes"].values()) == written
    assert "v1.0.0\n======" in (copy / "CHANGELOG.rst").read_text(encoding="utf-8")
