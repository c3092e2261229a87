# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The XML of qstat and pbsnodes, read into records of text. Pure.

Torque writes elements with text and nothing else. It lets bytes through that no XML may have, so that one user's job
could make the whole answer unreadable for a real reader. This one knows elements, text and the five plain entities; it
has no document types, defines no entities, and takes any character in a value. An answer that ends before its elements
do is no answer.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from .._pbs.errors import NoAnswerError

Record = t.Dict[str, str]
MOST_CHARACTERS = 64 * 1024 * 1024
_DEEPEST = 8
_DECLARATION = re.compile(r"\s*(?:<\?xml version=\"1\.0\"[^<>]{0,60}\?>)?\s*")
_TOKEN = re.compile(r"<(/?)([A-Za-z_][A-Za-z0-9_.-]*) ?(/?)>([^<]*)", re.ASCII)
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7}));", re.ASCII)
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def records(text: str, tag: str, *, program: str) -> list[Record]:
    """Read `<Data>` with its elements ``tag``: the text of each leaf by its name, with dots between levels.

    Raise NoAnswerError for an answer that is too long, cut off, or anything else.
    """
    if len(text) > MOST_CHARACTERS:
        raise NoAnswerError(f"{program} printed more than {MOST_CHARACTERS} characters")
    found: list[Record] = []
    open_names: list[str] = []
    current: Record = {}
    at, done, leaf = _after_declaration(text), False, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or done:
            raise NoAnswerError(f"{program} printed XML that is not whole at {text[at : at + 60]!a}")
        closes, name, empty, value = token.groups()
        at = token.end()
        if not closes:
            if len(open_names) >= _DEEPEST or (not open_names and name != "Data"):
                raise NoAnswerError(f"{program} printed XML with {name[:60]!a} where {tag} is expected")
            current = {} if len(open_names) == 1 else current
            open_names.append(name)
            leaf = True
            path = ".".join(open_names[2:])
            if path and not empty and value.strip():
                current[path] = _plain(value)
            elif path:
                current.setdefault(path, "")
        if closes or empty:
            if not open_names or open_names[-1] != name:
                raise NoAnswerError(f"{program} printed XML that is not whole: {name[:60]!a} ends what it is not")
            if not leaf:
                current.pop(".".join(open_names[2:]), None)  # it has elements and no text of its own
            if len(open_names) == 2 and name == tag:
                found.append(current)
            open_names.pop()
            leaf, done = False, not open_names
    if not done:
        raise NoAnswerError(f"{program} printed XML that is not whole: it ends within {'/'.join(open_names) or tag}")
    return found


def _after_declaration(text: str) -> int:
    start = _DECLARATION.match(text)
    return start.end() if start else 0


def _plain(value: str) -> str:
    """Return a value without control characters, each entity as its character."""
    return _ENTITY.sub(_character, _CONTROL.sub("", value))


def _character(match: t.Match[str]) -> str:
    if match[1]:
        return _ENTITIES[match[1]]
    number = int(match[2])
    return chr(number) if 32 <= number < 0xD800 else ""
