# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube_client_config with real openssl and a real record, below a folder of the test's own."""

from __future__ import annotations

import datetime
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._kube.certificates.certificate import pins
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.modules import kube_client_config
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

USER, GROUPS = "converged:controller:ctl", ["converged:controllers", "other"]
KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])


def signed(subject: x509.Name, key: t.Any, *, days: int = 365) -> str:
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(NAME, subject, key, x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(minutes=5))
    made = builder.not_valid_after(now + datetime.timedelta(days=days)).sign(KEY, hashes.SHA256())
    return made.public_bytes(Encoding.PEM).decode()


AUTHORITY = signed(NAME, KEY.public_key())
OTHER = signed(NAME, ec.generate_private_key(ec.SECP256R1()).public_key())


def sign(csr: str) -> str:
    request = x509.load_pem_x509_csr(csr.encode())
    assert request.is_signature_valid
    return signed(request.subject, request.public_key())


class Host:
    """One host: what the module is called with, and its files."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "etc/controller.kubeconfig"
        self.pending = folder / "etc/controller.kubeconfig.pending-key"
        self.record = folder / "record"
        self.params: dict[str, t.Any] = {
            "state": "present",
            "path": str(self.path),
            "user": USER,
            "groups": GROUPS,
            "api_server": "https://10.0.0.1:6443",
            "ca": AUTHORITY,
            "ca_hashes": pins(AUTHORITY, name="ca"),
            "certificate": "",
            "renew_before": 90 * 86400,
            "role": "drain_access",
            "openssl": "openssl",
            "record_dir": str(self.record),
        }

    def call(self, *, check: bool = False, **params: t.Any) -> dict[str, t.Any]:
        result = kube_client_config.run({**self.params, **params}, check=check)
        assert "PRIVATE" not in json.dumps(result)
        return result

    def enrol(self) -> str:
        csr = self.call()["csr"]
        self.call(certificate=sign(csr))
        return self.path.read_text()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_key_a_request_a_kubeconfig_and_the_way_back(host: Host) -> None:
    foretold = host.call(check=True)
    assert (foretold["changed"], foretold["csr"], foretold["reason"]) == (True, "", "there is none yet")
    assert not host.path.parent.exists()
    assert not host.record.exists()

    asked = host.call()
    request = x509.load_pem_x509_csr(asked["csr"].encode())
    named = [(NameOID.ORGANIZATION_NAME, group) for group in GROUPS]
    assert [(part.oid, part.value) for part in request.subject] == [*named, (NameOID.COMMON_NAME, USER)]
    assert host.pending.stat().st_mode & 0o777 == 0o600
    assert not host.path.exists()

    done = host.call(certificate=sign(asked["csr"]))
    assert done["changed"]
    assert done["diff"][0]["after"].endswith("key: (not shown)\n")
    assert host.path.stat().st_mode & 0o777 == 0o600
    assert not host.pending.exists()
    for check in (True, False):
        again = host.call(check=check)
        assert (again["changed"], again["csr"], again["diff"]) == (False, "", [])

    assert host.call(state="restored")["left"] == []
    assert not host.path.parent.exists()


def test_a_run_that_was_killed_goes_on_with_its_key(host: Host) -> None:
    first, second = host.call()["csr"], host.call()["csr"]
    keys = [x509.load_pem_x509_csr(csr.encode()).public_key() for csr in (first, second)]
    assert keys[0] == keys[1]
    host.call(certificate=sign(first))
    assert not host.call()["changed"]


def test_a_torn_key_is_made_anew_and_its_certificate_is_refused(host: Host) -> None:
    old = host.call()["csr"]
    host.pending.write_text("torn")
    host.call()
    with pytest.raises(KubeError, match="is for another key than the one that waits here: run again"):
        host.call(certificate=sign(old))
    host.pending.unlink()
    with pytest.raises(KubeError, match=r"pending-key: is gone, and with it the key of the certificate: run again"):
        host.call(certificate=sign(old))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"groups": ["converged:controllers"]}, "it is for user"),
        ({"user": "converged:controller:new"}, "it is for user"),
        ({"ca": OTHER, "ca_hashes": pins(OTHER, name="ca")}, "the cluster's authority has changed"),
    ],
)
def test_what_has_changed_needs_a_new_certificate_and_the_old_one_serves_until_then(
    host: Host, change: dict[str, t.Any], why: str
) -> None:
    before = host.enrol()
    asked = host.call(**change)
    assert asked["reason"].startswith(why)
    assert host.path.read_text() == before
    host.call(certificate=sign(asked["csr"]), **change)
    assert host.path.read_text() != before
    assert not host.call(**change)["changed"]


def test_another_address_needs_no_new_certificate(host: Host) -> None:
    before = json.loads(host.enrol())
    moved = host.call(api_server="10.0.0.2:6443")
    assert (moved["changed"], moved["csr"]) == (True, "")
    after = json.loads(host.path.read_text())
    assert after["clusters"][0]["cluster"].pop("server") == "https://10.0.0.2:6443"
    before["clusters"][0]["cluster"].pop("server")
    assert after == before


def test_a_file_of_the_site_comes_back(host: Host) -> None:
    host.path.parent.mkdir()
    host.path.write_text("the site's own\n")
    host.enrol()
    host.call(state="restored")
    assert host.path.read_text() == "the site's own\n"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ca_hashes": ["sha256:" + "0" * 64]}, "is not the one that is pinned"),
        ({"ca_hashes": []}, "is not the one that is pinned"),
        ({"ca_hashes": ["me"]}, "expected 'sha256:'"),
        ({"ca": "none"}, "ca: holds no PEM certificate"),
        ({"user": "system:admin"}, "identity 'system:admin'"),
        ({"groups": ["system:masters"]}, "identity 'system:masters'"),
        ({"api_server": "http://10.0.0.1"}, "expected https://host:port"),
        ({"openssl": "/no/openssl"}, "/no/openssl: command not found"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_cannot_be_meant_is_refused_before_anything_is_made(
    host: Host, change: dict[str, t.Any], why: str, check: bool
) -> None:
    with pytest.raises(KubeError, match=why):
        host.call(check=check, **change)
    assert not host.path.parent.exists()
    assert not host.record.exists()
