# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as others get it: built, listed, installed into an empty path, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from gates.artifact import build

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
# The tarball has the documentation in it.
pytestmark = pytest.mark.prose


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(CHECKOUT, tmp_path_factory.mktemp("artifact") / "out")


@pytest.fixture(scope="module")
def shipped(tarball: Path) -> set[str]:
    with tarfile.open(tarball) as archive:
        return {member.name for member in archive if member.isfile()}


@pytest.fixture(scope="module")
def installed(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collections path with nothing in it but our tarball; its dependency comes from the environment."""
    path = tmp_path_factory.mktemp("collections")
    argv = [BIN / "ansible-galaxy", "collection", "install", "--offline", "-p", path, tarball]
    subprocess.run(argv, check=True, capture_output=True, timeout=300, env=environment(path))
    return path


def environment(collections: Path) -> dict[str, str]:
    return {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_LOCALHOST_WARNING": "false"}


def tracked(*patterns: str) -> set[str]:
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(argv, cwd=CHECKOUT, check=True, capture_output=True, text=True, timeout=300).stdout
    return {name for name in listed.splitlines() if (CHECKOUT / name).is_file()}


def test_everything_an_administrator_uses_is_shipped(shipped: set[str]) -> None:
    wanted = tracked("roles", "plugins", "playbooks", "inventories", "docs", "meta", "README.md", "COPYING")
    visible = {name for name in wanted if not any(part.startswith(".") for part in Path(name).parts)}

    assert visible - shipped == set()


def test_payloads_are_shipped_with_their_nested_packages(shipped: set[str]) -> None:
    assert "roles/node_share/files/nodeshare/__init__.py" in shipped
    assert "roles/placement/files/placement/model/__init__.py" in shipped


def test_nothing_of_the_development_side_is_shipped(shipped: set[str]) -> None:
    tops = {name.split("/")[0] for name in shipped if "/" in name}
    files = {name for name in shipped if "/" not in name}

    assert tops <= {"changelogs", "docs", "inventories", "meta", "playbooks", "plugins", "roles"}
    people = {"CODE_OF_CONDUCT.md", "CONTRIBUTING.md"}
    assert files - {"CHANGELOG.rst"} == {"COPYING", "FILES.json", "MANIFEST.json", "README.md", *people}


def test_no_cache_or_hidden_file_is_shipped(shipped: set[str]) -> None:
    stray = {name for name in shipped if name.endswith(".pyc") or "__pycache__" in name or "/." in f"/{name}"}

    assert stray == set()


def test_status_runs_from_the_installed_tarball_and_tells_the_truth(installed: Path, tmp_path: Path) -> None:
    local = {"ansible_connection": "local", "ansible_become": False, "converged_record_dir": str(tmp_path / "record")}
    inventory = tmp_path / "inventory.yml"
    groups = {
        "converged_nodes": {"hosts": {"n1": local, "n2": local}},
        "converged_controllers": {"hosts": {"ctl": local}},
    }
    inventory.write_text(yaml.safe_dump(groups), encoding="utf-8")
    argv = [BIN / "ansible-playbook", "-i", inventory, "converged.hpc.status"]

    done = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False, env=environment(installed)
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for host in ("n1", "n2", "ctl"):
        assert f"{host}: nothing of converged.hpc is on this node" in done.stdout
    assert str(CHECKOUT) not in done.stdout
