# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The language of qmgr: what it prints, and the words of a command to it. Pure.

``print`` shows what can be set, one line for each element of a list; ``list`` shows everything, in long lines that are
broken. Text that is in neither form is no answer (`NoAnswerError`), and never an object without attributes.

PRIVATE to the collection.
"""

from __future__ import annotations

import re
import typing as t

from .errors import NoAnswerError, SpecError

Attributes = t.Dict[str, t.Tuple[str, ...]]
Key = t.Tuple[str, str]  # kind and name; the server has no name here

_COMMAND = re.compile(r"(create|set) (server|queue|node|sched|resource)(?: (.*))?\Z", re.DOTALL)
_ASSIGNMENT = re.compile(r"(?:(?P<name>\S+) )?(?P<attribute>[^\s=+]+) (?P<operator>\+?=) (?P<value>.*)\Z", re.DOTALL)
_OBJECT = re.compile(r"(Server|Queue|Node|Hook|Sched) (\S+)\Z")
_LISTED = re.compile(r" {4}([^\s=]+) = (.*)\Z", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\[\]-]*\Z")
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_-]*)?\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@*+-]+\Z")


def printed(text: str) -> dict[Key, Attributes]:
    """Read what ``print`` shows, by kind and name. An attribute is the tuple of its elements."""
    found: dict[Key, Attributes] = {}
    for line in _whole_lines(text):
        match = _COMMAND.match(line)
        if match is None:
            raise NoAnswerError(f"qmgr printed {line[:60]!a}: expected create or set")
        verb, kind, rest = match.groups()
        if verb == "create":
            found[kind, (rest or "").split(" ")[0]] = {}
            continue
        assignment = _ASSIGNMENT.match(rest or "")
        if assignment is None:
            raise NoAnswerError(f"qmgr printed {line[:60]!a}: expected attribute = value")
        attributes = found.setdefault((kind, assignment["name"] or ""), {})
        before = attributes.get(assignment["attribute"], ()) if assignment["operator"] == "+=" else ()
        attributes[assignment["attribute"]] = (*before, _unquoted(assignment["value"]))
    return found


def listed(text: str) -> dict[Key, dict[str, str]]:
    """Read what ``list`` shows, by kind (in small letters) and name; join a value that was broken into lines."""
    found: dict[Key, dict[str, str]] = {}
    current: dict[str, str] | None = None
    attribute = ""
    for line in text.splitlines():
        heading, entry = _OBJECT.match(line), _LISTED.match(line)
        if heading is not None:
            current = found.setdefault((heading[1].lower(), heading[2]), {})
        elif entry is not None and current is not None:
            attribute = entry[1]
            current[attribute] = entry[2]
        elif line.startswith("\t") and current and attribute in current:
            current[attribute] += line[1:]
        elif line.strip():
            raise NoAnswerError(f"qmgr listed {line[:60]!a}: expected an object or attribute = value")
    return found


def assigned(kind: str, name: str, attribute: str, value: str) -> str:
    """Return the command that sets an attribute."""
    return f"set {_target(kind, name)} {checked_attribute(attribute)} = {quoted(value)}"


def unset(kind: str, name: str, attribute: str) -> str:
    """Return the command that gives an attribute back to PBS's own default."""
    return f"unset {_target(kind, name)} {checked_attribute(attribute)}"


def quoted(value: str) -> str:
    """Quote one value for qmgr, which knows no escapes; refuse what it would end early or break."""
    if not (value.isascii() and value.isprintable()):
        raise SpecError(f"value {value[:60]!a}: qmgr takes printable ASCII on one line only")
    if _PLAIN.match(value):
        return value
    for mark in ('"', "'"):
        if mark not in value:
            return f"{mark}{value}{mark}"
    raise SpecError(f"value {value[:60]!a}: qmgr cannot take both kinds of quotation marks in one value")


def checked_name(kind: str, name: str) -> str:
    """Return a name; refuse one that is not one word to qmgr, or an option."""
    if not _NAME.match(name):
        raise SpecError(f"{name[:60]!a} is no name of a {kind}: letters, digits and _ . - are expected")
    return name


def checked_attribute(name: str) -> str:
    """Return an attribute, or one resource of it (``resources_max.ncpus``); refuse anything else."""
    if not _ATTRIBUTE.match(name):
        raise SpecError(f"{name[:60]!a} is no attribute: expected a name such as enabled or resources_max.ncpus")
    return name


def _target(kind: str, name: str) -> str:
    return f"{kind} {checked_name(kind, name)}" if name else kind


def _whole_lines(text: str) -> t.Iterator[str]:
    """Yield lines without comments; a quoted value may hold line breaks."""
    whole = ""
    for line in text.splitlines():
        if not whole and (not line.strip() or line.startswith("#")):
            continue
        whole = f"{whole}\n{line}" if whole else line
        if not _is_open(whole):
            yield whole
            whole = ""
    if whole:
        raise NoAnswerError(f"qmgr printed {whole[:60]!a}: its quotation does not end")


def _is_open(line: str) -> bool:
    value = line.partition("= ")[2]
    return value[:1] in ('"', "'") and (len(value) == 1 or value[-1] != value[0])


def _unquoted(value: str) -> str:
    return value[1:-1] if value[:1] in ('"', "'") and value[-1:] == value[:1] and len(value) > 1 else value
