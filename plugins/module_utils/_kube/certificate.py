# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public key of a certificate as `kubeadm join` pins it: sha256 over its DER, found without a library.

PRIVATE to the collection. Nodes and administrators' hosts need neither openssl nor Python packages for it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import typing as t

from .errors import KubeError

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_PIN = re.compile(r"sha256:[0-9a-f]{64}")
_SEQUENCE, _VERSION = 0x30, 0xA0


def check_pin(text: str) -> str:
    """A pin as kubeadm writes it."""
    if not _PIN.fullmatch(text):
        raise KubeError(f"CA hash {text!r}: expected 'sha256:' and 64 hexadecimal digits in lower case")
    return text


def pins(pem: str, *, name: str) -> t.List[str]:
    """One for each certificate of a bundle."""
    blocks = _PEM.findall(pem)
    if not blocks:
        raise KubeError(f"{name}: holds no PEM certificate")
    return [_pin(block, name) for block in blocks]


def _pin(block: str, name: str) -> str:
    try:
        der = base64.b64decode("".join(block.split()), validate=True)
        key = _public_key(der)
    except (binascii.Error, IndexError, ValueError) as error:
        raise KubeError(f"{name}: is no X.509 certificate") from error
    return "sha256:" + hashlib.sha256(key).hexdigest()


def _public_key(der: bytes) -> bytes:
    """subjectPublicKeyInfo: the seventh part of the signed part, the sixth where the version is left out."""
    start = _element(der, 0)[1]
    tag, at, end = _element(der, start)
    if tag != _SEQUENCE:
        raise ValueError("no certificate")
    parts: t.List[bytes] = []
    while at < end:
        first, _content, after = _element(der, at)
        if first != _VERSION:
            parts.append(der[at:after])
        at = after
    return parts[5]


def _element(der: bytes, at: int) -> t.Tuple[int, int, int]:
    """Tag, where the content begins, where it ends."""
    tag, length, at = der[at], der[at + 1], at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(der[at : at + count], "big")
        at += count
    if at + length > len(der):
        raise ValueError("cut off")
    return tag, at, at + length
