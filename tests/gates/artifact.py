# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as others get it: what ships, the built tarball, a tree that ansible-test accepts, galaxy-importer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from gates.gate import Context, GateFailure


def build(checkout: Path, into: Path) -> Path:
    """Builds the tarball into an empty folder and returns it."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    tool = str(Path(sys.executable).with_name("ansible-galaxy"))
    argv = [tool, "collection", "build", "--output-path", str(into), str(checkout)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise GateFailure(f"the collection does not build: {done.stderr.strip() or done.stdout.strip()}")
    return next(into.glob("*.tar.gz"))


def new_tree(context: Context, name: str) -> Path:
    """An empty folder for the collection below an ansible_collections of its own."""
    about: dict[str, str] = yaml.safe_load((context.checkout / "galaxy.yml").read_text(encoding="utf-8"))
    shutil.rmtree(context.scratch / name, ignore_errors=True)
    folder = context.scratch / name / "ansible_collections" / about["namespace"] / about["name"]
    folder.mkdir(parents=True)
    return folder


def copy_of_the_sources(context: Context, name: str, *patterns: str) -> Path:
    """A collection folder with the checkout's files (all of them, or those that match)."""
    folder = new_tree(context, name)
    copy_files(context, folder, *patterns)
    return folder


def copy_files(context: Context, folder: Path, *patterns: str) -> None:
    """Copies files of the checkout, folders and all."""
    for name in context.files(*patterns):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(context.checkout / name, folder / name)


def tree_for_ansible_test(context: Context, name: str, wanted: Callable[[str], bool]) -> Path:
    """Return a real copy below ansible_collections (a link does not count) of those files that ship and are wanted.

    The copy has galaxy.yml in any case. Tests do not ship: ruff and mypy look at them.
    """
    folder = new_tree(context, name)
    tarball = build(context.checkout, context.scratch / f"{name}-build")
    context.run(["tar", "-xzf", tarball, "-C", folder])
    # What galaxy made of galaxy.yml is not the source that sanity judges.
    for made in ("MANIFEST.json", "FILES.json"):
        (folder / made).unlink()
    for path in sorted(folder.rglob("*"), reverse=True):  # files before their folders
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif not wanted(path.relative_to(folder).as_posix()):
            path.unlink()
    copy_files(context, folder, "galaxy.yml")
    return folder


def run_importer(context: Context) -> None:
    """Run galaxy-importer on the tarball, as Galaxy does, without its ansible-lint: that is a gate of its own."""
    tarball = build(context.checkout, context.scratch / "importer-build")
    home = context.own / "importer-home"
    home.mkdir(parents=True, exist_ok=True)
    venv = context.environ["CONVERGED_IMPORTER_VENV"]
    env = {
        "PATH": f"{venv}/bin:{context.environ['PATH']}",
        "VIRTUAL_ENV": venv,
        "PYTHONPATH": "",
        "HOME": str(home),
        "ANSIBLE_HOME": str(home / "ansible"),
        "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false",
    }
    context.run([f"{venv}/bin/python", "-m", "galaxy_importer.main", tarball], cwd=tarball.parent, env=env)
    said = context.log.read_text(encoding="utf-8")
    problems = [line for line in said.splitlines() if line.startswith(("ERROR", "WARNING"))]
    if problems:
        raise GateFailure(f"galaxy-importer has {len(problems)} warnings or errors, the first: {problems[0]}")
