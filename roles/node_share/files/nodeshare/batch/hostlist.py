# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's lists of host names, `n[1-3,07],login`, as names; bounded, because a bomb is a line of text too."""

import contextlib
import re
from typing import Dict, List, Tuple

MOST = 1 << 16  # Slurm itself has no more nodes in a cluster
LONGEST = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


class HostlistError(ValueError):
    """One line: what was found, and what a list of hosts looks like."""


def expand(text: str) -> Tuple[str, ...]:
    """Return the names in their order, each once."""
    if len(text) > LONGEST:
        raise HostlistError("a host list of {} characters: more than {}".format(len(text), LONGEST))
    names: List[str] = []
    for word in _words(text):
        names += _expand_word(word, MOST - len(names))
    for name in names:
        if not _NAME.fullmatch(name):
            raise HostlistError("{}: not a host name".format(ascii(name[:60])))
    return tuple(dict.fromkeys(names))


def expand_readable(text: str) -> Tuple[Tuple[str, ...], str]:
    """Return the names that can be read, each once, and what cannot: one odd name hides no other."""
    try:
        return expand(text), ""
    except HostlistError as error:
        odd = str(error)
    names: Dict[str, None] = {}
    for word in re.split(r",(?![^\[\]]*\])", text[:LONGEST]):
        if len(names) < MOST:
            with contextlib.suppress(HostlistError):
                names.update(dict.fromkeys(expand(word)))
    return tuple(names), odd


def _words(text: str) -> List[str]:
    """Split at the commas outside of brackets."""
    words, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            words.append(text[start:at])
            start = at + 1
        if depth not in (0, 1):
            raise HostlistError("{}: brackets that do not match".format(ascii(text[:60])))
    if depth:
        raise HostlistError("{}: brackets that do not match".format(ascii(text[:60])))
    return [word for word in [*words, text[start:]] if word]


def _expand_word(word: str, room: int) -> List[str]:
    head, bracket, rest = word.partition("[")
    if not bracket:
        endings = [""]
    else:
        inside, _dummy, tail = rest.partition("]")
        after = _expand_word(tail, room) if tail else [""]
        numbers = _numbers(inside, room)
        if len(numbers) * len(after) > room:
            raise HostlistError("{}: more than {} hosts".format(ascii(word[:60]), MOST))
        endings = [number + end for number in numbers for end in after]
    if len(endings) > room:
        raise HostlistError("{}: more than {} hosts".format(ascii(word[:60]), MOST))
    return [head + ending for ending in endings]


def _numbers(text: str, room: int) -> List[str]:
    numbers: List[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise HostlistError("[{}]: not numbers and ranges".format(ascii(text[:60])[1:-1]))
        first, last = found.group(1), found.group(2) or found.group(1)
        if int(last) < int(first):
            raise HostlistError("[{}]: a range that goes backwards".format(text[:60]))
        if int(last) - int(first) >= room - len(numbers):
            raise HostlistError("[{}]: more than {} hosts".format(text[:60], MOST))
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
