# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may do what, and what a server that is away does to programs and jobs."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from pbs_double.cluster import Cluster, until
from pbs_double.installed import Installed

USER, OTHER = "daemon", "bin"
HELD = ("-h", "--", "/bin/sleep", "300")
DOWN = "Connection refused\n{}: cannot connect to server pbs-srv (errno=15010)\n"


@pytest.fixture
def jobs(history: Cluster, tmp_path: Path) -> t.Iterator[Installed]:
    """The cluster without jobs."""
    cluster = Installed(history, tmp_path, Path("/nonexistent"))
    yield cluster
    cluster.end_jobs()


@pytest.fixture
def listed(jobs: Installed) -> t.Iterator[str]:
    """A queue that admits one user."""
    words = (
        "queue_type = Execution",
        "enabled = True",
        "started = True",
        f"acl_users = {USER}",
        "acl_user_enable = True",
    )
    for command in ("create queue pods", *(f"set queue pods {each}" for each in words)):
        assert jobs.pbs.call("qmgr", "-c", command).rc == 0
    yield "pods"
    jobs.end_jobs()
    until(lambda: jobs.pbs.call("qmgr", "-c", "delete queue pods").rc == 0)


def test_a_queue_with_a_list_admits_whom_it_names(jobs: Installed, listed: str) -> None:
    pbs = jobs.pbs
    for user in (OTHER, ""):
        refused = pbs.call("qsub", "-q", listed, *HELD, user=user)
        assert (refused.rc, refused.err) == (159, "qsub: Unauthorized Request \n")
    accepted = pbs.call("qsub", "-q", listed, "-A", "acc", "-P", "proj", *HELD, user=USER)
    assert accepted.rc == 0, accepted.err
    found = jobs.job(accepted.out.strip())
    assert (found["Job_Owner"], found["euser"]) == (f"{USER}@pbs-srv", USER)
    assert (found["Account_Name"], found["project"]) == ("acc", "proj")


def test_a_queue_with_a_list_of_hosts_admits_from_nowhere_else(jobs: Installed, listed: str) -> None:
    pbs = jobs.pbs
    for words in ("acl_hosts = pbs-n1", "acl_host_enable = True"):
        assert pbs.call("qmgr", "-c", f"set queue {listed} {words}").rc == 0
    refused = pbs.call("qsub", "-q", listed, *HELD, user=USER)
    assert (refused.rc, refused.err) == (160, "qsub: Access from host not allowed, or unknown host\n")
    assert pbs.call("qmgr", "-c", f"set queue {listed} acl_hosts += pbs-srv").rc == 0
    accepted = pbs.call("qsub", "-q", listed, *HELD, user=USER)
    assert accepted.rc == 0, accepted.err


def test_root_submits_only_where_the_server_says_so(jobs: Installed) -> None:
    pbs = jobs.pbs
    assert pbs.call("qmgr", "-c", "unset server acl_roots").rc == 0
    try:
        refused = pbs.call("qsub", *HELD)
        assert (refused.rc, refused.err) == (175, "qsub: Bad UID for job execution\n")
        assert pbs.call("qsub", *HELD, user=USER).rc == 0
    finally:
        assert pbs.call("qmgr", "-c", "set server acl_roots = root").rc == 0


def test_only_owner_and_root_may_end_a_job_and_only_root_what_concerns_all(jobs: Installed) -> None:
    pbs = jobs.pbs
    job = pbs.call("qsub", *HELD, user=USER).out.strip()
    for words in (("qdel",), ("qhold",), ("qrls",)):
        assert pbs.call(*words, job, user=OTHER).rc == 159
    for words in (("qhold", "-h", "s"), ("qsig", "-s", "suspend"), ("qrerun",)):
        assert pbs.call(*words, job, user=USER).rc == 159
    assert pbs.call("qmgr", "-c", "set server comment = x", user=USER).rc == 159
    assert pbs.call("qmgr", "-c", "create hook x", user=USER).rc == 32
    assert pbs.call("qdel", job, user=USER).rc == 0


def test_without_a_server_each_program_says_so_and_jobs_outlive_it(jobs: Installed) -> None:
    pbs = jobs.pbs
    job = jobs.submit("--", "/bin/sleep", "300")
    jobs.until_runs(job)
    assert pbs.call("qterm", "-t", "quick").rc == 0
    try:
        until(lambda: pbs.call("qstat").rc == 255)
        for program, rc, words in (("qsub", 162, HELD), ("qdel", 162, (job,)), ("pbsnodes", 1, ("-a",))):
            answer = pbs.call(program, *words)
            assert (answer.rc, answer.out) == (rc, ""), program
        assert pbs.call("qmgr", "-c", "list server").rc == 3
        answer = pbs.call("qstat", "-f", "-F", "json")
        assert (answer.rc, answer.err) == (255, DOWN.format("qstat"))
        assert "Jobs" not in json.loads(answer.out)
    finally:
        assert pbs.call("pbs_server").rc == 0
    until(lambda: pbs.call("qstat").rc == 0)
    until(lambda: jobs.node("pbs-n1")["state"] == "free" == jobs.node("pbs-n2")["state"])
    found = jobs.job(job)
    assert (found["job_state"], found["run_count"]) == ("R", 1)
