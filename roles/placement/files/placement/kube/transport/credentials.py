# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server's address and our identity there, from a kubeconfig or a pod's service account.

Credentials are replaced while the daemon runs (certificates expire, tokens rotate), so the files are looked at again
before every new connection, and a 401 ends the present one. A file that has become unreadable leaves the credentials as
they are.

A kubeconfig says how to trust the server and how to prove our identity. A field that is not known here is refused by
name. If it were ignored, the daemon would fail for ever, or worse, do something else than the file says.
"""

import base64
import binascii
import os
import ssl
import tempfile
import threading
import urllib.parse
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# What is read of a cluster and of a user, and what changes nothing for us.
_OF_CLUSTERS: Final = frozenset(
    {"server", "certificate-authority", "certificate-authority-data", "disable-compression", "extensions"}
)
_OF_USERS: Final = frozenset(
    {
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile"),
        "extensions",
    }
)
# What to do instead.
_INSTEAD: Final = {
    "insecure-skip-tls-verify": "give the server's authority as certificate-authority or certificate-authority-data",
    "tls-server-name": "name a server that its certificate names",
    "proxy-url": "name a server that is reached without a proxy",
    "exec": "give a client certificate, a token or a tokenFile",
    "auth-provider": "give a client certificate, a token or a tokenFile",
    "username": "give a client certificate, a token or a tokenFile",
    "password": "give a client certificate, a token or a tokenFile",
    "as": "give the credentials of the user itself",
}


class CredentialsError(Exception):
    """The kubeconfig cannot be used; the message names the file and what is wrong in it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API server as it is reached: host, port, TLS and the header with our identity."""

    host: str
    port: int
    tls: ssl.SSLContext
    authorization: str = ""


class Credentials:
    """The current endpoint; thread-safe."""

    def __init__(self, kubeconfig: Path | None = None, *, context: str = "") -> None:
        self._path = kubeconfig
        self._context = context
        self._lock = threading.Lock()
        self._watched: tuple[Path, ...] = ()
        self._seen: tuple[int, ...] = ()
        self._endpoint = self._load()

    def endpoint(self) -> Endpoint:
        """Return the endpoint to connect to now."""
        with self._lock:
            if _stamps(self._watched) != self._seen:
                try:
                    self._endpoint = self._load()
                except CredentialsError:
                    # In the middle of being replaced: the old ones still serve.
                    self._seen = ()
            return self._endpoint

    def _load(self) -> Endpoint:
        if self._path is None:
            files, endpoint = _service_account()
        else:
            files, endpoint = _kubeconfig(self._path, self._context)
        self._watched, self._seen = files, _stamps(files)
        return endpoint


def _stamps(files: tuple[Path, ...]) -> tuple[int, ...]:
    found = []
    for path in files:
        try:
            found.append(path.stat().st_mtime_ns)
        except OSError:
            found.append(-1)
    return tuple(found)


def _service_account() -> tuple[tuple[Path, ...], Endpoint]:
    token, authority = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise CredentialsError("no kubeconfig given, and this is no pod: give --kubeconfig FILE")
    tls = ssl.create_default_context(cadata=_read(authority).decode())
    return (token, authority), Endpoint(host, int(port), tls, f"Bearer {_read(token).decode().strip()}")


def _kubeconfig(path: Path, wanted: str) -> tuple[tuple[Path, ...], Endpoint]:
    try:
        config = yaml.safe_load(_read(path))
        name = wanted or config["current-context"]
        context = {entry["name"]: entry["context"] for entry in config["contexts"]}[name]
        cluster = {entry["name"]: entry["cluster"] for entry in config["clusters"]}[context["cluster"]]
        user = {entry["name"]: entry["user"] for entry in config["users"]}[context["user"]]
        _assure_known(path, f"cluster {context['cluster']!r}", cluster, _OF_CLUSTERS)
        _assure_known(path, f"user {context['user']!r}", user, _OF_USERS)
        address = urllib.parse.urlsplit(cluster["server"])
        port = address.port or 443
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CredentialsError(f"{path}: not a usable kubeconfig: {type(error).__name__}: {error}") from None
    if address.scheme != "https" or not address.hostname:
        raise CredentialsError(f"{path}: server {cluster['server']!r}: only https is spoken")
    if address.path not in ("", "/") or address.query or address.username:
        raise CredentialsError(f"{path}: server {cluster['server']!r}: expected https://HOST:PORT and nothing more")
    files = [path]

    def material(holder: dict[str, str], key: str) -> bytes:
        if f"{key}-data" in holder:
            try:
                return base64.b64decode(holder[f"{key}-data"], validate=False)
            except (binascii.Error, TypeError) as error:
                raise CredentialsError(f"{path}: {key}-data: {error}") from None
        if key in holder:
            file = path.parent / holder[key]
            files.append(file)
            return _read(file)
        return b""

    tls = _tls(path, material(cluster, "certificate-authority"))
    certificate, key = material(user, "client-certificate"), material(user, "client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise CredentialsError(f"{path}: user {context['user']!r}: {missing} is missing")
    if certificate:
        _load_pair(path, tls, certificate, key)
    token = user.get("token") or ""
    if user.get("tokenFile"):
        # As for kubectl it goes before a token that is written out.
        token = material(user, "tokenFile").decode().strip()
    if not token and not certificate:
        raise CredentialsError(f"{path}: user {context['user']!r} has neither a client certificate nor a token")
    return tuple(files), Endpoint(address.hostname, port, tls, f"Bearer {token}" if token else "")


def _assure_known(path: Path, holder: str, fields: dict[str, object], known: Collection[str]) -> None:
    """Refuses a field that asks for something which is not done; one that is empty or false asks for nothing."""
    for name, value in fields.items():
        if value and name not in known:
            instead = _INSTEAD.get(name)
            raise CredentialsError(f"{path}: {holder}: {name} is not supported{f'; {instead}' if instead else ''}")


def _tls(path: Path, authority: bytes) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority.decode() if authority else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{path}: certificate-authority: {error}") from None


def _load_pair(path: Path, tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # ssl takes a client certificate from files only; this one is 0600 and gone at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            tls.load_cert_chain(file.name)
        except ssl.SSLError as error:
            raise CredentialsError(f"{path}: client certificate and key: {error}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from None
