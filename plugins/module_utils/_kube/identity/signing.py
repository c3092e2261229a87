# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificate requests at the API: made, approved if they are what was asked for, waited for, and deleted.

The object that creation returned is the one approved, so no other request of the same name is ever signed.

PRIVATE to the collection.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
import typing as t

from .. import cluster
from ..certificates import certificate, x509
from ..errors import KubeError
from ..kubectl import Kubectl

JSON = t.Dict[str, t.Any]

LABELS = {"app.kubernetes.io/managed-by": "converged.hpc"}
SIGNER = "kubernetes.io/kube-apiserver-client"
_SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())
_API = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_PAUSE = 0.3


class Signer(Kubectl):
    """The certificate API of one cluster."""

    def create(self, request: JSON) -> JSON:
        """Create an object, and return it as the API has it: with its name, uid and version."""
        return self._object("create", "--filename=-", "--output=json", text=json.dumps(request))

    def approve(self, request: JSON) -> None:
        """Approve a request; fail where the object is not the one that `create` returned any more."""
        self._ask(
            "replace", f"--raw={_API}/{request['metadata']['name']}/approval", "-f", "-", text=json.dumps(request)
        )

    def look(self, names: t.Sequence[str]) -> t.Dict[str, JSON]:
        """Return requests by name; one that is gone is not there."""
        items = self._object("get", "certificatesigningrequests", f"--selector={_SELECTOR}", "--output=json")["items"]
        return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in names}

    def ours(self) -> t.List[str]:
        """Return all requests that carry our label."""
        told = self._ask("get", "certificatesigningrequests", f"--selector={_SELECTOR}", "--output=name")
        return [line.rpartition("/")[2] for line in told.split()]

    def delete(self, names: t.Sequence[str]) -> None:
        if names:
            self._ask("delete", "certificatesigningrequests", *names, "--ignore-not-found")

    def _object(self, *words: str, text: t.Optional[str] = None) -> JSON:
        try:
            found: JSON = json.loads(self._ask(*words, text=text))
        except ValueError as error:
            raise KubeError(f"kubectl {words[0]}: its answer is no JSON") from error
        return found


class Order(t.NamedTuple):
    """How certificates are to be had."""

    groups: t.Tuple[str, ...]
    seconds: int
    approve: bool
    wait: float
    signer: str = SIGNER


def check(user: str, groups: t.Sequence[str], pem: str) -> x509.Request:
    """Read a request that asks for this identity and nothing else, whatever the host that made it has become."""
    wanted = x509.identity(user, groups)
    request = x509.read_request(pem, name=f"certificate request of {user}")
    if not same(request.subject, wanted):
        raise KubeError(f"certificate request of {user}: asks for {request.subject}, expected {wanted}: not approved")
    return request


def same(found: x509.Subject, wanted: x509.Subject) -> bool:
    """Return whether both are the same user in the same groups, and nothing besides."""
    return (found.user, sorted(found.groups), found.others) == (wanted.user, sorted(wanted.groups), 0)


def request_object(pem: str, order: Order) -> JSON:
    """Return the object for the API, which chooses the name."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "converged-", "labels": dict(LABELS)},
        "spec": {
            "request": base64.b64encode(pem.encode("ascii")).decode("ascii"),
            "signerName": order.signer,
            "expirationSeconds": order.seconds,
            "usages": ["client auth"],
        },
    }


def approved(request: JSON) -> JSON:
    """Return the same object with our approval."""
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "ConvergedHPC",
        "message": "The subject is what was asked for, and this run has made the request.",
    }
    return {**request, "status": {**(request.get("status") or {}), "conditions": [condition]}}


def issued(request: t.Optional[JSON], *, user: str) -> str:
    """Return the certificate; empty while there is none yet."""
    if request is None:
        raise KubeError(f"certificate request of {user}: was deleted while it was waited for: run again")
    status = request.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] in ("Denied", "Failed"):
            said = " ".join(str(condition.get("message") or condition.get("reason") or "no reason given").split())
            raise KubeError(f"certificate request of {user}: {condition['type'].lower()} by the cluster: {said}")
    try:
        return base64.b64decode(status.get("certificate") or "", validate=True).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise KubeError(f"certificate of {user}: cannot be read") from error


def known_by(
    signer: Signer, api_server: t.Optional[str], ca_hashes: t.Sequence[str], *, name: str
) -> t.Dict[str, t.Any]:
    """Return where clients reach the API, and the authorities by which they know it.

    Raise KubeError where none of the expected authorities is the kubeconfig's; ``name`` is that file.
    """
    server, authority = signer.server_and_authority()
    found = certificate.pins(authority, name=name)
    return {
        "api_server": f"https://{cluster.endpoint(api_server or server)}",
        "ca": authority,
        "ca_hashes": cluster.agreed_pins(ca_hashes, found, name=name),
    }


def sign(signer: Signer, requests: t.Mapping[str, str], order: Order) -> t.Dict[str, str]:
    """Have all requests signed or none; the objects at the API are gone afterwards, however it went."""
    keys = {user: check(user, order.groups, pem).key for user, pem in requests.items()}
    names: t.Dict[str, str] = {}
    try:
        for user, pem in requests.items():
            made = signer.create(request_object(pem, order))
            names[user] = made["metadata"]["name"]
            if order.approve:
                signer.approve(approved(made))
        found = _await(signer, names, order)
    finally:
        signer.delete(list(names.values()))
    for user, pem in found.items():
        certificate = x509.read_certificate(pem, name=f"certificate of {user}")
        if certificate.key != keys[user] or not same(certificate.subject, x509.identity(user, order.groups)):
            raise KubeError(f"certificate of {user}: the cluster has signed something else: {certificate.subject}")
    return found


def _await(signer: Signer, names: t.Mapping[str, str], order: Order) -> t.Dict[str, str]:
    deadline = time.monotonic() + order.wait
    while True:
        objects = signer.look(list(names.values()))
        found = {user: issued(objects.get(name), user=user) for user, name in names.items()}
        late = [f"{user} ({names[user]})" for user, pem in found.items() if not pem]
        if not late:
            return found
        if time.monotonic() > deadline:
            why = "is the controller-manager's signer running?" if order.approve else "nobody has approved it"
            raise KubeError(f"no certificate within {order.wait:g} s for {', '.join(late)}: {why}")
        time.sleep(_PAUSE)
