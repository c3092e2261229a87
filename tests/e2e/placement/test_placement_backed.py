# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that are jobs of PBS: the daemon between a real API server and PBS, the double or the real one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.placement.cluster import GROUP_NAME, KUBE_BATCH, Cluster, Namespace
from e2e.placement.daemon import Daemon
from e2e.playing import until
from pbs_double import double, real
from pbs_double.cluster import HOSTS
from pbs_double.cluster import Cluster as Pbs
from testbed.kube_api import STRATEGIC_PATCH

pytestmark = pytest.mark.seconds(60)

CONVERGED = "scheduling.converged.hpc/v1alpha1"
NAME = f"backed-{os.getpid()}"
QUEUE = {"scheduling.converged.hpc/queue": NAME}
CORES = "16"
# What an annotation says must end where it is read; the API itself lets no label or node name be more than a word.
HOSTILE = "x\"'; touch /tmp/pwned; $(touch /tmp/pwned) `touch /tmp/pwned`\n#PBS -q workq\n" + "y" * 100_000


@pytest.fixture(scope="module")
def pbs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pbs]:
    folder, root = tmp_path_factory.mktemp("pbs"), real.installation()
    with double.started(folder) if root is None else real.started(root, folder) as running:
        for command in (
            "create queue pods",
            "set queue pods queue_type = Execution",
            "set queue pods enabled = True",
            "set queue pods started = True",
            *(f"set node {host} resources_available.ncpus = {CORES}" for host in HOSTS),
        ):
            assert running.call("qmgr", "-c", command).rc == 0
        yield running


@pytest.fixture(scope="module")
def backed(cluster: Cluster, pbs: Pbs) -> Iterator[Daemon]:
    """The daemon with PBS behind one queue, and one node for each of its hosts, which others keep off."""
    queue = {"apiVersion": CONVERGED, "kind": "Queue", "metadata": {"name": NAME}, "spec": {"backedBy": "pbs"}}
    cluster.api.create(f"/apis/{CONVERGED}/queues", queue)
    nodes = [f"/api/v1/nodes/load-{number:05d}" for number in range(len(HOSTS))]
    taint = {"key": "converged.hpc/backed", "effect": "NoSchedule"}
    for path, host in zip(nodes, HOSTS, strict=True):
        marks = {"metadata": {"labels": {"converged.hpc/batch-node": host}}, "spec": {"taints": [taint]}}
        cluster.api.patch(path, marks, content_type=STRATEGIC_PATCH)
    running = cluster.daemon(
        NAME,
        scheduler_name=NAME,
        lease_name=NAME,
        lease_duration=60,
        renew_deadline=30,
        pbs_bin_dir=str(pbs.bin_dir),
        pbs_account='namespace.labels."site/account"',
        pbs_linger_seconds=2,
    ).start()
    yield running
    running.stop()
    for path in nodes:
        marks = {"metadata": {"labels": {"converged.hpc/batch-node": None}}, "spec": {"taints": None}}
        cluster.api.patch(path, marks, content_type=STRATEGIC_PATCH)
    cluster.api.delete(f"/apis/{CONVERGED}/queues/{NAME}")


@pytest.fixture
def team(cluster: Cluster, backed: Daemon, pbs: Pbs) -> Iterator[Namespace]:
    made = cluster.namespace(f"{NAME}-team", labels={"site/account": "physics"})
    yield made
    made.clear()
    until(lambda: not jobs(pbs), "no job is left")


def jobs(pbs: Pbs) -> dict[str, dict[str, Any]]:
    """All that have not ended, by their id."""
    found: dict[str, dict[str, Any]] = json.loads(pbs.call("qstat", "-f", "-F", "json").out, strict=False).get(
        "Jobs", {}
    )
    return found


def alone(team: Namespace, name: str, **more: Any) -> None:
    notes = {**QUEUE, **more.pop("annotations", {})}
    team.pod(name, scheduler=NAME, annotations=notes, **more)


def test_a_deployment_a_gang_and_half_a_core_run_as_jobs_under_their_account(
    cluster: Cluster, pbs: Pbs, team: Namespace
) -> None:
    container = {"name": "main", "image": "localhost/none", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": QUEUE},
        "spec": {"schedulerName": NAME, "containers": [container]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    path = f"/apis/apps/v1/namespaces/{team.name}/deployments"
    cluster.api.create(path, web)
    team.job("gang", replicas=8, scheduler=NAME, queue=NAME)
    alone(team, "half", cpu="500m")
    until(lambda: len(team.bound()) == 11, "all are bound")
    assert set(team.places().values()) <= {f"load-{number:05d}" for number in range(len(HOSTS))}
    found = jobs(pbs)
    assert sorted(job["Resource_List"]["ncpus"] for job in found.values()) == [1, 1, 1, 8]
    assert {(job["Account_Name"], job["queue"], job["job_state"]) for job in found.values()} == {
        ("physics", "pods", "R")
    }
    group = cluster.api.get(f"{team.group_path(KUBE_BATCH)}/gang")
    (gang,) = [name for name, job in found.items() if job["Job_Name"] == f"cv-{group['metadata']['uid']}_gang"]

    assert pbs.call("qdel", gang).rc == 0
    until(lambda: not team.bound("gang"), "the gang leaves with its job")
    until(lambda: any(reason == "JobEnded" for reason, _note in team.events("gang-0")), "its pods are told why")
    assert len(team.bound()) == 3
    cluster.api.delete(f"{path}/web")
    until(lambda: not team.bound("web") and len(jobs(pbs)) == 1, "its jobs end with the Deployment's pods")


def test_a_queued_job_survives_a_kill_of_the_daemon_and_goes_with_its_pod(
    cluster: Cluster, pbs: Pbs, team: Namespace, backed: Daemon
) -> None:
    alone(team, "large", cpu="33")
    until(lambda: "Can Never Run" in team.condition("large")[1], "the pod is told in PBS's words")
    before = list(jobs(pbs))
    backed.signal(signal.SIGKILL)
    backed.wait()
    alone(team, "small")
    backed.start()
    until(lambda: team.bound() == {"small"}, "the next daemon goes on")
    assert len(before) == 1
    assert [job for job in jobs(pbs) if job in before] == before
    assert len(jobs(pbs)) == 2
    cluster.api.delete(f"{team.path}/pods/large?gracePeriodSeconds=0")
    until(lambda: not set(before) & jobs(pbs).keys(), "the job goes, too")


def test_names_and_notes_of_pods_say_nothing_to_pbs(pbs: Pbs, team: Namespace, backed: Daemon) -> None:
    longest = "0" + "x" * 252
    alone(team, longest, annotations={"converged.hpc/account": HOSTILE, "JobID": HOSTILE})
    alone(team, "late", annotations={"converged.hpc/walltime": HOSTILE})
    team.pod("forged", scheduler=NAME, annotations={**QUEUE, GROUP_NAME: "../kube-system/-rf"})
    until(lambda: team.bound() == {longest}, "a long name is only a name")
    for name, said in (("late", "converged.hpc/walltime"), ("forged", "PodGroup")):
        until(lambda name=name, said=said: said in team.condition(name)[1], f"{name} is told {said}")
        until(
            lambda name=name, said=said: any(said in note for _reason, note in team.events(name)), f"{name}: an Event"
        )
    assert [job["Resource_List"]["select"] for job in jobs(pbs).values()] == ["1:ncpus=1"]
    assert not Path("/tmp/pwned").exists()
    assert backed.leads()


def test_a_namespace_without_an_account_gets_no_job(cluster: Cluster, pbs: Pbs, team: Namespace) -> None:
    other = cluster.namespace(f"{NAME}-other")
    alone(other, "stranger", annotations={"converged.hpc/account": "physics"})
    until(lambda: f"for namespace {other.name}" in other.condition("stranger")[1], "the pod is told")
    assert not jobs(pbs)
    other.clear()


def test_a_job_of_others_closes_its_node_and_who_waits_is_told_until_when(
    pbs: Pbs, team: Namespace, backed: Daemon
) -> None:
    asked = ("-l", f"select=1:ncpus=1:host={HOSTS[0]}", "-l", "walltime=600", "--", "/bin/sleep", "600")
    name = pbs.call("qsub", *asked, user="daemon").out.strip()
    team.pod("huge", scheduler=NAME, cpu="1000")
    try:
        until(lambda: f"on node load-00000 job {name} ends in 0:0" in why(backed, team), "it is told of the job")
        assert "on which batch jobs begin  (load-00000)" in why(backed, team)
        assert backed.status()["batch_jobs_ours"] == 0
    finally:
        pbs.call("qdel", name)
    until(lambda: "batch jobs" not in why(backed, team), "with the job that is over")


def why(backed: Daemon, team: Namespace) -> str:
    return backed.ask("why", f"{team.name}/huge")
