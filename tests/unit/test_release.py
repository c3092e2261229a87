# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the next release will say of itself, made of a copy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
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
    fragments = copy / "changelogs/fragments"
    fragments.mkdir(exist_ok=True)
    (fragments / "of_this_test.yml").write_text(
        "bugfixes:\n  - node_share - mend what this test names.\n", encoding="utf-8"
    )
    changes = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in fragments.glob("*.yml")]
    argv = [str(BIN / "antsibull-changelog"), "release", "--version", "99.0.0", "--date", "2099-01-01"]

    done = subprocess.run(argv, cwd=copy, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(fragments.glob("*.yml"))
    release = yaml.safe_load((copy / "changelogs/changelog.yaml").read_text(encoding="utf-8"))["releases"]["99.0.0"]
    # What is trivial is for reviewers and stays out of the changelog.
    written = sum(len(lines) for change in changes for section, lines in change.items() if section != "trivial")
    assert sum(len(lines) for lines in release["changes"].values()) == written
    shown = (copy / "CHANGELOG.rst").read_text(encoding="utf-8")
    assert "v99.0.0\n=======" in shown
    assert "v1.0.0\n======" in shown


def test_the_newest_heading_of_the_changelog_is_the_version_of_the_collection() -> None:
    version = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    headings = re.findall(r"(?m)^v([0-9.]+)\n=+$", (CHECKOUT / "CHANGELOG.rst").read_text(encoding="utf-8"))
    assert [version, project["version"]] == [headings[0]] * 2
