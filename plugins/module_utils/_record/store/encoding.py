# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the record is written down: every part carries the checksum by which damage is noticed. Pure.

A function that reads raises KeyError, TypeError or ValueError for what its counterpart cannot have written.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ..model.items import JSON
from ..model.replay import Entry

_FORMAT = re.compile(rb"converged\.hpc record 1 ([0-9a-f]{32})\n")


def format_file(record_id: str) -> bytes:
    """Return the format file: which format this is, and which record."""
    return f"converged.hpc record 1 {record_id}\n".encode()


def record_id(data: bytes) -> str:
    """Return the id in a format file."""
    found = _FORMAT.fullmatch(data)
    if found is None:
        raise ValueError(f"expected 'converged.hpc record 1' and its id, found {data[:60]!r}")
    return found.group(1).decode()


def segment_file(number: int, items: t.Sequence[JSON]) -> bytes:
    """Return a segment: baselines that are written together, and a checksum as the last line."""
    payload = json.dumps({"segment": number, "entries": items}, sort_keys=True).encode()
    return payload + b"\n" + _digest(payload) + b"\n"


def segment(data: bytes) -> t.Tuple[int, t.List[Entry]]:
    """Return number and baselines of one segment."""
    payload, _newline, checksum = data.rstrip(b"\n").rpartition(b"\n")
    if _digest(payload) != checksum:
        raise ValueError("its checksum does not match")
    found = json.loads(payload)
    number = int(found["segment"])
    return number, [Entry.from_json(item, number) for item in found["entries"]]


def journal_line(number: int, event: JSON) -> bytes:
    """Return one event behind its checksum."""
    payload = json.dumps(dict(event, n=number), sort_keys=True).encode()
    return _digest(payload)[:16] + b" " + payload + b"\n"


def journal_event(number: int, line: bytes) -> JSON:
    """Return the event of the journal's line `number`."""
    checksum, _blank, payload = line.partition(b" ")
    if _digest(payload)[:16] != checksum:
        raise ValueError("its checksum does not match")
    event: JSON = json.loads(payload)
    if event["n"] != number:
        raise ValueError(f"is event {event['n']}: lines are missing")
    return event


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).hexdigest().encode()
