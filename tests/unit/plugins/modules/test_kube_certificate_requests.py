# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube_certificate: what is approved and what never is, and that nothing stays at the API."""

from __future__ import annotations

import base64
import datetime
import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils import _command
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.identity import signing
from ansible_collections.converged.hpc.plugins.modules import kube_certificate
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

USER, GROUP = "converged:controller:ctl", "converged:controllers"
KEY, AUTHORITY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ORDER = signing.Order((GROUP,), 3600, True, 5)
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def subject(user: str, *groups: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def request(user: str = USER, *groups: str) -> str:
    made = x509.CertificateSigningRequestBuilder(subject(user, *(groups or (GROUP,)))).sign(KEY, hashes.SHA256())
    return made.public_bytes(Encoding.PEM).decode()


def certificate(user: str = USER, *groups: str, key: ec.EllipticCurvePrivateKey = KEY) -> str:
    names = subject(user, *(groups or (GROUP,)))
    builder = x509.CertificateBuilder(names, names, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(BEGIN).not_valid_after(BEGIN + datetime.timedelta(days=1))
    return builder.sign(AUTHORITY, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


class Api:
    """kubectl's double: signs what is approved, as it is told."""

    def __init__(self, answer: str = "", *, conditions: t.Sequence[dict[str, str]] = (), loses: bool = False) -> None:
        self.answer, self.conditions, self.loses = answer, list(conditions), loses
        self.objects: dict[str, dict[str, t.Any]] = {}
        self.approved: list[dict[str, t.Any]] = []
        self.strangers = [{"metadata": {"name": "stranger"}, "status": {}}]

    def __call__(self, argv: t.Sequence[str], *, timeout: float, text: str | None = None) -> _command.Completed:
        words = list(argv[4:])
        return _command.Completed(tuple(argv), 0, getattr(self, f"do_{words[0]}")(words, text), "")

    def do_create(self, _words: list[str], text: str) -> str:
        made = json.loads(text)
        made["metadata"].update(name=f"converged-{len(self.objects)}", uid="1", resourceVersion="7")
        self.objects[made["metadata"]["name"]] = made
        return json.dumps(made)

    def do_replace(self, words: list[str], text: str) -> str:
        body = json.loads(text)
        name = body["metadata"]["name"]
        assert words[1:] == [f"--raw={CSRS}/{name}/approval", "-f", "-"]
        self.approved.append(body)
        status = {"conditions": [*body["status"]["conditions"], *self.conditions]}
        self.objects[name]["status"] = {**status, "certificate": base64.b64encode(self.answer.encode()).decode()}
        if self.loses:
            del self.objects[name]
        return "{}"

    def do_get(self, words: list[str], _text: None) -> str:
        if "--output=name" in words:
            return "".join(f"certificatesigningrequest.certificates.k8s.io/{name}\n" for name in self.objects)
        return json.dumps({"items": [*self.strangers, *self.objects.values()]})

    def do_delete(self, words: list[str], _text: None) -> str:
        for name in words[2:-1]:
            self.objects.pop(name, None)
        return ""


def signer(api: Api) -> signing.Signer:
    return signing.Signer(kubeconfig="/k", run=api)


def test_what_was_asked_for_is_approved_as_the_object_that_was_made_and_nothing_stays() -> None:
    api = Api(certificate())
    assert signing.sign(signer(api), {USER: request()}, ORDER) == {USER: api.answer}
    (approved,) = api.approved
    assert (approved["metadata"]["uid"], approved["metadata"]["resourceVersion"]) == ("1", "7")
    assert approved["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client"
    assert approved["spec"]["expirationSeconds"] == 3600
    assert approved["spec"]["usages"] == ["client auth"]
    assert api.objects == {}


@pytest.mark.parametrize(
    ("pem", "why"),
    [
        (request("converged:controller:other"), "asks for user 'converged:controller:other'"),
        (request("system:admin"), "asks for user 'system:admin'"),
        (request(USER, GROUP, "system:masters"), "'system:masters'"),
        (request(USER, "system:masters"), "'system:masters'"),
        ("", "holds no PEM certificate request"),
        (request() + request(), "holds 2 of certificate request: expected one"),
    ],
)
def test_a_request_for_anything_else_is_refused_before_the_api_sees_any(pem: str, why: str) -> None:
    api = Api(certificate())
    with pytest.raises(KubeError, match=f"^certificate request of {USER}: .*{why}"):
        signing.sign(signer(api), {USER: pem}, ORDER)
    assert (api.objects, api.approved) == ({}, [])


@pytest.mark.parametrize(
    ("api", "why"),
    [
        (Api(conditions=[{"type": "Denied", "message": "not\ntoday"}]), "denied by the cluster: not today"),
        (Api(conditions=[{"type": "Failed", "reason": "SignerValidationFailure"}]), "SignerValidationFailure"),
        (Api(loses=True), "was deleted while it was waited for"),
        (Api(certificate("root")), "the cluster has signed something else"),
        (Api(certificate(USER, GROUP, "more")), "the cluster has signed something else"),
        (Api(certificate(key=AUTHORITY)), "the cluster has signed something else"),
    ],
)
def test_a_cluster_that_does_not_sign_is_named_and_nothing_stays(api: Api, why: str) -> None:
    with pytest.raises(KubeError, match=why):
        signing.sign(signer(api), {USER: request()}, ORDER)
    assert api.objects == {}


def test_waiting_ends_and_says_for_whom() -> None:
    api = Api(certificate())
    with pytest.raises(
        KubeError, match=rf"no certificate within 0 s for {USER} \(converged-0\): nobody has approved it"
    ):
        signing.sign(signer(api), {USER: request()}, ORDER._replace(approve=False, wait=0))
    assert (api.objects, api.approved) == ({}, [])


def test_requests_that_were_left_are_deleted_by_their_label() -> None:
    api = Api()
    signer(api).create(signing.request_object(request(), ORDER))
    assert kube_certificate.clean(signer(api), {}, check=True) == {"changed": True, "deleted": ["converged-0"]}
    assert kube_certificate.clean(signer(api), {}, check=False)["changed"]
    assert kube_certificate.clean(signer(api), {}, check=False) == {"changed": False, "deleted": []}


class Known(Api):
    """An API with a kubeconfig that names its authority."""

    AUTHORITY = base64.b64encode(certificate().encode()).decode()

    def do_config(self, _words: list[str], _text: None) -> str:
        data = self.AUTHORITY
        return json.dumps(
            {"clusters": [{"cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": data}}]}
        )


def test_where_the_cluster_is_and_who_signs_is_read_without_a_request() -> None:
    api = Known()
    found = signing.known_by(signer(api), None, [], name="admin.conf")
    assert found["api_server"] == "https://10.0.0.1:6443"
    assert found == signing.known_by(signer(api), None, found["ca_hashes"], name="admin.conf")
    assert (
        signing.known_by(signer(api), "10.9.9.9:6443", [], name="admin.conf")["api_server"] == "https://10.9.9.9:6443"
    )
    assert not api.objects
    with pytest.raises(KubeError):
        signing.known_by(signer(api), None, [f"sha256:{'0' * 64}"], name="admin.conf")
