# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an API server says of a request in its answer: a Status object.

A status of HTTP alone says little, because a proxy before the server gives the same ones.
"""

from typing import Final

import msgspec

from placement.kube.transport.http1 import Answer

_NOT_FOUND: Final = 404
_FORBIDDEN: Final = 403
BUDGET: Final = "DisruptionBudget"
_NAMESPACE_ENDS: Final = "NamespaceTerminating"


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    name: str = ""
    kind: str = ""
    causes: list[_Cause] | None = None


class Status(msgspec.Struct):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_status = msgspec.json.Decoder(Status)


def decode_status(answer: Answer) -> Status | None:
    """Decode what a server says in words of its own; None if it is the page of another program."""
    try:
        return _status.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _causes(status: Status) -> list[_Cause]:
    return (status.details.causes if status.details else None) or []


def forbidden(answer: Answer) -> bool:
    """Return whether the API server says that a right is missing; a proxy's own 403 says nothing."""
    status = decode_status(answer) if answer.status == _FORBIDDEN else None
    return status is not None and status.kind == "Status" and status.reason == "Forbidden"


def not_found(answer: Answer, path: str = "") -> bool:
    """Return whether the API server says that something is missing; with a path, that the object there is.

    A status 404 alone says nothing: a proxy without a server behind it answers so too.
    """
    status = decode_status(answer) if answer.status == _NOT_FOUND else None
    if status is None or (status.kind, status.code, status.reason) != ("Status", _NOT_FOUND, "NotFound"):
        return False
    details, (kind, name) = status.details or _Details(), path.split("/")[-2:] if path else ("", "")
    return not path or (details.kind in ("", kind) and details.name in ("", name))


def blocked_by_budget(answer: Answer) -> bool:
    """Return whether a disruption budget is the reason."""
    if b"isruption" not in answer.body:
        return False
    status = decode_status(answer)
    if status is None:
        return False
    named = any(cause.reason == BUDGET for cause in _causes(status))
    return named or "more than one PodDisruptionBudget" in status.message


def namespace_ends(answer: Answer) -> bool:
    """Return whether nothing may be made because the namespace is being deleted."""
    status = decode_status(answer) if answer.status == _FORBIDDEN else None
    return status is not None and any(cause.reason == _NAMESPACE_ENDS for cause in _causes(status))


def message(answer: Answer) -> str:
    """Return what the server says, in one line."""
    status = decode_status(answer)
    if status is None:
        return f"HTTP status {answer.status}"
    words = [status.message, *(cause.message for cause in _causes(status) if cause.reason == BUDGET)]
    return " ".join(word for word in words if word) or f"HTTP status {answer.status}"
