# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided about nodes of a cluster, and what kubeadm is told."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils import _command
from ansible_collections.converged.hpc.plugins.module_utils._kube import cluster
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.kubectl import Kubectl
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import membership
from ansible_collections.converged.hpc.plugins.modules import kube_bootstrap_token, kube_node

PIN, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MODE = "node-restriction.kubernetes.io/converged-share-mode"
# An authority for tests; the pin by `openssl x509 -pubkey | openssl pkey -pubin -outform der | sha256sum`.
CA = """\
-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUJMZY8Wb7dwd55oy5VBz7LSL1PKgwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjExMzExMjhaGA8yMTI2MTAy
ODEzMTEyOFowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABApuTZ8l5NUpdhGfUrJCRdsKnAqxzgocvKNlZl/IbMG9GON1ogx2
gB19fn4XAx/6BIo+bGElyQCD3XiJKq5SmlGjUzBRMB0GA1UdDgQWBBSTrG+ZY6BD
wHqB/aI829pY6eK3YTAfBgNVHSMEGDAWgBSTrG+ZY6BDwHqB/aI829pY6eK3YTAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQDGWfSOUR70VH0l5TL7
s7CbdaPrXKpchknh0KScy6AKBwIgVjkX1PnuBRpFrWSCzLzGJUGAAcBHuGb1Gbij
r+7vm0w=
-----END CERTIFICATE-----
"""
CA_PIN = "sha256:80aa36bb75829451bdafc99ed8efa7d47845bf83fda86740376243df73ca1d78"


def node(name: str, *, ready: str = "True", **labels: str) -> dict[str, t.Any]:
    conditions = [{"type": "Ready", "status": ready, "message": "container runtime\nis down"}] if ready else []
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": conditions}}


class Api:
    """kubectl's double: answers from a list of nodes, and keeps what it was told."""

    def __init__(self, *nodes: dict[str, t.Any], kubeconfig: dict[str, t.Any] | None = None) -> None:
        self.nodes = list(nodes)
        data = base64.b64encode(CA.encode()).decode()
        known = {"server": "https://10.0.0.1:6443", "certificate-authority-data": data}
        self.view = {"clusters": [{"cluster": known if kubeconfig is None else kubeconfig}]}
        self.told: list[tuple[str, ...]] = []
        self.texts: list[dict[str, t.Any]] = []

    def __call__(self, argv: t.Sequence[str], *, timeout: float, text: str | None = None) -> _command.Completed:
        words = tuple(argv[4:])
        if words[:2] == ("config", "view"):
            return self.answer(argv, json.dumps(self.view))
        if words[:2] == ("get", "nodes"):
            return self.answer(argv, json.dumps({"items": self.nodes}))
        self.told.append(words)
        if text is not None:
            self.texts.append(json.loads(text))
        return self.answer(argv, "done\n")

    def answer(self, argv: t.Sequence[str], out: str) -> _command.Completed:
        return _command.Completed(tuple(argv), 0, out, "")

    def kubectl(self) -> Kubectl:
        return Kubectl(kubeconfig="admin.conf", run=self)


def wanted(**options: t.Any) -> dict[str, t.Any]:
    return {
        "nodes": ["n1", "n2"],
        "api_server": None,
        "ca_hashes": [],
        "kubeconfig": "admin.conf",
        "ttl": 900,
        **options,
    }


def test_a_token_is_made_for_nodes_that_are_missing_and_its_text_is_on_no_command_line() -> None:
    api = Api(node("n1"))
    found = kube_bootstrap_token.have(api.kubectl(), wanted(), check=False)
    assert (found["changed"], found["missing"], found["ca_hashes"]) == (True, ["n2"], [CA_PIN])
    assert found["token"].startswith(found["token_id"] + ".")
    assert api.told == [("create", "--filename=-")]
    (secret,) = api.texts
    assert secret["metadata"]["name"] == f"bootstrap-token-{found['token_id']}"
    assert f"{secret['stringData']['token-id']}.{secret['stringData']['token-secret']}" == found["token"]


@pytest.mark.parametrize(("nodes", "check"), [(["n1"], False), (["n1"], True), (["n1", "n2"], True)])
def test_no_token_is_made_where_nobody_joins(nodes: list[str], check: bool) -> None:
    api = Api(node("n1"))
    found = kube_bootstrap_token.have(api.kubectl(), wanted(nodes=nodes), check=check)
    assert (found["changed"], found["token"], api.told) == ("n2" in nodes, "", [])


@pytest.mark.parametrize("check", [False, True])
def test_a_token_is_deleted_by_its_public_part_and_check_mode_only_asks(check: bool) -> None:
    api = Api()
    found = kube_bootstrap_token.drop(api.kubectl(), {"token_id": "abc123"}, check=check)
    asked = ("delete", "secret", "bootstrap-token-abc123", "--namespace=kube-system", "--ignore-not-found")
    assert (found, api.told) == ({"changed": True}, [(*asked, "--dry-run=server") if check else asked])
    assert kube_bootstrap_token.drop(Api().kubectl(), {"token_id": ""}, check=check) == {"changed": False}


def test_a_pinned_hash_that_is_not_the_clusters_stops_before_anything_is_made() -> None:
    api = Api()
    with pytest.raises(KubeError, match=f"CA hash {OTHER} is not that of the cluster"):
        kube_bootstrap_token.have(api.kubectl(), wanted(ca_hashes=[OTHER]), check=False)
    assert api.told == []


def test_a_kubeconfig_without_an_authority_is_refused() -> None:
    with pytest.raises(KubeError, match="names no certificate authority"):
        kube_bootstrap_token.have(Api(kubeconfig={"server": "x"}).kubectl(), wanted(), check=False)


def test_a_token_ends_when_it_is_told_to_and_at_its_time() -> None:
    api = Api()
    assert kube_bootstrap_token.drop(api.kubectl(), {"token_id": "abcdef"}, check=False)["changed"]
    assert api.told == [
        ("delete", "secret", "bootstrap-token-abcdef", "--namespace=kube-system", "--ignore-not-found"),
    ]
    assert not kube_bootstrap_token.drop(api.kubectl(), {"token_id": ""}, check=False)["changed"]
    secret = cluster.token_secret(cluster.Token("abcdef", "x" * 16), now=0, ttl=900)
    assert secret["stringData"]["expiration"] == "1970-01-01T00:15:00Z"


def test_nodes_that_get_the_same_labels_get_them_in_one_call() -> None:
    api = Api(node("n1"), node("n2"), node("n3", **{MODE: "handover"}))
    labels = {name: {MODE: "handover"} for name in ("n1", "n2", "n3")}
    found = kube_node.keep(api.kubectl(), {"nodes": labels, "no_taints": [], "taints": {}, "wait": 5}, check=False)
    assert api.told == [("label", "nodes", "n1", "n2", f"{MODE}=handover", "--overwrite")]
    assert sorted(found["labelled"]) == ["n1", "n2"]


def test_check_mode_labels_nothing_and_takes_joining_for_granted() -> None:
    api = Api()
    params = {"nodes": {"n1": {MODE: "handover"}}, "no_taints": ["ours"], "taints": {}, "wait": 5}
    found = kube_node.keep(api.kubectl(), params, check=True)
    assert (found["changed"], api.told) == (True, [])


@pytest.mark.parametrize("check", [False, True])
def test_a_taint_that_nodes_shall_not_have_goes_in_one_call_and_others_stay(check: bool) -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    for one, keys in zip(nodes, (["ours", "site"], ["site"], ["ours"]), strict=True):
        one["spec"] = {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys]}
    api = Api(*nodes)
    params = {"nodes": dict.fromkeys(("n1", "n2", "n3")), "no_taints": ["ours"], "taints": {}, "wait": 5}
    found = kube_node.keep(api.kubectl(), params, check=check)
    assert (found["changed"], found["untainted"]) == (True, ["n1", "n3"])
    assert api.told == ([] if check else [("taint", "nodes", "n1", "n3", "ours-")])


@pytest.mark.parametrize("check", [False, True])
def test_a_taint_is_given_to_those_that_shall_have_it_and_taken_from_the_others(check: bool) -> None:
    nodes = [node("n1"), node("n2"), node("n3"), node("n4")]
    for one, effect in zip(nodes, ("NoSchedule", "NoExecute", "NoSchedule", ""), strict=True):
        one["spec"] = {"taints": [{"key": "ours", "effect": effect}] if effect else []}
    api = Api(*nodes)
    params = {"nodes": dict.fromkeys(("n1", "n2", "n3", "n4")), "no_taints": [], "wait": 5}
    found = kube_node.keep(api.kubectl(), {**params, "taints": {"ours": ["n1", "n2", "n4"]}}, check=check)
    assert (found["changed"], found["tainted"], found["untainted"]) == (True, ["n2", "n4"], ["n3"])
    told = [("taint", "nodes", "n2", "n4", "ours:NoSchedule", "--overwrite"), ("taint", "nodes", "n3", "ours-")]
    assert api.told == ([] if check else told)
    api = Api(nodes[0])
    again = kube_node.keep(api.kubectl(), {**params, "nodes": {"n1": {}}, "taints": {"ours": ["n1"]}}, check=check)
    assert (again["changed"], api.told) == (False, [])


def test_only_node_objects_that_are_there_are_deleted() -> None:
    api = Api(node("n1"))
    found = kube_node.remove(api.kubectl(), {"nodes": {"n1": {}, "n2": {}}}, check=False)
    assert (found, api.told[0][:3]) == ({"changed": True, "deleted": ["n1"]}, ("delete", "nodes", "n1"))
    assert kube_node.remove(Api().kubectl(), {"nodes": {"n1": {}}}, check=False) == {"changed": False, "deleted": []}


def test_a_node_that_is_not_ready_is_named_with_its_reason() -> None:
    nodes = {one["metadata"]["name"]: one for one in (node("n1"), node("n2", ready="False"), node("n3", ready=""))}
    assert cluster.not_ready(nodes, ["n1", "n2", "n3", "n4"]) == {
        "n2": "container runtime is down",
        "n3": "has not reported yet",
        "n4": "has no Node object",
    }


@pytest.mark.parametrize(
    ("server", "endpoint"),
    [
        ("https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("api.example.org", "api.example.org:443"),
        ("https://[fd00::1]:6443/", "[fd00::1]:6443"),
    ],
)
def test_an_address_becomes_an_endpoint(server: str, endpoint: str) -> None:
    assert cluster.endpoint(server) == endpoint


@pytest.mark.parametrize("server", ["http://a:1", "https://", "https://a:port", "https://a/path", "https://a:99999"])
def test_an_address_that_is_none_is_refused(server: str) -> None:
    with pytest.raises(KubeError, match="API server"):
        cluster.endpoint(server)


@pytest.mark.parametrize("names", [["N1"], [""], ["a b"], ["-rf"], ["n1", "n1"]])
def test_names_that_kubernetes_does_not_take_are_refused(names: list[str]) -> None:
    with pytest.raises(KubeError, match="node '?"):
        cluster.check_names(names)


# A node's own side


def kubelet_conf(server: str = "https://10.0.0.1:6443", data: str | None = None) -> str:
    data = base64.b64encode(CA.encode()).decode() if data is None else data
    return f"clusters:\n- cluster:\n    certificate-authority-data: {data}\n    server: {server}\n  name: default\n"


def test_the_authority_makes_a_cluster_the_same_whatever_its_address() -> None:
    assert membership.same_cluster(kubelet_conf("https://lb:443"), [OTHER, CA_PIN]) == "https://lb:443"
    with pytest.raises(KubeError, match="joined to another cluster, https://10.0.0.1:6443"):
        membership.same_cluster(kubelet_conf(), [OTHER])


@pytest.mark.parametrize("text", ["", "server: https://a\n", kubelet_conf(data="%%%"), kubelet_conf(data="AAAA")])
def test_a_kubeconfig_that_is_not_kubeadms_is_named(text: str) -> None:
    with pytest.raises(KubeError, match=r"/etc/kubernetes/kubelet\.conf"):
        membership.same_cluster(text, [PIN])


@pytest.mark.parametrize(("version", "api"), [("v1.30.9", "v1beta3"), ("v1.31.0", "v1beta4"), ("v1.36.3", "v1beta4")])
def test_kubeadm_is_spoken_to_in_a_version_that_it_knows(version: str, api: str) -> None:
    found = membership.join_configuration(
        version=membership.kubeadm_version(version), node="n1", endpoint="a:1", token="t", pinned=[PIN], socket="unix:///s",
        ignore=[], taints=[], timeout=60,
    )  # fmt: skip
    assert found["apiVersion"] == f"kubeadm.k8s.io/{api}"
    assert ("timeouts" in found, "timeout" in found["discovery"]) == (api == "v1beta4", api == "v1beta3")
    assert found["discovery"]["bootstrapToken"]["unsafeSkipCAVerification"] is False


@pytest.mark.parametrize(
    ("err", "line"),
    [
        (
            "[preflight] fatal\n\t[ERROR Swap]: swap is on\n\t[ERROR Port-10250]: in use\n",
            "[ERROR Swap]: swap is on; [ERROR Port",
        ),
        (
            "error: x: none of the public keys are pinned\nTo see the stack trace --v=5\n",
            "the cluster's CA is not the one",
        ),
        ("error: no signature for token abcdef.0123\n", "error: no signature for token (token)"),
        ("", "it said nothing"),
    ],
)
def test_kubeadms_reason_is_one_line_without_the_token(err: str, line: str) -> None:
    found = membership.complaint("", err, token="abcdef.0123")
    assert found.startswith(line)
    assert "\n" not in found
