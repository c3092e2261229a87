# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the engine by which Singularity-CRI runs containers: its release, flags and session folder.

PRIVATE to the collection.
"""

from __future__ import annotations

import os
import re
import shutil
import typing as t

from ... import _command
from ..errors import KubeError

NAME = "singularity"
FLAGS = ("--empty-process", "--sync-socket", "--log-path")
SERVED = "SingularityCE or Singularity 3.1 to 3.9, or Apptainer 1.x"
_VERSION = re.compile(r"\b(singularity|singularity-ce|singularity-pro|apptainer) version v?(\d+)\.(\d+)")
_QUICK = 30.0


def judge(version: str, usage: str) -> None:
    """Raise KubeError unless an engine of this ``--version``, with this ``oci create --help``, can serve."""
    found = _VERSION.search(version)
    if found is None:
        raise KubeError(f"{NAME} --version: expected the release of an engine, found {version.strip()[:60]!r}")
    name, release = found.group(1), (int(found.group(2)), int(found.group(3)))
    shown = f"{name} {release[0]}.{release[1]}"
    if name == "apptainer":
        if release[0] != 1:
            raise KubeError(f"engine {shown}: is of a line that has not been tried: install {SERVED}")
    elif release >= (3, 10):
        raise KubeError(
            f"engine {shown}: from 3.10 on its command oci is a front of runc, which Singularity-CRI cannot drive:"
            f" install {SERVED}"
        )
    elif release < (3, 1):
        raise KubeError(f"engine {shown}: is older than the command oci: install {SERVED}")
    missing = [flag for flag in FLAGS if not re.search(rf"(?<!\S){flag}\b", usage)]
    if missing:
        raise KubeError(
            f"engine {shown}: its command oci create lacks {', '.join(missing)}, which Singularity-CRI needs:"
            f" install {SERVED}"
        )


def see(path: str) -> None:
    """Judge the engine that a unit with this PATH would run."""
    program = shutil.which(NAME, path=path)
    if program is None:
        raise KubeError(
            f"no {NAME} in {path}: name its packages in singularity_cri_engine_packages, or its prefix in"
            f" singularity_cri_engine_folder; it must be {SERVED}"
        )
    version, usage = (_ask([program, *words], path) for words in (["--version"], ["oci", "create", "--help"]))
    judge(version, usage)
    folder = _ask([program, "buildcfg", "SESSIONDIR"], path).strip()
    if folder.startswith("/") and "\n" not in folder and not os.path.isdir(folder):
        raise KubeError(
            f"engine {program}: the folder {folder}, in which it mounts its containers, is missing: make it, owned by"
            f" root, mode 0755, as the engine's own installation does"
        )


def _ask(argv: t.Sequence[str], path: str) -> str:
    try:
        done = _command.run(argv, timeout=_QUICK, ok=range(256), env={"PATH": path})
    except _command.CommandError as error:
        raise KubeError(str(error)) from error
    return f"{done.out}\n{done.err}"
