# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the log of a Spark driver tells of its tasks and executors. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FINISHED = re.compile(r"TaskSetManager: Finished task (\d+)\.\d+ in stage (\d+)\.\d+ ", re.MULTILINE)
_LOST = re.compile(r"TaskSetManager: Lost task \d+\.\d+ in stage \d+\.\d+ ")
_DECOMMISSIONED = re.compile(r"TaskSchedulerImpl: Executor (\d+) on \S+ is decommissioned after (\d+(?:\.\d+)?) s")
_GONE = re.compile(r"ExecutorMonitor: Executor (\d+) is removed\.")


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks and executors of one application. `decommissioned` has the seconds that each of these executors took."""

    finished: int
    repeated: int
    lost: int
    decommissioned: dict[str, float]
    gone: frozenset[str]

    @property
    def cut_off(self) -> frozenset[str]:
        """Executors that went without a decommissioning that ended."""
        return self.gone - self.decommissioned.keys()


def read_tasks(log: str) -> Tasks:
    """Return what happened to tasks and executors, by the driver's own lines of level INFO.

    A task is repeated where it has finished before: its output was lost. A task is lost where it had not finished.
    """
    finished = _FINISHED.findall(log)
    return Tasks(
        finished=len(finished),
        repeated=len(finished) - len(set(finished)),
        lost=len(_LOST.findall(log)),
        decommissioned={executor: float(seconds) for executor, seconds in _DECOMMISSIONED.findall(log)},
        gone=frozenset(_GONE.findall(log)),
    )
