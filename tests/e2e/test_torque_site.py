# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Torque cluster that is converted and taken back by the playbooks, beside jobs that run meanwhile.

Every test takes the next step. The bed's Torque is its double, whose MoMs run scripts on the nodes as Torque does;
kubelets and pods are real.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e import workload
from e2e.beds import own_bed
from e2e.playing import until
from e2e.torque_site import HOSTILE, LOG, MOM_PRIV, NODES, PROOF, TorqueSite
from e2e.whole_site import differences, look

BED = f"torque-{os.getpid()}"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorqueSite]:
    """Two plain nodes with a MoM, a server, and a control plane."""
    with own_bed(request, BED, "--wlm", "torque") as bed:
        found = TorqueSite(bed, tmp_path_factory.mktemp("torque"))
        found.prepare()
        yield found


@pytest.fixture(scope="module", autouse=True)
def before(site: TorqueSite) -> Mapping[str, Mapping[str, object]]:
    return look(site)


# In every change the demo compares all hosts before and after its plan.
@pytest.mark.soak
def test_a_plan_touches_nothing(site: TorqueSite, before: Mapping[str, Any]) -> None:
    planned = site.play("site", "--check", "--diff")
    assert f"{MOM_PRIV}/prologue.parallel" in planned.out
    assert differences(before, look(site)) == {}


# In every change: the same refusal by the modules' tests in unit/plugins/module_utils/_preflight/test_gather_torque.py.
@pytest.mark.soak
def test_a_link_in_place_of_a_script_is_refused_by_its_name(site: TorqueSite, before: Mapping[str, Any]) -> None:
    site.node("n2", f"mv {MOM_PRIV}/prologue /opt/prologue && ln -s /opt/prologue {MOM_PRIV}/prologue")
    refused = site.play("site", check=False)
    assert f"{MOM_PRIV}/prologue is a link to '/opt/prologue'" in refused.out
    site.node("n2", f"mv -f /opt/prologue {MOM_PRIV}/prologue")
    assert differences(before, look(site)) == {}


def test_a_conversion_takes_a_running_job_into_account(site: TorqueSite) -> None:
    job = site.qsub("-l", "nodes=n1:ppn=1")
    until(lambda: site.job_state(job) == "R", "the job runs")
    site.play("site")
    assert site.job_state(job) == "R"
    assert site.leases_of("n1") == {f"torque/{job}"}
    assert site.leases_of("n2") == set()
    assert set(site.objects("nodes")) == NODES
    site.end(job)
    assert site.ran("n1", job) == ["prologue root", "prologue.user alice", "epilogue root"]
    said = site.play("status").out
    assert "; Torque free; Kubernetes Ready" in said, said


# In every change the second run of the demo proves it.
@pytest.mark.soak
def test_a_second_run_changes_nothing(site: TorqueSite) -> None:
    again = site.play("site")
    assert set(again.changed().values()) == {0}, again.out


def test_a_job_takes_both_nodes_from_pods_whatever_its_user_writes_and_gives_them_back(site: TorqueSite) -> None:
    until(lambda: not site.tainted(), "no node is held")
    workload.apply(site, workload.one_on_each("pods", 2))
    until(lambda: len(site.running_pods()) == 2, "a pod runs on each node")
    job = site.qsub("-l", "nodes=2:ppn=2", "-N", "it's$(id)", "-A", HOSTILE, "-v", "X=a\nb")
    # It runs when both scripts have come back: on the other host before the first one.
    until(lambda: site.ran("n1", job) + site.ran("n2", job) != [], "Torque has begun it")
    for node in NODES:
        until(lambda node=node: site.leases_of(node) == {f"torque/{job}"}, f"{node} is leased to it")
        until(lambda node=node: site.show(node)["phase"] == "held", f"{node} is free for it")
        assert site.running_on(node) & {pod["metadata"]["uid"] for pod in site.objects("pods").values()} == set()
    site.end(job)
    until(lambda: len(site.running_pods()) == 2, "the pods are there again")
    ran = sorted(site.ran("n1", job) + site.ran("n2", job))
    assert ran == ["epilogue root", "prologue root", "prologue.parallel root", "prologue.user alice"]
    assert site.node("n1", "ls /tmp/pwned", check=False) + site.node("n2", "ls /tmp/pwned", check=False) == ""


def test_a_user_who_chooses_the_script_gets_the_sites_own_and_a_lease(site: TorqueSite) -> None:
    job = site.qsub("-l", "nodes=n2:ppn=1", "-T", "user")
    until(lambda: site.leases_of("n2") == {f"torque/{job}"}, "the lease is there")
    until(lambda: site.job_state(job) == "R" and "prologue root" in site.ran("n2", job), "it has begun")
    assert "prologue.user root" not in site.ran("n2", job)
    site.end(job)


def test_a_prologue_that_a_signal_kills_leaves_a_job_that_the_sweep_finds(site: TorqueSite) -> None:
    site.node("n1", "mv /usr/local/sbin/nodeshare /usr/local/sbin/nodeshare.away")
    job = site.qsub("-l", "nodes=n1:ppn=1")
    until(lambda: "prologue.user alice" in site.ran("n1", job), "it starts without us")
    site.node("n1", "mv /usr/local/sbin/nodeshare.away /usr/local/sbin/nodeshare")
    until(lambda: site.leases_of("n1") == {f"torque/{job}"}, "the sweep has made its lease")
    site.end(job)


def test_the_sharing_is_proved(site: TorqueSite) -> None:
    said = site.play("verify", converged_verify_nodes=sorted(NODES), **PROOF)
    assert "none of these pods ran beside it" in said.out
    assert "proved" in said.out


# In every change: the same two playbooks, which ask no batch system, in the demo and in test_site_life.
@pytest.mark.soak
def test_the_kill_switch_works(site: TorqueSite) -> None:
    site.play("off")
    # The API shows the pods for as long as there is no kubelet that says otherwise.
    for node in NODES:
        assert site.node(node, "systemctl is-active kubelet containerd || true").split() == ["inactive", "inactive"]
    site.play("on")
    until(lambda: len(site.running_pods()) == 2, "the pods are there again")


def test_the_way_back_leaves_every_script_and_node_as_it_was_beside_a_job(
    site: TorqueSite, before: Mapping[str, Any]
) -> None:
    site.kubectl("delete", "deployment", "pods", "--wait=true")
    job = site.qsub("-l", "nodes=n1:ppn=1")
    until(lambda: site.leases_of("n1") == {f"torque/{job}"}, "a job runs")
    said = site.play("restore")
    assert "things are as they were" in said.out
    assert site.job_state(job) == "R"
    site.ctl(f"qdel {job}")
    until(lambda: site.job_state(job) == "C", "it has ended")
    assert site.ran("n1", job)[-1] == "epilogue root"
    for node in NODES:
        site.node(node, "rm -rf /tmp/pwned")
    found = differences(before, look(site))
    # The site's own scripts write there at every job.
    assert {path for parts in found.values() for path in parts} == {LOG}
