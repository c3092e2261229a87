# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the API server's audit log: user, request and time, by one clock for the whole bed.

A bed that many tests share has a long log, and they ask it often: a process reads each line once, and remembers where
the lines lie and what they are about. A log that does not begin as before, or has become shorter, is a new one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One answered request. `body` is what was sent, where the policy records it."""

    verb: str
    user: str
    resource: str  # "pods", "pods/binding", ...; empty for what is no resource
    namespace: str
    name: str
    code: int
    received: datetime
    answered: datetime
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Line:
    """Where one event stands in the log, and what it is about."""

    verb: str
    resource: str
    name: str
    start: int
    length: int


@dataclass(slots=True)
class Known:
    """What this process has read of a log."""

    head: bytes = b""  # its first line: each has an identity of its own
    end: int = 0
    lines: list[Line] = field(default_factory=list)

    def began(self, stream: IO[bytes]) -> bool:
        """Return whether what was read is still the beginning of this log."""
        stream.seek(0)
        return stream.read(len(self.head)) == self.head and stream.seek(0, 2) >= self.end

    def read_on(self, stream: IO[bytes]) -> None:
        """Read what has been added; a last line that is still being written is left for the next time."""
        stream.seek(self.end)
        for line in stream:
            if not line.endswith(b"\n"):
                return
            event = parse_event(line)
            self.lines.append(Line(event.verb, event.resource, event.name, self.end, len(line)))
            self.head = self.head or line
            self.end += len(line)


LOGS: dict[Path, Known] = {}
ONE_AT_A_TIME = threading.Lock()


def parse_event(line: str | bytes) -> AuditEvent:
    """One line of the log."""
    raw = json.loads(line)
    reference = raw.get("objectRef", {})
    resource = "/".join(part for part in (reference.get("resource"), reference.get("subresource")) if part)
    return AuditEvent(
        verb=raw["verb"],
        user=raw["user"].get("username", ""),
        resource=resource,
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=raw.get("responseStatus", {}).get("code", 0),
        received=datetime.fromisoformat(raw["requestReceivedTimestamp"]),
        answered=datetime.fromisoformat(raw["stageTimestamp"]),
        body=raw.get("requestObject"),
    )


def read_audit(
    path: Path, *, verb: str | None = None, resource: str | None = None, name: str | None = None
) -> Iterator[AuditEvent]:
    """Yield the events of a log that match, in the order of their answers."""
    with path.open("rb") as stream:
        for line in all_lines(path, stream):
            if verb in (None, line.verb) and resource in (None, line.resource) and name in (None, line.name):
                stream.seek(line.start)
                yield parse_event(stream.read(line.length))


def all_lines(path: Path, stream: IO[bytes]) -> list[Line]:
    """Return the lines of a log, of which only the new ones are read."""
    with ONE_AT_A_TIME:
        known = LOGS.get(path)
        if known is None or not known.began(stream):
            known = LOGS[path] = Known()
        known.read_on(stream)
        return list(known.lines)
