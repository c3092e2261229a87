# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the Python interpreters of the machine: the oldest and the newest run payloads and modules, in soak all."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

Version = tuple[int, int]


def interpreters(environ: Mapping[str, str], *, lowest: Version) -> dict[Version, Path]:
    """One true interpreter per minor version, lowest first.

    pyenv's shims are passed over for what they stand for, because a shim fails in a cleared environment.
    """
    home = Path(environ.get("HOME", "/root"))
    pyenv = Path(environ.get("PYENV_ROOT", home / ".pyenv"))
    folders = [Path(part) for part in environ.get("PATH", "").split(":") if part]
    folders = [folder for folder in folders if folder.name != "shims" and folder != Path(environ["VIRTUAL_ENV"], "bin")]
    candidates = [path for folder in [*folders, *sorted(pyenv.glob("versions/*/bin"))] for path in _pythons(folder)]
    return first_of_each(candidates, lowest=lowest)


def of_every_change(found: Mapping[Version, Path], *, quick: bool = False) -> dict[Version, Path]:
    """Return the oldest and the newest, at a quick look the oldest: what one between them lacks, the oldest lacks too.

    `found` is in order. Parts of soak take all.
    """
    versions = list(found)
    return {version: found[version] for version in sorted({*versions[:1], *(() if quick else versions[-1:])})}


def first_of_each(candidates: Iterable[Path], *, lowest: Version) -> dict[Version, Path]:
    """The first candidate of every version from the lowest up that really is that version."""
    found: dict[Version, Path] = {}
    for path in candidates:
        version = version_in_name(path.name)
        if version and version >= lowest and version not in found and _runs(path, version):
            found[version] = path
    return dict(sorted(found.items()))


def version_of(text: str) -> Version:
    """(3, 6) for "3.6"."""
    major, minor = text.split(".")
    return int(major), int(minor)


def full_version(path: Path) -> str:
    """Return what the interpreter says of itself, with its patch level and build; empty where it does not run."""
    return _said(path, "import sys; print(sys.version)")


def version_in_name(name: str) -> Version | None:
    """(3, 8) for python3.8; nothing for python3, python3.8-config and the like."""
    match = re.fullmatch(r"python(3)\.(\d+)", name)
    return (int(match[1]), int(match[2])) if match else None


def _pythons(folder: Path) -> list[Path]:
    return sorted(folder.glob("python3.*")) if folder.is_dir() else []


def _runs(path: Path, version: Version) -> bool:
    return _said(path, "import sys; print(*sys.version_info[:2])").split() == [str(part) for part in version]


def _said(path: Path, program: str) -> str:
    try:
        done = subprocess.run([path, "-c", program], capture_output=True, text=True, timeout=30, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
