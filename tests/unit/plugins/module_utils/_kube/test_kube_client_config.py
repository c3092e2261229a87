# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided about certificates and kubeconfigs, judged by the field's own library."""

from __future__ import annotations

import datetime
import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._kube.certificates import x509
from ansible_collections.converged.hpc.plugins.module_utils._kube.certificates.certificate import pins
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.identity import client_config
from ansible_collections.converged.hpc.plugins.module_utils._kube.identity.client_config import Held, Wanted
from cryptography import x509 as field
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

USER, GROUPS = "converged:controller:ctl", ("converged:controllers",)
IDENTITY = x509.Subject(USER, GROUPS)
DAY = 86400
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
BEGIN = START.timestamp()
KEY, OTHER_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def name(user: str, groups: t.Sequence[str], *more: field.NameAttribute) -> field.Name:
    parts = [field.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return field.Name([*parts, field.NameAttribute(NameOID.COMMON_NAME, user), *more])


def certificate(
    *,
    user: str = USER,
    groups: t.Sequence[str] = GROUPS,
    days: int = 90,
    key: ec.EllipticCurvePrivateKey = KEY,
) -> str:
    subject = name(user, groups)
    builder = field.CertificateBuilder(subject, subject, key.public_key(), field.random_serial_number())
    end = START + datetime.timedelta(days=days)
    made = builder.not_valid_before(START).not_valid_after(end).sign(OTHER_KEY, hashes.SHA256())
    return made.public_bytes(Encoding.PEM).decode()


def public(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


AUTHORITY, OTHER_AUTHORITY = certificate(user="kubernetes", groups=()), certificate(user="other", key=OTHER_KEY)
WANTED = Wanted(IDENTITY, "https://api:6443", AUTHORITY, renew_before=20 * DAY)
HELD = Held("https://api:6443", AUTHORITY, certificate(), "the key\n")


@pytest.mark.parametrize("days", [1, 365 * 10, 365 * 30])
def test_a_certificate_is_read_as_the_fields_own_library_reads_it(days: int) -> None:
    found = x509.read_certificate(certificate(groups=("a", "b"), days=days), name="it")
    assert found == (x509.Subject(USER, ("a", "b")), public(KEY), BEGIN, BEGIN + days * DAY)


def test_a_request_is_read_with_all_that_it_asks_for() -> None:
    unit = field.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "more")
    second = field.NameAttribute(NameOID.COMMON_NAME, "root")
    made = field.CertificateSigningRequestBuilder(name(USER, ("a",), unit, second)).sign(KEY, hashes.SHA256())
    found = x509.read_request(made.public_bytes(Encoding.PEM).decode(), name="it")
    assert found == (x509.Subject("root", ("a",), 2), public(KEY))


@pytest.mark.parametrize("pem", ["", AUTHORITY, AUTHORITY.replace("CERTIFICATE", "CERTIFICATE REQUEST")])
def test_what_is_no_request_is_named(pem: str) -> None:
    with pytest.raises(KubeError, match=r"^it: (holds no PEM|is no) certificate request$"):
        x509.read_request(pem, name="it")


@pytest.mark.parametrize("name", ["", "system:admin", "system:masters", "a\nO = b", "Upper", "a b", "x" * 65, "-rf"])
def test_no_identity_of_the_clusters_own_and_no_odd_name_is_asked_for(name: str) -> None:
    with pytest.raises(KubeError, match="identity"):
        x509.identity(name, ())
    with pytest.raises(KubeError, match="identity"):
        x509.identity("user", [name])


@pytest.mark.parametrize(
    ("held", "days", "key", "why"),
    [
        (None, 0, KEY, "there is none yet"),
        (HELD, 0, KEY, ""),
        (HELD, 69, KEY, ""),
        (HELD, 70, KEY, "it expires on 2026-04-01 00:00:00 UTC"),
        (HELD, 90, KEY, "it has expired on 2026-04-01 00:00:00 UTC"),
        (HELD, 0, OTHER_KEY, "it is for another key"),
        (HELD._replace(server="https://elsewhere:6443"), 0, KEY, ""),
        (HELD._replace(authority=OTHER_AUTHORITY), 0, KEY, "the cluster's authority has changed"),
        (HELD._replace(authority="torn"), 0, KEY, "the cluster's authority has changed"),
        (HELD._replace(certificate="torn"), 0, KEY, "certificate: holds no PEM certificate"),
        (HELD._replace(certificate=certificate(user="me")), 0, KEY, f"it is for user 'me' in groups '{GROUPS[0]}'"),
        (HELD._replace(certificate=certificate(groups=())), 0, KEY, f"it is for user '{USER}' in groups none"),
    ],
)
def test_a_new_certificate_is_asked_for_only_with_a_reason(
    held: Held | None, days: int, key: ec.EllipticCurvePrivateKey, why: str
) -> None:
    assert client_config.why_new(held, WANTED, key=public(key), now=BEGIN + days * DAY) == why


def test_a_signer_that_gives_little_time_is_not_asked_again_and_again() -> None:
    short = x509.read_certificate(certificate(days=3), name="it")
    assert client_config.renewal(short, 90 * DAY) == BEGIN + 2 * DAY


@pytest.mark.parametrize(
    ("pem", "days", "why"),
    [
        (certificate(), 1, ""),
        (certificate(user="me"), 1, "certificate: is for user 'me'"),
        (certificate(key=OTHER_KEY), 1, "is for another key than the one that waits here: run again"),
        (certificate(), -1, "the clock of this host says 2025-12-31 00:00:00 UTC: set the clock"),
        (certificate(), 91, "set the clock"),
        ("", 1, "holds no PEM certificate"),
    ],
)
def test_only_the_certificate_that_was_asked_for_is_taken(pem: str, days: int, why: str) -> None:
    now = BEGIN + days * DAY
    if not why:
        assert client_config.accept(pem, WANTED, key=public(KEY), now=now).subject == IDENTITY
        return
    with pytest.raises(KubeError, match=why):
        client_config.accept(pem, WANTED, key=public(KEY), now=now)


def test_only_authorities_that_are_pinned_are_trusted() -> None:
    bundle = f"a comment\n{AUTHORITY}{OTHER_AUTHORITY}"
    (pin,) = pins(AUTHORITY, name="it")
    assert client_config.pinned(bundle, [pin], name="ca") == AUTHORITY
    with pytest.raises(KubeError, match=f"ca: CA hash {pin} is not the one that is pinned"):
        client_config.pinned(AUTHORITY, ["sha256:" + "0" * 64], name="ca")


def test_what_is_written_is_read_back_and_what_is_shown_has_no_key() -> None:
    text = client_config.render(HELD, IDENTITY)
    assert client_config.parse(text) == HELD
    assert json.loads(text)["users"][0]["name"] == USER
    shown = client_config.summary(HELD, IDENTITY)
    assert "valid until: 2026-04-01 00:00:00 UTC\nkey: (not shown)\n" in shown
    assert "the key" not in shown
    assert client_config.summary(None, IDENTITY) == ""


@pytest.mark.parametrize("text", ["", "apiVersion: v1\n", "[]", "{}", '{"clusters": [], "users": []}'])
def test_a_file_that_is_not_ours_is_no_kubeconfig_of_ours(text: str) -> None:
    assert client_config.parse(text) is None
