# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site without a way to the package index has: a folder of wheels, fetched once by pip and kept in the cache.

`python -m e2e.placement.wheels 3.11` says where they lie for that version of Python.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sys
import tarfile
from pathlib import Path

import yaml
from e2e.placement.role import ROLE
from testbed.paths import cache_dir
from testbed.run import run

PLATFORM = ("--only-binary=:all:", "--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64")
DOWNLOAD_SECONDS = 300.0


def wheels(*, python: str) -> Path:
    """A folder with the wheels of what the role installs, for this version of Python."""
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    requirements: list[str] = defaults["placement_requirements"]
    digest = hashlib.sha256(" ".join([python, *requirements]).encode()).hexdigest()[:12]
    folder = cache_dir() / "wheels" / f"placement-{digest}"
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
    """The same as a package index: a folder for each package, below `simple`."""
    names = {wheel: wheel.name.partition("-")[0].lower() for wheel in found.iterdir()}
    return _packed({f"simple/{name}/{wheel.name}": wheel for wheel, name in names.items()})


def _packed(files: dict[str, Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, file in files.items():
            archive.add(file, name)
    return packed.getvalue()


if __name__ == "__main__":
    print(wheels(python=sys.argv[1]), end="")
