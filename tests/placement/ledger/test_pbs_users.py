# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submitting as the user that a namespace belongs to: by sudo, as ordinary users only, never by a word of a pod."""

import json

import pytest
from placement.app.batch_worker import backing_settings, identities_of
from placement.app.settings.settings import Settings
from placement.ledger.command import Answer
from placement.ledger.identity import Identities, uid_of
from placement.ledger.pbs import Pbs, PbsError, Terms
from placement.ledger.pbs_answers import read_jobs
from placement.model.batch import Chunk, Whose
from placement.model.messages.action import Release, Submit

UID = "0d1f6a52-1111-4222-8333-944455556666"
MARK = "0a1b2c3d"
UIDS = {"alice": 1001, "root": 0, "daemon": 1, "postgres": 999, "placement": 1000, "toor": 0}


def pbs(said: list[list[str]], answer: Answer, least_uid: int = 1000) -> Pbs:
    def answered(argv, *, timeout):
        said.append(argv)
        return answer

    identities = Identities(queue="'pods'", user='namespace.labels."u"', least_uid=least_uid, uid_of=UIDS.get)
    return Pbs(Terms(bin_dir="/opt/pbs/bin", identities=identities, owner="placement", run=answered))


def submit(user: str) -> Submit:
    return Submit(
        uid=UID,
        mark=MARK,
        namespace="team",
        name="p1",
        queue="q",
        namespace_labels=(("u", user),),
        chunks=(Chunk(count=1, cores=1),),
    )


def test_1_4_7_a_job_is_submitted_and_deleted_as_the_user():
    said: list[list[str]] = []
    assert pbs(said, Answer(0, "7.srv", "")).submit(submit("alice")) == "7.srv"
    pbs(said, Answer(0, "", "")).release(Release(uid=UID, name="7.srv", user="alice"))
    assert [argv[:6] for argv in said] == [
        ["/usr/bin/sudo", "-n", "-u", "alice", "--", "/opt/pbs/bin/qsub"],
        ["/usr/bin/sudo", "-n", "-u", "alice", "--", "/opt/pbs/bin/qdel"],
    ]
    assert said[1][6:] == ["7.srv"]


HOSTILE = ["root", "toor", "daemon", "postgres", "nobody-knows", "-i", "#0", "%wheel", "alice;reboot", "a\n", "", "A"]


@pytest.mark.parametrize("user", HOSTILE)
def test_nobody_but_an_ordinary_user_of_this_host_is_submitted_as(user):
    said: list[list[str]] = []
    with pytest.raises(PbsError, match="pbs_user"):
        pbs(said, Answer(0, "7.srv", "")).submit(submit(user))
    if user:
        with pytest.raises(PbsError, match="pbs_user"):
            pbs(said, Answer(0, "", "")).release(Release(uid=UID, name="7.srv", user=user))
    assert said == []


def test_no_setting_makes_root_an_ordinary_user():
    with pytest.raises(PbsError, match="uid 0"):
        pbs([], Answer(0, "7.srv", ""), least_uid=0).submit(submit("root"))


def test_users_are_those_of_the_host():
    assert (uid_of("root"), uid_of("nobody-knows")) == (0, None)


def test_jobs_of_the_daemon_s_own_are_asked_for_as_ever():
    said: list[list[str]] = []
    pbs(said, Answer(0, "", "")).release(Release(uid=UID, name="7.srv"))
    assert said == [["/opt/pbs/bin/qdel", "7.srv"]]


@pytest.mark.parametrize(
    ("changes", "tag", "owner"),
    [
        ({}, UID, "alice"),
        ({"Job_Owner": "placement@srv", "Submit_arguments": "x"}, UID, ""),
        ({"Submit_arguments": "-N cv -- /bin/sleep 60"}, "", ""),
        ({"Submit_arguments": None}, "", ""),
        # What people call their cross-validation is their business.
        ({"Job_Name": "cv-fold1", "Variable_List": {}}, "", ""),
        ({"Job_Name": f"cv-{MARK}_fold1", "Variable_List": {}}, "", ""),
        ({"Variable_List": {"CONVERGED_TAG": f"cv-{MARK}_fold1"}}, "", ""),
        ({"Job_Owner": "Alice B@srv"}, "", ""),
        # One of a former version.
        ({"Job_Name": f"cv-{MARK}_{UID}_p1", "Variable_List": {}}, UID, "alice"),
    ],
)
def test_a_job_of_a_user_s_may_be_ours_only_where_nothing_is_lost_with_it(changes, tag, owner):
    fields = {
        "job_state": "Q",
        "Job_Owner": "alice@srv",
        "Job_Name": "p1",
        "Variable_List": {"CONVERGED_TAG": f"cv-{MARK}_{UID}_team_"},
        "Submit_arguments": f"-N p1 -v CONVERGED_TAG=cv-{MARK}_{UID}_team_ -q pods -- /bin/sleep infinity",
        "queue": "pods",
        **changes,
    }
    text = json.dumps({"timestamp": 1, "Jobs": {"7.srv": fields}})
    (job,) = read_jobs(text, owner="placement")
    assert (job.tag, job.mark, job.owner, job.queue) == (tag, MARK if tag else "", owner, "pods")


@pytest.mark.parametrize(
    ("queue", "user", "found"),
    [
        ("'pods'", "", {"pods": "alice", "workq": ""}),
        ("namespace.labels.queue || 'pods'", "", {"pods": "alice", "workq": ""}),
        ("namespace.labels.queue", "", {"pods": "", "workq": ""}),
        ("", "", {"pods": "", "workq": ""}),
        # They end, so that nobody waits for one in a queue that the settings do not give any more.
        ("'pods'", "namespace.labels.user", {"pods": "alice", "workq": "alice"}),
    ],
)
def test_where_the_daemon_submits_all_no_user_has_a_job_of_ours_but_in_the_queue_of_all(queue, user, found):
    tag = {"Job_Name": "p1", "Variable_List": {"CONVERGED_TAG": f"cv-{MARK}_{UID}_team_"}}
    job = {"job_state": "Q", "Job_Owner": "alice@srv", **tag, "Submit_arguments": "-- /bin/sleep infinity"}
    jobs = {f"{number}.srv": {**job, "queue": each} for number, each in enumerate(found)}
    answer = Answer(0, json.dumps({"timestamp": 1, "Jobs": jobs}), "")
    identities = Identities(queue=queue, user=user)
    terms = Terms(bin_dir="/opt/pbs/bin", identities=identities, owner="placement", run=lambda _argv, timeout: answer)
    assert {job.queue: job.owner for job in Pbs(terms).jobs()} == found


@pytest.mark.parametrize(
    ("more", "labels", "whose"),
    [
        ({}, (), Whose("", "pods")),
        ({"pbs_queue": "queue"}, (), Whose("", "backed")),
        # What is no queue of PBS is said when a job is submitted.
        ({"pbs_queue": "namespace.labels.queue"}, (), Whose("", "")),
        ({"pbs_user": "namespace.labels.user"}, (("user", "alice"),), Whose("alice", "pods")),
        # Whether there is such a user is for who submits to ask: a directory of users may take its time.
        ({"pbs_user": "namespace.labels.user"}, (("user", "nobody-knows"),), Whose("nobody-knows", "pods")),
        ({"pbs_user": "namespace.labels.user"}, (), None),
        ({"pbs_user": "namespace.labels.user"}, (("user", "-rf"),), None),
    ],
)
def test_the_settings_say_whose_jobs_may_back_a_pod_or_that_nobody_can_say(more, labels, whose):
    settings = Settings(**more)
    assert backing_settings(settings, identities_of(settings)).whose("team", labels, "backed") == whose


def test_no_directory_of_users_holds_up_who_decides():
    def hangs(_user: str) -> int:
        raise AssertionError("asked")

    identities = Identities(queue="'pods'", user="namespace.labels.user", uid_of=hangs)
    assert identities.whose("team", (("user", "alice"),), "backed") == Whose("alice", "pods")
