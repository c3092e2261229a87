# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of single lines, which of them a text shows, and their undo in a file that the site has changed since. Pure.

The record keeps two texts per role and file: `ours`, as we left it, and `without`, as it would be without us.
The undo takes what we did (without -> ours) back from the file as it is now, line by line. A line of ours that still
stands is removed, and a line that we replaced or removed comes back. Lines that the site changed stay as they are.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import typing as t
from dataclasses import dataclass

from .errors import RecordError
from .replay import Pair, View


@dataclass(frozen=True)
class LineEdit:
    """One line that must stand in a file (in place of the one `regexp` finds), or that must not."""

    line: str
    regexp: str = ""
    present: bool = True


@dataclass(frozen=True)
class Undone:
    """A text without our edits, and what could not be put back as it was."""

    text: bytes
    conflicts: t.Tuple[str, ...]


def spec(edits: t.Sequence[LineEdit]) -> str:
    """Return a text that says what these edits ask for."""
    return json.dumps([[edit.line, edit.regexp, edit.present] for edit in edits])


def apply_edits(path: str, edits: t.Sequence[LineEdit], text: bytes) -> bytes:
    """Return `text` with every edit made; the same text when all of them stand already."""
    before, newline = _split(text)
    lines = before
    for edit in edits:
        lines = _apply(path, edit, lines)
    return _join(lines, newline or lines[-1:] != before[-1:])


def _apply(path: str, edit: LineEdit, lines: t.List[bytes]) -> t.List[bytes]:
    line = edit.line.encode("utf-8", "surrogateescape")
    found = [at for at, old in enumerate(lines) if _matches(edit, line, old)]
    if not edit.present:
        return [old for at, old in enumerate(lines) if at not in found]
    if not found:
        return lines if line in lines else [*lines, line]
    if not edit.regexp:
        return lines
    if len(found) > 1:
        where = ", ".join(str(at + 1) for at in found)
        raise RecordError(f"{path}: {edit.regexp!r} matches lines {where}: give an expression that matches one")
    return [*lines[: found[0]], line, *lines[found[0] + 1 :]]


def _matches(edit: LineEdit, line: bytes, old: bytes) -> bool:
    if not edit.regexp:
        return old == line
    return re.search(edit.regexp, old.decode("utf-8", "surrogateescape")) is not None


def undo(*, ours: bytes, without: bytes, now: bytes) -> Undone:
    """Return `now` without the change that led from `without` to `ours`."""
    if now == ours:
        return Undone(without, ())
    our_lines, our_newline = _split(ours)
    base_lines, base_newline = _split(without)
    now_lines, now_newline = _split(now)
    where = _positions(our_lines, now_lines)
    drop: t.Set[int] = set()
    insert: t.Dict[int, t.List[bytes]] = {}
    conflicts: t.List[str] = []
    for lo, hi, back in _hunks(our_lines, base_lines):
        standing = [at for at in range(lo, hi) if at in where]
        if back and len(standing) < hi - lo:
            conflicts.append(_describe(our_lines[lo:hi], back))
            continue
        place = where[standing[0]] if standing else _anchor(where, lo, len(our_lines), len(now_lines))
        if back and place is None:
            conflicts.append(_describe(our_lines[lo:hi], back))
            continue
        if not back and len(standing) < hi - lo:
            conflicts.append(_describe([our_lines[at] for at in range(lo, hi) if at not in where], []))
        drop.update(where[at] for at in standing)
        if back and place is not None:
            insert.setdefault(place, []).extend(back)
    kept: t.List[bytes] = []
    for at in range(len(now_lines) + 1):
        kept += insert.get(at, [])
        if at < len(now_lines) and at not in drop:
            kept.append(now_lines[at])
    # The end of the last line is put back with the line it belonged to.
    newline = base_newline if now_newline == our_newline and kept[-1:] == base_lines[-1:] else now_newline
    return Undone(_join(kept, newline), tuple(conflicts))


def current_pair(view: View, this: str, role: str, text: bytes, text_of: t.Callable[[str], bytes]) -> t.Optional[Pair]:
    """Return the edit that `text` shows: the last one, unless a run ended before it wrote what it had recorded."""
    found = hashlib.sha256(text).hexdigest()
    pairs = view.edit_of(this, role, found)
    while pairs and found == pairs[-1].before and found != pairs[-1].ours:
        pairs = pairs[:-1]
    if len(pairs) < 2 or found == pairs[-1].ours:
        return pairs[-1] if pairs else None
    conflicts = [len(undo_pair(pair, text, text_of).conflicts) for pair in pairs]
    return pairs[max(at for at, count in enumerate(conflicts) if count == min(conflicts))]


def undo_pair(pair: Pair, text: bytes, text_of: t.Callable[[str], bytes]) -> Undone:
    """Return `text` without what this edit did."""
    return undo(ours=text_of(pair.ours), without=text_of(pair.without), now=text)


def _hunks(ours: t.List[bytes], base: t.List[bytes]) -> t.Iterator[t.Tuple[int, int, t.List[bytes]]]:
    """Yield what leads back: in place of ours[lo:hi] stood `back`. One line for one line where that is what we did."""
    matcher = difflib.SequenceMatcher(None, ours, base, autojunk=False)
    for tag, lo, hi, base_lo, base_hi in matcher.get_opcodes():
        if tag == "equal":
            continue
        if hi - lo == base_hi - base_lo:
            for offset in range(hi - lo):
                yield lo + offset, lo + offset + 1, [base[base_lo + offset]]
        else:
            yield lo, hi, base[base_lo:base_hi]


def _positions(ours: t.List[bytes], now: t.List[bytes]) -> t.Dict[int, int]:
    """Return where each line of `ours` that still stands is now."""
    found: t.Dict[int, int] = {}
    for block in difflib.SequenceMatcher(None, ours, now, autojunk=False).get_matching_blocks():
        found.update((block.a + offset, block.b + offset) for offset in range(block.size))
    return found


def _anchor(where: t.Dict[int, int], at: int, our_length: int, now_length: int) -> t.Optional[int]:
    """Return the place of what stood before line `at` of ours: beside a neighbour that still stands."""
    if at == 0 and at not in where:
        return 0
    if at - 1 in where:
        return where[at - 1] + 1
    if at in where:
        return where[at]
    return now_length if at == our_length else None


def _describe(ours: t.Sequence[bytes], back: t.Sequence[bytes]) -> str:
    """Say what we had written and what had stood there."""
    shown = [" | ".join(line.decode("utf-8", "replace") for line in lines) for lines in (ours, back)]
    return f"our line {shown[0]!r} was changed since" + (f"; before us it was {shown[1]!r}" if back else "")


def _split(text: bytes) -> t.Tuple[t.List[bytes], bool]:
    """Split a text into lines without their ends; tell whether the last one has an end."""
    if not text:
        return [], False
    newline = text.endswith(b"\n")
    return (text[:-1] if newline else text).split(b"\n"), newline


def _join(lines: t.Sequence[bytes], newline: bool) -> bytes:
    return b"\n".join(lines) + (b"\n" if newline and lines else b"")
