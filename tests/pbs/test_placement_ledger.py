# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement daemon's ledger on PBS: jobs found by their tag, whatever became of the answer."""

from __future__ import annotations

import itertools
import json
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from pbs_double.cluster import CALLER, HOSTS, Cluster, until
from pbs_double.faults import Fault, Faulty
from pbs_double.recorder import Recorder
from placement.ledger.identity import Identities
from placement.ledger.pbs import Pbs, PbsError, Terms
from placement.model.batch import BatchJob, Chunk
from placement.model.messages.action import Release, Submit

PATIENCE = 60.0
NUMBERS = itertools.count(1)


@pytest.fixture
def faulty(pbs: Cluster, tmp_path: Path) -> Faulty:
    return Faulty(pbs, tmp_path)


def ledger_of(faulty: Faulty, *, timeout: float = PATIENCE, **more: str) -> Pbs:
    identities = Identities(queue="'workq'", account='namespace.labels."account"', least_uid=1, **more)
    folder = faulty.cluster.bin_dir
    # What sudo does here: the programs of tests take their caller's name from the environment.
    sudo = folder / "sudo"
    sudo.write_text(f'#!/bin/sh\n[ "$1 $2 $4" = "-n -u --" ] && export {CALLER}="$3" && shift 4 && exec "$@"\n')
    sudo.chmod(0o755)
    terms = Terms(bin_dir=str(folder), identities=identities, owner="root", timeout=timeout, submit_timeout=timeout)
    return Pbs(replace(terms, sudo=(str(sudo), "-n", "-u")))


@pytest.fixture
def gang(faulty: Faulty) -> t.Iterator[Submit]:
    """A gang of two on two nodes, of which no job is left."""
    made = Submit(
        uid=f"00000000-0000-4000-8000-{next(NUMBERS):012x}",
        mark="0a1b2c3d",
        namespace="team",
        name="0trainer." + "x" * 244,
        queue="backed",
        namespace_labels=(("account", "physics"),),
        chunks=(Chunk(count=2, cores=1, memory=1024),),
        walltime=3600,
    )
    yield made
    ledger = ledger_of(faulty)
    for job in found(ledger, made):
        ledger.release(Release(uid=made.uid, name=job.id))
    until(lambda: not found(ledger, made))


def found(ledger: Pbs, gang: Submit) -> list[BatchJob]:
    return [job for job in ledger.jobs() if job.tag == gang.uid and not job.ends]


def test_a_gang_is_one_job_under_its_account_that_says_what_it_has_of_each_host(faulty: Faulty, gang: Submit) -> None:
    ledger = ledger_of(faulty)
    name = ledger.submit(gang)
    (job,) = until(lambda: [one for one in found(ledger, gang) if one.runs])
    assert (job.id, job.mark, job.owner, job.namespace) == (name, gang.mark, "", "team")
    assert {share.host for share in job.shares} <= set(HOSTS)
    assert [(share.cores, share.memory) for share in job.shares] == [(1, 1024), (1, 1024)]
    assert job.left is not None
    assert 3000 < job.left <= 3660
    shown = faulty.cluster.call("qstat", "-f", "-F", "json", name).out
    assert '"Account_Name":"physics"' in "".join(shown.split())


def test_a_gang_s_job_that_was_only_just_sent_for_execution_has_all_its_time_left(
    hook: Recorder, faulty: Faulty, gang: Submit, tmp_path: Path
) -> None:
    go, ledger = tmp_path / "go", ledger_of(faulty)
    hook.tell("probe", {f"begin@{HOSTS[0]}": f"wait {go}"})
    try:
        ledger.submit(gang)
        (sent,) = until(lambda: [one for one in found(ledger, gang) if one.runs])
        # The ledger asks for a minute more than the pods run, in which they may end.
        assert gang.walltime is not None
        assert sent.left == gang.walltime + 60
        assert len(sent.shares) == gang.chunks[0].count
    finally:
        go.touch()
    until(lambda: [one for one in found(ledger, gang) if one.runs and one.left is not None and one.left < sent.left])


def test_a_released_job_is_gone_and_may_be_released_again(faulty: Faulty, gang: Submit) -> None:
    ledger = ledger_of(faulty)
    release = Release(uid=gang.uid, name=ledger.submit(gang))
    ledger.release(release)
    until(lambda: not found(ledger, gang))
    ledger.release(release)


def test_a_submission_whose_answer_is_lost_is_found_by_its_tag(faulty: Faulty, gang: Submit) -> None:
    faulty.set("qsub", Fault(acts=True, status=162, said="Connection refused"))
    with pytest.raises(PbsError, match="exit status 162"):
        ledger_of(faulty).submit(gang)
    assert len(found(ledger_of(faulty), gang)) == 1


def test_a_server_that_starts_again_before_its_job_is_known_has_it_once(
    pbs: Cluster, faulty: Faulty, gang: Submit
) -> None:
    ledger = ledger_of(faulty)
    faulty.set("qsub", Fault(acts=True, status=162, said="Connection refused"))
    with pytest.raises(PbsError, match="exit status 162"):
        ledger.submit(gang)
    faulty.heal("qsub")
    assert pbs.call("qterm", "-t", "quick").rc == 0
    try:
        until(lambda: pbs.call("qstat").rc == 255)
        with pytest.raises(PbsError, match="exit status 255"):
            ledger.jobs()
        with pytest.raises(PbsError, match="exit status 162"):
            ledger.submit(gang)
    finally:
        assert pbs.call("pbs_server").rc == 0
    until(lambda: pbs.call("qstat").rc == 0)
    until(lambda: [one for one in found(ledger, gang) if one.runs])
    assert len(found(ledger, gang)) == 1
    until(lambda: "down" not in pbs.call("pbsnodes", "-a").out)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(status=255, said="Connection refused"), "exit status 255"),
        (Fault(cut=60), "not whole"),
        (Fault(cut=0), "not whole"),
    ],
)
def test_an_answer_that_is_none_says_nothing(faulty: Faulty, gang: Submit, fault: Fault, said: str) -> None:
    ledger_of(faulty).submit(gang)
    faulty.set("qstat", fault)
    with pytest.raises(PbsError, match=said):
        ledger_of(faulty).jobs()
    faulty.heal("qstat")
    assert len(found(ledger_of(faulty), gang)) == 1


def test_a_user_sees_the_pod_s_name_in_qstat_and_the_tag_in_a_variable(faulty: Faulty, gang: Submit) -> None:
    ledger, call = ledger_of(faulty), faulty.cluster.call
    name = ledger.submit(replace(gang, name="trainer-0"))
    shown = json.loads(call("qstat", "-f", "-F", "json", name).out)["Jobs"][name]
    assert shown["Job_Name"] == "trainer-0"
    assert shown["Variable_List"]["CONVERGED_TAG"] == f"cv-{gang.mark}_{gang.uid}_team_"
    assert [line.split()[1] for line in call("qstat", name).out.splitlines()[2:]] == ["trainer-0"]


def test_a_job_that_a_user_gives_the_tag_is_none_of_the_daemon_s(faulty: Faulty, gang: Submit) -> None:
    call, ledger = faulty.cluster.call, ledger_of(faulty)
    tag = f"CONVERGED_TAG=cv-{gang.mark}_{gang.uid}_team_"
    forged = call("qsub", "-N", "trainer", "-v", tag, "--", "/bin/sleep", "600", user="daemon").out.strip()
    try:
        assert [job.tag for job in ledger.jobs() if job.id == forged] == [""]
        own = ledger.submit(gang)
        assert [job.id for job in found(ledger, gang)] == [own]
    finally:
        call("qdel", forged)


def test_a_job_of_a_former_version_with_its_tag_in_its_name_is_still_known(faulty: Faulty, gang: Submit) -> None:
    name = f"cv-{gang.mark}_{gang.uid}_team_trainer"
    job = faulty.cluster.call("qsub", "-N", name, "--", "/bin/sleep", "600", user="root").out.strip()
    assert [(one.id, one.namespace) for one in found(ledger_of(faulty), gang)] == [(job, "team")]


def test_a_host_is_down_when_its_mom_is_dead_and_not_before(hook: Recorder, faulty: Faulty, gang: Submit) -> None:
    ledger = ledger_of(faulty)
    assert ledger.down((*HOSTS, "nowhere")) == frozenset()
    name = ledger.submit(replace(gang, chunks=(Chunk(count=1, cores=1, properties=(("host", HOSTS[1]),)),)))
    hook.until_runs(name)
    assert hook.pbs.on(HOSTS[1], "kill -9 $(cat $PBS_HOME/mom_priv/mom.lock)").rc == 0
    try:
        until(lambda: ledger.down((*HOSTS, "nowhere")) == {HOSTS[1]})
        with pytest.raises(PbsError, match="222"):
            ledger.release(Release(uid=gang.uid, name=name))
        ledger.release(Release(uid=gang.uid, name=name, force=True))
        until(lambda: not found(ledger, gang))
    finally:
        assert hook.pbs.on(HOSTS[1], "pbs_mom").rc == 0
        until(lambda: ledger.down(HOSTS) == frozenset())


def test_a_server_that_does_not_answer_or_has_only_just_started_says_of_no_host_that_it_is_down(
    pbs: Cluster, faulty: Faulty
) -> None:
    ledger = ledger_of(faulty)
    assert pbs.call("qterm", "-t", "quick").rc == 0
    try:
        until(lambda: pbs.call("qstat").rc == 255)
        with pytest.raises(PbsError):
            ledger.down(HOSTS)
    finally:
        assert pbs.call("pbs_server").rc == 0
    until(lambda: pbs.call("qstat").rc == 0)
    assert ledger.down(HOSTS) == frozenset()
    until(lambda: "down" not in pbs.call("pbsnodes", "-a").out)


@pytest.mark.parametrize("depth", [990, 5000])
def test_a_variable_of_another_job_that_is_deep_json_hides_no_job(faulty: Faulty, gang: Submit, depth: int) -> None:
    call = faulty.cluster.call
    other = call("qsub", "-h", "-v", "X=" + "[" * depth + "]" * depth, "--", "/bin/sleep", "9").out.strip()
    try:
        ledger_of(faulty).submit(gang)
        assert len(found(ledger_of(faulty), gang)) == 1
    finally:
        call("qdel", other)


def test_a_program_that_hangs_is_given_up(faulty: Faulty) -> None:
    faulty.set("qstat", Fault(hang=600))
    with pytest.raises(PbsError, match="no answer in 1 s"):
        ledger_of(faulty, timeout=1.0).jobs()


def test_a_refusal_comes_in_pbs_s_own_words(faulty: Faulty, gang: Submit) -> None:
    faulty.cluster.call("qmgr", "-c", "set queue workq enabled = False")
    try:
        with pytest.raises(PbsError, match="Queue is not enabled"):
            ledger_of(faulty).submit(gang)
    finally:
        faulty.cluster.call("qmgr", "-c", "set queue workq enabled = True")


def test_a_job_of_a_namespace_s_user_is_his_until_he_s_asked_to_end_it(faulty: Faulty, gang: Submit) -> None:
    ledger = ledger_of(faulty, user="namespace.name")
    theirs = replace(gang, namespace="daemon")
    name = ledger.submit(theirs)
    try:
        shown = json.loads(faulty.cluster.call("qstat", "-f", "-F", "json", name).out)["Jobs"][name]
        assert (shown["euser"], shown["Account_Name"]) == ("daemon", "physics")
        (job,) = found(ledger, theirs)
        assert (job.id, job.mark, job.owner, job.queue) == (name, theirs.mark, "daemon", "workq")
    finally:
        ledger.release(Release(uid=gang.uid, name=name, user="daemon"))
    until(lambda: not found(ledger, theirs))


def test_jobs_of_others_are_known_by_their_hosts(faulty: Faulty) -> None:
    call = faulty.cluster.call
    words = ("-l", "select=2:ncpus=1", "-l", "place=scatter", "-l", "walltime=600", "--", "/bin/sleep", "600")
    name = call("qsub", *words, user="daemon").out.strip()
    try:
        (job,) = until(lambda: [one for one in ledger_of(faulty).jobs() if one.id == name and one.runs])
        assert (set(job.hosts), job.tag, job.run) == (set(HOSTS), "", 1)
        assert job.left is not None
        assert 100 < job.left <= 600
    finally:
        call("qdel", name)
    until(lambda: not [one for one in ledger_of(faulty).jobs() if one.id == name])


def test_while_a_job_of_others_begins_it_is_known_what_it_has_of_each_host(
    hook: Recorder, faulty: Faulty, tmp_path: Path
) -> None:
    go, ledger = tmp_path / "go", ledger_of(faulty)
    hook.tell("probe", {f"begin@{HOSTS[0]}": f"wait {go}"})
    name = hook.submit("-l", "select=2:ncpus=1:mem=1mb", "-l", "place=scatter", "--", "/bin/sleep", "100")

    def running() -> list[BatchJob]:
        return [one for one in ledger.jobs() if one.id == name and one.runs]

    try:
        (job,) = until(running)
        assert [(share.host, share.cores, share.memory) for share in job.shares] == [(host, 1, 1024) for host in HOSTS]
    finally:
        go.touch()
    until(lambda: [one for one in running() if not one.shares])
