# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of all kinds, nodes that batch wants for itself, odd names, and a site whose own Prolog refuses."""

from __future__ import annotations

import shlex
import time

import pytest
from e2e import workload
from e2e.handover.sharing import POD, TASK, Sharing, parse
from e2e.playing import until

STATE = "converged.hpc/batch-state"
FLAG = "/etc/converged/enabled"
SITE_PROLOG = "/etc/slurm/prolog.sh"
HOSTILE = [
    "two words",
    "'quoted\" \\ twice",
    "first\nevent=end wlm=slurm job=1 run=0 outcome=accept",
    "$(touch /tmp/e2e-pwned)`touch /tmp/e2e-pwned`;touch /tmp/e2e-pwned",
    "-rf",
    "--job=1",
    "../../../etc/passwd",
    "\u202enu\xefve %s %n \x07",
]


def batch_state(site: Sharing, node: str) -> str:
    return str(site.objects("nodes")[node]["metadata"]["annotations"].get(STATE, ""))


@pytest.mark.soak
def test_a_job_cancelled_while_its_nodes_are_taken_lets_them_go(site: Sharing) -> None:
    workload.apply(site, workload.budget("guarded"), workload.pod("guarded", node="n1"))
    until(lambda: bool(workload.ready(site, "guarded")), "the pod runs")
    uid = workload.uids(site, "guarded")
    job = site.batch("-w", "n1")
    until(lambda: site.tainted() == {"n1"}, "the job is being configured")
    site.ctl(f"scancel {job}")
    site.free()
    assert workload.uids(site, "guarded") == uid
    assert set(workload.ready(site, "guarded")) == {"guarded"}, "nobody disturbed it"


def test_array_tasks_and_components_of_a_heterogeneous_job_are_jobs_like_others(site: Sharing) -> None:
    workload.on_both_nodes(site)
    log = "/var/log/slurm/e2e-%A_%a.out"
    seen = TASK.replace("COMMAND", "sleep 1")
    asked_at = time.time()
    with site.lingering():
        site.ctl(shlex.join(["sbatch", "--array=1-5", "-n1", f"--output={log}", "--wrap", seen]))
        until(lambda: not site.ctl("squeue --noheader"), "all tasks have ended")
    read = "cat /var/log/slurm/e2e-*.out 2>/dev/null; rm -f /var/log/slurm/e2e-*.out"
    out = "".join(site.node(node, read) for node in site.nodes)
    assert (out.count("began"), out.count("ended")) == (5, 5)
    assert not POD.findall(out)
    used = parse(out).nodes
    assert used <= {"n1", "n2"}
    site.free()
    patches = site.taint_patches(since=asked_at)
    changes = {node: [on for _at, name, on in patches if name == node] for node in site.nodes}
    as_used = {node: [True, False] if node in used else [] for node in site.nodes}
    assert changes == as_used, "tasks one after the other do not flap, and a node without a task is not touched"

    until(lambda: len(workload.ready(site, "web")) == 2, "pods return")
    words = ["-n1", "-w", "n1", "sh", "-c", seen, ":", "-n1", "-w", "n2", "sh", "-c", seen]
    said = site.srun(*words).out
    assert (said.count("began"), said.count("ended")) == (2, 2)
    assert not POD.findall(said)
    site.free()


@pytest.mark.soak
def test_an_allocation_without_a_process_holds_its_nodes_until_it_ends(site: Sharing) -> None:
    workload.on_both_nodes(site)
    site.ctl("salloc -N2 --no-shell")
    until(lambda: len(site.leases("n1")) == len(site.leases("n2")) == 1, "the job has its nodes")
    held = time.time()
    site.let_repair()
    assert len(site.leases("n1")) == len(site.leases("n2")) == 1
    assert site.running_on("n1") | site.running_on("n2") == set()
    assert site.pods_started("n1", since=held, until=time.time()) == set()
    site.ctl("squeue --noheader --format=%A | xargs scancel")
    site.free()
    site.pods_return("web", 2)


@pytest.mark.soak
def test_a_node_that_is_not_in_kubernetes_or_not_converted_runs_jobs_beside_others(site: Sharing) -> None:
    workload.on_both_nodes(site)
    site.node("n2", f"rm {FLAG}; systemctl stop kubelet")
    site.kubectl("delete", "node", "n2")
    try:
        job = site.job("-N2", command="sleep 1")
        assert job.nodes == {"n1", "n2"}
        assert not next(moment.pods for moment in job.moments if moment.node == "n1")
        site.until("ctl", "journalctl --unit=converged-controller --output=cat --lines=50 | grep -q unknown=n2")
    finally:
        site.node("n2", f"touch {FLAG}; systemctl start kubelet")
        until(lambda: "n2" in site.objects("nodes"), "n2 registers again")
        # What site.yml does with a node that has registered: its mode, then pods may come.
        site.kubectl("label", "node", "n2", "node-restriction.kubernetes.io/converged-share-mode=handover")
        site.kubectl("taint", "node", "n2", "converged.hpc/converting-")
    site.free()


def test_nodes_that_batch_wants_for_itself_take_no_new_pods_until_it_gives_them_back(site: Sharing) -> None:
    workload.on_both_nodes(site)
    steps = {
        "DRAIN: it's odd": (
            'scontrol update nodename=n2 state=drain reason="it\'s odd"',
            "scontrol update nodename=n2 state=resume",
        ),
        "MAINT": (
            "scontrol create reservation reservationname=e2e starttime=now duration=10 users=root flags=maint nodes=n2",
            "scontrol delete reservationname=e2e",
        ),
    }
    for state, (begin, end) in steps.items():
        site.ctl(begin)
        until(lambda state=state: batch_state(site, "n2").startswith(state), f"n2 says {state}")  # type: ignore[misc]
        assert site.tainted() == {"n2"}
        assert set(workload.ready(site, "web").values()) == {"n1", "n2"}, "pods that are there stay"
        site.ctl(end)
        until(lambda: not site.tainted() and not batch_state(site, "n2"), "n2 is free again")


@pytest.mark.soak
def test_a_node_that_is_to_be_rebooted_takes_no_new_pods(site: Sharing) -> None:
    for host in ("ctl", "n1", "n2"):
        site.node(host, "echo RebootProgram=/bin/true >> /etc/slurm/slurm.conf")
    try:
        site.ctl("scontrol reconfigure")
        job = site.batch("-w", "n2")  # with nobody on it the node would be rebooted at once
        until(lambda: site.state(job).startswith("RUNNING"), "the job has n2")
        site.ctl("scontrol reboot n2")
        until(lambda: "REBOOT_REQUESTED" in batch_state(site, "n2"), "the request shows")
        site.ctl("scontrol cancel_reboot n2")
        until(lambda: batch_state(site, "n2") == "" and site.tainted() == {"n2"}, "the job still has n2")
        site.ctl(f"scancel {job}")
        site.free()
        assert batch_state(site, "n2") == ""
    finally:
        for host in ("ctl", "n1", "n2"):
            site.node(host, "sed -i /^RebootProgram=/d /etc/slurm/slurm.conf")
        site.ctl("scontrol reconfigure")


def test_no_name_and_no_environment_of_a_job_is_taken_for_anything_else(site: Sharing) -> None:
    before = {node: site.told(node) for node in site.nodes}
    for name in HOSTILE:
        environment = ["PYTHONPATH=/tmp", "ENV=/tmp/e2e-env", f"SPANK_X={name}", f"SLURM_JOB_RESTART_COUNT={name}"]
        words = ["srun", "-N2", f"--job-name={name}", f"--comment={name}", "true"]
        site.bed.ssh("ctl", ["env", *environment, *words])
    site.quiet()
    for host in ("ctl", "n1", "n2"):
        assert site.node(host, "ls /tmp/e2e-pwned 2>/dev/null; true") == ""
    for node in site.nodes:
        site.told(node)  # whatever they have said is in the journal
        lines = site.said(node, since=before[node])
        assert all(line.startswith("event=") for line in lines)
        begun = [line for line in lines if line.startswith("event=begin")]
        assert len(begun) >= len(HOSTILE)
        assert all("outcome=accept" in line for line in begun)
    site.free()


# In every change: payloads/test_slurm_scripts (ours does not run then, and the Epilog of the run that is put back ends
# that run alone), and above a drained node that takes no pods.
@pytest.mark.soak
def test_a_sites_own_prolog_that_fails_is_treated_by_slurm_as_without_us(site: Sharing) -> None:
    host = "n2"
    workload.on_both_nodes(site)
    kept = site.node(host, f"cat {SITE_PROLOG}")
    site.node(host, f"cat > {SITE_PROLOG}", input="#!/bin/sh\nexit 3\n")
    try:
        job = site.batch("-N2")
        until(lambda: site.state(job).split() == ["PENDING", "1"], "the job is put back")
        site.until("ctl", f"squeue --noheader --jobs={job} --format=%r | grep -q 'launch failed requeued held'")
        site.until("ctl", f"scontrol show node {host} | grep -q 'Prolog error'")
        until(lambda: not site.leases("n1") and not site.leases("n2"), "no lease is left")
        until(lambda: batch_state(site, host).startswith("DRAIN"), "the drained node takes no pods")
        site.free("n1")
    finally:
        site.node(host, f"cat > {SITE_PROLOG}", input=kept)
        site.ctl(f"scancel {job}; scontrol update nodename={host} state=resume")
    site.free()
    until(lambda: len(workload.ready(site, "web")) == 2, "pods return")
