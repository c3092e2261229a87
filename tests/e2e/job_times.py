# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge by what the tasks of a job have said whether something was done before, during or after the job. Pure.

All hosts of a bed and the tests beside it share one clock.
"""

from __future__ import annotations

from collections.abc import Iterable

BEFORE, DURING, AFTER = "before", "during", "after"


def read(out: str) -> list[tuple[str, float]]:
    """Return `began` and `ended` with their times, from the output of tasks; a line without its end does not count."""
    lines = [line.split() for line in out[: out.rfind("\n") + 1].splitlines()]
    return [(words[0], float(words[1])) for words in lines if words and words[0] in ("began", "ended")]


def when(said: Iterable[tuple[str, float]], *, since: float, until: float) -> str:
    """Return whether a time lies before, during or after all tasks of a job; else say why it is none of them.

    `said` is the words `began` and `ended` of all tasks, each with its time.
    """
    words = list(said)
    began = [at for word, at in words if word == "began"]
    ended = [at for word, at in words if word == "ended"]
    if not began or len(began) != len(ended):
        return f"unknown: {len(began)} tasks began, and {len(ended)} ended"
    if until < min(began):
        return BEFORE
    if max(began) < since and until < min(ended):
        return DURING
    if max(ended) < since:
        return AFTER
    tasks = f"tasks began from {min(began):.3f} to {max(began):.3f} and ended from {min(ended):.3f} to {max(ended):.3f}"
    return f"{tasks}, and it was done from {since:.3f} to {until:.3f}"
