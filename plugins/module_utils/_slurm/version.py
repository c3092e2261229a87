# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm releases, and what changed in which.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from .errors import NoAnswerError

_PRINTED = re.compile(r"slurm(?:-wlm)? (\d{2})\.(\d{2})(?:\.(\d+))?")


class Version(t.NamedTuple):
    """A release, such as 22.05.8; compares by age."""

    year: int
    month: int
    micro: int

    def __str__(self) -> str:
        return f"{self.year:02d}.{self.month:02d}.{self.micro}"


# Repeated Prolog, Epilog, PrologSlurmctld and EpilogSlurmctld lines count; before, the last one silently wins.
REPEATED_SCRIPTS = Version(24, 5, 0)
# A relative Include is looked for beside slurm.conf; before, beside the including file.
INCLUDE_BESIDE_CONF = Version(23, 2, 0)

# `scontrol reconfigure` starts slurmctld anew; one that stands by goes on as it was.
RECONFIGURE_STARTS_ANEW = Version(23, 11, 0)


def parse(printed: str) -> Version:
    """Return the release from what `scontrol --version` prints."""
    match = _PRINTED.match(printed)
    if match is None:
        raise NoAnswerError(
            f"scontrol --version printed {printed[:60]!a}: expected slurm and a release such as 22.05.8"
        )
    return Version(int(match.group(1)), int(match.group(2)), int(match.group(3) or 0))
