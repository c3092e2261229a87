# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the API server's audit log: who did what, when, by one clock for the whole bed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any


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


def parse_event(line: str) -> AuditEvent:
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
    """The events of a log that match, in the order of their answers; a last line still being written is left out."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            if not line.endswith("\n"):
                return
            event = parse_event(line)
            if all(
                wanted in (None, found)
                for wanted, found in ((verb, event.verb), (resource, event.resource), (name, event.name))
            ):
                yield event
