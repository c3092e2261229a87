# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leader election by a Lease, so that of several daemons one writes.

Three rules make it safe without trust in the clocks of others. Another's lease is taken only after we have watched it
unchanged for as long as it lasts, by our own monotonic clock. We stop writing `renew_deadline` after the last renewal
was *sent*, which is sooner than another daemon may take the lease. And a lapse is final: actions have been given up
meanwhile, so a late renewal revives nothing, and the process ends. A process that was stopped in between finds its
right expired when it goes on. The clock counts while the machine sleeps.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from placement.kube.transport.http1 import Connection, NoAnswer

_OK: Final = frozenset({200, 201})
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


def steady() -> float:
    """Seconds that no clock setting changes and that a sleeping machine counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The Lease and its times in seconds; `deadline` must be shorter than `duration`, as in client-go."""

    namespace: str = "kube-system"
    name: str = "converged-placement"
    identity: str = ""
    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0

    @property
    def path(self) -> str:
        """Where Leases of the namespace are."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    acquire_time: str | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec


_lease = msgspec.json.Decoder(_Lease)
_encode = msgspec.json.Encoder().encode


class LeaderElection:
    """Whether we lead. `run` is the body of a thread of its own; `may_write` is asked by all others."""

    def __init__(
        self,
        terms: Terms,
        connection: Connection,
        *,
        stop: threading.Event,
        clock: Callable[[], float] = steady,
        log: Callable[[str, str], None],
    ) -> None:
        self._terms = terms
        self._connection = connection
        self._stop = stop
        self._clock = clock
        self._log = log
        # Guards the five below it: a lapse that one thread has seen must be one for all.
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._held = False
        self._lapsed = False
        self._ending = False
        self.lost = False
        self._observed = ("", "")
        self._observed_at = 0.0
        self._transitions = 0
        self._acquired = ""
        # What was the matter at the last try; told once.
        self._trouble = ""
        self.holder = ""

    def may_write(self) -> bool:
        """Return whether the lease is ours, with time left before another daemon may take it.

        The first thread that finds the time over makes that final for all threads.
        """
        with self._lock:
            return self._in_time()

    def _in_time(self) -> bool:
        if self._held and not self.lost and self._clock() >= self._until:
            self.lost = self._lapsed = True
        return self._held and not (self.lost or self._ending)

    def run(self) -> None:
        """Take the lease when it is free, renew it, and return once it is lost or everything stops."""
        while not (self._stop.is_set() or self.lost):
            self.try_once()
            self._stop.wait(self._terms.retry)
        if self._lapsed:
            self._log("lease", "not renewed in time; stop writing")

    def release(self) -> bool:
        """Give the lease back, so that another daemon takes it at once; to be called after the last write.

        A lease that has lapsed is given back too, if it still names us. Return False where it must be tried again.
        """
        with self._lock:
            self._ending = True
        if not self._held:
            return True
        try:
            found = self._read()
            done = found is None or found.spec.holder_identity != self._terms.identity
            return done or self._write(found, holder="", duration=1)
        except NoAnswer as error:
            self._tell_trouble(f"not released: {error}")
            return False

    def try_once(self) -> None:
        """One look at the lease, and one write where it is ours to take; nothing more once it is lost."""
        self.may_write()
        if self.lost:
            return
        try:
            found = self._read()
            if found is None:
                self._take(None)
                return
            self.holder = found.spec.holder_identity or ""
            seen = (found.metadata.resource_version, self.holder)
            if seen != self._observed:
                self._observed, self._observed_at = seen, self._clock()
            if self.holder == self._terms.identity or not self.holder:
                self._take(found)
            elif self._held:
                self._log("lease", f"{self.holder} has it")
                with self._lock:
                    self.lost = True
            elif self._clock() - self._observed_at > (found.spec.lease_duration_seconds or self._terms.duration):
                self._take(found)
            self._trouble = ""
        except NoAnswer as error:
            self._tell_trouble(str(error))

    def _tell_trouble(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._log("lease", trouble)
        self._trouble = trouble

    def _read(self) -> _Lease | None:
        answer = self._connection.request("GET", f"{self._terms.path}/{self._terms.name}")
        if answer.status == _NOT_FOUND:
            return None
        if answer.status not in _OK:
            raise NoAnswer(f"reading the lease: HTTP status {answer.status}", sent=True)
        try:
            return _lease.decode(answer.body)
        except msgspec.DecodeError as error:
            raise NoAnswer(f"reading the lease: {error}", sent=True) from None

    def _take(self, found: _Lease | None) -> None:
        if not self._held:
            before = (found.spec.lease_transitions or 0) if found else -1
            self._transitions, self._acquired = before + 1, _now()
        begun = self._clock()
        if not self._write(found, holder=self._terms.identity, duration=int(self._terms.duration)):
            return
        with self._lock:
            if self._held and not self._in_time():
                # The renewal came too late.
                return
            if not self._held:
                self._log("lease", "ours")
            self._held = True
            self.holder = self._terms.identity
            self._until = begun + self._terms.deadline

    def _write(self, found: _Lease | None, *, holder: str, duration: int) -> bool:
        body: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._terms.name, "namespace": self._terms.namespace},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration,
                "acquireTime": self._acquired,
                "renewTime": _now(),
                "leaseTransitions": self._transitions,
            },
        }
        if found is None:
            answer = self._connection.request("POST", self._terms.path, _encode(body))
        else:
            body["metadata"]["resourceVersion"] = found.metadata.resource_version
            answer = self._connection.request("PUT", f"{self._terms.path}/{self._terms.name}", _encode(body))
        if answer.status not in _OK and answer.status != _CONFLICT:
            raise NoAnswer(f"writing the lease: HTTP status {answer.status}", sent=True)
        return answer.status in _OK


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class NoElection:
    """The right to write where there is one daemon only, without an election."""

    lost = False
    holder = ""

    def may_write(self) -> bool:
        """Return True always."""
        return True
