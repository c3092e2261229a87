# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the virtual environments of pyproject.toml's dependency groups, each in a folder named after its inputs.

A folder counts as made when its stamp is there, and the stamp is written last: an environment that an interruption
left half made is removed and made again, from pip's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.environment import Places
from bootstrap.errors import BootstrapError
from bootstrap.run import run, step

STAMP = "complete"
UNUSED_SECONDS = 14 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Venv:
    """One environment: the group's requirements, and where it lies."""

    group: str
    requirements: tuple[str, ...]
    installer: tuple[str, ...]  # the pip that installs them
    folder: Path

    def ready(self) -> bool:
        """Whether it was made to the end."""
        return (self.folder / STAMP).exists()


def requirements(groups: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The requirements of a dependency group (PEP 735), included groups and all."""
    if name not in groups:
        raise BootstrapError(f"pyproject.toml has no dependency group '{name}'; it has {', '.join(sorted(groups))}.")
    found: list[str] = []
    for entry in groups[name]:
        found += requirements(groups, entry["include-group"]) if isinstance(entry, dict) else [entry]
    return tuple(found)


def planned(where: Places, *, group: str, python: str, version: str) -> Venv:
    """The environment that pyproject.toml asks for now; a change of pins or of Python is another folder."""
    groups = tomllib.loads((where.checkout / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    wanted, installer = requirements(groups, group), requirements(groups, "installer")
    inputs = json.dumps([sorted(wanted), installer, python, version])
    digest = hashlib.sha256(inputs.encode()).hexdigest()[:12]
    return Venv(group=group, requirements=wanted, installer=installer, folder=where.venv(f"{group}-{digest}"))


def make(venv: Venv, *, environ: Mapping[str, str], log: Path) -> None:
    """Makes the environment unless it is there; another process that makes it is waited for."""
    if venv.ready():
        (venv.folder / STAMP).touch()
        return
    venv.folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(venv.folder.with_suffix(".lock")):
        if venv.ready():
            return
        if venv.folder.exists():
            shutil.rmtree(venv.folder)
        python = str(venv.folder / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
        with step(f"making the environment '{venv.group}' with {len(venv.requirements)} packages"):
            run([sys.executable, "-m", "venv", str(venv.folder)], timeout=300, log=log, env=environ)
            run([*pip, *venv.installer], timeout=600, log=log, env=environ)
            run([*pip, "--prefer-binary", *venv.requirements], timeout=1800, log=log, env=environ)
        (venv.folder / STAMP).touch()
    remove_unused(venv.folder.parent, now=time.time())


def remove_unused(venvs: Path, *, now: float) -> None:
    """Removes environments of old pins; another checkout may still use one that was started lately."""
    for stamp in venvs.glob(f"*/{STAMP}"):
        if now - stamp.stat().st_mtime > UNUSED_SECONDS:
            shutil.rmtree(stamp.parent)


def link(name: Path, target: Path) -> None:
    """Points a symbolic link at a folder, in one step."""
    if name.is_symlink() and name.readlink() == target:
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    fresh = name.with_name(f"{name.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(name)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
