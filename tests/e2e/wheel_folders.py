# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders of wheels, fetched once by pip and kept in the cache: what a site has that cannot reach the package index."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
from pathlib import Path

from testbed.paths import cache_dir
from testbed.run import run

PLATFORM = ("--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64")
DOWNLOAD_SECONDS = 300.0


def fetched(name: str, requirements: list[str], *, python: str) -> Path:
    """A folder with these wheels for this version of Python."""
    digest = hashlib.sha256(" ".join([python, *requirements]).encode()).hexdigest()[:12]
    folder = cache_dir() / "wheels" / f"{name}-{digest}"
    if not folder.exists():
        work = folder.with_name(f".{folder.name}-{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={work}"]
        run([*pip, f"--python-version={python}", *PLATFORM, *requirements], timeout=DOWNLOAD_SECONDS)
        try:
            work.rename(folder)
        except OSError:
            # Another run was faster.
            shutil.rmtree(work)
    return folder


def as_folder(found: Path) -> bytes:
    """The wheels as an archive, side by side."""
    return _packed({wheel.name: wheel for wheel in found.iterdir()})


def as_index(found: Path) -> bytes:
    """The same as a package index: a folder for each package by the name that pip asks for, below `simple`."""
    names = {wheel: wheel.name.partition("-")[0].lower().replace("_", "-") for wheel in found.iterdir()}
    return _packed({f"simple/{name}/{wheel.name}": wheel for wheel, name in names.items()})


def _packed(files: dict[str, Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, file in files.items():
            archive.add(file, name)
    return packed.getvalue()
