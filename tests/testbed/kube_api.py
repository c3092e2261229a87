# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client for the API server of a bed, so that tests ask for objects instead of reading kubectl's text.

One object is one connection, kept open; it is not shared between threads. Paths are those of the REST API.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.errors import BedError

REQUEST_SECONDS = 120.0
IDLE_SECONDS = 60.0  # The API server closes a connection that is idle for 90 s, without a word.
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Json = dict[str, Any]


class ApiError(BedError):
    """The API server's refusal; `status` is the HTTP status, `reason` the API's own word for it."""

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the API server is, and who we are to it."""

    host: str
    port: int
    ca: bytes
    certificate: bytes
    key: bytes


def read_kubeconfig(path: Path) -> Credentials:
    """Read the current context of a kubeconfig as kubeadm writes it (everything inline)."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = {entry["name"]: entry["context"] for entry in config["contexts"]}[config["current-context"]]
        cluster = {entry["name"]: entry["cluster"] for entry in config["clusters"]}[context["cluster"]]
        user = {entry["name"]: entry["user"] for entry in config["users"]}[context["user"]]
        address = urllib.parse.urlsplit(cluster["server"])
        return Credentials(
            host=address.hostname or "",
            port=address.port or 443,
            ca=base64.b64decode(cluster["certificate-authority-data"]),
            certificate=base64.b64decode(user["client-certificate-data"]),
            key=base64.b64decode(user["client-key-data"]),
        )
    except OSError as error:
        raise BedError(f"{path} cannot be read ({error.strerror}); is the bed up, with Kubernetes?") from None
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        raise BedError(f"{path} is no kubeconfig with inline credentials; bring the bed down and up again") from None


def tls_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS with the bed's own authority and our client certificate."""
    context = ssl.create_default_context(cadata=credentials.ca.decode())
    # ssl takes a client certificate from files only; these are 0600 and gone at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(credentials.certificate + b"\n" + credentials.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


class Api:
    """One authenticated connection to the API server."""

    def __init__(
        self, credentials: Credentials, *, context: ssl.SSLContext | None = None, timeout: float = REQUEST_SECONDS
    ) -> None:
        self._connection = http.client.HTTPSConnection(
            credentials.host,
            credentials.port,
            context=context or tls_context(credentials),
            timeout=timeout,
        )
        self._used = time.monotonic()

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Api:
        return cls(read_kubeconfig(path))

    def close(self) -> None:
        self._connection.close()

    def send(self, method: str, path: str, data: bytes | None, *, content_type: str = "application/json") -> bytes:
        """Send one request and return the answer as it is; a refusal raises ApiError."""
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if data is not None else {})
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()  # The next request opens it again.
        try:
            self._connection.request(method, path, body=data, headers=headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ApiError(f"{method} {path}: {type(error).__name__}: {error}", status=0, reason="NoAnswer") from error
        self._used = time.monotonic()
        if answer.status >= 400:
            raise refusal(method, path, answer.status, content)
        return content

    def request(
        self, method: str, path: str, body: Json | list[Any] | None = None, *, content_type: str = "application/json"
    ) -> Json:
        """Send one object and return the object of the answer."""
        data = None if body is None else json.dumps(body).encode()
        return parse(self.send(method, path, data, content_type=content_type))

    def get(self, path: str) -> Json:
        return self.request("GET", path)

    def items(self, path: str) -> list[Json]:
        """The objects of a list."""
        found: list[Json] = self.get(path)["items"]
        return found

    def create(self, path: str, body: Json) -> Json:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Json | list[Any], *, content_type: str = MERGE_PATCH) -> Json:
        return self.request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, *, missing_ok: bool = False) -> None:
        try:
            self.request("DELETE", path)
        except ApiError as error:
            if not (missing_ok and error.status == 404):
                raise

    def wait_for(self, path: str, condition: Callable[[Json], bool], *, timeout: float, what: str) -> Json:
        """Ask until `condition` holds for the object at `path`; not yet there is the same as not yet true."""
        deadline = time.monotonic() + timeout
        last = "no answer yet"
        while True:
            try:
                found = self.get(path)
                if condition(found):
                    return found
                last = json.dumps(found.get("status", {}))[:300]
            except ApiError as error:
                if error.status not in (0, 404):
                    raise
                last = str(error)
            if time.monotonic() >= deadline:
                raise BedError(f"{what}: not so after {timeout:g} s; last seen: {last}")
            time.sleep(0.1)

    def wait_gone(self, path: str, *, timeout: float) -> None:
        """Ask until there is no object at `path`."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self.get(path)
            except ApiError as error:
                if error.status == 404:
                    return
                raise
            if time.monotonic() >= deadline:
                raise BedError(f"{path} is still there after {timeout:g} s")
            time.sleep(0.1)


def parse(content: bytes) -> Json:
    """JSON objects as they are; plain text, as from /readyz, under `text`."""
    try:
        found = json.loads(content)
    except ValueError:
        return {"text": content.decode(errors="replace")}
    return found if isinstance(found, dict) else {"value": found}


def refusal(method: str, path: str, status: int, content: bytes) -> ApiError:
    """Make an error of the Status object (or text) that the API server sent."""
    answer = parse(content)
    text = answer.get("message") or answer.get("text") or "no message"
    return ApiError(f"{method} {path}: {status}: {text}", status=status, reason=str(answer.get("reason", "")))


def condition_is(kind: str, status: str = "True") -> Callable[[Json], bool]:
    """A test for `wait_for`: the object's condition `kind` (Ready, ...) has this status."""

    def holds(found: Json) -> bool:
        conditions = found.get("status", {}).get("conditions") or []
        return any(entry["type"] == kind and entry["status"] == status for entry in conditions)

    return holds


def phase_is(*phases: str) -> Callable[[Json], bool]:
    """A test for `wait_for`: the pod is in one of these phases."""
    return lambda found: found.get("status", {}).get("phase") in phases
