# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where things lie: one cache folder outside the checkout, and one folder per bed below it."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_CACHE = "/var/cache/converged-hpc"


def cache_dir() -> Path:
    """The one folder that outlives a run; CONVERGED_CACHE moves it."""
    return Path(os.environ.get("CONVERGED_CACHE") or DEFAULT_CACHE).absolute()


def beds_dir() -> Path:
    """The state of every bed, one folder each."""
    return cache_dir() / "beds"


def bed_dir(name: str) -> Path:
    """The folder of one bed: state, keys, volumes, kubeconfig. `down` removes it whole."""
    return beds_dir() / name


def images_dir() -> Path:
    """Node images, local package repositories and container images, keyed by the digest of their recipe."""
    return cache_dir() / "images"


def binaries_dir() -> Path:
    """Kubernetes binaries, keyed by what they were built from."""
    return cache_dir() / "bin"


def locks_dir() -> Path:
    """Lock files; they lie apart because a bed's own folder comes and goes."""
    return cache_dir() / "locks"


def logs_dir() -> Path:
    """What failed runs leave for a person to read; the gates set CONVERGED_LOGS to have all of a run in one folder."""
    return Path(os.environ.get("CONVERGED_LOGS") or cache_dir() / "logs").absolute()
