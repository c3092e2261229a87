# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Singularity-CRI itself behind the bridge, on machines that have it: `CONVERGED_SINGULARITY_CRI` says where.

It names a folder with `sycri`, with `engine`, which was built for the prefix /opt/singularity, and with `busybox.sif`,
the image of the tests. What Singularity-CRI cannot do is data, in `cannot.toml`.
"""

from __future__ import annotations

import io
import os
import tarfile
import tomllib
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("cannot.toml")
VARIABLE = "CONVERGED_SINGULARITY_CRI"
PARTS = ("sycri", "engine", "busybox.sif")
PREFIX = "/opt/singularity"
IMAGES = "/opt/images"
# Lower case, and pulled again after each restart: it forgets files that it was told of.
IMAGE = {"image": f"local.file{IMAGES}/busybox.sif", "imagePullPolicy": "IfNotPresent"}


def found() -> Path | None:
    """Return the folder of Singularity-CRI; None where this machine has none."""
    folder = Path(os.environ.get(VARIABLE) or "/none")
    missing = [name for name in PARTS if not (folder / name).exists()]
    if os.environ.get(VARIABLE) and missing:
        raise FileNotFoundError(f"{VARIABLE}={folder}: lacks {', '.join(missing)}")
    return None if missing else folder


def packed(folder: Path) -> bytes:
    """Return an archive of the engine and the image, for the root of a node."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder / "engine", PREFIX.lstrip("/"))
        archive.add(folder / "busybox.sif", f"{IMAGES.lstrip('/')}/busybox.sif")
    return out.getvalue()


def cannot() -> dict[str, str]:
    """Return, by test, why Singularity-CRI fails it."""
    data: dict[str, Any] = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {one["test"]: one["reason"] for one in data["cannot"]}
