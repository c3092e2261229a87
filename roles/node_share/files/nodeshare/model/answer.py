# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a program."""

from typing import Callable, NamedTuple, Tuple


class Answer(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


Run = Callable[[Tuple[str, ...]], Answer]
