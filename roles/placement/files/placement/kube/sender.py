# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request until there is an answer that ends it.

No answer, an overloaded server and one that is just starting are reasons to send the same again, never to guess. The
right to write is asked for before every try: who has lost it stops in the middle.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from placement.kube.backoff import Backoff
from placement.kube.http1 import UNAUTHORIZED, Answer, Connection, NoAnswer
from placement.kube.requests import Request

# An overloaded server gets over it.
_TOO_MANY: Final = 429
_SERVER: Final = 500
_FORBIDDEN: Final = 403
BUDGET: Final = "DisruptionBudget"
_NAMESPACE_ENDS: Final = "NamespaceTerminating"


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    details: _Details | None = None


_status = msgspec.json.Decoder(_Status)


class Sender:
    """Sends for one thread."""

    def __init__(
        self,
        connection: Connection,
        *,
        stop: threading.Event,
        may_write: Callable[[], bool],
        observe: Callable[[str, int, float], None],
    ) -> None:
        self.connection = connection
        self._stop = stop
        self._may_write = may_write
        self._observe = observe

    def send(self, what: str, request: Request) -> Answer | None:
        """The answer that ends it, or None: the right to write has been lost, and what became of it is unknown."""
        backoff = Backoff(self._stop)
        while self._may_write():
            begun, asked, status = time.monotonic(), 0.0, 0
            try:
                answer = self.connection.request(
                    request.method, request.path, request.body, content_type=request.content_type
                )
                status, asked = answer.status, answer.retry_after
                if not _again(answer):
                    return answer
            except NoAnswer:
                pass
            finally:
                self._observe(what, status, time.monotonic() - begun)
            if not backoff.wait(asked):
                return None
        return None


def _again(answer: Answer) -> bool:
    if answer.status == _TOO_MANY or answer.status == _SERVER:
        # The eviction API says "not now, for this budget" with the status of an overloaded server.
        return not blocked_by_budget(answer)
    return answer.status == UNAUTHORIZED or answer.status > _SERVER


def blocked_by_budget(answer: Answer) -> bool:
    """Whether a disruption budget is the reason."""
    if b"isruption" not in answer.body:
        return False
    try:
        status = _status.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    causes = (status.details.causes if status.details else None) or ()
    return any(cause.reason == BUDGET for cause in causes) or "more than one PodDisruptionBudget" in status.message


def namespace_ends(answer: Answer) -> bool:
    """Whether nothing may be made because the namespace is being deleted."""
    if answer.status != _FORBIDDEN:
        return False
    try:
        status = _status.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    causes = (status.details.causes if status.details else None) or ()
    return any(cause.reason == _NAMESPACE_ENDS for cause in causes)


def message(answer: Answer) -> str:
    """What the server says, in one line."""
    try:
        status = _status.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"HTTP status {answer.status}"
    causes = (status.details.causes if status.details else None) or ()
    words = [status.message, *(cause.message for cause in causes if cause.reason == BUDGET)]
    return " ".join(word for word in words if word) or f"HTTP status {answer.status}"
