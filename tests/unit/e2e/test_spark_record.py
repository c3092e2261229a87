# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the lines of a Spark driver to tasks that were lost and computed again."""

from __future__ import annotations

from e2e.spark_record import read_tasks

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


def test_an_executor_that_went_without_decommissioning_was_cut_off() -> None:
    tasks = read_tasks(LOG)
    assert tasks.decommissioned == {"1": 3.0}
    assert tasks.cut_off == {"2"}


def test_a_log_without_such_lines_tells_of_nothing() -> None:
    tasks = read_tasks("program: the sum of 2000 numbers is 2001000\n")
    assert (tasks.finished, tasks.repeated, tasks.lost, tasks.cut_off) == (0, 0, 0, frozenset())
