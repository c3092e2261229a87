# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pin of a certificate is what the field's own library says."""

from __future__ import annotations

import datetime
import hashlib

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._kube.certificates import certificate
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

START = datetime.datetime(2026, 1, 1)


def authority(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> tuple[str, str]:
    """A certificate and its pin."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = (
        builder.not_valid_before(START).not_valid_after(START + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    )
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return made.public_bytes(Encoding.PEM).decode(), "sha256:" + hashlib.sha256(der).hexdigest()


def test_pins_of_a_bundle_come_in_its_order() -> None:
    one, pin_one = authority(ec.generate_private_key(ec.SECP256R1()))
    two, pin_two = authority(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    assert certificate.pins(f"a comment\n{one}{two}", name="ca.crt") == [pin_one, pin_two]


@pytest.mark.parametrize(
    "pem",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n\n-----END CERTIFICATE-----",
    ],
)
def test_what_is_no_certificate_is_named(pem: str) -> None:
    with pytest.raises(KubeError, match=r"ca\.crt: (holds no PEM|is no X.509)"):
        certificate.pins(pem, name="ca.crt")


@pytest.mark.parametrize("pin", ["", "sha256:", "sha1:" + "a" * 64, "sha256:" + "A" * 64, "sha256:" + "a" * 63])
def test_a_pin_is_written_in_one_way(pin: str) -> None:
    with pytest.raises(KubeError, match="expected 'sha256:'"):
        certificate.check_pin(pin)
