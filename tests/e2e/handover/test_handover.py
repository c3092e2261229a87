# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hand-over of nodes on a converted site: a job has its nodes to itself from its first task to its end."""

from __future__ import annotations

import json
import time

import pytest
from e2e import workload
from e2e.handover.sharing import CONTROLLER, UNTIL_TOLD, Sharing
from e2e.job_times import AFTER, BEFORE, DURING
from e2e.playing import until
from e2e.whole_site import CONF

HELD = "ls /run/converged/controller.sock.held"
STATIC = "/etc/kubernetes/manifests/static.json"


# In every change a job stops the kubelet and pods stay away in test_handover_faults (without the API) and, by the
# setting, below and in test_cri_bridge.
@pytest.mark.parametrize("way", ["quiesce", pytest.param("stop", marks=pytest.mark.soak)])
def test_no_ordinary_pod_runs_or_starts_while_a_job_has_its_nodes(site: Sharing, way: str) -> None:
    site.settings(handover=way)
    try:
        site.node("n1", f"cat > {STATIC}", input=json.dumps(workload.pod("static")))
        workload.apply(site, workload.daemonset("agent"))
        workload.on_both_nodes(site, 4)
        until(lambda: len({**workload.ready(site, "agent"), **workload.ready(site, "static")}) == 3, "the others")
        staying, asked_at = workload.uids(site, "agent", "static"), time.time()

        job = site.job("-N2", command="sleep 4")

        assert job.kubelets() == {"active" if way == "quiesce" else "inactive"}
        assert {moment.cores for moment in job.moments} == {"0"}, "what stays is confined"
        assert job.pods() == staying, "only pods of a DaemonSet and static ones stay"
        for node in ("n1", "n2"):
            assert site.pods_started(node, since=job.began, until=job.ended) == set()
        taints = {name: at for at, name, on in site.taint_patches(since=asked_at) if on}
        evictions = {
            event.name: event.received.timestamp()
            for event in site.audit(since=asked_at, verb="create", resource="pods/eviction")
            if event.user == CONTROLLER
        }
        assert set(taints) == {"n1", "n2"}
        assert len(evictions) == 4
        assert max(taints.values()) < min(evictions.values()) < max(evictions.values()) < job.began
        site.free()
        site.pods_return("web", 4)
        lifted = [at for at, _node, on in site.taint_patches(since=asked_at) if not on]
        assert min(lifted) > job.ended
        cores = "cat /sys/fs/cgroup/cpuset/kubepods/cpuset.cpus || cat /sys/fs/cgroup/kubepods/cpuset.cpus"
        assert site.node("n1", cores).strip() != "0", "and no longer than the job"
    finally:
        site.node("n1", f"rm -f {STATIC}")
        site.settings(handover="quiesce")


def test_the_first_of_two_jobs_to_end_gives_nothing_back_and_the_next_job_finds_the_node_free(site: Sharing) -> None:
    workload.on_both_nodes(site)
    asked_at = time.time()
    with site.while_job("-n1", "-w", "n1", command=UNTIL_TOLD) as longer:
        shorter = site.job("-n1", "-w", "n1", command="sleep 1")
        assert shorter.pods() == set()
        until(lambda: len(site.leases("n1")) == 1, "the shorter job's lease ends")
        site.let_repair("n1")
        assert (site.show("n1")["phase"], site.tainted()) == ("held", {"n1"})
        assert set(workload.ready(site, "web").values()) == {"n2"}
        assert site.ctl(HELD).split() == ["n1"], "what starts on n1 now need not be asked for"
        with site.lingering():
            longer_job = site.tell_to_end(longer)
            next_job = site.job("-n1", "-w", "n1", command="sleep 1")
            site.quiet()
    assert longer_job.pods() | next_job.pods() == set()
    assert site.pods_started("n1", since=shorter.began, until=next_job.ended) == set()
    site.free()
    site.pods_return("web", 2)
    on_n1 = [on for _at, node, on in site.taint_patches(since=asked_at) if node == "n1"]
    assert site.ctl(HELD) == ""
    assert on_n1 == [True, False], "the taint was set once and lifted once: back-to-back jobs do not flap"


@pytest.fixture
def soon_requeued(site: Sharing) -> None:
    """A job that is requeued waits for as long as credentials live: two minutes, where nothing is said."""
    for host in (*site.nodes, *site.controllers):
        site.node(host, f"grep -q cred_expire {CONF} || echo AuthInfo=cred_expire=30 >> {CONF}")
        site.node(host, "systemctl try-restart slurmd slurmctld")
    site.ctl("until scontrol ping | grep -q UP; do sleep 0.2; done")


@pytest.mark.soak
@pytest.mark.usefixtures("soon_requeued")
def test_a_late_epilog_of_an_earlier_run_does_not_free_a_requeued_job(site: Sharing) -> None:
    workload.apply(site, workload.deployment("web", 2))
    job = site.batch("-N2", "--requeue")
    until(lambda: site.state(job).split() == ["RUNNING", "0"], "the job runs")
    until(lambda: site.leases("n1") == {f"slurm.{job}.r0.lease"}, "its lease")
    site.ctl(f"scontrol requeue {job}")
    until(lambda: site.state(job).split() == ["PENDING", "1"], "it has left its nodes")
    # Slurm waits until the credential of the earlier run has expired. Sent earlier, slurmd may run no Prolog for it.
    until(lambda: site.state(job).split() == ["RUNNING", "1"], "it runs again")
    until(lambda: site.leases("n1") == site.leases("n2") == {f"slurm.{job}.r1.lease"}, "the lease of its new run")
    until(lambda: not site.running_on("n1"), "pods that had come back leave again")

    late = f"SLURM_JOB_ID={job} SLURM_JOB_RESTART_COUNT=0 SLURM_SCRIPT_CONTEXT=epilog_slurmd SLURMD_NODENAME=n1"
    site.node("n1", f"env -i {late} /etc/converged/slurm/epilog")
    site.ctl(f"sudo -u slurm env -i {late} SLURM_JOB_NODELIST=n[1-2] /etc/converged/slurm/epilog-slurmctld")
    site.let_repair()
    assert site.leases("n1") == {f"slurm.{job}.r1.lease"}
    assert site.tainted() == {"n1", "n2"}
    assert site.running_on("n1") == set()
    site.ctl(f"scancel {job}")
    site.free()


@pytest.mark.parametrize(
    "moment", [DURING, pytest.param(BEFORE, marks=pytest.mark.soak), pytest.param(AFTER, marks=pytest.mark.soak)]
)
def test_an_administrators_cordon_is_never_lifted(site: Sharing, moment: str) -> None:
    asked: list[float] = []

    def cordon() -> None:
        asked.append(time.time())
        site.kubectl("cordon", "n1")
        asked.append(time.time())

    if moment == BEFORE:
        cordon()
    with site.while_job("-N2", command=UNTIL_TOLD) as ended:
        if moment == DURING:
            cordon()
        job = site.tell_to_end(ended)
    if moment == AFTER:
        cordon()
    assert job.when(*asked) == moment
    site.free()
    cordoned = {name for name, node in site.objects("nodes").items() if node["spec"].get("unschedulable")}
    assert cordoned == {"n1"}


def test_a_kubelet_that_the_administrator_stopped_is_not_started(site: Sharing) -> None:
    site.settings(handover="stop")
    try:
        site.node("n1", "systemctl stop kubelet")
        job = site.job("-N2", command="sleep 1")
        assert job.kubelets() == {"inactive"}
        site.free("n2")
        until(lambda: site.show("n1")["phase"] == "open", "n1 given back")
        assert (site.is_active("n1", "containerd"), site.is_active("n1")) == (True, False)
    finally:
        site.settings(handover="quiesce")
