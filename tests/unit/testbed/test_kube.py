# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the control plane and its nodes are told."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path

import pytest
import yaml
from testbed import binaries, controlplane, join, kube_audit, kube_config, kube_node
from testbed.cgroups import Way
from testbed.controlplane import TOKEN, control_plane_files, join_token, kube_dir
from testbed.errors import BedError
from testbed.kube_api import ApiError, condition_is, phase_is, read_kubeconfig, refusal
from testbed.kube_kwok import kwok_yaml
from testbed.state import Bed

# A self-signed certificate, and the hash of its public key as openssl has it.
AUTHORITY = b"""\
-----BEGIN CERTIFICATE-----
MIIBgDCCASegAwIBAgIUM1vjWEHvjTIhFGSdGICF0Cqt6l0wCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjExMjQ3MzBaGA8yMTI2MTAy
ODEyNDczMFowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABMv5OE7adRV9dE1/C1mMIxcl74++dUzoIWMZXcIqhje7XJ3j4Jgl
tkSjp8QX0pC2PZE/O9ZfkNf4vZvTp+v+EnujUzBRMB0GA1UdDgQWBBQ+a/kbIC1c
fqetMxNJBpRUayA/7DAfBgNVHSMEGDAWgBQ+a/kbIC1cfqetMxNJBpRUayA/7DAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIHjmNe0lkKmfZAUaLAEo
1zgt81l9ZSGT2VUTPX6VsjEJAiBCjYPf+XFOVV9ZF1MFzsUj/+yCcKLb2yvkg6AK
qOc4gA==
-----END CERTIFICATE-----
"""
AUTHORITY_HASH = "sha256:82fb17b313ab0237f7c787006b3fd71ecb07c0aff3f662c74f2102c6d327cbcd"


def kubeadm(way: Way = Way.V1) -> list[dict[str, object]]:
    text = kube_config.kubeadm_yaml(ip="10.89.7.3", token="abcdef.0123456789abcdef", version="1.36.3", way=way)
    return list(yaml.safe_load_all(text))


def test_kubeadm_is_told_where_the_cluster_is_and_which_version() -> None:
    init, cluster, _unused = kubeadm()
    assert init["localAPIEndpoint"] == {"advertiseAddress": "10.89.7.3", "bindPort": 6443}
    assert cluster["controlPlaneEndpoint"] == "10.89.7.3:6443"
    assert cluster["kubernetesVersion"] == "v1.36.3"
    assert cluster["certificatesDir"] == "/etc/kubernetes/pki"


@pytest.mark.parametrize("way", [Way.V1, Way.V2])
def test_kubelets_enforce_limits_where_the_machine_can(way: Way) -> None:
    kubelet = kubeadm(way)[2]
    assert kubelet["cgroupsPerQOS"] is True
    assert "enforceNodeAllocatable" not in kubelet
    assert "disable_cgroup = false" in contents(way)["/etc/containerd/config.toml"]


def test_kubelets_and_containerd_ask_for_no_limits_where_there_are_no_controllers() -> None:
    kubelet = kubeadm(Way.PRIVATE_V2)[2]
    assert (kubelet["cgroupsPerQOS"], kubelet["enforceNodeAllocatable"]) == (False, ["none"])
    assert "disable_cgroup = true" in contents(Way.PRIVATE_V2)["/etc/containerd/config.toml"]


def contents(way: Way) -> dict[str, str]:
    pods = IPv4Network("10.244.1.0/24")
    return {file.path: str(file.content) for file in kube_node.node_files(pods=pods, way=way)}


def test_each_unit_starts_after_what_it_needs_so_that_it_stops_before_it() -> None:
    units = kube_config.units(ip="10.89.7.3")
    assert "After=" not in units["etcd"]
    assert "After=etcd.service" in units["kube-apiserver"]
    for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
        assert "After=kube-apiserver.service" in units[name]


def test_units_are_one_command_line_with_flags_that_need_no_quotes() -> None:
    for name, text in kube_config.units(ip="10.89.7.3").items():
        section = text.split("[Service]")[1].split("[Install]")[0]
        command = section.split("ExecStart=")[1].split("\nRestart=")[0].replace("\\\n", " ")
        assert command.split()[0] == f"/opt/testbed/bin/{name}"
        assert shlex.split(command) == command.split()


def test_both_the_api_server_and_the_scheduler_know_gangs() -> None:
    for flags in (kube_config.apiserver_flags(ip="10.89.7.3"), kube_config.scheduler_flags()):
        assert flags["feature-gates"] == "GenericWorkload=true,GangScheduling=true"


def test_the_audit_log_has_contents_for_pods_and_passes_over_leases() -> None:
    rules = json.loads(kube_config.audit_policy())["rules"]
    assert rules[-1] == {"level": "Metadata"}
    request, of_kubelets = (rule for rule in rules if rule["level"] == "Request")
    assert "pods/binding" in request["resources"][0]["resources"]
    assert of_kubelets["resources"][0]["resources"] == ["pods/status", "nodes/status"]
    assert "system:nodes" in of_kubelets["userGroups"]
    assert [rule for rule in rules if rule["level"] == "None" and "leases" in str(rule)]


def test_kwok_has_a_stage_for_nodes_too_because_it_watches_no_pods_without() -> None:
    stages = list(yaml.safe_load_all(kwok_yaml()))
    assert {stage["spec"]["resourceRef"]["kind"] for stage in stages} == {"Node", "Pod"}


def test_units_start_at_boot_but_kwok_does_not(paper_bed: Callable[..., Bed]) -> None:
    enabled = {
        Path(file.path).name for file in control_plane_files(paper_bed()) if "multi-user.target.wants" in file.path
    }
    assert enabled == {f"{name}.service" for name in kube_config.UNITS}


def test_every_node_has_a_pod_range_of_its_own_inside_the_clusters(paper_bed: Callable[..., Bed]) -> None:
    bed = paper_bed(nodes=64)
    ranges = [kube_node.pod_range(bed, node) for node in bed.nodes]
    assert ranges[0] == IPv4Network("10.244.1.0/24")
    assert len(set(ranges)) == 64
    assert all(pods.subnet_of(IPv4Network(kube_config.POD_SUBNET)) for pods in ranges)


def test_pods_keep_their_address_on_the_way_to_other_nodes() -> None:
    bridge = json.loads(kube_node.pod_network(IPv4Network("10.244.7.0/24")))["plugins"][0]
    assert bridge["ipMasq"] is False
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.7.0/24"}]]


def test_the_join_pins_the_authority_and_leaves_out_one_check_only() -> None:
    argv = kube_node.join_command(endpoint="10.89.7.3:6443", token="T", ca_hash="sha256:H", name="n1")
    assert argv[argv.index("--discovery-token-ca-cert-hash") + 1] == "sha256:H"
    assert [word for word in argv if word.startswith("--ignore")] == ["--ignore-preflight-errors=SystemVerification"]
    assert "--discovery-token-unsafe-skip-ca-verification" not in argv


def test_the_hash_of_the_authority_is_the_one_openssl_computes() -> None:
    assert join.ca_hash(AUTHORITY) == AUTHORITY_HASH


def test_the_join_token_is_made_once_and_nobody_else_may_read_it(paper_bed: Callable[..., Bed]) -> None:
    bed = paper_bed()
    kube_dir(bed).mkdir(parents=True)
    token = join_token(bed)
    assert TOKEN.fullmatch(token)
    assert join_token(bed) == token
    assert (kube_dir(bed) / "token").stat().st_mode & 0o777 == 0o600


def test_a_token_file_with_something_else_in_it_is_refused_without_printing_it(paper_bed: Callable[..., Bed]) -> None:
    bed = paper_bed()
    kube_dir(bed).mkdir(parents=True)
    (kube_dir(bed) / "token").write_text("secret!")
    with pytest.raises(BedError, match="token holds no bootstrap token; bring bed 'bed' down and up again") as refused:
        join_token(bed)
    assert "secret!" not in str(refused.value)


def test_private_files_lose_the_rights_they_had(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("a longer text than the next one")
    path.chmod(0o644)
    controlplane.write_private(path, "short")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("short", 0o600)


def test_a_bed_without_kubernetes_says_so(paper_bed: Callable[..., Bed]) -> None:
    with pytest.raises(BedError, match="bed 'bed' has no Kubernetes; bring it up without --no-kube"):
        controlplane.kube_host(paper_bed(kube=False))


def test_a_kubeconfig_gives_the_address_and_the_credentials_of_its_current_context(tmp_path: Path) -> None:
    def inline(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    user = {"client-certificate-data": inline("CERT"), "client-key-data": inline("KEY")}
    config = {
        "current-context": "two",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "nobody"}},
            {"name": "two", "context": {"cluster": "c", "user": "me"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://10.89.7.3:6443", "certificate-authority-data": inline("CA")}}
        ],
        "users": [{"name": "me", "user": user}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    found = read_kubeconfig(path)
    assert (found.host, found.port) == ("10.89.7.3", 6443)
    assert (found.ca, found.certificate, found.key) == (b"CA", b"CERT", b"KEY")


@pytest.mark.parametrize("text", ["", "[]", "contexts: []", "a: [", "current-context: x\ncontexts: []"])
def test_a_file_that_is_no_kubeconfig_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(BedError) as refused:
        read_kubeconfig(path)
    assert str(refused.value) == f"{path} is no kubeconfig with inline credentials; bring the bed down and up again"


def test_a_missing_kubeconfig_asks_whether_the_bed_is_up(tmp_path: Path) -> None:
    with pytest.raises(BedError, match=r"cannot be read \(No such file or directory\); is the bed up, with Kubernetes"):
        read_kubeconfig(tmp_path / "kubeconfig")


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (b'{"kind":"Status","reason":"NotFound","message":"no n9"}', "NotFound", "GET /x: 404: no n9"),
        (b"page not found", "", "GET /x: 404: page not found"),
        (b"", "", "GET /x: 404: no message"),
    ],
)
def test_a_refusal_says_what_was_asked_and_what_was_answered(content: bytes, reason: str, message: str) -> None:
    error = refusal("GET", "/x", 404, content)
    assert isinstance(error, ApiError)
    assert (error.status, error.reason, str(error)) == (404, reason, message)


def test_conditions_and_phases_are_read_from_the_status() -> None:
    node = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    assert not condition_is("Ready")(node)
    assert condition_is("Ready", "False")(node)
    assert not condition_is("Ready")({})
    assert phase_is("Running", "Succeeded")({"status": {"phase": "Succeeded"}})
    assert not phase_is("Running")({})


EVENT = {
    "verb": "create",
    "user": {"username": "system:kube-scheduler"},
    "objectRef": {"resource": "pods", "subresource": "binding", "namespace": "default", "name": "p1"},
    "responseStatus": {"code": 201},
    "requestReceivedTimestamp": "2026-11-21T12:00:00.123456Z",
    "stageTimestamp": "2026-11-21T12:00:00.125000Z",
    "requestObject": {"target": {"name": "n1"}},
}


def test_audit_events_are_chosen_and_read_with_microseconds(tmp_path: Path) -> None:
    other = {**EVENT, "verb": "get", "objectRef": {"resource": "pods", "name": "p1"}}
    health = {**EVENT, "objectRef": {}, "verb": "get"}
    log = tmp_path / "audit.log"
    lines = [json.dumps(event) for event in (other, EVENT, health)]
    log.write_text("\n".join(lines) + '\n{"verb": "cre')
    (event,) = kube_audit.read_audit(log, verb="create", resource="pods/binding", name="p1")
    assert event.received == datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
    assert (event.answered - event.received).total_seconds() == pytest.approx(0.001544)
    assert event.body == {"target": {"name": "n1"}}
    assert (event.user, event.code, event.namespace) == ("system:kube-scheduler", 201, "default")
    assert len(list(kube_audit.read_audit(log))) == 3


def named(number: int) -> str:
    """One line of a log, whole."""
    reference = {"resource": "pods", "name": f"p{number}"}
    return json.dumps({**EVENT, "auditID": f"id-{number}", "objectRef": reference}) + "\n"


def names(log: Path) -> list[str]:
    return [event.name for event in kube_audit.read_audit(log)]


def test_each_line_of_an_audit_log_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, read = tmp_path / "audit.log", list[bytes | str]()
    parse = kube_audit.parse_event

    def counted(line: bytes | str) -> kube_audit.AuditEvent:
        read.append(line)
        return parse(line)

    monkeypatch.setattr(kube_audit, "parse_event", counted)
    log.write_text(named(1) + named(2)[:30])
    assert list(kube_audit.read_audit(log, name="p9")) == []
    assert len(read) == 1
    with log.open("a") as stream:
        stream.write(named(2)[30:] + named(3))
    (found,) = kube_audit.read_audit(log, name="p3")
    assert found.name == "p3"
    assert len(read) == 4  # two that are new, and the one that matches
    assert names(log) == ["p1", "p2", "p3"]


@pytest.mark.parametrize("count", [1, 5], ids=["shorter", "longer"])
def test_a_new_audit_log_in_the_place_of_another_is_read_from_its_beginning(tmp_path: Path, count: int) -> None:
    log = tmp_path / "audit.log"
    log.write_text("".join(named(number) for number in range(3)))
    assert names(log) == ["p0", "p1", "p2"]
    log.rename(tmp_path / "audit-old.log")
    log.write_text("".join(named(number) for number in range(10, 10 + count)))
    assert names(log) == [f"p{number}" for number in range(10, 10 + count)]


def test_an_audit_log_that_was_cut_off_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(named(1) + named(2))
    assert names(log) == ["p1", "p2"]
    log.write_text(named(1))
    assert names(log) == ["p1"]


def test_the_wanted_versions_are_those_of_go_mod() -> None:
    assert binaries.wanted_versions()["kubelet"] == "1.36.3"
    assert binaries.wanted_versions()["etcd"] == "3.6.8"
