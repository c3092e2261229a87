# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the lines of a Spark driver to tasks that were lost and computed again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from demo.handover import RecordError
from demo.intervals import LEAVING, STARTING, UP
from demo.kube_record import Pod
from demo.slurm_record import Job
from e2e.spark_demo import progress
from e2e.spark_record import FINISHED, LOST, REPEATED, Tasks, application_succeeded, read_tasks

LOG = """\
26/11/23 15:49:39 INFO TaskSetManager: Starting task 3.0 in stage 0.0 (TID 3) (10.244.3.5,executor 3, partition 3)
26/11/23 15:49:39 INFO TaskSetManager: Finished task 2.0 in stage 0.0 (TID 2) in 5155 ms on 10.1.3.5 (executor 3) (1/45)
26/11/23 15:49:41 INFO TaskSetManager: Finished task 3.0 in stage 0.0 (TID 3) in 2000 ms on 10.1.3.5 (executor 3) (2/45)
26/11/23 15:49:48 INFO TaskSchedulerImpl: Executor 1 on 10.244.1.3 is decommissioned after 3.0 s.
26/11/23 15:49:48 INFO ExecutorMonitor: Executor 1 is removed. Remove reason statistics: (gracefully decommissioned: 1)
26/11/23 15:49:49 WARN TaskSetManager: Lost task 4.0 in stage 0.0 (TID 4) (10.244.2.3 executor 2): ExecutorLostFailure
26/11/23 15:49:49 INFO ExecutorMonitor: Executor 2 is removed. Remove reason statistics: (gracefully decommissioned: 1)
26/11/23 15:49:52 INFO TaskSetManager: Finished task 2.0 in stage 0.1 (TID 9) in 20 ms on 10.1.3.5 (executor 3) (1/1)
"""


def test_a_task_that_finished_twice_was_computed_again_and_one_that_did_not_finish_was_lost() -> None:
    tasks = read_tasks(LOG)
    assert (tasks.finished, tasks.repeated, tasks.lost) == (3, 1, 1)


SECOND_ATTEMPT = """\
26/11/23 15:49:39 INFO TaskSetManager: Starting task 0.0 in stage 0.0 (TID 0) (10.1.3.5,executor 3, partition 0, ANY)
26/11/23 15:49:39 INFO TaskSetManager: Starting task 1.0 in stage 0.0 (TID 1) (10.1.2.5,executor 2, partition 1, ANY)
26/11/23 15:49:41 INFO TaskSetManager: Finished task 0.0 in stage 0.0 (TID 0) in 2000 ms on 10.1.3.5 (executor 3) (1/3)
26/11/23 15:49:41 INFO TaskSetManager: Finished task 1.0 in stage 0.0 (TID 1) in 2000 ms on 10.1.2.5 (executor 2) (2/3)
26/11/23 15:49:42 INFO TaskSetManager: Starting task 0.0 in stage 0.1 (TID 2) (10.1.3.5,executor 3, partition 1, ANY)
26/11/23 15:49:42 INFO TaskSetManager: Starting task 1.0 in stage 0.1 (TID 3) (10.1.3.5,executor 3, partition 2, ANY)
26/11/23 15:49:44 INFO TaskSetManager: Finished task 0.0 in stage 0.1 (TID 2) in 2000 ms on 10.1.3.5 (executor 3) (1/2)
26/11/23 15:49:44 INFO TaskSetManager: Finished task 1.0 in stage 0.1 (TID 3) in 2000 ms on 10.1.3.5 (executor 3) (2/2)
"""


def test_in_a_later_attempt_of_a_stage_tasks_have_other_numbers_and_the_partition_tells_which_is_repeated() -> None:
    tasks = read_tasks(SECOND_ATTEMPT)
    assert [kind for _moment, kind in tasks.events] == [FINISHED, FINISHED, REPEATED, FINISHED]


def test_an_executor_that_went_without_decommissioning_was_cut_off() -> None:
    tasks = read_tasks(LOG)
    assert tasks.decommissioned == {"1": 3.0}
    assert tasks.cut_off == {"2"}


def test_a_log_without_such_lines_tells_of_nothing() -> None:
    tasks = read_tasks("program: the sum of 2000 numbers is 2001000\n")
    assert (tasks.finished, tasks.repeated, tasks.lost, tasks.cut_off) == (0, 0, 0, frozenset())


ZERO = datetime(2026, 11, 23, 15, 49, 30, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def test_each_task_has_its_moment() -> None:
    kinds = [((moment - ZERO).total_seconds(), kind) for moment, kind in read_tasks(LOG).events]
    assert kinds == [(9, FINISHED), (11, FINISHED), (19, LOST), (22, REPEATED)]


def played() -> tuple[Job, list[Pod]]:
    """Job 7 gets n1 at 10 s, begins at 15 s and ends at 35 s; an executor leaves n1, and another comes up on n3."""
    job = Job("7", ("n1",), at(10), at(15), at(35), "0")
    pods = [
        Pod("numbers-x7k2p", "n3", [(at(0), STARTING), (at(1), UP)], at(60), succeeded=True),
        Pod("numbers-exec-1", "n1", [(at(2), STARTING), (at(3), UP), (at(11), LEAVING)], at(14)),
        Pod("numbers-exec-2", "n3", [(at(2), STARTING), (at(3), UP)], at(59)),
        Pod("numbers-exec-3", "n3", [(at(15), STARTING), (at(16), UP)], at(59)),
    ]
    return job, pods


def judged(job: Job, pods: list[Pod]) -> dict[str, str]:
    tasks = read_tasks(LOG)
    found = application_succeeded(job, pods, name="numbers", executor="numbers-exec", tasks=tasks, result="6 is right")
    return {one.what: one.value for one in found}


def test_the_figures_of_an_application_that_gave_a_node_away() -> None:
    assert list(judged(*played()).values()) == ["1", "3.00 s", "5.00 s", "1; 1 of 3", "both succeeded: 6 is right"]


def failed_job(job: Job, _pods: list[Pod]) -> None:
    job.status = "1"


def no_executor_there(_job: Job, pods: list[Pod]) -> None:
    pods[1].node = "n2"


def too_late(_job: Job, pods: list[Pod]) -> None:
    pods[1].gone = at(16)


def not_replaced(_job: Job, pods: list[Pod]) -> None:
    pods[3].moments[1] = (at(36), UP)


def driver_failed(_job: Job, pods: list[Pod]) -> None:
    pods[0].succeeded = False


def over_before_the_job(_job: Job, pods: list[Pod]) -> None:
    pods[0].gone = at(34)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (failed_job, "job 7 ended with status 1"),
        (no_executor_there, "no executor had to leave"),
        (too_late, "had left, when job 7 began"),
        (not_replaced, "of 1 executors that left, 0 were replaced"),
        (driver_failed, "no driver has succeeded"),
        (over_before_the_job, "no driver has succeeded"),
    ],
)
def test_what_shows_nothing_is_an_error(spoil: Callable[[Job, list[Pod]], None], said: str) -> None:
    job, pods = played()
    spoil(job, pods)
    with pytest.raises(RecordError, match=said):
        judged(job, pods)


def test_the_picture_has_a_line_for_each_kind_of_task_and_the_moments_of_the_job() -> None:
    job, _pods = played()
    figure = progress(Tasks(read_tasks(LOG).events, {}, frozenset()), job)
    assert [trace.name for trace in figure.data] == [f"{FINISHED}: 2", f"{REPEATED}: 1", f"{LOST}: 1"]
    assert [mark.x0 for mark in figure.layout.shapes] == [0, 5, 25]
    assert [note.text for note in figure.layout.annotations] == ["the job gets its nodes", "it begins", "it ends"]
