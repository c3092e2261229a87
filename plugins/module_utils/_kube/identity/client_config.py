# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is in a client's kubeconfig, and whether its certificate is still the right one. Pure.

It is written as JSON, which is YAML: clients read it, and so does a host that has no YAML library.

PRIVATE to the collection.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
import typing as t

from ..certificates import x509
from ..certificates.certificate import pins
from ..errors import KubeError
from . import signing

# A signer may give less time than it was asked for; a certificate is never renewed in its first two thirds.
_LAST_PART = 3
_NAME = "converged.hpc"


class Held(t.NamedTuple):
    """Everything a kubeconfig holds; the key is a secret."""

    server: str
    authority: str
    certificate: str
    key: str


class Wanted(t.NamedTuple):
    """The identity that a client must have, and at which cluster."""

    identity: x509.Subject
    server: str
    authority: str
    renew_before: int


def pinned(bundle: str, wanted: t.Sequence[str], *, name: str) -> str:
    """Return the authorities of a bundle that may be the cluster's; a client trusts no others."""
    found = dict(zip(x509.certificates(bundle), pins(bundle, name=name)))
    kept = [one for one, pin in found.items() if pin in wanted]
    if not kept:
        raise KubeError(
            f"{name}: CA hash {', '.join(found.values())} is not the one that is pinned "
            f"({', '.join(wanted) or 'none'}): correct the hash, or find out who answers at that address"
        )
    return "".join(kept)


def render(held: Held, identity: x509.Subject) -> str:
    """Return the kubeconfig's text."""
    cluster = {"server": held.server, "certificate-authority-data": _encode(held.authority)}
    user = {"client-certificate-data": _encode(held.certificate), "client-key-data": _encode(held.key)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": identity.user, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": identity.user}}],
        "current-context": _NAME,
    }
    return json.dumps(document, indent=2) + "\n"


def parse(text: str) -> t.Optional[Held]:
    """Read what `render` wrote; None for anything else."""
    try:
        document = json.loads(text)
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        return Held(
            str(cluster["server"]),
            _decode(cluster["certificate-authority-data"]),
            _decode(user["client-certificate-data"]),
            _decode(user["client-key-data"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, binascii.Error):
        return None


def why_new(held: t.Optional[Held], wanted: Wanted, *, key: bytes, now: float) -> str:
    """Return why another certificate is needed; empty where the present one will do. `key` is the public half."""
    if held is None:
        return "there is none yet"
    try:
        certificate = x509.read_certificate(held.certificate, name="certificate")
    except KubeError as error:
        return str(error)
    if certificate.key != key:
        return "it is for another key"
    if not signing.same(certificate.subject, wanted.identity):
        return f"it is for {certificate.subject}"
    if _pins_of(held.authority) != _pins_of(wanted.authority):
        return "the cluster's authority has changed"
    if now >= certificate.not_after:
        return f"it has expired on {moment(certificate.not_after)}"
    if now >= renewal(certificate, wanted.renew_before):
        return f"it expires on {moment(certificate.not_after)}"
    return ""


def renewal(certificate: x509.Certificate, renew_before: float) -> float:
    """Return the time to ask for the next certificate, in seconds since the epoch."""
    life = certificate.not_after - certificate.not_before
    return certificate.not_after - min(renew_before, life / _LAST_PART)


def accept(pem: str, wanted: Wanted, *, key: bytes, now: float) -> x509.Certificate:
    """Accept a certificate that has come, if it is what was asked for."""
    found = x509.read_certificate(pem, name=f"certificate of {wanted.identity.user}")
    if not signing.same(found.subject, wanted.identity):
        raise KubeError(f"certificate: is for {found.subject}, expected {wanted.identity}")
    if found.key != key:
        raise KubeError(
            f"certificate of {found.subject.user}: is for another key than the one that waits here: run again"
        )
    if not found.not_before <= now < found.not_after:
        raise KubeError(
            f"certificate of {found.subject.user}: is valid from {moment(found.not_before)} "
            f"to {moment(found.not_after)}, and the clock of this host says {moment(now)}: set the clock"
        )
    return found


def summary(held: t.Optional[Held], identity: x509.Subject) -> str:
    """Return what a diff shows: all but the key."""
    if held is None:
        return ""
    lines = [f"server: {held.server}", f"user: {identity.user}", f"authorities: {', '.join(_pins_of(held.authority))}"]
    try:
        certificate = x509.read_certificate(held.certificate, name="certificate")
        lines += [f"certificate: {x509.fingerprint(held.certificate)}", f"valid until: {moment(certificate.not_after)}"]
    except KubeError as error:
        lines.append(str(error))
    return "".join(f"{line}\n" for line in [*lines, "key: (not shown)"])


def moment(seconds: float) -> str:
    """Return a time in words."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _pins_of(bundle: str) -> t.List[str]:
    try:
        return sorted(pins(bundle, name="authority"))
    except KubeError:
        return []


def _encode(text: str) -> str:
    return base64.b64encode(text.encode("ascii")).decode("ascii")


def _decode(text: str) -> str:
    return base64.b64decode(text, validate=True).decode("ascii")
