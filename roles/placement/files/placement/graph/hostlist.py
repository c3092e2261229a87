# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's lists of host names, such as `n[1-3,07],login`, as names.

The number of names is bounded before they are made, because a short line can name very many hosts.
"""

import re
from itertools import product
from typing import Final

MOST: Final = 1 << 16
LONGEST: Final = 1 << 20
_DIGITS: Final = 9
_WORD: Final = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_PIECE: Final = re.compile(r"([^\[\]]+)|\[([^\[\]]*)\]")
_RANGE: Final = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)


class HostlistError(ValueError):
    """A list that cannot be read; the message shows the part that is wrong."""


def expand(text: str) -> list[str]:
    """Return the names, each once, in the order of their first mention."""
    if len(text) > LONGEST:
        raise HostlistError(f"a host list of {len(text)} characters, at most {LONGEST} are read")
    names: dict[str, None] = {}
    end = 0
    for word in _WORD.finditer(text):
        if text[end : word.start()].strip(", \t\n"):
            break
        end = word.end()
        names.update(dict.fromkeys(_expand(word[0], MOST - len(names))))
    if text[end:].strip(", \t\n"):
        raise HostlistError(f"{text[end : end + 60]!a}: brackets that do not match")
    return list(names)


def _expand(word: str, room: int) -> list[str]:
    pieces: list[list[str]] = []
    total = 1
    for literal, inside in _PIECE.findall(word):
        pieces.append([literal] if literal else _numbers(inside, word))
        total *= len(pieces[-1])
        if total > room:
            raise HostlistError(f"{word[:60]!a}: more than {MOST} hosts")
    return ["".join(parts) for parts in product(*pieces)]


def _numbers(text: str, word: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise HostlistError(f"{word[:60]!a}: [{ascii(text[:60])[1:-1]}] is not numbers and ranges")
        first, last = found[1], found[2] or found[1]
        if max(len(first), len(last)) > _DIGITS or int(last) < int(first):
            raise HostlistError(f"{word[:60]!a}: the range {part[:60]} is too large or goes backwards")
        if int(last) - int(first) >= MOST - len(numbers):
            raise HostlistError(f"{word[:60]!a}: more than {MOST} hosts")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
