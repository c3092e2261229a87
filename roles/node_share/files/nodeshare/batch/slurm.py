# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signs of life of a batch job: its processes here, and what the batch system says when asked."""

import os
from typing import Mapping, Tuple

from ..model.actions import ENDING, GONE, LIVE
from ..model.answer import Answer, Run
from ..model.jobs.lease import Lease
from ..shared import slurm_states

_FORMAT = "--Format=JobID:20,State:20,RestartCnt:12"


def ask_slurm(leases: Tuple[Lease, ...], *, squeue: str, run: Run, here: str = "") -> Mapping[str, str]:
    """Ask whether each job still has this node; `here` is this host's name, and this cluster's jobs alone count.

    An error that is not about the job itself leaves the lease out: cannot tell. A job that goes on without this node,
    such as one with `--no-kill`, is over here. The format holds no field that a user can write: a job's name must not
    be able to pretend a state.
    """
    answers = {}
    host = (here or os.uname().nodename).partition(".")[0]
    for lease in leases:
        if lease.key.wlm == "slurm" and lease.key.job.isdigit():
            question = (squeue, "--noheader", "--local", "--states=all", _FORMAT, "--jobs=" + lease.key.job)
            verdict = _judge(lease, run(question))
            if verdict in (LIVE, ENDING):
                there = run((*question, "--nodelist=" + host))  # this one costs Slurm a look at all nodes
                if there.code == 0 and not there.out.strip():
                    verdict = GONE
            if verdict:
                answers[str(lease.key)] = verdict
    return answers


def _judge(lease: Lease, answer: Answer) -> str:
    if answer.code != 0:
        return GONE if "Invalid job id specified" in answer.err else ""
    for line in answer.out.splitlines():
        words = line.split()
        if len(words) != 3 or words[0] != lease.key.job or not words[2].isdigit():
            continue
        if int(words[2]) > lease.key.run:
            return GONE  # this run is over: a later one has the same id
        if words[1] in slurm_states.ENDING:
            return ENDING
        if words[1] in slurm_states.HOLDING:
            return LIVE
        if words[1] in slurm_states.OVER:
            return GONE
    return ""
