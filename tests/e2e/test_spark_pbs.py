# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Spark on nodes that are shared with PBS, with placeholders: a job takes a part of a node, not all of it."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e import spark_site
from e2e.beds import own_bed
from e2e.pbs_site import BESIDE_PODS, PbsSite
from e2e.playing import until
from e2e.spark_record import read_tasks
from e2e.spark_site import EXECUTOR, Application

# It runs in soak: the bed, the conversion, and an application that outlasts a job take longer than a change should.
pytestmark = pytest.mark.soak
BED = f"spark-pbs-{zlib.crc32(bytes(Path(__file__))):08x}"
TASKS, SECONDS = 60, 2.5
# Two executors fit on a node of two cores, and one beside a job of one core.
SIZE = {"spark.kubernetes.executor.request.cores": "700m"}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PbsSite]:
    """Two shared nodes with placeholders, the placement daemon on the batch controller, and all that Spark needs."""
    with own_bed(request, BED, "--wlm", "pbs") as bed:
        folder = tmp_path_factory.mktemp("spark-pbs")
        found = PbsSite(bed, folder)
        found.set("all", **BESIDE_PODS)
        if not request.config.getoption("--bed"):
            found.prepare()
            found.ctl("qmgr -c 'set server job_history_enable = True'")
            spark_site.Scheduler(bed, folder / "scheduler").install()
            found.play("site")
            spark_site.prepare(bed, drivers="n2")
        yield found


@dataclass(frozen=True, slots=True)
class Story:
    """An application of which a job of one core has taken a part of a node. `node` is where two executors were."""

    since: float
    node: str
    before: dict[str, str]
    during: dict[str, str]
    status: str
    log: str


@pytest.fixture(scope="module")
def story(site: PbsSite) -> Story:
    """Play it: the application runs when the job begins, and goes on when the job has ended."""
    since = time.time()
    application = Application(site.bed, tasks=TASKS, seconds=SECONDS, settings=SIZE)
    application.start()
    until(lambda: len(application.executors()) == 3, "three executors work on two nodes")
    until(lambda: application.tasks_so_far().finished >= 3, "tasks have ended")
    before = application.executors()
    node = Counter(before.values()).most_common(1)[0][0]
    job = site.qsub("-l", f"select=1:ncpus=1:mem=64mb:host={node}", seconds=30)
    until(lambda: site.placeholders(job), "the job stands on its node")
    until(lambda: len(application.executors()) == len(before), "the executor that has left is replaced in its time")
    during = application.executors()
    assert site.placeholders(job), "the job is still there"
    until(lambda: job not in site.jobs(), "the job ends by itself")
    return Story(since, node, before, during, site.exit_status(job), application.log_at_its_end())


def test_the_application_and_the_job_both_succeed_and_the_result_is_right(story: Story) -> None:
    assert story.status == "0"
    assert spark_site.found_sum(story.log) == spark_site.true_sum(TASKS), story.log[-3000:]


def test_one_executor_makes_room_and_the_other_one_of_that_node_works_on(site: PbsSite, story: Story) -> None:
    evicted = {
        event.name
        for event in site.audit(since=story.since, verb="create", resource="pods/eviction")
        if event.name.startswith(EXECUTOR) and event.code == 201
    }
    assert Counter(story.before.values())[story.node] == 2
    assert len(evicted) == 1
    assert {story.before[name] for name in evicted} == {story.node}
    staying = story.before.keys() - evicted
    assert staying <= story.during.keys()
    assert Counter(story.during.values())[story.node] == 1


def test_the_executor_that_leaves_loses_no_task_and_no_finished_work(story: Story) -> None:
    tasks = read_tasks(story.log)
    left = {name.removeprefix(f"{EXECUTOR}-") for name in story.before.keys() - story.during.keys()}
    assert tasks.decommissioned.keys() >= left
    assert not tasks.cut_off & left
    assert (tasks.lost, tasks.repeated) == (0, 0)
    assert tasks.finished == 2 * TASKS
