# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one rule about skipped tests: a test may be skipped only for a reason on the list kept in the repository."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ALLOWED = Path(__file__).resolve().parents[1] / "allowed-skips.txt"


@dataclass(frozen=True, slots=True, order=True)
class Skip:
    """A test that did not run (or was expected to fail), and why."""

    test: str
    reason: str


def allowed_reasons(text: str) -> list[str]:
    """One reason a line; `#` starts a comment line."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def refused(skips: Iterable[Skip], reasons: Iterable[str]) -> list[Skip]:
    """The skips whose reason does not begin with one on the list (what follows may name versions and paths)."""
    known = tuple(reasons)
    return [skip for skip in skips if not skip.reason.startswith(known)]


def report(skips: Iterable[Skip], reasons: Iterable[str]) -> list[str]:
    """The lines to print: every skip, those not allowed marked."""
    every = sorted(skips)
    wrong = set(refused(every, reasons))
    lines = [f"{'NOT ALLOWED' if skip in wrong else 'allowed'}: {skip.test}: {skip.reason}" for skip in every]
    return [f"skipped: {len(every)}, not allowed: {len(wrong)}", *lines]
