# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook of the collection on a cluster: what nodeshare is told on which host, and what becomes of the job."""

from __future__ import annotations

import json
import typing as t

import pytest
from pbs.converged_on_pbs import HERE, PROGRAM, Told, share
from pbs_double.cluster import HOSTS, Cluster, until
from pbs_double.installed import Installed

BOTH = ("-l", "select=2:ncpus=1:mem=100mb", "-l", "place=scatter")
FIRST = ("-l", "select=1:ncpus=1:host=pbs-n1")
OPEN = ("queue_type = Execution", "enabled = True", "started = True")
SLEEP = ("--", "/bin/sleep", "300")


@pytest.fixture(scope="module")
def installed(history: Cluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Told]:
    hook = Told(history, tmp_path_factory.mktemp("converged"), PROGRAM)
    hook.make("converged", 200)
    yield hook
    hook.remove("converged")


@pytest.fixture
def hook(installed: Told) -> t.Iterator[Told]:
    installed.start()
    yield installed
    for host in HOSTS:
        installed.answer(host)
    installed.end_jobs()


def test_each_host_is_told_of_its_share_and_of_the_end(hook: Told) -> None:
    job = hook.submit(*BOTH, *SLEEP)
    begun = [f"begin@{host} of 1 {share(job)}" for host in HOSTS]
    hook.until_called(job, *begun)
    hook.until_runs(job)
    assert hook.pbs.call("qdel", job).rc == 0
    hook.until_called(job, *begun, *(f"end@{host} of 1" for host in HOSTS))
    for host in HOSTS:
        until(lambda host=host: len(hook.said(host, job)) == 2)
        begin, end = hook.said(host, job)
        assert begin.startswith(
            f"event=begin run=1 --limit=12 --cpus=1 --mem=104857600 --cgroup=pbs_jobs.service/jobid/{job}"
        )
        assert " exit=0 outcome=accept seconds=" in begin
        assert end.startswith("event=end run=1 exit=0 outcome=accept seconds=")


def test_a_sub_job_is_told_by_its_own_id_and_one_without_memory_without_it(hook: Told) -> None:
    array = hook.submit("-J", "1-2", *FIRST, *SLEEP)
    for index in (1, 2):
        job = array.replace("[]", f"[{index}]")
        hook.until_called(job, f"begin@pbs-n1 of 1 {share(job, mem=None)}")


def test_two_chunks_on_a_host_are_one_share_and_an_exclusive_job_has_it_all(hook: Told) -> None:
    job = hook.submit("-l", "select=2:ncpus=1:mem=100mb:host=pbs-n1", "-l", "place=pack:excl", *SLEEP)
    hook.until_called(job, f"begin@pbs-n1 of 1 {share(job, cpus=2, mem=209715200)} exclusive")


def test_b9_a_suspended_job_keeps_its_memory_only_and_takes_all_again(hook: Told) -> None:
    job = hook.submit(*BOTH, *SLEEP)
    hook.until_runs(job)
    begun = [f"begin@{host} of 1 {share(job)}" for host in HOSTS]
    asleep = [f"begin@{host} of 1 cpus=0 mem=104857600" for host in HOSTS]
    assert hook.pbs.call("qsig", "-s", "suspend", job).rc == 0
    hook.until_called(job, *begun, *asleep)
    until(lambda: (hook.job(job)["job_state"], hook.job(job)["substate"]) == ("S", 43))
    assert hook.pbs.call("qsig", "-s", "resume", job).rc == 0
    hook.until_called(job, *begun, *asleep, *begun)


def test_a_job_that_is_run_again_ends_one_run_and_begins_the_next(hook: Told) -> None:
    job = hook.submit(*BOTH, *SLEEP)
    hook.until_runs(job)
    assert hook.pbs.call("qrerun", job).rc == 0
    hook.until_runs(job, count=2)
    runs = [[f"begin@{host} of {run} {share(job)}" for host in HOSTS] for run in (1, 2)]
    hook.until_called(job, *runs[0], *(f"end@{host} of 1" for host in HOSTS), *runs[1])


def test_a_host_that_is_given_back_early_has_its_end_there_and_then(hook: Told) -> None:
    job = hook.submit(*BOTH, *SLEEP)
    hook.until_runs(job)
    assert hook.pbs.call("pbs_release_nodes", "-j", job, "-a").rc == 0
    begun = [f"begin@{host} of 1 {share(job)}" for host in HOSTS]
    hook.until_called(job, *begun, "end@pbs-n2 of 1")
    until(lambda: hook.job(job)["exec_vnode"] == "(pbs-n1:ncpus=1:mem=102400kb)")
    hook.end_jobs()
    hook.until_called(job, *begun, "end@pbs-n2 of 1", "end@pbs-n1 of 1")


def test_a_node_that_cannot_be_freed_leaves_no_lease_and_the_job_is_tried_again(hook: Told) -> None:
    hook.answer("pbs-n1", code=75)
    job = hook.submit(*FIRST, *SLEEP)
    until(lambda: len(hook.calls(job)) >= 4)
    hook.answer("pbs-n1")
    assert [call.split(" cpus")[0] for call in hook.calls(job)[:4]] == [
        *("begin@pbs-n1 of 1", "end@pbs-n1 of 1", "begin@pbs-n1 of 2", "end@pbs-n1 of 2"),
    ]
    assert " exit=75 outcome=requeue " in hook.said("pbs-n1", job)[0]
    until(lambda: hook.job(job)["job_state"] in "RH")
    if hook.job(job)["job_state"] == "H":
        hook.pbs.call("qrls", "-h", "s", job)
    until(lambda: hook.job(job)["substate"] == 42)


def test_a_node_that_is_to_be_drained_goes_offline_and_the_job_elsewhere(hook: Told) -> None:
    hook.answer("pbs-n1", code=69)
    job = hook.submit("--", "/bin/sleep", "300")
    until(lambda: hook.job(job).get("exec_vnode") == "(pbs-n2:ncpus=1)" and hook.job(job)["substate"] == 42)
    node = hook.node("pbs-n1")
    assert node["state"] == "offline"
    assert node["comment"].startswith("converged: event=begin run=")
    assert hook.pbs.call("pbsnodes", "-r", "-C", "", "pbs-n1").rc == 0


def test_a_nodeshare_that_hangs_costs_a_bounded_time_and_no_job(hook: Told) -> None:
    hook.start(timeout_seconds=4)
    hook.answer("pbs-n1", seconds=600)
    job = hook.submit(*FIRST, *SLEEP)
    hook.until_runs(job)
    (line,) = hook.said("pbs-n1", job)
    assert " killed outcome=accept " in line, "and not by the alarm"


def test_a_mom_that_starts_again_repairs_and_ends_what_it_had(hook: Told) -> None:
    job = hook.submit(*FIRST, *SLEEP)
    hook.until_runs(job)
    assert hook.pbs.on("pbs-n1", "kill -9 $(cat $PBS_HOME/mom_priv/mom.lock)").rc == 0
    until(lambda: "down" in hook.node("pbs-n1")["state"].split(","))
    assert hook.pbs.on("pbs-n1", "pbs_mom").rc == 0
    hook.until_runs(job, count=2)
    assert [call.split(" cpus")[0] for call in hook.calls(job)] == [
        *("begin@pbs-n1 of 1", "end@pbs-n1 of 1", "begin@pbs-n1 of 2"),
    ]
    assert ["pbs-n1", ["repair"]] in [json.loads(line) for line in hook.log.read_text().splitlines()]


def test_jobs_of_the_daemons_queue_and_hosts_without_the_flag_are_left_alone(hook: Told) -> None:
    pbs = hook.pbs
    for command in ("create queue pods", *(f"set queue pods {words}" for words in OPEN)):
        assert pbs.call("qmgr", "-c", command).rc == 0
    hook.start(ignored_queues=["pods"])
    ignored = hook.submit("-q", "pods", *FIRST, *SLEEP)
    hook.until_runs(ignored)
    (hook.folder / "enabled").unlink()
    unflagged = hook.submit(*FIRST, *SLEEP)
    hook.until_runs(unflagged)
    hook.end_jobs()
    assert hook.calls(ignored) + hook.calls(unflagged) + hook.said("pbs-n1", unflagged) == []
    until(lambda: pbs.call("qmgr", "-c", "delete queue pods").rc == 0)


def test_r2_r3_r4_what_a_user_writes_changes_nothing(hook: Told) -> None:
    """Variables that the predecessor obeyed as root, and a job that is named as a component of Kubernetes."""
    for variables, name in (("PODNAME=--all", "kube-apiserver"), ("PODNAME=$(touch /tmp/pwned)", "etcd")):
        job = hook.submit("-v", variables, "-N", name, *FIRST, "--", "/bin/sleep", "1")
        until(lambda job=job: hook.job(job)["job_state"] == "F")
        hook.until_called(job, f"begin@pbs-n1 of 1 {share(job, mem=None)}", "end@pbs-n1 of 1")
    assert "PODNAME" not in hook.log.read_text()


def test_a_line_that_a_user_has_written_tells_nothing_of_another_job(hook: Told) -> None:
    """MoM hands a hook lines, and a newline in an account begins one."""
    other = hook.submit(*FIRST, *SLEEP)
    begun = f"begin@pbs-n1 of 1 {share(other, mem=None)}"
    hook.until_called(other, begun)
    for text in (f"a\npbs.event().job.id={other}", "a\npbs.event().job.queue=pods", '"""'):
        job = hook.submit("-A", text, *FIRST, *SLEEP)
        until(lambda job=job: hook.job(job)["job_state"] == "H")
        assert (hook.calls(other), hook.calls(job)) == ([begun], [])
        assert hook.pbs.call("qdel", job).rc == 0
        until(lambda job=job: hook.job(job)["job_state"] == "F")
    assert "ForgedError: what its owner wrote" in hook.pbs.on("pbs-n1", "cat $PBS_HOME/mom_logs/*").out
    assert hook.node("pbs-n1")["state"] == "free"
    assert (hook.calls(other), hook.calls(job)) == ([begun], [])


def test_a_repair_is_told_nothing_that_a_user_has_written(hook: Told) -> None:
    """Of listed jobs MoM quotes not even the variables."""
    other = hook.submit(*FIRST, *SLEEP)
    forged = (f'["{other}"].run_version=9', '["77.pbs-srv"].exec_vnode=(pbs-n1:ncpus=64)')
    lines = "\n".join(["a", *(f"pbs.event().job_list{line}" for line in forged), "b"])
    job = hook.submit("-v", f"A={lines}", *FIRST, *SLEEP)
    hook.until_called(job, f"begin@pbs-n1 of 1 {share(job, mem=None)}")
    hook.until_runs(other)
    hook.make_often("often", "converged")

    def told() -> list[str]:
        calls = [json.loads(line) for line in hook.log.read_text().splitlines()]
        repairs = [words for host, words in calls if host == "pbs-n1" and words[:2] == ["repair", "--wlm=pbs"]]
        return [word.partition("/")[0] for word in repairs[-1][2:]] if repairs else []

    until(lambda: job in told())
    hook.remove("often")
    assert told() == [job]


def test_the_cpuset_that_is_passed_on_is_there_and_goes_with_the_job(hook: Told) -> None:
    """The hook runs after the one that makes cgroups."""
    mount = hook.folder / "cpuset"
    mount.mkdir()
    (mount / "cpuset.cpus").write_text("1,4-5")
    cgroups = Installed(hook.pbs, hook.folder, HERE / "cgroups_hook.py")
    cgroups.make("cgroups", 100)
    cgroups.configure("cgroups", {"mount_path": str(mount)})
    jobs = [hook.submit(*FIRST, *SLEEP) for _number in range(2)]
    for job in jobs:
        hook.until_called(job, f"begin@pbs-n1 of 1 {share(job, mem=None)}")
    paths = [mount / hook.calls(job)[0].rpartition("cgroup=")[2] for job in jobs]
    assert [(path / "cpuset.cpus").read_text() for path in paths] == ["1", "4"]
    hook.end_jobs()
    until(lambda: not any(path.exists() for path in paths))
    cgroups.remove("cgroups")
