# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Spark on nodes that are shared with Slurm: the example that ships, with the image of the test bed."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e import spark_site
from e2e.beds import own_bed
from e2e.handover.sharing import CONTROLLER, Job, Sharing
from e2e.playing import until
from e2e.site_of import IMAGE
from e2e.spark_record import read_tasks
from e2e.spark_site import EXECUTOR, NAMESPACE, Application
from testbed import spark_image

BED = f"spark-{zlib.crc32(bytes(Path(__file__))):08x}"
TAKEN = {"n1", "n2"}
# Both stages outlast the batch job wherever it begins, and a task is shorter than the executors' grace.
TASKS, SECONDS = 60, 2.5
PROOF = {
    "converged_verify_nodes": ["n1"],
    "converged_verify_image": IMAGE,
    "converged_verify_command": ["sleep", "100000"],
}
DRIVER = f"system:serviceaccount:{NAMESPACE}:spark-driver"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Three shared nodes, the placement daemon on the batch controller, and all that Spark needs of a site."""
    with own_bed(request, BED, "--nodes", "3") as bed:
        folder = tmp_path_factory.mktemp("spark")
        sharing = Sharing(bed, folder)
        if not request.config.getoption("--bed"):
            spark_site.Scheduler(bed, folder / "scheduler").install()
            sharing.play("site")
            spark_site.prepare(bed, drivers="n3")
        yield sharing


@dataclass(frozen=True, slots=True)
class Story:
    """A Spark application from whose nodes a batch job has taken two."""

    since: float
    before: dict[str, str]
    during: dict[str, str]
    job: Job
    log: str


@pytest.fixture(scope="module")
def story(site: Sharing) -> Story:
    """Play it: the application runs when the batch job begins, and goes on when the batch job has ended."""
    since = time.time()
    application = Application(site.bed, tasks=TASKS, seconds=SECONDS)
    application.start()
    until(lambda: set(application.executors().values()) == {"n1", "n2", "n3"}, "an executor works on each node")
    # Tasks of the first stage have ended, so there are blocks to move.
    until(lambda: application.tasks_so_far().finished >= 3, "tasks have ended")
    before = application.executors()
    with site.while_job("-N2", "-w", "n1,n2", command="sleep 20") as ended:
        until(lambda: len(application.executors()) == len(before), "those that have left are replaced in its time")
        during = application.executors()
        job = ended()
    log = application.log_at_its_end()
    return Story(since, before, during, job, log)


def test_verify_judges_the_file_of_a_user_as_the_guide_says(site: Sharing, tmp_path: Path) -> None:
    shipped = (spark_site.EXAMPLE / "job.yml").read_text(encoding="utf-8")
    changed = shipped.replace("registry.example/spark:CHANGE-ME", spark_image.NAME)
    copied = tmp_path / "job.yml"

    def judged(text: str, **variables: Any) -> str:
        copied.write_text(text, encoding="utf-8")
        said = site.play("verify", check=False, converged_verify_spark=str(copied), **PROOF, **variables)
        assert (said.rc == 0) == ("refuse [spark]" not in said.out), said.out
        return " ".join(said.out.split())

    assert "job.yml: Job numbers: container driver has the image of the example" in judged(shipped)
    elsewhere = changed.replace("namespace: spark", "namespace: default")
    assert "namespace default has no ResourceQuota" in judged(elsewhere)
    warned = judged(changed, node_share_deadline=20)
    assert "warn [spark] node_share_deadline is 20 s on n1, and executors of job.yml may need 40 s to leave" in warned
    assert "proved" in warned


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
    role = next(one for one in spark_site.namespace() if one["kind"] == "Role")
    allowed = {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}
    asked = [event for event in site.audit(since=story.since) if event.user == DRIVER]
    assert {event.namespace for event in asked} == {NAMESPACE}
    assert {(event.verb, event.resource) for event in asked} <= allowed
    assert not [event for event in asked if event.code == 403]


def test_executors_begin_as_a_gang(site: Sharing) -> None:
    found = site.kubectl("--namespace", NAMESPACE, "get", "podgroups.scheduling.incubator.k8s.io", "--output=json")
    assert '"minMember": 2' in found
    binders = {
        event.user
        for event in site.audit(since=0, verb="create", resource="pods/binding")
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
