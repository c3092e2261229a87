# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's whole life on one bed, from the plan to the proof: it is converted once, and every test takes the next step.

Jobs run all the while, the API server is down for a while, and the site changes files of its own and of ours. In the
end everything is as it was before, but for what the site has changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from e2e.outage import without_api
from e2e.playing import Said
from e2e.site_of import IMAGE, ConvertedSite
from e2e.whole_site import CONF, differences, look
from testbed import sysctls
from testbed.api import RunningBed

HOSTS = ("ctl", "n1", "n2")
NODES = ("n1", "n2")
BATCH, CONVERTING = "converged.hpc/batch", "converged.hpc/converting"
LINE = "# the site was here"
# What the record keeps of a file that is ours and that the site has changed.
KEPT = re.compile(r"/var/lib/converged(/record(/kept(/.*)?)?)?")


@pytest.fixture(scope="module")
def site(bed: RunningBed, tmp_path_factory: pytest.TempPathFactory) -> ConvertedSite:
    """Two plain nodes with Slurm 22.05, and a control plane."""
    return ConvertedSite(bed, tmp_path_factory.mktemp("life"))


@pytest.fixture(scope="module", autouse=True)
def before(site: ConvertedSite) -> Mapping[str, Mapping[str, object]]:
    """The whole site before us."""
    return look(site)


def conf(site: ConvertedSite) -> dict[str, str]:
    return {host: site.node(host, f"cat {CONF}") for host in HOSTS}


def job_on(site: ConvertedSite, node: str) -> str:
    """The id of a long job that runs there."""
    words = ["sbatch", "--parsable", f"--nodelist={node}", "--output=/dev/null", "--wrap", "sleep 3600"]
    job = site.bed.ssh("ctl", words).out.strip()
    site.until("ctl", f"squeue -h -j {job} -t R -o %N | grep -qx {node}")
    return job


def announced(site: ConvertedSite) -> dict[str, str]:
    """What nodes say of themselves, by Node object."""
    found = {name: node["metadata"]["annotations"] for name, node in site.objects("nodes").items()}
    return {name: said["converged.hpc/leases"] for name, said in found.items() if "converged.hpc/leases" in said}


def leases(site: ConvertedSite, node: str) -> list[str]:
    return [lease["job"] for lease in json.loads(site.node(node, "nodeshare show --json"))["leases"]]


@pytest.mark.soak
def test_a_plan_names_everything_and_touches_nothing(site: ConvertedSite, before: Mapping[str, Any]) -> None:
    texts = conf(site)
    said = site.play("site", "--check", "--diff")
    parts = (
        *("+Prolog=/etc/converged/slurm/prolog", "Alloc,DeferBatch", "/etc/converged/controller.kubeconfig"),
        *("converged-controller.service", "/usr/local/sbin/nodeshare", "/etc/containerd/config.toml"),
        *("kubelet.service", "Only doing can tell"),
    )
    assert [part for part in parts if part not in said.out] == []
    assert differences(before, look(site)) == {}
    assert conf(site) == texts


@pytest.fixture(scope="module")
def job(site: ConvertedSite) -> str:
    """A job that runs on n1 before anything is changed there, and all the while."""
    return job_on(site, "n1")


# Every run is killed between the nodes and the cluster's books. Soak also kills it where copies of slurm.conf differ,
# where a node is about to join, and where nothing but pods is missing.
@pytest.mark.parametrize(
    ("part", "task"),
    [
        pytest.param("Have Slurm call our scripts", "Change slurm.conf on the controller", marks=pytest.mark.soak),
        pytest.param("Convert the nodes", "Join the node", marks=pytest.mark.soak),
        ("Convert the nodes", "Label the nodes"),
        pytest.param("Convert the nodes", "Let pods onto the nodes", marks=pytest.mark.soak),
    ],
)
def test_a_run_that_is_killed_costs_no_job_and_lets_no_pod_in(
    site: ConvertedSite, job: str, part: str, task: str
) -> None:
    site.killed_at("site", part, task)
    assert site.ctl("squeue -h -t R -o '%A %N'") == f"{job} n1\n", "the job was lost"
    site.srun("-N2", "true")
    taints = site.taints()
    assert [node for node in taints if not taints[node] & {BATCH, CONVERTING}] == []


def test_a_node_is_converted_under_its_job(site: ConvertedSite, job: str) -> None:
    # A killed run leaves its lock to the next one on the same host.
    site.play("site")

    assert site.ctl("squeue -h -t R -o '%A %N'") == f"{job} n1\n", "the job was lost"
    assert (leases(site, "n1"), leases(site, "n2")) == ([job], [])
    taints = site.taints()
    assert (BATCH in taints["n1"], BATCH in taints["n2"]) == (True, False)
    assert CONVERTING not in taints["n1"] | taints["n2"]


def test_a_converted_node_differs_in_all_that_the_comparison_reads(
    site: ConvertedSite, before: Mapping[str, Any]
) -> None:
    """The comparison of the way back sees what a conversion changes: without this test it could pass for nothing."""
    found = differences(before, look(site))["n2"]
    settings = {f"sysctl {name}": [f"{was}\n", sysctls.KUBELETS[name]] for name, was in sysctls.OF_NODES.items()}
    assert {name: [was, now.strip()] for name, (was, now) in found.items() if name in settings} == settings
    assert {"mount /var/lib/kubelet", "filter", "package containerd"} <= set(found)
    assert [name for name in found if name.startswith("of packages /var/lib/dpkg/info/containerd")]


def assert_nothing_changed(again: Said) -> None:
    """A run where nothing is to be done costs thirteen results a node, of which five never leave the controller."""
    assert set(again.changed().values()) == {0}, again.out
    results = {host: sum(counts.values()) for host, counts in again.recap().items()}
    assert results["n2"] <= 13, again.out
    # What is asked once for all nodes is counted for the first one.
    assert results["n1"] <= 13 + 8, again.out


@pytest.mark.soak
def test_a_second_run_changes_nothing(site: ConvertedSite) -> None:
    assert_nothing_changed(site.play("site"))


@pytest.mark.soak
def test_the_sharing_is_proved_with_a_real_pod_and_a_real_job(site: ConvertedSite) -> None:
    pod = {"converged_verify_image": IMAGE, "converged_verify_command": ["sleep", "100000"]}
    said = site.play("verify", converged_verify_nodes=["n2"], **pod)
    assert "proved" in said.out
    assert "converged-verify" not in site.kubectl("get", "namespaces", "--output=name")
    assert "converged-verify" not in site.ctl("squeue -h -o %j")
    assert "Slurm IDLE; Kubernetes Ready" in site.play("status").out


def test_off_makes_all_nodes_batch_only_without_the_api_and_on_ends_it(site: ConvertedSite) -> None:
    site.ctl("scancel --user=ops --state=RUNNING")
    site.quiet()
    with without_api(site.bed):
        site.play("off")
        for node in NODES:
            assert site.node(node, "systemctl is-active kubelet containerd || true").split() == ["inactive", "inactive"]
        site.srun("-N2", "true")
        assert "switched off" in site.play("status").out
    assert_nothing_changed(site.play("site"))
    site.play("on")
    for node in NODES:
        site.until(node, "systemctl is-active --quiet kubelet")
    site.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=280s")


@pytest.mark.soak
def test_off_beside_the_api_leaves_no_job_to_wait_for_pods_that_nobody_ends(site: ConvertedSite) -> None:
    site.kubectl("create", "--filename=-", input=json.dumps(DEPLOYMENT))
    site.kubectl("rollout", "status", "deployment/web", "--timeout=280s")
    site.play("off")
    assert announced(site) == dict.fromkeys(NODES, '["off"]')
    assert len(site.objects("pods")) >= 4, "the API shows them for as long as there is no kubelet"
    site.srun("-N2", "true")
    line = site.ctl("journalctl -u converged-controller -o cat | grep event=prolog | tail -n 1")
    assert "nodes=2" in line, line
    assert "in time" not in line, line
    site.play("on")
    for node in NODES:
        site.until(node, "systemctl is-active --quiet kubelet")
    site.kubectl("delete", "deployment/web", "--cascade=foreground", "--timeout=280s")
    site.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=280s")
    assert '["off"]' not in announced(site).values()


def test_the_way_back_with_pods_and_a_job_and_what_the_site_has_changed(
    site: ConvertedSite, before: Mapping[str, Any]
) -> None:
    site.kubectl("create", "--filename=-", input=json.dumps(DEPLOYMENT))
    site.kubectl("rollout", "status", "deployment/web", "--timeout=280s")
    job = job_on(site, "n1")
    ours = conf(site)
    for host in HOSTS:
        site.node(host, f"echo '{LINE}' >> {CONF}")
    site.node("n2", "echo >> /etc/converged/nodeshare.json")

    site.killed_at("restore", "Take the nodes out of Kubernetes", "Take the kubelet away again")
    assert site.ctl("squeue -h -t R -o '%A %N'") == f"{job} n1\n", "the job was lost"
    said = site.play("restore")

    assert site.ctl("squeue -h -t R -o '%A %N'") == f"{job} n1\n", "the job was lost"
    site.ctl("scancel --user=ops")
    site.quiet()
    found = differences(before, look(site))
    assert [name for name in found.pop("n2", {}) if not KEPT.fullmatch(name)] == []
    assert found == {}
    for host, text in conf(site).items():
        assert text.endswith(f"\n{LINE}\n")
        assert "converged" in ours[host]
        assert "converged" not in text
    assert "things are as they were" in said.out
    assert "nodeshare.json" in said.out, "a file that the site has changed is named"
    assert site.node("n2", "find /var/lib/converged -name 'nodeshare.json*'"), "the site's version of it is kept"
    site.srun("-N2", "true")
    again = site.play("restore")
    assert set(again.changed().values()) == {0}, again.out
    site.kubectl("delete", "deployment/web", "--wait=false")


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "100000"]}],
            },
        },
    },
}
