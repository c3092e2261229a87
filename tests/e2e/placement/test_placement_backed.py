# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that are jobs of PBS: the daemon between a real API server and PBS, the double or the real one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.placement.cluster import CONVERGED, GROUP_NAME, KUBE_BATCH, Cluster, Namespace
from e2e.placement.daemon import Daemon
from e2e.playing import until
from pbs_double import double, real
from pbs_double.cluster import HOSTS
from pbs_double.cluster import Cluster as Pbs
from testbed.kube_api import STRATEGIC_PATCH

NAME = f"backed-{os.getpid()}"
QUEUE = {"scheduling.converged.hpc/queue": NAME}
CORES = "16"
JOB_TAG = "converged.hpc/job-tag"
HELD = "example.org/held"
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
        marks = {
            "metadata": {"labels": {"node-restriction.kubernetes.io/converged-batch-node": host}},
            "spec": {"taints": [taint]},
        }
        cluster.api.patch(path, marks, content_type=STRATEGIC_PATCH)
    running = cluster.daemon(
        NAME,
        scheduler_name=NAME,
        lease_name=NAME,
        pbs_bin_dir=str(pbs.bin_dir),
        pbs_account='namespace.labels."site/account"',
        pbs_linger_seconds=2,
    ).start()
    yield running
    running.stop()
    for path in nodes:
        marks = {
            "metadata": {"labels": {"node-restriction.kubernetes.io/converged-batch-node": None}},
            "spec": {"taints": None},
        }
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
    tag = f"_{group['metadata']['uid']}_{team.name}_"
    (gang,) = [name for name, job in found.items() if job["Variable_List"]["CONVERGED_TAG"].endswith(tag)]
    assert {"gang", "half"} <= {job["Job_Name"] for job in found.values()}
    assert found[gang]["Job_Name"] == "gang"
    members = [pod["metadata"] for pod in team.pods() if pod["metadata"]["name"].startswith("gang")]
    assert {meta["annotations"][JOB_TAG] for meta in members} == {group["metadata"]["uid"]}

    assert pbs.call("qdel", gang).rc == 0
    until(lambda: not team.bound("gang"), "the gang leaves with its job")
    until(lambda: any(reason == "JobEnded" for reason, _note in team.events("gang-0")), "its pods are told why")
    assert len(team.bound()) == 3
    cluster.api.delete(f"{path}/web")
    until(lambda: not team.bound("web") and len(jobs(pbs)) == 1, "its jobs end with the Deployment's pods")


def test_a_killed_daemon_and_mom_cost_no_job_that_has_a_pod_and_a_gang_without_its_group_leaves_before_its_job(
    cluster: Cluster, pbs: Pbs, team: Namespace, backed: Daemon
) -> None:
    alone(team, "large", cpu="33")
    until(lambda: "Can Never Run" in team.condition("large")[1], "the pod is told in PBS's words")
    first, second = ({"kubernetes.io/hostname": f"load-{number:05d}"} for number in range(len(HOSTS)))
    # What keeps its pods might as well be a container.
    team.job("crew", replicas=2, scheduler=NAME, queue=NAME, nodeSelector=first, finalizers=[HELD])
    alone(team, "steady", nodeSelector=second)
    until(lambda: len(team.bound()) == 3, "all but the large one are bound")
    before = jobs(pbs)
    crew, large = (
        next(name for name, job in before.items() if job["Job_Name"] == known) for known in ("crew", "large")
    )
    backed.signal(signal.SIGKILL)
    backed.wait()
    cluster.end_lease(NAME)
    with requeued(pbs, crew):
        cluster.api.delete(f"{team.group_path(KUBE_BATCH)}/crew")
        alone(team, "small")
        backed.start()
        until(lambda: team.bound() == {"steady"}, "the gang is asked to leave")
        assert jobs(pbs)[crew]["job_state"] == "Q"
    until(lambda: team.bound() == {"small", "steady"}, "the next daemon goes on")
    assert {pod["metadata"]["name"] for pod in team.pods()} >= {"crew-0", "crew-1"}
    assert before.keys() <= jobs(pbs).keys()
    assert len(jobs(pbs)) == len(before) + 1
    for number in range(2):
        cluster.api.patch(f"{team.path}/pods/crew-{number}", {"metadata": {"finalizers": None}})
    cluster.api.delete(f"{team.path}/pods/large?gracePeriodSeconds=0")
    until(lambda: not {crew, large} & jobs(pbs).keys(), "their jobs go, too")
    until(lambda: any(reason == "NotBacked" for reason, _note in team.events("crew-0")), "it is told why it had to go")
    assert (team.bound(), len(jobs(pbs))) == ({"small", "steady"}, 2)


@contextlib.contextmanager
def requeued(pbs: Pbs, job: str) -> Iterator[None]:
    """The MoM that has the job dies; the next one gives it back, and PBS does not say any more where it was."""
    assert pbs.call("qmgr", "-c", "set queue pods started = False").rc == 0
    try:
        assert pbs.on(HOSTS[0], "kill -9 $(cat $PBS_HOME/mom_priv/mom.lock)").rc == 0
        until(lambda: "down" in pbs.call("pbsnodes", "-a").out, "its MoM is gone")
        assert pbs.on(HOSTS[0], "pbs_mom").rc == 0
        until(lambda: jobs(pbs)[job]["job_state"] == "Q", "it waits again")
        yield
    finally:
        assert pbs.call("qmgr", "-c", "set queue pods started = True").rc == 0


def test_names_and_notes_of_pods_say_nothing_to_pbs(pbs: Pbs, team: Namespace, backed: Daemon) -> None:
    longest = "0" + "x" * 252
    notes = {"converged.hpc/account": HOSTILE, "JobID": HOSTILE, JOB_TAG: HOSTILE[:99]}
    alone(team, longest, annotations=notes)
    alone(team, "late", annotations={"converged.hpc/walltime": HOSTILE})
    team.pod("forged", scheduler=NAME, annotations={**QUEUE, GROUP_NAME: "../kube-system/-rf"})
    until(lambda: team.bound() == {longest}, "a long name is only a name")
    (known,) = [pod["metadata"] for pod in team.pods() if pod["metadata"]["name"] == longest]
    assert known["annotations"][JOB_TAG] == known["uid"]
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
    cluster: Cluster, pbs: Pbs, team: Namespace, backed: Daemon
) -> None:
    asked = ("-l", f"select=1:ncpus=1:host={HOSTS[0]}", "-l", "walltime=600", "--", "/bin/sleep", "600")
    name = pbs.call("qsub", *asked, user="daemon").out.strip()
    # It fits on the node, and waits because its namespace has no account at PBS.
    other = cluster.namespace(f"{NAME}-other")
    alone(other, "waits")
    team.pod("huge", scheduler=NAME, cpu="1000")
    try:
        until(
            lambda: f"on node load-00000 job {name} ends in 0:0" in why(backed, other, "waits"), "it is told of the job"
        )
        assert "on which batch jobs begin  (load-00000)" in why(backed, other, "waits")
        assert name not in why(backed, team, "huge"), "the end of that job does not help it"
        assert backed.status()["batch_jobs_ours"] == 0
    finally:
        pbs.call("qdel", name)
    until(lambda: "batch jobs" not in why(backed, other, "waits"), "with the job that is over")
    other.clear()


def why(backed: Daemon, namespace: Namespace, pod: str) -> str:
    return backed.ask("why", f"{namespace.name}/{pod}")
