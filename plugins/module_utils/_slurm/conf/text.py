# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One configuration file of Slurm, line by line, without losing a byte.

Slurm strips comments, joins lines that end in a backslash, undoes escapes and only then looks for ``Key=Value``. This
does the same, in the same order, and remembers which lines of the file each statement stands on. So the text can be put
together again byte for byte, and an edit touches the lines it is about and no other.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import ConfError

MAX_BYTES = 64 * 1024 * 1024
_SPACE = " \t\n\r\v\f"
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*([-*+/]?)=\s*(?:"([^"]*)"|(\S+))(?=\s|\Z)', re.ASCII)
_INCLUDE = re.compile(r"include\s+(\S+)", re.ASCII | re.IGNORECASE)
_HEAD = re.compile(r"\s*[A-Za-z0-9_.]+\s*=\s*", re.ASCII)
# The keys whose lines go on with further pairs; behind every other value Slurm allows only a comment.
LISTS = frozenset(["nodename", "partitionname", "downnodes", "nodeset", "frontendname", "poweraction"])


class Pair(t.NamedTuple):
    key: str
    operator: str
    value: str


class Statement(t.NamedTuple):
    """One ``Key=Value`` statement or Include: ``count`` lines of ``path`` from number ``index`` (from 0) on."""

    path: str
    index: int
    count: int
    key: str
    value: str
    pairs: tuple[Pair, ...]

    @property
    def place(self) -> str:
        return f"{self.path} line {self.index + 1}"

    def is_key(self, key: str) -> bool:
        return self.key.lower() == key.lower()


class ConfText(t.NamedTuple):
    """The lines of one file, each with its own ending, and what they say."""

    path: str
    lines: tuple[str, ...]
    statements: tuple[Statement, ...]

    def text(self) -> str:
        return "".join(self.lines)


def decode(data: bytes) -> str:
    """Decode a text; bytes that are no UTF-8 survive as surrogates."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def parse(path: str, text: str) -> ConfText:
    """Read one file; a line of which Slurm would say "Parse error" is an error with file and line."""
    if len(text) > MAX_BYTES:
        raise ConfError(f"{path} has more than {MAX_BYTES} bytes: this is no slurm.conf")
    lines = tuple(_physical(text))
    statements = []
    index = 0
    while index < len(lines):
        logical, count = _logical(lines, index)
        if "\0" in logical:
            raise ConfError(f"{path} line {index + 1}: a NUL byte, behind which Slurm does not read")
        if logical.strip(_SPACE):
            statements.append(_statement(path, index, count, logical))
        index += count
    return ConfText(path, lines, tuple(statements))


def render(key: str, value: str) -> str:
    """Return ``Key=Value`` so that Slurm reads exactly this value."""
    if not value or re.search(r'["\n\r\0]', value):
        raise ConfError(f"{key}: the value {value!a} cannot be written to slurm.conf (empty, a quote or a line break)")
    return f"{key}={_written(value)}"


def replace_value(lines: t.Sequence[str], value: str) -> str:
    """Return a statement as one line with a new value; key, spacing, trailing comment and ending stay."""
    head = _HEAD.match(lines[0])
    if head is None:
        raise ConfError(f"{lines[0].strip()!a}: the key is split over lines, so its value cannot be changed in place")
    last = lines[-1]
    body = _without_comment(last)
    ending = last[len(last.rstrip("\r\n")) :]
    comment = last[len(body) :].rstrip("\r\n")
    gap = body[len(body.rstrip(_SPACE)) :] if comment else ""
    return head.group() + _written(value) + gap + comment + ending


def continues(line: str) -> bool:
    """Return whether the next line belongs to this one: an odd number of backslashes stands before the comment."""
    bare = _without_comment(line).rstrip(_SPACE)
    return (len(bare) - len(bare.rstrip("\\"))) % 2 == 1


def _written(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("#", "\\#")
    return f'"{escaped}"' if any(char in _SPACE for char in value) else escaped


def _physical(text: str) -> t.Iterator[str]:
    """Split a text at line feeds only, as fgets does; other separators of Unicode are text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _logical(lines: t.Sequence[str], index: int) -> tuple[str, int]:
    """Return the statement that begins at a line, and the number of its lines."""
    parts = []
    for position in range(index, len(lines)):
        part = _without_comment(lines[position])
        if not continues(lines[position]):
            return _unescaped("".join([*parts, part])), position + 1 - index
        parts.append(part.rstrip(_SPACE)[:-1])
    return _unescaped("".join(parts)), len(lines) - index


def _without_comment(line: str) -> str:
    """Return a line up to the first # that has an even number of backslashes before it."""
    backslashes = 0
    for position, char in enumerate(line):
        if char == "#" and backslashes % 2 == 0:
            return line[:position]
        backslashes = backslashes + 1 if char == "\\" else 0
    return line


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.?)", r"\1", text, flags=re.DOTALL)


def _statement(path: str, index: int, count: int, logical: str) -> Statement:
    include = _INCLUDE.match(logical)
    if include is not None:
        rest = logical[include.end() :]
        pairs = (Pair("Include", "", include.group(1)),)
    else:
        pairs, rest = _pairs(logical)
    if rest.strip(_SPACE) or not pairs or (include is None and pairs[0].key.lower() == "include"):
        odd = _shown(rest.strip(_SPACE) or logical)
        raise ConfError(f"{path} line {index + 1}: {odd} is not Key=Value, and Slurm would refuse it")
    return Statement(path, index, count, pairs[0].key, pairs[0].value, pairs)


def _pairs(logical: str) -> tuple[tuple[Pair, ...], str]:
    found = []
    position = 0
    match = _PAIR.match(logical)
    while match is not None:
        key, operator, quoted, plain = match.groups()
        found.append(Pair(key, operator, plain if quoted is None else quoted))
        position = match.end()
        match = _PAIR.match(logical, position) if found[0].key.lower() in LISTS else None
    return tuple(found), logical[position:]


def _shown(text: str) -> str:
    text = text.strip()
    return ascii(text if len(text) <= 60 else text[:57] + "...")
