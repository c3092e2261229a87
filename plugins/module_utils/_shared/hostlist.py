# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host lists as Slurm writes them: ``n[1-3,7]`` to names and back.

Slurm prints and takes node names only in this form, and asking ``scontrol show hostnames`` costs a process and a
readable configuration each time. Well-formed lists give what Slurm gives: same order, same padding, duplicates kept (a
suffix behind the last bracket as from Slurm 23.02 on). Malformed lists, of which Slurm makes odd names such as ``n]``,
are errors here. The names are counted before the first is made, so that no list can exhaust memory.

One source with copies: edit it in plugins/module_utils/_shared, then type `make shared`. PRIVATE to the collection.
"""

import itertools
import re
import typing as t

MAX_HOSTS = 65536  # MAX_SLURM_NODES: Slurm refuses a longer range, and no cluster has more nodes
MAX_NAME = 255
MAX_TEXT = 1024 * 1024  # as much as scontrol reads
_MAX_DIGITS = 18  # Slurm keeps numbers in 64 bits and silently bends longer ones
_SEPARATORS = "\t, \n"

_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?\Z")
_NUMBERED = re.compile(r"(.*?)([0-9]+)\Z", re.DOTALL)
_PIECE = re.compile(r"([^\[\]]*)(?:\[([^\[\]]*)\])?")
_UNFIT = re.compile(r"[\x00-\x20\x7f,\[\]{}]")


class HostlistError(ValueError):
    """A host list that cannot be read, or that names too many hosts."""


class _Range(t.NamedTuple):
    low: int
    high: int
    width: int

    def size(self) -> int:
        return self.high - self.low + 1


class _Piece(t.NamedTuple):
    """Literal text and the ranges of the bracket behind it (none at the end of a name)."""

    text: str
    ranges: t.Tuple[_Range, ...]


def expand(text: str, limit: int = MAX_HOSTS) -> t.List[str]:
    """Return all names of a host list, in Slurm's order, duplicates kept; more than ``limit`` names are an error."""
    if len(text) > MAX_TEXT:
        raise HostlistError(f"host list of {len(text)} characters: at most {int(MAX_TEXT)} are read")
    tokens = [_parse(token) for token in _tokens(text)]
    total = sum(_count(pieces) for pieces in tokens)
    if total > limit:
        raise HostlistError(f"host list {_shown(text)} names {int(total)} hosts: at most {int(limit)} are allowed")
    return [name for pieces in tokens for name in _names(pieces)]


def fold(names: t.Iterable[str]) -> str:
    """Return the shortest list that Slurm itself would print: neighbours are joined, order and duplicates stay."""
    groups: t.List[t.Tuple[str, t.List[_Range]]] = []
    for name in names:
        prefix, found = _split(name)
        ranges = groups[-1][1] if groups else []
        if found is None:
            groups.append((prefix, []))
        elif not ranges or groups[-1][0] != prefix:
            groups.append((prefix, [found]))
        elif _continues(ranges[-1], found):
            ranges[-1] = ranges[-1]._replace(high=found.high)
        else:
            ranges.append(found)
    return ",".join(_group_text(prefix, ranges) for prefix, ranges in groups)


def natural_key(name: str) -> t.Tuple[t.Any, ...]:
    """Return the sort key under which n2 comes before n10, and equal numbers by their padding."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(part), len(part)) if index % 2 else part for index, part in enumerate(parts))


def _tokens(text: str) -> t.Iterator[str]:
    """Cut at the separators that stand outside brackets."""
    start, depth = 0, 0
    for index, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        if depth not in (0, 1):
            raise HostlistError(f"host list {_shown(text)}: unbalanced bracket at character {int(index + 1)}")
        if depth == 0 and char in _SEPARATORS:
            if index > start:
                yield text[start:index]
            start = index + 1
    if depth:
        raise HostlistError(f"host list {_shown(text)}: a bracket is not closed")
    if start < len(text):
        yield text[start:]


def _parse(token: str) -> t.List[_Piece]:
    pieces: t.List[_Piece] = []
    for match in _PIECE.finditer(token):
        literal, inside = match.groups()
        if _UNFIT.search(literal):
            raise HostlistError(f"host list: {_shown(token)} holds a character that no host name has")
        if inside is not None:
            pieces.append(_Piece(literal, tuple(_range(part, token) for part in inside.split(","))))
        elif literal:
            pieces.append(_Piece(literal, ()))
    if sum(_length(piece) for piece in pieces) > MAX_NAME:
        raise HostlistError(f"host list: {_shown(token)} makes names longer than {int(MAX_NAME)} characters")
    return pieces


def _range(text: str, token: str) -> _Range:
    match = _RANGE.match(text)
    if match is None:
        raise HostlistError(f"host list: range {_shown(text)} in {_shown(token)} is neither a number nor low-high")
    low, high = match.group(1), match.group(2) or match.group(1)
    if max(len(low), len(high)) > _MAX_DIGITS:
        raise HostlistError(f"host list: a number in {_shown(token)} has more than {int(_MAX_DIGITS)} digits")
    found = _Range(int(low), int(high), len(low))
    if found.size() < 1:
        raise HostlistError(f"host list: range {text} in {_shown(token)} ends before it begins")
    if found.size() > MAX_HOSTS:
        raise HostlistError(f"host list: range {text} in {_shown(token)} is longer than {int(MAX_HOSTS)}")
    return found


def _count(pieces: t.List[_Piece]) -> int:
    total = 1
    for piece in pieces:
        total *= sum(r.size() for r in piece.ranges) if piece.ranges else 1
    return total


def _length(piece: _Piece) -> int:
    return len(piece.text) + max((max(r.width, len(str(r.high))) for r in piece.ranges), default=0)


def _names(pieces: t.List[_Piece]) -> t.Iterator[str]:
    """Count as Slurm does: the last bracket fastest, then those before it from the left: first, second, third."""
    bracketed = [index for index, piece in enumerate(pieces) if piece.ranges]
    order = bracketed[-2::-1] + bracketed[-1:]
    parts = [piece.text for piece in pieces]
    for chosen in itertools.product(*(list(_spelled(pieces[index])) for index in order)):
        for index, part in zip(order, chosen):
            parts[index] = part
        yield "".join(parts)


def _spelled(piece: _Piece) -> t.Iterator[str]:
    for found in piece.ranges:
        for number in range(found.low, found.high + 1):
            yield f"{piece.text}{number:0{found.width}d}"


def _split(name: str) -> t.Tuple[str, t.Optional[_Range]]:
    if not name or len(name) > MAX_NAME or _UNFIT.search(name):
        raise HostlistError(f"{_shown(name)} is not a host name")
    match = _NUMBERED.match(name)
    if match is None or len(match.group(2)) > _MAX_DIGITS:
        return name, None
    number = int(match.group(2))
    return match.group(1), _Range(number, number, len(match.group(2)))


def _continues(before: _Range, after: _Range) -> bool:
    """Return whether one range may hold both: the numbers follow, and one width spells both as they were written."""
    follows = before.high + 1 == after.low and before.size() < MAX_HOSTS
    return follows and f"{after.low:0{before.width}d}" == f"{after.low:0{after.width}d}"


def _group_text(prefix: str, ranges: t.List[_Range]) -> str:
    if not ranges:
        return prefix
    parts = []
    for found in ranges:
        low = f"{found.low:0{found.width}d}"
        parts.append(low if found.size() == 1 else f"{low}-{found.high:0{found.width}d}")
    single = len(ranges) == 1 and ranges[0].size() == 1
    return prefix + (parts[0] if single else f"[{','.join(parts)}]")


def _shown(text: str) -> str:
    """Return text for a one-line message: quoted, control characters escaped, and short."""
    return ascii(text if len(text) <= 60 else text[:57] + "...")
