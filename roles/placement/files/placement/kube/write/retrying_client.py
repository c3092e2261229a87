# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request until there is an answer that ends it.

No answer, an overloaded server and one that is just starting are reasons to send the same again, never to guess. The
right to write is asked for before every try: a writer without it stops in the middle.

A server may answer a write with an error of its own for half a minute, for example because an admission webhook is
broken. Then the write is refused: waiting for one object for ever would hold up all others. A read is given up after
the same time if its answer says nothing of the object, for example a proxy's page or a refusal.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from placement.kube.transport.backoff import Backoff
from placement.kube.transport.http1 import UNAUTHORIZED, Answer, Connection, NoAnswer
from placement.kube.transport.status import blocked_by_budget, decode_status, not_found
from placement.kube.write.requests import Request

_OK: Final = 200
# An overloaded server gets over it.
_TOO_MANY: Final = 429
_SERVER: Final = 500
# How long a write may be answered 500 without a break, and a read by what says nothing; and how long where the one
# before it in its namespace was.
PATIENCE_SECONDS: Final = 30.0
_NEXT_PATIENCE_SECONDS: Final = 1.0
_MOST_REMEMBERED: Final = 10_000
# These come from the API server's store, and are everybody's trouble as much as this object's.
_OF_THE_STORE: Final = (b"etcdserver", b"rpc error: ")


class RetryingClient:
    """Sends for one thread."""

    def __init__(
        self,
        connection: Connection,
        *,
        stop: threading.Event,
        may_write: Callable[[], bool],
        observe: Callable[[str, int, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self._stop = stop
        self._may_write = may_write
        self._observe = observe
        self._clock = clock
        # Where a request has been given up, and none has succeeded since: what it does, and the collection it is about.
        self._failing: set[tuple[str, str]] = set()

    def send(self, what: str, request: Request) -> Answer | None:
        """Send the request until an answer ends it. Return None if the lease was lost: its effect is unknown."""
        backoff = Backoff(self._stop)
        since: float | None = None
        while self._may_write():
            begun, asked, status, bounded = time.monotonic(), 0.0, 0, False
            try:
                answer = self.connection.request(
                    request.method, request.path, request.body, content_type=request.content_type
                )
                status, asked = answer.status, answer.retry_after
                reads = request.method == "GET"
                bounded = _says_nothing(answer, request.path) if reads else _about_itself(answer)
                again = _again(answer) or (reads and bounded)
                if not again or (bounded and self._too_long(what, request, since)):
                    self._remember(what, request, failing=again)
                    return answer
            except NoAnswer:
                pass
            finally:
                self._observe(what, status, time.monotonic() - begun)
            since = (self._clock() if since is None else since) if bounded else None
            if not backoff.wait(asked):
                return None
        return None

    def _too_long(self, what: str, request: Request, since: float | None) -> bool:
        known = (what, _where(request)) in self._failing
        patience = _NEXT_PATIENCE_SECONDS if known else PATIENCE_SECONDS
        return since is not None and self._clock() - since >= patience

    def _remember(self, what: str, request: Request, *, failing: bool) -> None:
        key = what, _where(request)
        if not failing:
            self._failing.discard(key)
        elif len(self._failing) < _MOST_REMEMBERED:
            self._failing.add(key)


def _where(request: Request) -> str:
    """Return the namespace, if there is one: a webhook is asked about whole namespaces, or about everything."""
    before, found, after = request.path.partition("/namespaces/")
    return before + found + after.partition("/")[0] if found else before.rpartition("/")[0]


def _about_itself(answer: Answer) -> bool:
    """Whether the server has failed at this very object, as far as it says: it works, and says what went wrong."""
    if answer.status != _SERVER or any(word in answer.body for word in _OF_THE_STORE):
        return False
    status = decode_status(answer)
    return status is not None and bool(status.message)


def _says_nothing(answer: Answer, path: str) -> bool:
    """Whether the answer to a read tells neither what the object is nor that there is none, nor to ask again."""
    return not (answer.status == _OK or _again(answer) or not_found(answer, path))


def _again(answer: Answer) -> bool:
    if answer.status == _TOO_MANY or answer.status == _SERVER:
        # The eviction API says "not now, for this budget" with the status of an overloaded server.
        return not blocked_by_budget(answer)
    return answer.status == UNAUTHORIZED or answer.status > _SERVER
