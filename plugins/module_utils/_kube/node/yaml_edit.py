# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of a KubeletConfiguration, field by field, in the file's own lines: comments, order and the site's own stay.

Nodes have no YAML library as a rule, so this reads what kubeadm and people write: block mappings, one key a line. A
field is replaced as a whole by one line whose value is JSON, which is YAML; what cannot be understood is refused only
where it would have to change.

PRIVATE to the collection.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..errors import KubeError

Value = t.Any
_KEY = re.compile(
    r""" *(?:"(?P<double>[^"\\]+)"|'(?P<single>[^']+)'|(?P<plain>[A-Za-z0-9_][^\s:#]*))\s*:(?:\s+(?P<rest>.*))?$"""
)
_FIELD = re.compile(r"[A-Za-z0-9_./-]+")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_HALVES = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_UNREADABLE = object()


class Entry(t.NamedTuple):
    """One key of a block mapping: its lines, and what stands behind the colon."""

    key: str
    indent: int
    first: int
    end: int
    rest: str


def edit(name: str, text: str, wanted: t.Mapping[str, Value]) -> str:
    """Return `text` with every field as wanted; None takes a field away, so that the kubelet's default holds."""
    check(name, _lines(text))
    return put(name, text, wanted)


def put(name: str, text: str, wanted: t.Mapping[str, Value]) -> str:
    """Return the same for any file of this form, whatever kind it is."""
    lines = _lines(text)
    for path, value in leaves(wanted):
        lines = _set(name, lines, path, value)
    return "".join(lines)


def read(name: str, text: str, path: t.Sequence[str]) -> Value:
    """Return a field's value; None where it is not set or not to be understood."""
    lines = _lines(text)
    found: Value = {entry.key: _value(name, lines, entry) for entry in _entries(name, lines, 0, len(lines))}
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return None if found is _UNREADABLE else found


def places(name: str, text: str) -> t.Dict[str, int]:
    """Return the line, counted from 1, of each field that stands at the top."""
    lines = _lines(text)
    return {entry.key: entry.first + 1 for entry in _entries(name, lines, 0, len(lines))}


def leaves(
    wanted: t.Mapping[str, Value], above: t.Tuple[str, ...] = ()
) -> t.Iterator[t.Tuple[t.Tuple[str, ...], Value]]:
    """Yield every field that has a value of its own."""
    for key, value in wanted.items():
        if not isinstance(key, str) or not _FIELD.fullmatch(key):
            raise KubeError(f"field {key!r}: expected the name of a field")
        if isinstance(value, t.Mapping) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key), value


def check(name: str, lines: t.Sequence[str]) -> None:
    """Refuse a text that is not one KubeletConfiguration."""
    entries = {entry.key: entry for entry in _entries(name, lines, 0, len(lines))}
    kind = _value(name, lines, entries["kind"]) if "kind" in entries else None
    if kind != "KubeletConfiguration":
        found = "something else" if kind is _UNREADABLE else kind
        raise KubeError(f"{name}: kind: expected KubeletConfiguration, found {found}")


def _set(name: str, lines: t.List[str], path: t.Tuple[str, ...], value: Value) -> t.List[str]:
    lo, hi, margin = 0, len(lines), 0
    for depth, key in enumerate(path):
        entries = _entries(name, lines, lo, hi)
        margin = entries[0].indent if entries else margin
        entry, rest = _find(entries, key), path[depth + 1 :]
        if entry is None:
            if value is None:
                return lines
            return _insert(lines, entries[-1].end if entries else hi, margin, key, _nested(rest, value))
        now = _value(name, lines, entry)
        if rest and not entry.rest and isinstance(now, dict):
            lo, hi, margin = entry.first + 1, entry.end, margin + 2
            continue
        return _replace(name, lines, entry, now, _merged(name, lines, entry, now, rest, value) if rest else value)
    raise AssertionError("a path has at least one key")


def _merged(name: str, lines: t.Sequence[str], entry: Entry, now: Value, rest: t.Sequence[str], value: Value) -> Value:
    if now is None or now == {}:
        return _nested(rest, value) if value is not None else now
    if not isinstance(now, dict):
        found = lines[entry.first].strip()
        raise KubeError(f"{name} line {entry.first + 1}: expected a mapping with {rest[0]}, found {found!r}")
    old = now.get(rest[0])
    inner = _merged(name, lines, entry, old, rest[1:], value) if len(rest) > 1 else value
    if inner == {} and isinstance(old, dict):
        return now
    others = {key: has for key, has in now.items() if key != rest[0]}
    return others if inner is None else {**others, rest[0]: inner}


def _nested(path: t.Sequence[str], value: Value) -> Value:
    for key in reversed(path):
        value = {key: value}
    return value


def _replace(name: str, lines: t.List[str], entry: Entry, now: Value, value: Value) -> t.List[str]:
    if value is None:
        return lines[: entry.first] + lines[entry.end :]
    if _same(now, value) or (value == {} and isinstance(now, dict)):
        return lines
    if entry.rest[:1] in ("&", "*", "!"):
        raise KubeError(f"{name} line {entry.first + 1}: {entry.key} has an anchor, alias or tag: write its value out")
    return [*lines[: entry.first], _line(entry.indent, entry.key, value), *lines[entry.end :]]


def _same(now: Value, value: Value) -> bool:
    """Compare two values, with true and 1 apart."""
    try:
        return json.dumps(now, sort_keys=True) == json.dumps(value, sort_keys=True)
    except TypeError:  # something in it was not understood
        return False


def _insert(lines: t.List[str], at: int, indent: int, key: str, value: Value) -> t.List[str]:
    before = lines[:at]
    if before and not before[-1].endswith("\n"):
        before[-1] += "\n"
    return [*before, _line(indent, key, value), *lines[at:]]


def _line(indent: int, key: str, value: Value) -> str:
    return f"{' ' * indent}{key}: {_HALVES.sub(_whole, json.dumps(value))}\n"


def _whole(halves: t.Match[str]) -> str:
    """Return a character that JSON writes as two halves: in all else JSON is YAML."""
    letter: str = json.loads('"' + halves.group(0) + '"')
    return letter


def _lines(text: str) -> t.List[str]:
    """Split a text into lines with their ends; nothing but a line feed ends one here."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _find(entries: t.Sequence[Entry], key: str) -> t.Optional[Entry]:
    return next((entry for entry in entries if entry.key == key), None)


def _entries(name: str, lines: t.Sequence[str], lo: int, hi: int) -> t.List[Entry]:
    """Return the keys of the block mapping in these lines."""
    found: t.List[Entry] = []
    for at in range(lo, hi):
        line = lines[at].rstrip()
        bare = line.lstrip(" ")
        if not bare or bare.startswith("#") or (line.startswith("---") and not found):
            continue
        indent = len(line) - len(bare)
        item = bare == "-" or bare.startswith("- ")
        if found and (indent > found[0].indent or (indent == found[0].indent and item)):
            found[-1] = found[-1]._replace(end=at + 1)
            continue
        match = _KEY.match(line)
        if match is None or (found and indent != found[0].indent):
            raise KubeError(f"{name} line {at + 1}: expected 'key: value', found {bare[:40]!r}")
        key = match.group("double") or match.group("single") or match.group("plain")
        if _find(found, key):
            raise KubeError(f"{name} line {at + 1}: {key} is there twice")
        found.append(Entry(key, indent, at, at + 1, _uncommented(match.group("rest") or "")))
    return found


def _value(name: str, lines: t.Sequence[str], entry: Entry) -> Value:
    """Return what a key is set to, as far as it can be understood."""
    inner = [line for line in lines[entry.first + 1 : entry.end] if line.strip() and not line.strip().startswith("#")]
    if entry.rest:
        return _UNREADABLE if inner else _scalar(entry.rest)
    if not inner:
        return None
    if inner[0].strip().startswith("-"):
        items = [line.strip() for line in inner]
        if not all(item.startswith("- ") for item in items):
            return _UNREADABLE
        values = [_scalar(_uncommented(item[2:].strip())) for item in items]
        return _UNREADABLE if any(value is _UNREADABLE for value in values) else values
    found: t.Dict[str, Value] = {}
    for below in _entries(name, lines, entry.first + 1, entry.end):
        found[below.key] = _value(name, lines, below)
    return found


def _scalar(text: str) -> Value:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in '"{[' or _NUMBER.fullmatch(text):
        try:
            return json.loads(text)
        except ValueError:
            return _UNREADABLE
    if text[0] == "'":
        return text[1:-1].replace("''", "'") if len(text) > 1 and text.endswith("'") else _UNREADABLE
    if text[0] in "&*!|>%@`-?" or ": " in text or text.endswith(":"):
        return _UNREADABLE
    return text


def _uncommented(text: str) -> str:
    """Return a value without a comment at the end, unless a quote might hold it."""
    if text[:1] in ("'", '"', "{", "["):
        match = re.match(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[{\[][^#]*[}\]])\s*(?:#.*)?$""", text)
        return match.group(1) if match else text
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
