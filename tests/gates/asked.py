# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that a run of the gates takes from the environment.

With nothing but the standard library: `bootstrap` checks them before it prepares a machine for minutes.
"""

from __future__ import annotations

from collections.abc import Mapping

HIGHEST_SEED = 2**32 - 1


class UsageError(Exception):
    """The command line or the environment asks for something that does not exist."""


def seed_of(environ: Mapping[str, str]) -> int | None:
    """Return CONVERGED_SEED, the seed of all random tests; None where it is unset or empty."""
    given = environ.get("CONVERGED_SEED", "")
    if not given:
        return None
    if not (given.isascii() and given.isdecimal()) or int(given) > HIGHEST_SEED:
        raise UsageError(f"CONVERGED_SEED is '{given}'; it takes a number from 0 to {HIGHEST_SEED}.")
    return int(given)


def is_fresh(environ: Mapping[str, str]) -> bool:
    """Return whether FRESH asks that no earlier run is believed."""
    given = environ.get("FRESH", "")
    if given not in ("", "0", "1"):
        raise UsageError(f"FRESH is '{given}'; it takes 1 (run everything) or 0 (believe runs on the same files).")
    return given == "1"
