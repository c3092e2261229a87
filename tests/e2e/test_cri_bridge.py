# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubelet of today through the bridge into a runtime that speaks CRI v1alpha2: converted by one variable, and back.

Every test takes the next step. The way back is in soak: n1 goes to containerd and comes again, and in the end n1 goes
back from the new runtime, n2 from containerd. Behind the bridge stands containerd 1.6 in the place of Singularity-CRI
(`e2e/cri`), which serves the old API too; the playbooks, the roles and the bridge are those that ship. n2 keeps its
containerd. Where a machine has Singularity-CRI itself, it stands there (`e2e/cri/real.py`).
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e import workload
from e2e.beds import own_bed
from e2e.cri import real
from e2e.cri.site import NODE, OTHER, prepared
from e2e.handover.sharing import UNTIL_TOLD, Sharing
from e2e.playing import until
from e2e.whole_site import differences, look

BED = f"cri-{os.getpid()}"
TAINT = "converged.hpc/singularity-cri"
LABEL = "node-restriction.kubernetes.io/converged-runtime"
POLICY = "converged-singularity-cri"
RUNTIME = "jsonpath={.status.nodeInfo.containerRuntimeVersion}"
KUBELET_ASKS = "sed -n 's/^containerRuntimeEndpoint: *//p' /var/lib/kubelet/config.yaml"
BRIDGE_SOCKET = "/run/converged-cri/cri.sock"
UNITS = ("converged-cri-bridge", "sycri")
TOLERATED = [{"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}]
MANIFESTS = "/etc/kubernetes/manifests"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Two plain nodes of a Slurm cluster, with an engine and a folder of wheels as a site has them."""
    with own_bed(request, BED) as bed:
        yield prepared(bed, tmp_path_factory.mktemp("cri"))


@pytest.fixture(autouse=True)
def known(request: pytest.FixtureRequest) -> None:
    """Have a test fail of which the list says that Singularity-CRI itself fails it; one that passes is a failure."""
    reason = real.cannot().get(request.node.originalname)
    if reason and real.found():
        test = request.node.obj

        def fails(**arguments: Any) -> None:
            with pytest.raises(AssertionError):
                test(**arguments)
            print(f"as {real.LIST.name} says: {reason}")

        request.node.obj = fails


@pytest.fixture(scope="module", autouse=True)
def before(site: Sharing) -> Mapping[str, Mapping[str, object]]:
    return look(site)


def runtime_of(site: Sharing, node: str = NODE) -> str:
    return site.kubectl("get", "node", node, "--output", RUNTIME).strip()


def use(site: Sharing, runtime: str, *, check: bool = True, **variables: Any) -> Any:
    """Change the one variable of the node, and convert."""
    site.set(NODE, converged_runtime=runtime)
    return site.play("site", check=check, **variables)


def deployment(*, behind_bridge: bool = False) -> dict[str, Any]:
    """A Deployment that lives on the node whatever runs it; Singularity-CRI itself has an image of its own."""
    made = workload.deployment("web", 1, tolerations=TOLERATED, nodeSelector={"kubernetes.io/hostname": NODE})
    del made["spec"]["template"]["spec"]["topologySpreadConstraints"]
    made["spec"]["template"]["spec"]["containers"][0].update(real.IMAGE if behind_bridge and real.found() else {})
    return made


def runs(site: Sharing, app: str = "web", node: str = NODE, count: int = 1) -> bool:
    return list(workload.ready(site, app).values()) == [node] * count


def pod(name: str, script: str = "sleep 3600", **of_container: Any) -> dict[str, Any]:
    """A pod on the node; `of_container` are fields of its container."""
    made = workload.pod(name, node=NODE, command=["sh", "-c", script], tolerations=TOLERATED)
    made["spec"]["containers"][0].update({**(real.IMAGE if real.found() else {}), **of_container})
    return made


def refusal(site: Sharing, made: Mapping[str, Any]) -> str:
    """Return what the API says to a pod that it shall not take; empty where it took it."""
    command = "kubectl create --dry-run=server --filename=- 2>&1 || true"
    said = site.node("kube", command, input=json.dumps(made))
    return "" if "created" in said else said


def test_one_variable_changes_the_runtime_of_a_node_with_pods_before_and_after(site: Sharing) -> None:
    use(site, "containerd")
    workload.apply(site, deployment())
    until(lambda: runs(site), "the pod runs by containerd")
    assert runtime_of(site).startswith("containerd://")

    done = use(site, "singularity_cri")

    assert "[cri_limits]" in done.out, "the site was not told what it gets"
    workload.apply(site, deployment(behind_bridge=True))
    until(lambda: runs(site), "the pod runs through the bridge")
    assert site.node(NODE, KUBELET_ASKS).strip().strip('"') == f"unix://{BRIDGE_SOCKET}"
    assert all(site.is_active(NODE, unit) for unit in UNITS)
    assert not site.is_active(NODE, "containerd")
    assert site.node(NODE, "ls -d /etc/containerd/config.toml", check=False) == ""
    node = site.objects("nodes")[NODE]
    assert node["metadata"]["labels"][LABEL] == "singularity_cri"
    assert TAINT in site.taints()[NODE]
    assert TAINT not in site.taints()[OTHER]
    assert site.is_active(OTHER, "containerd")


# In every change: the role itself in molecule's singularity_cri, and a node that has the runtime which it shall have in
# rehearsals/test_runtime.py.
@pytest.mark.soak
def test_a_second_run_changes_nothing(site: Sharing) -> None:
    again = site.play("site")
    assert set(again.changed().values()) == {0}, again.out


def test_logs_exec_attach_and_port_forward_pass_the_bridge(site: Sharing) -> None:
    script = "echo begun; mkdir /www; echo served > /www/index.html; httpd -p 8080 -h /www; exec cat"
    talk = pod("talk", script, stdin=True, ports=[{"containerPort": 8080}])
    workload.apply(site, talk)
    site.kubectl("wait", "--for=condition=Ready", "pod/talk", "--timeout=280s")
    assert site.kubectl("logs", "talk") == "begun\n"
    assert site.kubectl("exec", "talk", "--", "sh", "-c", "echo out; echo err >&2") == "out\n"
    assert site.node("kube", "echo said | kubectl exec -i talk -- cat") == "said\n"
    site.node("kube", "echo heard | timeout 10 kubectl attach -i talk; true")
    until(lambda: "heard" in site.kubectl("logs", "talk"), "what was typed is in the log")
    forward = "kubectl port-forward pod/talk 18080:8080 >/dev/null & "
    ask = "for i in $(seq 50); do curl -sf http://127.0.0.1:18080/ && break; sleep 0.2; done; kill $!"
    assert site.node("kube", forward + ask) == "served\n"
    site.kubectl("delete", "pod", "talk", "--grace-period=1")


def test_exec_tells_the_exit_status(site: Sharing) -> None:
    workload.apply(site, pod("tells"))
    site.kubectl("wait", "--for=condition=Ready", "pod/tells", "--timeout=280s")
    said = site.node("kube", "kubectl exec tells -- sh -c 'exit 7' 2>/dev/null; echo $?")
    site.kubectl("delete", "pod", "tells", "--grace-period=1")
    assert said == "7\n"


def test_probes_limits_and_a_resize_reach_the_container(site: Sharing) -> None:
    probe = {"exec": {"command": ["sh", "-c", "test -e /ready"]}, "periodSeconds": 1}
    dies = {"exec": {"command": ["sh", "-c", "test ! -e /dead"]}, "periodSeconds": 1, "failureThreshold": 1}
    small, asked = {"cpu": "500m", "memory": "64Mi"}, {"cpu": "250m", "memory": "32Mi"}
    workload.apply(
        site,
        pod("probed", readinessProbe=probe, livenessProbe=dies, resources={"limits": small, "requests": asked}),
    )
    site.kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/probed", "--timeout=280s")
    assert not runs(site, "probed")
    assert limits(site) == (500, 64 << 20)
    site.kubectl("exec", "probed", "--", "sh", "-c", ": > /ready")
    until(lambda: runs(site, "probed"), "the readiness probe succeeds")

    large = {"cpu": "700m", "memory": "96Mi"}
    patch = {"spec": {"containers": [{"name": "main", "resources": {"limits": large}}]}}
    site.kubectl("patch", "pod", "probed", "--subresource=resize", "--patch", json.dumps(patch))
    until(lambda: limits(site) == (700, 96 << 20), "the container has the new limits")
    until(lambda: not resizing(site), "the kubelet calls the resize done")

    site.kubectl("exec", "probed", "--", "sh", "-c", ": > /dead")
    until(lambda: restarts(site, "probed") == 1, "the liveness probe restarts it")
    site.kubectl("delete", "pod", "probed", "--grace-period=1")


def limits(site: Sharing) -> tuple[int, int]:
    """Return millicores and bytes, as the kernel has them for the container of the pod `probed`."""
    uid = site.objects("pods")["probed"]["metadata"]["uid"]
    here = f"find /sys/fs/cgroup -path '*pod{uid}/*' -name"
    quota = site.node(NODE, f"{here} cpu.cfs_quota_us -exec cat {{}} + 2>/dev/null | sort -n | tail -1").strip()
    memory = site.node(NODE, f"{here} memory.limit_in_bytes -exec cat {{}} + 2>/dev/null | sort -n | head -1").strip()
    if quota and memory:
        return int(quota) // 100, int(memory)
    cpu = site.node(NODE, f"{here} cpu.max -exec cat {{}} + | grep -v max").split()
    return int(cpu[0]) // 100, int(site.node(NODE, f"{here} memory.max -exec cat {{}} + | grep -v max").split()[0])


def resizing(site: Sharing) -> bool:
    conditions = site.objects("pods")["probed"]["status"].get("conditions", ())
    return any(one["type"].startswith("PodResize") and one["status"] == "True" for one in conditions)


def restarts(site: Sharing, name: str) -> int:
    statuses = site.objects("pods")[name]["status"].get("containerStatuses") or [{}]
    return int(statuses[0].get("restartCount", 0))


def test_a_profile_of_seccomp_is_enforced_and_not_ignored(site: Sharing) -> None:
    """The kubelet fills the new field alone, which the old API does not have."""
    default = {"seccompProfile": {"type": "RuntimeDefault"}}
    workload.apply(site, pod("confined", securityContext=default), pod("free"))
    site.kubectl("wait", "--for=condition=Ready", "pod/confined", "pod/free", "--timeout=280s")
    seccomp = "grep ^Seccomp: /proc/1/status"
    assert site.kubectl("exec", "confined", "--", "sh", "-c", seccomp).split() == ["Seccomp:", "2"]
    assert site.kubectl("exec", "free", "--", "sh", "-c", seccomp).split() == ["Seccomp:", "0"]
    site.kubectl("delete", "pod", "confined", "free", "--grace-period=1")


def test_a_static_pod_comes_and_goes_with_its_file(site: Sharing) -> None:
    static = workload.pod("static", tolerations=TOLERATED)
    static["spec"]["containers"][0].update(real.IMAGE if real.found() else {})
    site.node(NODE, f"cat > {MANIFESTS}/static.yaml", input=json.dumps(static))
    until(lambda: runs(site, "static"), "the static pod runs")
    site.node(NODE, f"rm {MANIFESTS}/static.yaml")
    until(lambda: not workload.ready(site, "static"), "the static pod is gone")


ROOT_DROPS = {"capabilities": {"drop": ["ALL"]}}
HARMLESS = {**ROOT_DROPS, "runAsNonRoot": True, "allowPrivilegeEscalation": False}
IGNORED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "user namespaces": ({"hostUsers": False}, {}, "hostUsers: false is ignored"),
    "privileged": ({}, {"securityContext": {"privileged": True}}, "privileged containers are refused"),
    "image volumes": (
        {"volumes": [{"name": "i", "image": {"reference": "localhost/busybox:local"}}]},
        {},
        "image volumes are ignored",
    ),
    "groups": (
        {"securityContext": {"supplementalGroupsPolicy": "Strict"}},
        {},
        "supplementalGroupsPolicy is ignored",
    ),
    "drop ALL as root": ({}, {"securityContext": ROOT_DROPS}, "the engine cannot drop CAP_PERFMON"),
    "huge pages": (
        {},
        {"resources": {"limits": {"hugepages-2Mi": "2Mi", "memory": "64Mi", "cpu": "1"}}},
        "limits of huge pages are ignored",
    ),
    "read-only below": (
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}]},
        "recursiveReadOnly is ignored",
    ),
    "devices of claims": (
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
        {},
        "resourceClaims are ignored",
    ),
}


@pytest.mark.parametrize("what", IGNORED)
def test_pods_that_ask_for_what_would_be_ignored_are_refused_on_these_nodes(site: Sharing, what: str) -> None:
    of_pod, of_container, said = IGNORED[what]
    until(lambda: bool(refusal(site, asking({}, IGNORED["privileged"][1]))), "the policy is in force")
    assert said in refusal(site, asking(of_pod, of_container))
    assert TAINT in refusal(site, asking(of_pod, of_container))
    elsewhere = asking(of_pod, of_container)
    del elsewhere["spec"]["tolerations"]
    assert refusal(site, elsewhere) == "", "a pod that cannot come here is no concern of the policy"


def asking(of_pod: Mapping[str, Any], of_container: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    made = pod("asks")
    made["spec"].update(of_pod)
    made["spec"].update(fields)
    made["spec"]["containers"][0].update(of_container)
    return made


def test_the_policy_goes_by_where_a_pod_can_come(site: Sharing) -> None:
    wrong = IGNORED["privileged"][1]
    field = {"key": "metadata.name", "operator": "In", "values": [NODE]}

    def pinned(node: str) -> dict[str, Any]:
        terms = {"nodeSelectorTerms": [{"matchFields": [{**field, "values": [node]}]}]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    everywhere = [{"operator": "Exists"}]
    assert refusal(site, asking({}, wrong, nodeName=NODE, tolerations=[]))
    assert refusal(site, asking({}, wrong, nodeName=OTHER, tolerations=everywhere)) == ""
    assert refusal(site, asking({}, wrong, affinity=pinned(NODE), tolerations=everywhere)), "as of a DaemonSet"
    assert refusal(site, asking({}, wrong, affinity=pinned(OTHER), tolerations=everywhere)) == ""
    assert refusal(site, asking({}, wrong, tolerations=everywhere))
    away = {LABEL: "containerd"}
    assert refusal(site, asking({}, wrong, nodeSelector=away, tolerations=everywhere)) == ""
    assert refusal(site, asking({}, {"securityContext": HARMLESS})) == "", "nothing that is kept is refused"


def test_a_restart_of_the_bridge_or_of_the_kubelet_leaves_pods_alone(site: Sharing) -> None:
    pods = workload.uids(site, "web")
    for unit in (UNITS[0], "kubelet"):
        site.ask(NODE, "systemctl", "restart", unit)
        until(lambda: NODE in site.ready(), f"the node is ready after the restart of {unit}")
    assert (workload.uids(site, "web"), restarts_of_web(site)) == (pods, 0)


def restarts_of_web(site: Sharing) -> int:
    return sum(restarts(site, name) for name in workload.ready(site, "web"))


def test_a_job_has_the_node_to_itself_and_pods_come_back(site: Sharing) -> None:
    until(lambda: runs(site), "a pod on the node")
    with site.while_job("-N1", f"--nodelist={NODE}", command=UNTIL_TOLD) as ended:
        assert site.tainted() == {NODE}
        job = site.tell_to_end(ended)
    assert not job.pods(), job.out
    site.free(NODE)
    until(lambda: runs(site), "the pod is back")


def test_leases_are_found_again_after_a_restart_of_the_runtime(site: Sharing) -> None:
    with site.while_job("-N1", f"--nodelist={NODE}", command=UNTIL_TOLD) as ended:
        leases = site.leases(NODE)
        assert leases
        site.ask(NODE, "systemctl", "restart", *reversed(UNITS))
        site.let_repair(NODE)
        assert site.leases(NODE) == leases
        assert site.tainted() == {NODE}
        job = site.tell_to_end(ended)
    assert not job.pods(), job.out
    site.free(NODE)
    until(lambda: runs(site), "the pod is back")


def test_a_job_stops_kubelet_bridge_and_runtime_in_the_mode_stop(site: Sharing) -> None:
    site.settings(handover="stop")
    try:
        with site.while_job("-N1", f"--nodelist={NODE}", command=UNTIL_TOLD) as ended:
            assert {site.unit_state(NODE, unit) for unit in ("kubelet", *UNITS)} == {"inactive"}
            site.ask(NODE, "systemctl", "start", *UNITS, check=False)
            assert {site.unit_state(NODE, unit) for unit in UNITS} == {"inactive"}, "nothing starts them beside a job"
            job = site.tell_to_end(ended)
        assert not job.pods(), job.out
        site.free(NODE)
    finally:
        site.settings(handover="quiesce")
    until(lambda: NODE in site.ready() and runs(site), "the node is back with its pod")


# In every change: rehearsals/test_runtime.py (the node keeps its runtime, its jobs and its pods), and the words of
# module and bridge in unit/plugins/module_utils/_kube/test_kube_engine.py and unit/cri_bridge/test_bridge_cli.py.
@pytest.mark.soak
def test_a_runtime_that_does_not_answer_leaves_the_node_with_the_one_that_it_has(site: Sharing) -> None:
    """The node of the old runtime goes on; its pods were not even asked to leave."""
    pods = workload.uids(site, "web")
    site.set(OTHER, converged_runtime="singularity_cri")
    engine = f"{real.PREFIX}/bin/singularity" if real.found() else "/usr/local/bin/singularity"
    began = time.time()
    for wrong, said in (
        ({"engine": "echo singularity-ce version 4.1.3"}, "from 3.10 on its command oci is a front of runc"),
        ({"wheels": "/opt/none"}, "the bridge to CRI v1 needs grpcio"),
    ):
        if "engine" in wrong:
            site.node(OTHER, f"cp -a {engine} /run/kept; printf '#!/bin/sh\\n{wrong['engine']}\\n' > {engine}")
        site.set(OTHER, singularity_cri_v1_wheels=wrong.get("wheels", "/opt/wheels"))
        failed = site.play("site", check=False)
        if "engine" in wrong:
            site.node(OTHER, f"cp -a /run/kept {engine}")
        assert failed.rc != 0
        assert said in " ".join(failed.out.split()), failed.out
        assert site.is_active(OTHER, "containerd")
        assert OTHER in site.ready()
        assert not site.objects("nodes")[OTHER]["spec"].get("unschedulable")
    assert site.ctl(f"scontrol show node {OTHER} | grep -c DRAIN", check=False).strip() == "0", "jobs come as before"
    assert workload.uids(site, "web") == pods
    assert time.time() > began
    site.set(OTHER, converged_runtime="containerd", singularity_cri_v1_wheels="/opt/wheels")
    site.play("site")


@pytest.mark.soak
def test_nothing_is_left_of_a_runtime_that_was_refused(site: Sharing) -> None:
    """The run with the old value, which ended the test before, has taken it away."""
    assert site.node(OTHER, "ls -d /usr/local/lib/converged/cri_bridge /usr/local/bin/sycri", check=False) == ""
    assert set(site.play("site").changed().values()) == {0}


# In every change: both ways of a change in rehearsals/test_runtime.py, and the first test above as a real one.
@pytest.mark.soak
def test_the_variable_takes_the_node_back_to_containerd(site: Sharing) -> None:
    use(site, "containerd")

    workload.apply(site, deployment())
    until(lambda: runs(site), "the pod runs by containerd again")
    assert runtime_of(site).startswith("containerd://")
    assert site.node(NODE, KUBELET_ASKS).strip().strip('"') == "unix:///run/containerd/containerd.sock"
    assert {site.unit_state(NODE, unit) for unit in UNITS} <= {"inactive", "unknown"}
    assert site.node(NODE, "ls -d /var/lib/singularity /usr/local/lib/converged/cri*", check=False) == ""
    assert TAINT not in site.taints()[NODE]
    assert LABEL not in site.objects("nodes")[NODE]["metadata"]["labels"]
    assert POLICY not in site.kubectl("get", "validatingadmissionpolicies", "--output=name")
    assert set(site.play("site").changed().values()) == {0}


# In every change: the way back of the role in molecule, scenario singularity_cri, and that of a whole site in the demo.
@pytest.mark.soak
def test_a_site_is_as_it_was_after_the_way_back_from_either_runtime(
    site: Sharing, before: Mapping[str, Mapping[str, object]]
) -> None:
    use(site, "singularity_cri")
    workload.apply(site, deployment(behind_bridge=True))
    until(lambda: runs(site), "the pod runs through the bridge")
    site.kubectl("delete", "deployment", "web")
    site.play("restore")
    for node in site.nodes:
        # The tests have edited nodeshare's settings by hand, and what a site has edited is kept.
        kept = site.node(node, "find /var/lib/converged -type f 2>/dev/null || true").split()
        assert [path for path in kept if not path.rpartition("/")[2].startswith("nodeshare.json")] == []
        site.node(node, "rm -rf /var/lib/converged")
    assert differences(before, look(site)) == {}
    assert shlex.split(site.node("kube", "kubectl get nodes --output=name")) == []
