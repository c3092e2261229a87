# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`nodeshare controller` beside a real slurmctld and a real API: a job's nodes are its own from its first task on.

The nodes' side is not installed here: everything that pods notice comes from the controller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e import playing, workload
from e2e.beds import own_bed
from e2e.playing import until
from testbed import api
from testbed.controlplane import kubeconfig

# In every change test_handover has pods leave and return and a cordon that stays, test_handover_jobs a drained node,
# test_handover_faults an end that was never told and an API that is away; payloads/test_slurm_scripts a service that is
# away, and molecule (share) installs it twice.
pytestmark = pytest.mark.soak

BED = f"controller-{os.getpid()}"
SCRIPT = """#!/usr/bin/python3
import json, os, socket, sys
words = {"wlm": "slurm", "job": os.environ["SLURM_JOB_ID"], "run": os.environ.get("SLURM_RESTART_COUNT", "0")}
words.update(event=sys.argv[0].rpartition("/")[2], nodes=os.environ["SLURM_JOB_NODELIST"])
try:
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(250)
    peer.connect("/run/converged/controller.sock")
    peer.sendall(json.dumps(words).encode() + b"\\n")
    peer.makefile().readline()
except OSError:
    pass
"""
KEYS = "PrologSlurmctld=/etc/converged/prolog\nEpilogSlurmctld=/etc/converged/epilog\n"


class Cluster(playing.Site):
    """The bed, with the controller installed by its role."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.set("all", node_share_controller_period=2, node_share_controller_deadline=200)

    def play(self, tasks_from: str) -> dict[str, int]:
        """Changes by host."""
        return self.run([playing.play("converged_controllers", f"node_share/{tasks_from}")]).changed()

    def pods_on_nodes(self) -> set[str]:
        """Nodes with pods that have not ended and are not about to."""
        return {pod["spec"]["nodeName"] for pod in self.objects("pods").values() if "nodeName" in pod["spec"]}


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes that are in Slurm and in Kubernetes."""
    with own_bed(request, BED) as bed:
        api.command_line("join", bed.bed.name, timeout=600)
        found = Cluster(bed, tmp_path_factory.mktemp("controller"))
        found.kubectl("label", "nodes", "n1", "n2", "node-restriction.kubernetes.io/converged-share-mode=handover")
        identity = kubeconfig(bed.bed).read_text(encoding="utf-8")
        found.ctl("mkdir -p /etc/converged; umask 077; cat > /etc/converged/controller.kubeconfig", input=identity)
        for event in ("prolog", "epilog"):
            found.ctl(f"cat > /etc/converged/{event}; chmod 755 /etc/converged/{event}", input=SCRIPT)
        for host in ("ctl", "n1", "n2"):
            text = found.node(host, "cat /etc/slurm/slurm.conf")
            if "EpilogSlurmctld=" not in text:
                found.node(host, "cat > /etc/slurm/slurm.conf", input=KEYS + text)
        # Slurm 22.05 takes a first PrologSlurmctld only when it starts: a reconfigure shows it, and never runs it.
        found.ctl("systemctl restart slurmctld; until scontrol ping | grep -q UP; do sleep 0.2; done")
        found.play("controller")
        yield found
        found.play("controller_restore")


def test_installing_it_again_changes_nothing(cluster: Cluster) -> None:
    assert cluster.play("controller") == {"ctl": 0}
    assert cluster.is_active("ctl", "converged-controller")


def test_pods_leave_both_nodes_before_the_first_task_and_return_after_the_last(cluster: Cluster) -> None:
    until(lambda: not cluster.tainted(), "both nodes are open to pods")
    try:
        workload.on_both_nodes(cluster, 4)
        lasts = "echo started; until test -e /run/e2e-go; do sleep 0.2; done"
        cluster.ctl(f"nohup srun -N2 sh -c '{lasts}' > /tmp/srun.out 2>&1 < /dev/null &")
        until(lambda: "started" in cluster.ctl("cat /tmp/srun.out"), "the job starts")
        assert (cluster.tainted(), cluster.pods_on_nodes()) == ({"n1", "n2"}, set())
        for node in ("n1", "n2"):
            cluster.ask(node, "touch", "/run/e2e-go")
        until(lambda: not cluster.tainted(), "the taints are lifted")
        until(lambda: all("nodeName" in pod["spec"] for pod in cluster.objects("pods").values()), "pods return")
    finally:
        cluster.kubectl("delete", "deployment", "web", "--wait=true")
    assert "patched=2 evicted=4" in cluster.ctl("journalctl -u converged-controller --output=cat")


def test_an_administrators_cordon_outlives_a_job(cluster: Cluster) -> None:
    cluster.kubectl("cordon", "n1")
    try:
        cluster.ctl("srun -N2 true")
        until(lambda: not cluster.tainted(), "the taints are lifted")
        cordoned = {name for name, node in cluster.objects("nodes").items() if node["spec"].get("unschedulable")}
        assert cordoned == {"n1"}
    finally:
        cluster.kubectl("uncordon", "n1")


def test_a_drained_node_of_slurm_is_tainted_until_it_is_resumed(cluster: Cluster) -> None:
    cluster.ctl("scontrol update nodename=n2 state=drain reason='disk is odd'")
    try:
        until(lambda: cluster.tainted() == {"n2"}, "the drained node is tainted")
        assert (
            cluster.objects("nodes")["n2"]["metadata"]["annotations"]["converged.hpc/batch-state"]
            == "DRAIN: disk is odd"
        )
    finally:
        cluster.ctl("scontrol update nodename=n2 state=resume")
    until(lambda: not cluster.tainted(), "the resumed node is free")


def test_a_job_whose_end_nobody_heard_gives_its_nodes_back(cluster: Cluster) -> None:
    cluster.ctl("sbatch -N2 --wrap 'sleep 300'")
    until(lambda: cluster.tainted() == {"n1", "n2"}, "the nodes are tainted")
    cluster.ctl("systemctl kill --signal=KILL converged-controller; systemctl stop converged-controller")
    cluster.ctl("scancel --user=root; while squeue -h | grep -q .; do sleep 0.2; done")
    assert cluster.tainted() == {"n1", "n2"}
    cluster.ctl("systemctl start converged-controller")
    until(lambda: not cluster.tainted(), "the stale holds are cleared")


def test_without_the_service_a_job_starts_all_the_same(cluster: Cluster) -> None:
    cluster.ctl("systemctl stop converged-controller")
    try:
        cluster.ctl("timeout 280 srun -N2 true")
    finally:
        cluster.ctl("systemctl start converged-controller")
