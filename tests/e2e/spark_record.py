# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Spark driver's log tells of tasks and executors, and what records tell of executors and a job. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from demo.handover import Finding, RecordError
from demo.intervals import LEAVING, UP
from demo.kube_record import Pod
from demo.slurm_record import Job

FINISHED, REPEATED, LOST = "tasks that have ended", "tasks computed again", "tasks lost"
_STARTED = re.compile(r"\S+ \S+ \w+ TaskSetManager: Starting task \S+ in stage \S+ \(TID (\d+)\) \(.*\bpartition (\d+)")
_TASK = re.compile(r"(\S+ \S+) \w+ TaskSetManager: (Finished|Lost) task (\d+)\.\d+ in stage (\d+)\.\d+ \(TID (\d+)\)")
_DECOMMISSIONED = re.compile(r"TaskSchedulerImpl: Executor (\d+) on \S+ is decommissioned after (\d+(?:\.\d+)?) s")
_GONE = re.compile(r"ExecutorMonitor: Executor (\d+) is removed\.")


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks and executors of one application. `decommissioned` has the seconds that each of these executors took."""

    events: tuple[tuple[datetime, str], ...]
    decommissioned: dict[str, float]
    gone: frozenset[str]

    def count(self, what: str) -> int:
        return sum(kind == what for _moment, kind in self.events)

    @property
    def finished(self) -> int:
        """Ends of tasks, those that were computed again counted each time."""
        return self.count(FINISHED) + self.repeated

    @property
    def repeated(self) -> int:
        return self.count(REPEATED)

    @property
    def lost(self) -> int:
        return self.count(LOST)

    @property
    def cut_off(self) -> frozenset[str]:
        """Executors that went without a decommissioning that ended."""
        return self.gone - self.decommissioned.keys()


def read_tasks(log: str) -> Tasks:
    """Return what happened to tasks and executors, by the driver's own lines of level INFO, which are in UTC.

    A task is computed again where it has finished before: its output was lost. A lost task had not finished. Which task
    it is, its partition tells: a later attempt of a stage has only the tasks that are missing, and counts them from 0.
    """
    events, done, partitions = [], set[tuple[str, str]](), dict[str, str]()
    for line in log.splitlines():
        if started := _STARTED.match(line):
            partitions[started[1]] = started[2]
        elif found := _TASK.match(line):
            moment = datetime.strptime(found[1], "%y/%m/%d %H:%M:%S").replace(tzinfo=UTC)
            task = (found[4], partitions.get(found[5], found[3]))
            events.append((moment, LOST if found[2] == "Lost" else REPEATED if task in done else FINISHED))
            if found[2] == "Finished":
                done.add(task)
    return Tasks(
        events=tuple(events),
        decommissioned={executor: float(seconds) for executor, seconds in _DECOMMISSIONED.findall(log)},
        gone=frozenset(_GONE.findall(log)),
    )


def application_succeeded(
    job: Job, pods: Sequence[Pod], *, name: str, executor: str, tasks: Tasks, result: str
) -> list[Finding]:
    """Return the figures of an application that was at work when the job took nodes. Job and application succeeded.

    Raises RecordError where they did not, or where not every executor that had to leave had left before the job began
    and was replaced on another node while it ran. `result` is what to say of the application's answer.
    """
    if job.allocated is None or job.started is None or job.ended is None:
        raise RecordError(f"Slurm's logs do not tell when job {job.number} got its nodes, began and ended")
    if job.status != "0":
        raise RecordError(f"job {job.number} ended with status {job.status or 'unknown'}")
    drivers = [pod for pod in pods if pod.name.startswith(f"{name}-") and not pod.name.startswith(executor)]
    if not any(
        pod.succeeded and pod.moments[0][0] < job.allocated and pod.gone > job.ended for pod in drivers if pod.gone
    ):
        raise RecordError(f"no driver has succeeded that was at work from before job {job.number} until after it")
    executors = [pod for pod in pods if pod.name.startswith(f"{executor}-")]
    there = [
        pod for pod in executors if pod.moments[0][0] < job.allocated and (not pod.gone or pod.gone > job.allocated)
    ]
    leaving = [pod for pod in there if pod.node in job.nodes]
    if not leaving:
        raise RecordError(f"no executor had to leave for job {job.number}")
    asked = [next((moment for moment, what in pod.moments if what == LEAVING), None) for pod in leaving]
    if any(moment is None for moment in asked) or any(not pod.gone or pod.gone > job.started for pod in leaving):
        raise RecordError(f"not every executor was asked to leave, and had left, when job {job.number} began")
    first, last = min(filter(None, asked)), max(pod.gone for pod in leaving if pod.gone)
    up = [moment for pod in executors if pod.node not in job.nodes for moment, what in pod.moments if what == UP]
    back = sorted(moment for moment in up if first < moment < job.ended)
    if len(back) < len(leaving):
        raise RecordError(
            f"of {len(leaving)} executors that left, {len(back)} were replaced while job {job.number} ran"
        )
    away = back[len(leaving) - 1] - first
    return [
        Finding("executors that had to leave, and were replaced on other nodes while the job ran", str(len(leaving))),
        Finding("the first is asked to leave, until the last has left", f"{(last - first).total_seconds():.2f} s"),
        Finding("the same, until all are replaced", f"{away.total_seconds():.2f} s"),
        Finding(f"{LOST}; {REPEATED}", f"{tasks.lost}; {tasks.repeated} of {tasks.finished}"),
        Finding("job and application", f"both succeeded: {result}"),
    ]
