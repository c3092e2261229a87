# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases as `scontrol --version` prints them."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import NoAnswerError
from ansible_collections.converged.hpc.plugins.module_utils._slurm.version import REPEATED_SCRIPTS, Version, parse


@pytest.mark.parametrize(
    ("printed", "release", "repeated"),
    [
        ("slurm-wlm 22.05.8\n", Version(22, 5, 8), False),
        ("slurm 23.11.10-2\n", Version(23, 11, 10), False),
        ("slurm 24.05.0\n", Version(24, 5, 0), True),
        ("slurm 26.11.0-0rc1\n", Version(26, 11, 0), True),
    ],
)
def test_a_release_is_read_and_compares_by_age(printed: str, release: Version, repeated: bool) -> None:
    assert parse(printed) == release
    assert (release >= REPEATED_SCRIPTS) is repeated


def test_a_release_prints_as_slurm_does() -> None:
    assert str(Version(22, 5, 8)) == "22.05.8"


@pytest.mark.parametrize("printed", ["", "slurm", "bash: scontrol: command not found", "torque 6.1"])
def test_anything_else_is_no_answer(printed: str) -> None:
    with pytest.raises(NoAnswerError, match="expected slurm and a release"):
        parse(printed)
