# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Spark on nodes that are shared with Slurm: the guide and its example, with the image of the test bed."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e import spark_guide, spark_site
from e2e.beds import own_bed
from e2e.handover.sharing import CONTROLLER, UNTIL_TOLD, Job, Sharing
from e2e.outage import without_api
from e2e.playing import Said, until
from e2e.site_of import IMAGE
from e2e.spark_guide import Followed
from e2e.spark_record import read_tasks
from e2e.spark_site import EXECUTOR, NAMESPACE, Application
from testbed import spark_image

BED = f"spark-{zlib.crc32(bytes(Path(__file__))):08x}"
TAKEN, DRIVERS = {"n1", "n2"}, "n3"
GROUPS = "podgroups.scheduling.incubator.k8s.io"
TASKS = 60
"""Of each stage, in the example. Both stages outlast the batch job wherever it begins."""
SECONDS = 2.5
"""Of a task, where the application is not the guide's."""
PROOF = {
    "converged_verify_nodes": ["n1"],
    "converged_verify_image": IMAGE,
    "converged_verify_command": ["sleep", "100000"],
}
DRIVER = f"system:serviceaccount:{NAMESPACE}:spark-driver"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Three shared nodes with one slurm.conf, the placement daemon, and all that Spark needs of a site."""
    with own_bed(request, BED, "--nodes", "3", "--slurm-conf", "shared") as bed:
        folder = tmp_path_factory.mktemp("spark")
        sharing = Sharing(bed, folder)
        sharing.set("all", slurm_share_conf="shared")
        if not request.config.getoption("--bed"):
            spark_site.Scheduler(bed, folder / "scheduler").install()
            sharing.play("site")
            spark_site.equip(bed)
        yield sharing


@dataclass(frozen=True, slots=True)
class Story:
    """The guide, followed: a Spark application from whose nodes a batch job has taken two.

    `pods` and `group` are objects of the application before the job, `watched` is what the user has seen of its pods,
    `left` are the commands of the guide that were not typed.
    """

    since: float
    verified: Said
    pods: list[dict[str, Any]]
    group: dict[str, Any]
    before: dict[str, str]
    during: dict[str, str]
    job: Job
    log: str
    watched: str
    left: list[str]


@pytest.fixture(scope="module")
def story(site: Sharing, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Follow the guide: the application runs when the batch job begins, and goes on when the batch job has ended."""
    since, folder = time.time(), tmp_path_factory.mktemp("guide")
    guide, application = Followed(site, folder), Application(site.bed, tasks=TASKS, seconds=0)
    guide.administrator("kubectl label node", NODE=DRIVERS)
    guide.administrator("kubectl apply")
    guide.change_job(guide.user("kubectl config view"))
    verified = guide.verify("ansible-playbook", **PROOF)
    guide.user("kubectl create")
    guide.user("kubectl -n spark wait", timeout=600)
    with (
        ThreadPoolExecutor(1) as pool,
        guide.watching("kubectl -n spark get pods", folder / "watched"),
    ):
        said = pool.submit(guide.user, "kubectl -n spark logs", timeout=spark_guide.LOG_SECONDS)
        until(lambda: set(application.executors().values()) == {"n1", "n2", "n3"}, "an executor works on each node")
        # Tasks of the first stage have ended, so there are blocks to move.
        until(lambda: application.tasks_so_far().finished >= 3, "tasks have ended")
        pods = application.pods()
        before = spark_site.places(pods)
        group = json.loads(site.kubectl("-n", NAMESPACE, "get", GROUPS, spark_site.NAME, "--output=json"))
        options, command = guide.job("srun")
        with site.while_job(*options, command=command) as ended:
            until(lambda: len(application.executors()) == len(before), "those that have left are replaced in its time")
            during = application.executors()
            job = ended()
        log = said.result()
    guide.user("kubectl delete")
    until(lambda: not application.pods(), "nothing of the application is left")
    watched = (folder / "watched").read_text(encoding="utf-8")
    return Story(since, verified, pods, group, before, during, job, log, watched, guide.left)


# In every change rehearsals prove both: test_playbooks.py and test_verify_spark.py.
@pytest.mark.soak
def test_verify_refuses_a_namespace_without_a_quota_and_warns_of_deadlines(site: Sharing, tmp_path: Path) -> None:
    """What is refused without the cluster is rehearsed: `test_verify_spark.py`."""
    shipped = (spark_site.EXAMPLE / "job.yml").read_text(encoding="utf-8")
    changed = shipped.replace("registry.example/spark:CHANGE-ME", spark_image.NAME)
    copied = tmp_path / "job.yml"
    copied.write_text(changed.replace("namespace: spark", "namespace: default"), encoding="utf-8")

    said = site.play("verify", check=False, **PROOF, converged_verify_spark=str(copied), node_share_deadline=20)

    assert said.rc != 0, said.out
    words = " ".join(said.out.split())
    assert "warn [spark] node_share_deadline is 20 s on n1, and executors of job.yml may need 40 s to leave" in words
    assert "refuse [spark] job.yml: namespace default has no ResourceQuota" in words


def test_every_command_of_the_guide_was_typed_and_verify_took_its_file_for_good(story: Story) -> None:
    assert story.left == []
    assert story.verified.rc == 0, story.verified.out
    assert "[spark]" not in story.verified.out
    assert '"proved"' in story.verified.out


def test_the_guide_says_what_the_example_prints(story: Story) -> None:
    assert spark_guide.result() == str(spark_site.true_sum(TASKS))
    assert f"the sum of 60000 numbers is {spark_guide.result()}" in story.log


def test_who_watches_sees_executors_leave_and_others_come(story: Story) -> None:
    rows = [line.split() for line in story.watched.splitlines()]
    assert rows[0][:3] == ["NAME", "READY", "STATUS"]
    leaving = {name for name, node in story.before.items() if node in TAKEN}
    coming = story.during.keys() - story.before.keys()
    assert {(name, "Terminating") for name in leaving} <= {(row[0], row[2]) for row in rows}
    assert {(name, "Running") for name in coming} <= {(row[0], row[2]) for row in rows}


def test_driver_and_executors_are_what_the_example_says(story: Story) -> None:
    found = {pod["metadata"]["name"]: pod["spec"] for pod in story.pods}
    (driver,) = found.keys() - story.before.keys()
    assert found[driver]["nodeName"] == DRIVERS
    assert story.group["spec"]["minMember"] == 2
    for name in story.before:
        spec = found[name]
        assert (spec["schedulerName"], spec["priority"], spec["preemptionPolicy"]) == ("placement", -100, "Never")
        assert spec["serviceAccountName"] == "spark-executor"
        assert not [volume for volume in spec.get("volumes", ()) if "projected" in volume], "no executor has a token"
        assert spec["terminationGracePeriodSeconds"] == 40
        assert spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] == ["/opt/decom.sh"]
        assert {one["key"] for one in spec["tolerations"]} == {
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        }


def test_the_application_and_the_batch_job_both_succeed_and_the_result_is_right(story: Story) -> None:
    assert story.job.nodes == TAKEN
    assert spark_site.found_sum(story.log) == spark_site.true_sum(TASKS), story.log[-3000:]


def test_executors_leave_the_nodes_before_the_job_begins_and_are_replaced_elsewhere(
    site: Sharing, story: Story
) -> None:
    leaving = {name for name, node in story.before.items() if node in TAKEN}
    evicted = {
        event.name: event.received.timestamp()
        for event in site.audit(since=story.since, verb="create", resource="pods/eviction")
        if event.user == CONTROLLER and event.name.startswith(EXECUTOR)
    }
    assert evicted.keys() == leaving
    assert max(evicted.values()) < story.job.began
    assert story.job.pods() == set(), "no pod has processes on the nodes of the job"
    assert set(story.during.values()) == {"n3"}
    assert not leaving & story.during.keys()


def test_executors_that_leave_lose_no_task_and_no_finished_work(story: Story) -> None:
    tasks = read_tasks(story.log)
    leaving = {name.removeprefix(f"{EXECUTOR}-") for name, node in story.before.items() if node in TAKEN}
    assert tasks.decommissioned.keys() >= leaving
    assert not tasks.cut_off & leaving
    assert (tasks.lost, tasks.repeated) == (0, 0)
    assert tasks.finished == 2 * TASKS


def test_the_driver_asks_for_what_its_role_gives_and_for_nothing_else(site: Sharing, story: Story) -> None:
    (role,) = [
        one for one in spark_site.namespace() if (one["kind"], one["metadata"]["name"]) == ("Role", "spark-driver")
    ]
    allowed = {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}
    asked = [event for event in site.audit(since=story.since) if event.user == DRIVER]
    assert {event.namespace for event in asked} == {NAMESPACE}
    assert {(event.verb, event.resource) for event in asked} <= allowed
    assert not [event for event in asked if event.code == 403]


def test_executors_begin_as_a_gang(site: Sharing, story: Story) -> None:
    binders = {
        event.user
        for event in site.audit(since=story.since, verb="create", resource="pods/binding")
        if event.name.startswith(EXECUTOR)
    }
    assert binders == {"converged:placement:ctl"}


@pytest.mark.soak
def test_an_application_outlives_nodes_that_are_taken_again_and_again(site: Sharing, story: Story) -> None:
    assert story.log
    application = Application(site.bed, tasks=3 * TASKS, seconds=SECONDS)
    application.start()
    for number in range(6):
        node = ("n1", "n2")[number % 2]
        until(lambda: len(application.executors()) == 3, "all executors work")
        assert node in application.executors().values(), "executors go where fewest of them are"
        site.job("-N1", "-w", node, command="sleep 2")
        site.free()
    tasks = read_tasks(application.log_at_its_end(limit=900))
    assert len(tasks.decommissioned) >= 6
    # A block may have been given to an executor that leaves next, and be under way then: it is computed again.
    assert tasks.lost == 0
    assert tasks.repeated < tasks.finished / 10, tasks


@pytest.mark.soak
def test_an_application_whose_driver_has_to_leave_begins_again_and_succeeds(site: Sharing, story: Story) -> None:
    assert story.log
    application = Application(site.bed, tasks=30, seconds=SECONDS)
    application.start()
    until(lambda: len(application.executors()) == 3, "all executors work")
    (first,) = application.pods_of("driver")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first, "namespace": NAMESPACE}}
    path = f"{spark_site.PODS}/{first}/eviction"
    site.kubectl("create", "--raw", path, "--filename=-", input=json.dumps(eviction))
    until(lambda: application.pods_of("driver") - {first} != set(), "another driver comes")
    application.log_at_its_end()


@pytest.mark.soak
def test_executors_are_replaced_although_the_kubelet_of_their_node_was_stopped(site: Sharing, story: Story) -> None:
    assert story.log
    application = Application(site.bed, tasks=2 * TASKS, seconds=SECONDS)
    application.start()
    until(lambda: set(application.executors().values()) == {"n1", "n2", "n3"}, "an executor works on each node")
    gone = {name for name, node in application.executors().items() if node == "n1"}
    with ExitStack() as job:
        with without_api(site.bed):
            ended = job.enter_context(site.while_job("-N1", "-w", "n1", command=UNTIL_TOLD))
        assert not site.is_active("n1"), "without the API the job is served by stop"
        until(lambda: not gone & application.names(), "the API knows that these executors are gone")
        until(lambda: len(application.executors()) == 3, "those are replaced while the job has the node")
        assert "n1" not in application.executors().values()
        assert not site.is_active("n1")
        assert site.tell_to_end(ended).kubelets() == {"inactive"}
    application.log_at_its_end()
    site.free()
