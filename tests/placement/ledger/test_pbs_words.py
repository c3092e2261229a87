# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What PBS's programs are called with, whatever pods are called and say."""

import json
import os
import re
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.ledger.command import Answer, CommandError, run
from placement.ledger.identity import Identities, Identity, IdentityError, expression_error
from placement.ledger.pbs import Pbs, PbsError, Terms, read_names, read_properties, select
from placement.model.batch import Chunk
from placement.model.messages.action import Release, Submit

UID = "0d1f6a52-1111-4222-8333-944455556666"
IDENTITIES = Identities(queue="'pods'", account='namespace.labels."site/account"', project="namespace.name")
LABELS = (("site/account", "physics"),)


MARK = "0a1b2c3d"


def submit(**more: object) -> Submit:
    given = {"uid": UID, "mark": MARK, "namespace": "team", "name": "trainer", "queue": "backed"}
    return Submit(**{**given, "namespace_labels": LABELS, "chunks": (Chunk(count=1, cores=1),), **more})


def words(**more: object) -> list[str]:
    return pbs().words(submit(**more), Identity("pods", "physics", "team"))


def pbs(answer: Answer | Exception | None = None, said: list | None = None) -> Pbs:
    def answered(argv, *, timeout):
        if said is not None:
            said.append(argv)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Pbs(Terms(bin_dir="/opt/pbs/bin", identities=IDENTITIES, owner="placement", run=answered))


def test_1_4_6_a_gang_is_submitted_with_its_shapes_for_the_namespace_s_account():
    chunks = (
        Chunk(count=1, cores=2, memory=2048, properties=(("host", "n1"),)),
        Chunk(count=7, cores=1, devices=(("ngpus", 1),)),
    )
    assert words(chunks=chunks, walltime=3600) == [
        *("-N", "trainer", "-v", f"CONVERGED_TAG=cv-{MARK}_{UID}_team_", "-q", "pods", "-A", "physics", "-P", "team"),
        *("-l", "select=1:ncpus=2:mem=2048kb:host=n1+7:ncpus=1:ngpus=1", "-l", "place=free", "-l", "walltime=3660"),
        *("-j", "oe", "-o", "localhost:/dev/null", "-m", "n", "--", "/bin/sleep", "infinity"),
    ]


@given(st.text(max_size=300))
def test_no_name_of_a_pod_is_more_than_a_name(name):
    said = words(name=name)
    assert re.fullmatch("[A-Za-z][A-Za-z0-9.-]{0,229}", said[1])
    assert said[2:] == words()[2:]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("trainer-0", "trainer-0"),
        ("7b-model.v2", "p7b-model.v2"),
        ("a" * 253, "a" * 230),
        ("0" * 253, "p" + "0" * 229),
        ("", "p"),
    ],
)
def test_a_user_knows_his_pod_by_the_name_of_its_job(name, shown):
    assert words(name=name)[1] == shown


@pytest.mark.parametrize("value", ["n1+1000:ncpus=64", "n1:ncpus=64", "-rf", "a b", "$(reboot)", "", "x\n", "../x"])
def test_nothing_adds_a_chunk_to_a_select(value):
    with pytest.raises(PbsError, match="select"):
        words(chunks=(Chunk(count=1, cores=1, properties=(("host", value),)),))


def test_what_each_node_must_be_is_part_of_each_chunk_whatever_the_pods_want():
    chunks = (Chunk(count=1, cores=2), Chunk(count=3, cores=1, properties=(("rack", "7"), ("converged", "False"))))
    said = select(chunks, read_properties("converged=True"))
    assert said == "1:ncpus=2:converged=True+3:ncpus=1:rack=7:converged=True"


@pytest.mark.parametrize("uid", ["", "-N x", "a;b", "x" * 65, "../x"])
def test_a_uid_that_is_none_is_no_name_of_a_job(uid):
    with pytest.raises(PbsError, match="UID"):
        words(uid=uid)


@pytest.mark.parametrize("namespace", ["", "a_b", "A", "x" * 64, "../x", "-rf x"])
def test_a_namespace_that_is_none_submits_nothing(namespace):
    with pytest.raises(PbsError, match="namespace"):
        words(namespace=namespace)


@pytest.mark.parametrize("mark", ["", "0a1b2c3", "0A1B2C3D", "0a1b2c3_", "-rf -rf "])
def test_without_the_mark_of_its_daemon_nothing_is_submitted(mark):
    with pytest.raises(PbsError, match="mark"):
        words(mark=mark)


@pytest.mark.parametrize("account", ["", "-rf", "a b", "$(reboot)", "x" * 65, "a\n"])
def test_a_label_that_is_no_account_submits_nothing(account):
    with pytest.raises(PbsError, match="pbs_account"):
        pbs().submit(submit(namespace_labels=(("site/account", account),)))


def test_a_namespace_without_an_account_submits_nothing():
    with pytest.raises(PbsError, match="pbs_account gives None for namespace team"):
        pbs().submit(submit(namespace_labels=()))


def test_expressions_see_the_namespace_and_the_queue_and_no_pod():
    seen = Identities(queue="queue", account="join('.', sort(keys(@)))").of("team", {}, "backed")
    assert (seen.queue, seen.account) == ("backed", "namespace.queue")
    with pytest.raises(IdentityError):
        Identities(queue="pod.metadata.annotations.queue").of("team", {}, "backed")


def test_a_bad_expression_is_named():
    assert expression_error("namespace.[") != ""
    assert expression_error("'pods'") == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(170, "", "qsub: Unknown queue\n"), "exit status 170: qsub: Unknown queue"),
        (Answer(162, "", "Connection refused\nqsub: cannot connect\n"), "Connection refused"),
        (Answer(0, "", ""), "no id of a job"),
        (Answer(0, "7.pbs-srv; rm -rf /", ""), "no id of a job"),
        (CommandError("qsub: no answer in 5 s"), "no answer in 5 s"),
    ],
)
def test_what_is_no_job_id_is_no_job(answer, said):
    with pytest.raises(PbsError, match=re.escape(said)):
        pbs(answer).submit(submit())


def test_the_job_s_id_is_the_answer():
    assert pbs(Answer(0, "7.pbs-srv\n", "")).submit(submit()) == "7.pbs-srv"


def test_jobs_of_a_server_that_is_down_are_unknown_though_its_json_is_valid():
    down = Answer(255, '{"timestamp": 1, "pbs_server": "pbs-srv"}', "Connection refused\n")
    with pytest.raises(PbsError, match="exit status 255: Connection refused"):
        pbs(down).jobs()


@pytest.mark.parametrize("status", [0, 35, 153, 168])
def test_a_job_that_has_ended_needs_no_more(status):
    said: list[list[str]] = []
    pbs(Answer(status, "", "qdel: whatever"), said).release(Release(uid=UID, name="7.pbs-srv"))
    assert said == [["/opt/pbs/bin/qdel", "7.pbs-srv"]]


@pytest.mark.parametrize("name", ["", "-x", "7", "all", "7.srv 8.srv", "7[].srv", "--help.srv"])
def test_nothing_but_a_job_is_deleted(name):
    said: list[list[str]] = []
    with pytest.raises(PbsError):
        pbs(Answer(0, "", ""), said).release(Release(uid=UID, name=name))
    assert said == []


def test_a_job_on_a_host_that_is_down_ends_by_force():
    said: list[list[str]] = []
    pbs(Answer(0, "", ""), said).release(Release(uid=UID, name="7.pbs-srv", force=True))
    assert said == [["/opt/pbs/bin/qdel", "-W", "force", "7.pbs-srv"]]


def nodes(**states: str) -> str:
    return json.dumps({"timestamp": 1, "nodes": {name: {"state": state} for name, state in states.items()}})


@pytest.mark.parametrize(
    ("answer", "down"),
    [
        (Answer(0, nodes(n1="down", n2="free"), ""), {"n1"}),
        (Answer(0, nodes(n1="down,offline", n2="job-busy,down"), ""), {"n1", "n2"}),
        # A server that has only just started has heard of no host.
        (Answer(0, nodes(n1="state-unknown,down", n2="offline"), ""), set()),
        # It says nothing of hosts that it does not know, and tells of the others; the third was not asked for.
        (Answer(1, nodes(n1="down", n3="down"), "Node: n2,  Error: Unknown node\n"), {"n1"}),
    ],
)
def test_hosts_are_down_that_pbs_says_are(answer, down):
    said: list[list[str]] = []
    assert pbs(answer, said).down(("n1", "n2", "-av")) == down
    assert said == [["/opt/pbs/bin/pbsnodes", "-F", "json", "n1", "n2"]]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(1, "", "pbsnodes: cannot connect to server"),
        Answer(0, '{"timestamp": 1, "nodes": {"n1": {"state": "do', ""),
        Answer(0, '{"timestamp": 1}', ""),
        CommandError("pbsnodes: no answer in 20 s"),
    ],
)
def test_where_pbs_cannot_tell_no_host_is_down(answer):
    with pytest.raises(PbsError):
        pbs(answer).down(("n1",))


@pytest.mark.parametrize("text", ["gpu", "a=b=c,", "=x", "a=-rf", "a=b:ncpus"])
def test_names_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="NAME=RESOURCE"):
        read_names(text)


def test_names_are_read():
    assert read_names(" nvidia.com/gpu=ngpus,example.com/fpga=nfpgas ,") == {
        "nvidia.com/gpu": "ngpus",
        "example.com/fpga": "nfpgas",
    }


def test_a_command_sees_no_environment_but_what_pbs_needs():
    answer = run(["/usr/bin/env"], timeout=120, environment={"PBS_CONF_FILE": "/etc/pbs.conf", "PBS_DPREFIX": "x"})
    names = {line.partition("=")[0] for line in answer.out.splitlines()}
    assert names <= {"PBS_CONF_FILE", "PATH", "LC_ALL", "TZ", "_", "PWD", "SHLVL"}
    assert "LC_ALL=C" in answer.out


def test_a_command_that_hangs_ends_with_all_it_started():
    with pytest.raises(CommandError, match="no answer in 0.2 s"):
        run(["/bin/sh", "-c", "sleep 900 & sleep 900"], timeout=0.2)


def test_a_command_that_left_somebody_with_its_answer_is_not_waited_for(tmp_path):
    left = tmp_path / "left"
    script = 'exec setsid sleep 900 & echo $! > "$1.new"; mv "$1.new" "$1"; sleep 900'
    for seconds in (0.2, 2, 20, 200):
        with pytest.raises(CommandError, match=f"no answer in {seconds} s"):
            run(["/bin/sh", "-c", script, "sh", str(left)], timeout=seconds)
        if left.exists():  # a slow machine may not have come so far
            break
    # It goes on, and nobody has waited for its end.
    os.kill(int(left.read_text()), signal.SIGKILL)


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(CommandError, match="/nowhere/qstat: No such file"):
        run(["/nowhere/qstat"], timeout=1)
