# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the parts of X.509 certificates and certificate requests that name a subject and its key. No library is needed.

Signatures are not checked here: a request's by the API server that signs it, a certificate's by the TLS that uses it.

PRIVATE to the collection.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import hashlib
import re
import time
import typing as t

from ..errors import KubeError

_VERSION, _INTEGER = 0xA0, 0x02
_IDENTITY = re.compile(r"[a-z0-9]([a-z0-9:._-]{0,62}[a-z0-9])?")  # X.509 ends a name at 64 characters
_NAMES = {b"\x55\x04\x03": "CN", b"\x55\x04\x0a": "O"}
_TEXTS = (0x0C, 0x13, 0x16)  # UTF8String, PrintableString, IA5String
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime, GeneralizedTime


class Subject(t.NamedTuple):
    """Kubernetes takes the user from CN and groups from O. `others` are parts that it does not ask for."""

    user: str
    groups: t.Tuple[str, ...]
    others: int = 0

    def __str__(self) -> str:
        other = f" and {self.others} more" if self.others else ""
        return f"user {self.user!r} in groups {', '.join(map(repr, self.groups)) or 'none'}{other}"


def identity(user: str, groups: t.Sequence[str]) -> Subject:
    """Return a subject that may be asked for: never one of Kubernetes' own, which come with rights."""
    for name in (user, *groups):
        if not _IDENTITY.fullmatch(name) or name.startswith("system:"):
            raise KubeError(
                f"identity {name!r}: expected lower-case letters, digits, ':', '.', '_' and '-', not system:"
            )
    return Subject(user, tuple(groups))


class Request(t.NamedTuple):
    """A certificate request: its subject and its key."""

    subject: Subject
    key: bytes


class Certificate(t.NamedTuple):
    """A certificate: its subject, its key, and the seconds between which it is valid."""

    subject: Subject
    key: bytes
    not_before: float
    not_after: float


def read_request(pem: str, *, name: str) -> Request:
    """Read a PEM request, and nothing else."""
    der = _only_block(pem, "CERTIFICATE REQUEST", name)
    try:
        version, subject, key = _signed_part(der)[:3]
        if version[0] != _INTEGER:  # a certificate has something else there
            raise ValueError("no request")
        return Request(_subject(subject), key)
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise KubeError(f"{name}: is no certificate request") from error


def read_certificate(pem: str, *, name: str) -> Certificate:
    """Read the first certificate of a chain."""
    der = _blocks(pem, "CERTIFICATE", name)[0]
    try:
        parts = [part for part in _signed_part(der) if part[0] != _VERSION]
        not_before, not_after = (_time(part) for part in _parts(parts[3]))
        return Certificate(_subject(parts[4]), parts[5], not_before, not_after)
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise KubeError(f"{name}: is no X.509 certificate") from error


def public_key(pem: str, *, name: str) -> bytes:
    """Return a public key's subjectPublicKeyInfo, to be compared with that of a request or a certificate."""
    return _only_block(pem, "PUBLIC KEY", name)


def fingerprint(certificate: str) -> str:
    """Return what tells a certificate from another; no secret."""
    return hashlib.sha256(_blocks(certificate, "CERTIFICATE", "certificate")[0]).hexdigest()


def certificates(pem: str) -> t.List[str]:
    """Return a bundle's certificates, each as PEM of its own."""
    return [f"{found}\n" for found in re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.S)]


def _blocks(pem: str, label: str, name: str) -> t.List[bytes]:
    found = re.findall(f"-----BEGIN {label}-----(.*?)-----END {label}-----", pem, re.S)
    if not found:
        raise KubeError(f"{name}: holds no PEM {label.lower()}")
    try:
        return [base64.b64decode("".join(block.split()), validate=True) for block in found]
    except (binascii.Error, ValueError) as error:
        raise KubeError(f"{name}: is no X.509 {label.lower()}: not base64") from error


def _only_block(pem: str, label: str, name: str) -> bytes:
    found = _blocks(pem, label, name)
    if len(found) != 1:
        raise KubeError(f"{name}: holds {len(found)} of {label.lower()}: expected one")
    return found[0]


def _signed_part(der: bytes) -> t.List[bytes]:
    """Return the parts of what is signed, which is the first part."""
    return _parts(_parts(der)[0])


def _parts(der: bytes) -> t.List[bytes]:
    """Return the elements in one element, each with its header."""
    _dummy, at, end = _element(der, 0)
    found = []
    while at < end:
        *_dummy, after = _element(der[:end], at)
        found.append(der[at:after])
        at = after
    return found


def _content(der: bytes) -> bytes:
    _dummy, start, end = _element(der, 0)
    return der[start:end]


def _element(der: bytes, at: int) -> t.Tuple[int, int, int]:
    """Return an element's tag, where its content begins, and where it ends."""
    tag, length, at = der[at], der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(der[at : at + count], "big")
        at += count
    if at + length > len(der):
        raise ValueError("cut off")
    return tag, at, at + length


def _subject(der: bytes) -> Subject:
    users: t.List[str] = []
    groups: t.List[str] = []
    others = 0
    for several in _parts(der):
        for attribute in _parts(several):
            oid, value = _parts(attribute)
            kind = _NAMES.get(_content(oid), "")
            if not kind or value[0] not in _TEXTS:
                others += 1
            else:
                (users if kind == "CN" else groups).append(_content(value).decode("utf-8"))
    return Subject(users[-1] if users else "", tuple(groups), others + max(len(users) - 1, 0))


def _time(der: bytes) -> float:
    return calendar.timegm(time.strptime(_content(der).decode("ascii"), _TIMES.get(der[0], "")))
