# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our scripts in slurm.conf: which there are, whether Slurm calls them, and which lines name them. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

from .conf.model import Conf

FOLDER = "/etc/converged/slurm"
FILES = {
    "Prolog": "prolog",
    "Epilog": "epilog",
    "PrologSlurmctld": "prolog-slurmctld",
    "EpilogSlurmctld": "epilog-slurmctld",
}


def is_called(config: t.Mapping[str, t.Any], folder: str = FOLDER) -> bool:
    """Return whether Slurm calls every script of ours, by what `slurm_info` says of its configuration.

    Then each node that it knows has them, except one that was reinstalled since, and slurm.conf is not to be changed.
    """
    return all(f"{folder}/{name}" in (config.get(key) or ()) for key, name in FILES.items())


def named(conf: Conf) -> list[str]:
    """Return the settings of slurm.conf that count and name a script of ours, as `Key=path`."""
    return [f"{key}={path}" for key in FILES for path in conf.values(key) if path.startswith(f"{FOLDER}/")]
