# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch controllers' identity: how it comes and goes, and that its key allows no more than it may."""

from __future__ import annotations

import base64
import datetime
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from e2e import playing
from e2e.playing import until
from testbed import api, binaries
from testbed.controlplane import admin, audit_log
from testbed.kube_api import JSON_PATCH, MERGE_PATCH, Api, ApiError, Json
from testbed.kube_audit import read_audit

CONF = "/etc/converged/controller.kubeconfig"
USER, GROUP = "converged:controller:ctl", "converged:controllers"
TAINT = {"key": "converged.hpc/batch", "effect": "NoSchedule"}
OTHER = {"key": "example.org/site", "effect": "NoSchedule"}
MODE = "node-restriction.kubernetes.io/converged-share-mode"
NODE, NODES = "/api/v1/nodes/held", "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
APPLY = "application/apply-patch+yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OBJECTS = [
    f"{RBAC}/clusterroles/converged-controller",
    f"{RBAC}/clusterrolebindings/converged-controller",
    f"{ADMISSION}/validatingadmissionpolicies/converged-controller",
    f"{ADMISSION}/validatingadmissionpolicybindings/converged-controller",
]
# What everybody may ask about himself, and what the identity may besides.
MAY = {
    "selfsubjectreviews.authentication.k8s.io": {"create"},
    "selfsubjectaccessreviews.authorization.k8s.io": {"create"},
    "selfsubjectrulesreviews.authorization.k8s.io": {"create"},
    "nodes": {"get", "list", "watch", "patch"},
    "pods": {"list"},
    "pods/eviction": {"create"},
    "events": {"create"},
}


class Site(playing.Site):
    """An administrator's folder: the controllers of the bed, and the API reached from where Ansible runs."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.open: list[Api] = []
        self.ask_kubernetes_from_here()

    def play(self, *options: str, tasks: str = "main", check: bool = True, **variables: Any) -> playing.Said:
        """The role, or its way back."""
        kubectl = {"kubectl": str(binaries.build_binaries() / "kubectl")}
        defaults = {"group/converged.hpc.kube": kubectl}
        plays = [playing.play("converged_controllers", f"drain_access/{tasks}", module_defaults=defaults)]
        return self.run(plays, *options, check=check, **variables)

    def restore(self) -> playing.Said:
        return self.play(tasks="restore")

    def restore_all(self) -> None:
        """Take the role back where there is something of it."""
        if self.left():
            self.restore()

    def conf(self) -> str:
        return self.ask("ctl", "cat", CONF)

    def left(self) -> str:
        """What there is of the identity on the controller."""
        return self.ask("ctl", "find", "/etc/converged", "-name", "controller*", check=False)

    def identity(self) -> Api:
        """A connection with the controller's own key, as a thief would have it."""
        stolen = self.folder.with_suffix(".stolen")  # not where a test looks for copies of the key
        stolen.write_text(self.conf(), encoding="utf-8")
        self.open.append(Api.from_kubeconfig(stolen))
        return self.open[-1]


@pytest.fixture(scope="module")
def cluster(bed: api.RunningBed) -> Iterator[Api]:
    connection = admin(bed.bed)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def site(bed: api.RunningBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site without the role, which is taken back after the last test."""
    found = Site(bed, tmp_path_factory.mktemp("drain_access"))
    found.restore_all()
    yield found
    for connection in found.open:
        connection.close()
    found.restore_all()


@pytest.fixture(scope="module")
def installed(site: Site) -> str:
    """What a run of the role has said that said as much as it can."""
    said = site.play("-vvvvv", "--diff")
    until_may(site.identity(), 200)
    return said.out + said.err


@pytest.fixture
def bare(site: Site) -> Iterator[Site]:
    """The site without the role before and after a test."""
    site.restore_all()
    yield site
    site.restore_all()


@pytest.fixture
def held(cluster: Api) -> Iterator[Json]:
    """A converted Node without a machine, with a taint, a label and an annotation of the site, and a pod on it."""
    labels = {"example.org/rack": "7", MODE: "handover"}
    meta = {"name": "held", "labels": labels, "annotations": {"example.org/note": "site"}}
    cluster.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": [OTHER]}})
    container = {"name": "main", "image": "localhost/busybox:local"}
    spec = {"nodeName": "held", "containers": [container], "terminationGracePeriodSeconds": 0}
    cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "guest"}, "spec": spec})
    yield cluster.get(NODE)
    cluster.delete(f"{PODS}/guest?gracePeriodSeconds=0", missing_ok=True)
    cluster.delete(NODE, missing_ok=True)


def recap(said: playing.Said) -> dict[str, int]:
    """What the play did on the controller."""
    return said.recap()["ctl"]


def status(connection: Api, method: str, path: str, body: Json | list[Json] | None = None, kind: str = "") -> int:
    """200, or the status of the refusal."""
    data = None if body is None else json.dumps(body).encode()
    try:
        connection.send(method, path, data, content_type=kind or "application/json")
    except ApiError as error:
        return error.status
    return 200


def until_may(identity: Api, expected: int) -> None:
    """Rights take effect a moment after they are written."""
    until(lambda: status(identity, "GET", NODES) == expected, f"nodes are answered by {expected}")


def there(cluster: Api, path: str) -> bool:
    return status(cluster, "GET", path) == 200


def requests_left(cluster: Api) -> list[Json]:
    return cluster.items(f"{CSRS}?labelSelector=app.kubernetes.io%2Fmanaged-by%3Dconverged.hpc")


def certificate_of(conf: str) -> x509.Certificate:
    data = json.loads(conf)["users"][0]["user"]["client-certificate-data"]
    return x509.load_pem_x509_certificate(base64.b64decode(data))


@pytest.mark.usefixtures("installed")
def test_the_identity_can_do_exactly_what_it_may(site: Site, cluster: Api, held: Json) -> None:
    identity = site.identity()
    until_may(identity, 200)
    kubectl = ["/opt/testbed/bin/kubectl", "--kubeconfig", CONF, "auth"]
    who = json.loads(site.ask("ctl", *kubectl, "whoami", "-o", "json"))["status"]["userInfo"]
    assert (who["username"], who["groups"]) == (USER, [GROUP, "system:authenticated"])
    listed = site.ask("ctl", *kubectl, "can-i", "--list").splitlines()[1:]
    rows = [re.fullmatch(r"(\S+) +\[\] +\[\] +\[(.*)\]", line) for line in listed]
    may: dict[str, set[str]] = {}
    for row in rows:
        if row:
            may.setdefault(row[1], set()).update(row[2].split())
    assert may == MAY

    await_policy(identity)
    held_by = {"converged.hpc/held-by": "slurm/7/0", "converged.hpc/held-until": "slurm/7/0=2099-11-23T12:00:00Z"}
    note: Json = {"metadata": {"annotations": dict(held_by)}}
    ours: list[Json] = [{"op": "add", "path": "/spec/taints/-", "value": TAINT}]
    assert status(identity, "PATCH", NODE, ours, JSON_PATCH) == 200
    assert status(identity, "PATCH", NODE, note, MERGE_PATCH) == 200
    for body, kind in FORBIDDEN_PATCHES:
        assert status(identity, "PATCH", NODE, body, kind) in (403, 422), body
    for method, path, sent in FORBIDDEN_REQUESTS:
        assert status(identity, method, path, sent) == 403, (method, path)
    applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}
    assert status(identity, "PATCH", f"{NODES}/new?fieldManager=thief", applied, APPLY) == 403

    node = cluster.get(NODE)
    assert node["metadata"]["labels"] == held["metadata"]["labels"]
    assert node["metadata"]["annotations"] == {**held["metadata"]["annotations"], **held_by}
    assert [one for one in node["spec"]["taints"] if one["key"] in (TAINT["key"], OTHER["key"])] == [OTHER, TAINT]
    assert "unschedulable" not in node["spec"]

    at = [one["key"] for one in node["spec"]["taints"]].index(TAINT["key"])
    assert status(identity, "PATCH", NODE, [{"op": "remove", "path": f"/spec/taints/{at}"}], JSON_PATCH) == 200
    note["metadata"]["annotations"] = dict.fromkeys(held_by)
    assert status(identity, "PATCH", NODE, note, MERGE_PATCH) == 200
    cluster.patch(NODE, {"metadata": {"labels": {MODE: None}}})  # as the way back leaves a Node that stays
    note["metadata"]["annotations"] = {"converged.hpc/held-by": "slurm/8/0"}
    assert status(identity, "PATCH", NODE, note, MERGE_PATCH) in (403, 422)
    assert status(identity, "PATCH", NODE, ours, JSON_PATCH) in (403, 422)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guest", "namespace": "default"}}
    assert status(identity, "POST", f"{PODS}/guest/eviction", eviction) == 200
    done = [event for event in read_audit(audit_log(site.bed.bed)) if event.user == USER and event.code < 400]
    assert done
    allowed = {name.partition(".")[0]: verbs for name, verbs in MAY.items()}
    allowed[""] = {"get"}  # kubectl asks which resources there are
    assert [event for event in done if event.verb not in allowed.get(event.resource, ())] == []


FORBIDDEN_PATCHES: list[tuple[Json | list[Json], str]] = [
    ({"metadata": {"labels": {"example.org/rack": "8"}}}, MERGE_PATCH),
    ({"metadata": {"labels": {MODE: "placeholder"}}}, MERGE_PATCH),
    ({"metadata": {"labels": {MODE: None}}}, MERGE_PATCH),
    ({"metadata": {"labels": None}}, MERGE_PATCH),
    ({"metadata": {"annotations": {"example.org/note": "thief"}}}, MERGE_PATCH),
    ({"metadata": {"annotations": {"converged.hpc/leases": "[]"}}}, MERGE_PATCH),
    ({"metadata": {"annotations": None}}, MERGE_PATCH),
    ({"metadata": {"finalizers": ["example.org/stay"]}}, MERGE_PATCH),
    ({"spec": {"unschedulable": True}}, MERGE_PATCH),
    ({"spec": {"providerID": "thief://1"}}, MERGE_PATCH),
    ({"spec": {"podCIDR": "10.9.9.0/24", "podCIDRs": ["10.9.9.0/24"]}}, MERGE_PATCH),
    ({"spec": {"taints": None}}, MERGE_PATCH),
    ({"spec": {"taints": [TAINT]}}, MERGE_PATCH),
    ([{"op": "add", "path": "/spec/taints/-", "value": {**TAINT, "effect": "NoExecute"}}], JSON_PATCH),
    ([{"op": "add", "path": "/spec/taints/-", "value": {**OTHER, "effect": "NoExecute"}}], JSON_PATCH),
]
FORBIDDEN_REQUESTS: list[tuple[str, str, Json | None]] = [
    ("DELETE", NODE, None),
    ("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}),
    ("PUT", NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "held"}}),
    ("GET", f"{NODES}/held/proxy/pods", None),
    ("DELETE", f"{PODS}/guest", None),
    ("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "thief"}}),
    ("GET", f"{PODS}/guest/log", None),
    ("GET", "/api/v1/secrets", None),
    ("GET", "/api/v1/namespaces/kube-system/secrets", None),
    ("GET", "/api/v1/configmaps", None),
    ("POST", CSRS, {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}),
]


def await_policy(identity: Api) -> None:
    """Admission policies take effect a moment after they are created."""
    body = {"metadata": {"labels": {"example.org/rack": "8"}}}
    until(lambda: status(identity, "PATCH", f"{NODE}?dryRun=All", body, MERGE_PATCH) != 200, "something is refused")


@pytest.mark.usefixtures("installed")
def test_the_policy_has_no_warnings_of_its_own(cluster: Api) -> None:
    path = f"{ADMISSION}/validatingadmissionpolicies/converged-controller"
    until(lambda: "observedGeneration" in cluster.get(path).get("status", {}), "the policy is judged")
    assert cluster.get(path)["status"].get("typeChecking", {}).get("expressionWarnings", []) == []


def test_the_key_is_nowhere_but_in_its_file(site: Site, installed: str) -> None:
    text = installed + site.ctl("journalctl --no-pager")
    encoded = json.loads(site.conf())["users"][0]["user"]["client-key-data"]
    body = base64.b64decode(encoded).decode().splitlines()[1]
    assert "+key: (not shown)" in text
    assert CONF in text
    assert [secret for secret in ("PRIVATE KEY", encoded, body) if secret in text] == []
    copies = "".join(path.read_text(errors="replace") for path in site.folder.rglob("*") if path.is_file())
    assert [secret for secret in ("PRIVATE KEY", encoded, body) if secret in copies] == []
    found = site.ask("ctl", "grep", "-rlF", "-e", encoded, "-e", body, "/etc", "/var/lib", "/tmp", "/run", check=False)
    assert found.split() == [CONF]


@pytest.mark.usefixtures("installed")
def test_a_certificate_is_renewed_before_it_ends(site: Site) -> None:
    before = site.conf()
    put(site, nearly_over(site, before))
    until_may(site.identity(), 200)
    assert "it expires on" in site.play("--check", "-v").out
    site.play()
    renewed = certificate_of(site.conf())
    assert renewed.not_valid_after_utc > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=300)
    assert renewed.public_key() != certificate_of(before).public_key()
    until_may(site.identity(), 200)
    assert recap(site.play())["changed"] == 0


def nearly_over(site: Site, conf: str) -> str:
    """The same kubeconfig with a certificate of the cluster's own authority that has an hour left."""
    old = certificate_of(conf)
    authority = [site.ask("kube", "cat", f"/etc/kubernetes/pki/ca.{end}").encode() for end in ("crt", "key")]
    key: Any = load_pem_private_key(authority[1], None)
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        x509.load_pem_x509_certificate(authority[0]).subject, old.subject, old.public_key(), x509.random_serial_number()
    )
    builder = builder.not_valid_before(now - datetime.timedelta(days=9)).not_valid_after(
        now + datetime.timedelta(hours=1)
    )
    client = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])
    made = builder.add_extension(client, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    document = json.loads(conf)
    document["users"][0]["user"]["client-certificate-data"] = base64.b64encode(made).decode()
    return json.dumps(document, indent=2) + "\n"


def put(site: Site, conf: str) -> None:
    site.ctl(f"cat > {CONF}", input=conf)


# In every change molecule (share) goes there and back and compares the hosts, and test_site_life what the API has.
@pytest.mark.soak
def test_plan_run_second_run_and_the_way_back(bare: Site, cluster: Api) -> None:
    plan = bare.play("--check", "--diff")
    assert recap(plan)["changed"] > 0
    assert bare.left() == ""
    assert not any(there(cluster, path) for path in OBJECTS)

    bare.play()
    assert all(there(cluster, path) for path in OBJECTS)
    assert requests_left(cluster) == []
    assert bare.ask("ctl", "stat", "-c", "%a %U", CONF) == "600 root\n"
    assert [name for name in bare.left().split() if "pending" in name] == []
    identity = bare.identity()
    until_may(identity, 200)

    again = recap(bare.play())
    assert (again["changed"], again["failed"]) == (0, 0)
    assert again["ok"] <= 4
    assert recap(bare.play("--check"))["changed"] == 0

    bare.restore()
    assert bare.left() == ""
    assert not any(there(cluster, path) for path in OBJECTS)
    assert requests_left(cluster) == []
    until_may(identity, 403)
    assert recap(bare.restore())["changed"] == 0


# In every change tests/unit has the modules' answers: _kube/test_kube_cluster for another authority, and
# modules/test_kube_certificate_requests for a request that is denied or never approved; test_node_kubelet has the
# first on a real node, test_site_refusals a denial at a whole site.
@pytest.mark.soak
def test_another_authority_is_refused_before_anything_is_made(bare: Site, cluster: Api) -> None:
    said = bare.play(check=False, drain_access_ca_hashes=["sha256:" + "a" * 64])
    assert said.rc != 0
    assert "is not that of the cluster" in said.out
    assert bare.left() == ""
    assert not any(there(cluster, path) for path in OBJECTS)


@pytest.mark.soak
def test_a_denied_request_is_a_clear_error_and_the_next_run_goes_on(bare: Site, cluster: Api) -> None:
    denier = threading.Thread(target=deny_the_next, args=(bare.bed,))
    denier.start()
    said = bare.play(check=False, drain_access_approve=False, drain_access_timeout=300)
    denier.join(timeout=300)
    assert said.rc != 0
    assert f"certificate request of {USER}: denied by the cluster: not today" in said.out
    assert requests_left(cluster) == []
    assert CONF not in bare.left().split()
    bare.play()
    until_may(bare.identity(), 200)


def deny_the_next(bed: api.RunningBed) -> None:
    """As a site's own approver would."""
    connection = admin(bed.bed)
    until(lambda: bool(requests_left(connection)), "somebody asks for a certificate")
    condition = {"type": "Denied", "status": "True", "reason": "Site", "message": "not today"}
    request = {**requests_left(connection)[0], "status": {"conditions": [condition]}}
    path = f"{CSRS}/{request['metadata']['name']}/approval"
    connection.send("PUT", path, json.dumps(request).encode())
    connection.close()


@pytest.mark.soak
def test_nobody_approving_is_waited_for_no_longer_than_said(bare: Site, cluster: Api) -> None:
    said = bare.play(check=False, drain_access_approve=False, drain_access_timeout=2)
    assert said.rc != 0
    assert "no certificate within 2 s" in said.out
    assert "nobody has approved it" in said.out
    assert requests_left(cluster) == []
