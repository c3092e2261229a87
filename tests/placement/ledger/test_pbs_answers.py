# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What qstat prints, whole, bent or cut short."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.ledger.pbs_answers import AnswerError, read_jobs
from placement.model.batch import HostShare

UID = "0d1f6a52-1111-4222-8333-944455556666"
MARK = "0a1b2c3d"
RUNNING = {
    "Job_Name": "trainer",
    "Variable_List": {"CONVERGED_TAG": f"cv-{MARK}_{UID}_team_", "PBS_O_HOST": "pbs-srv"},
    "Job_Owner": "placement@pbs-srv",
    "job_state": "R",
    "substate": 41,
    "exec_host": "n1/0*2+n2/0",
    "exec_vnode": "(n1:ncpus=2:mem=1024kb)+(n2:ncpus=1:ngpus=2:mem=1gb)",
    "Resource_List": {"walltime": "01:00:00", "select": "1:ncpus=2+1:ncpus=1"},
    "stime": "Fri Nov 20 22:53:00 2026",
    "run_count": 1,
    "comment": "Job run at Fri Nov 20 at 22:53 on (n1:ncpus=2)",
}
EXPECTED = {"exec_vnode": "(n1:ncpus=2)+(n2[0]:ncpus=1+n2[1]:ncpus=1)", "start_time": "Fri Nov 20 23:04:00 2026"}
# Fri Nov 20 22:54:00 2026
NOW = 1795215240


def printed(**jobs: object) -> str:
    found = {name.replace("_", "."): fields for name, fields in jobs.items()}
    return json.dumps({"timestamp": NOW, "pbs_version": "23.06.06", "pbs_server": "pbs-srv", "Jobs": found})


def one(**changes: object):
    (job,) = read_jobs(printed(**{"7_pbs-srv": {**RUNNING, **changes}}), owner="placement")
    return job


def test_a_job_of_ours_that_runs_says_what_it_has_of_each_host():
    job = one()
    assert (job.id, job.tag, job.runs, job.ends) == ("7.pbs-srv", UID, True, False)
    assert job.shares == (
        HostShare(host="n1", cores=2, memory=1024),
        HostShare(host="n2", cores=1, memory=1 << 20, devices=(("ngpus", 2),)),
    )
    assert job.left == 3540.0


@pytest.mark.parametrize(
    ("exec_vnode", "exec_host", "shares"),
    [
        ("(n2[0]:ncpus=2+n2[1]:ncpus=2)", "n2/0*0", (HostShare(host="n2", cores=4),)),
        ("(v:ncpus=1)+(v:ncpus=1)", "n2/0+n2/1", (HostShare(host="n2", cores=1),) * 2),
        ("(n1:ncpus=0:mem=1b)", "n1/0*0", (HostShare(host="n1", cores=0, memory=1),)),
        # PBS writes a size in words of 8 bytes where the user did.
        ("(n1:ncpus=1:mem=1kw)", "n1/0", (HostShare(host="n1", cores=1, memory=8),)),
    ],
)
def test_vnodes_are_not_hosts(exec_vnode, exec_host, shares):
    assert one(exec_vnode=exec_vnode, exec_host=exec_host).shares == shares


@pytest.mark.parametrize(
    ("changes", "tag"),
    [
        ({}, UID),
        ({"Job_Owner": "mallory@pbs-srv"}, ""),
        ({"Job_Owner": "placement.evil@pbs-srv"}, ""),
        ({"Job_Name": "kube-apiserver"}, UID),
        ({"Job_Name": 7}, UID),
        *(
            ({"Variable_List": {"CONVERGED_TAG": text}}, "")
            for text in ("cv-../x", f"cv-{UID}_team_", f"cv-{MARK}_../x", "", 7, {"x": f"cv-{MARK}_{UID}"}, [UID])
        ),
        ({"Variable_List": {"X": f"cv-{MARK}_{UID}_team_", "converged_tag": f"cv-{MARK}_{UID}_team_"}}, ""),
        ({"Variable_List": f"CONVERGED_TAG=cv-{MARK}_{UID}_team_"}, ""),
        ({"Variable_List": None}, ""),
        ({"Variable_List": {"CONVERGED_TAG": f"cv-{MARK}_{UID}"}}, UID),
    ],
)
def test_a_job_is_ours_by_its_owner_and_its_tag_together(changes, tag):
    assert one(**changes).tag == tag


@pytest.mark.parametrize(
    ("changes", "tag"),
    [
        ({}, UID),
        ({"Job_Owner": "mallory@pbs-srv"}, ""),
        ({"Job_Name": "cv-../x"}, ""),
        ({"Job_Name": f"cv-{UID}_trainer"}, ""),
        ({"Job_Name": f"cv-{MARK}_../x"}, ""),
        ({"Job_Name": f"cv-{MARK}_{UID}"}, UID),
        # What is in the variable counts, whatever the job is called.
        ({"Variable_List": {"CONVERGED_TAG": "cv-../x"}}, ""),
    ],
)
def test_a_job_of_a_former_version_has_its_tag_in_its_name(changes, tag):
    former = {"Job_Name": f"cv-{MARK}_{UID}_trainer", "Variable_List": {"PBS_O_HOST": "pbs-srv"}}
    assert one(**{**former, **changes}).tag == tag


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("team_trainer-0.a", "team"),
        ("team_", "team"),
        # Those of daemons that did not say it.
        ("trainer", ""),
        ("0.x_y", ""),
    ],
)
def test_a_job_s_tag_says_of_which_namespace_it_is(name, namespace):
    for changes in (
        {"Variable_List": {"CONVERGED_TAG": f"cv-{MARK}_{UID}_{name}"}},
        {"Variable_List": {}, "Job_Name": f"cv-{MARK}_{UID}_{name}"},
    ):
        job = one(**changes)
        assert (job.tag, job.namespace) == (UID, namespace)


def test_the_run_is_what_its_owner_cannot_alter():
    assert one(run_count=7, run_version=2).run == 2
    assert one(run_count=7).run == 7


def test_a_job_of_a_user_that_none_of_ours_looks_like_is_not_ours_and_hides_no_other():
    holds = {"Submit_arguments": "-N trainer -- /bin/sleep infinity"}
    odd = {**RUNNING, **holds, "Job_Owner": "mallory@pbs-srv", "exec_vnode": "(n1:mem=1024kb)", "exec_host": "n1/0"}
    jobs = read_jobs(printed(**{"7_pbs-srv": RUNNING, "8_pbs-srv": odd}), owner="placement")
    assert [job.tag for job in jobs] == [UID, ""]


def test_a_job_that_waits_is_nowhere_and_says_why():
    waiting = {key: value for key, value in RUNNING.items() if not key.startswith("exec_")}
    (job,) = read_jobs(
        printed(**{"7_pbs-srv": {**waiting, "job_state": "Q", "comment": "Not Running: wait"}}), owner="placement"
    )
    assert (job.runs, job.shares, job.left, job.comment) == (False, (), None, "Not Running: wait")


@pytest.mark.parametrize(
    ("changes", "hosts", "begins"),
    [
        ({}, ("n1", "n2"), None),
        ({"exec_host": "n2/0*0+n2/1"}, ("n2",), None),
        ({"exec_host": "n1.example.org/0*2"}, ("n1.example.org",), None),
        ({"exec_host": None}, (), None),
        ({"exec_host": {"n1": 0}, "exec_vnode": "("}, (), None),
        ({"job_state": "S"}, (), None),
        ({"job_state": "Q", "estimated": EXPECTED}, ("n1", "n2"), 600.0),
        ({"job_state": "Q", "estimated": {**EXPECTED, "exec_vnode": None}}, (), 600.0),
        ({"job_state": "Q", "estimated": {**EXPECTED, "start_time": "UNKNOWN"}}, ("n1", "n2"), None),
        ({"job_state": "Q", "estimated": {**EXPECTED, "start_time": "Fri Nov 20 22:53:59 2026"}}, ("n1", "n2"), 0.0),
        ({"job_state": "Q", "estimated": 7}, (), None),
        ({"job_state": "Q"}, (), None),
    ],
)
def test_of_a_job_of_others_the_hosts_are_known_that_it_has_or_is_expected_on(changes, hosts, begins):
    job = one(Job_Owner="mallory@pbs-srv", substate=42, **changes)
    assert (job.tag, job.shares, job.hosts, job.begins) == ("", (), hosts, begins)


@pytest.mark.parametrize(
    ("place", "whole"),
    [("free", False), ("scatter:excl", True), ("exclhost", True), ("free:group=exclusive_rack", False), (7, False)],
)
def test_a_job_of_others_says_what_it_has_while_it_begins(place, whole):
    begins = {"Job_Owner": "mallory@pbs-srv", "Resource_List": {"place": place}}
    job = one(**begins, substate=41)
    assert (job.whole, {share.host for share in job.shares}) == (whole, {"n1", "n2"})
    job = one(**begins, substate=42)
    assert (job.whole, job.shares) == (False, ())


def test_a_job_of_ours_says_when_it_is_expected_to_start_and_whose_it_is():
    job = one(job_state="Q", exec_vnode=None, estimated=EXPECTED)
    assert (job.tag, job.mark, job.begins) == (UID, MARK, 600.0)


def test_a_job_that_was_only_just_sent_to_its_hosts_has_all_of_its_walltime_left():
    sent = {name: value for name, value in RUNNING.items() if name != "stime"}
    (job,) = read_jobs(printed(**{"7_pbs-srv": sent}), owner="placement")
    assert (job.runs, job.left) == (True, 3600.0)


@pytest.mark.parametrize("walltime", ["9" * 5000 + ":00:00", "-1:00:00", 3600, None, "1:2:3:4", ""])
def test_a_walltime_that_is_none_is_no_limit(walltime):
    assert one(Resource_List={"walltime": walltime}).left is None


def test_a_start_that_is_no_date_says_nothing_of_what_is_left():
    assert one(stime="yesterday").left is None


@pytest.mark.parametrize("state", ["S", "E", "H", "T", "W", "F"])
def test_a_job_has_its_nodes_only_while_it_runs(state):
    assert (one(job_state=state).runs, one(job_state=state).shares) == (False, ())


def test_no_jobs_at_all_is_an_answer():
    assert read_jobs(json.dumps({"timestamp": NOW}), owner="placement") == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "qstat: cannot connect to server",
        "{}",
        "[]",
        '{"timestamp": "soon"}',
        '{"timestamp": 1, "Jobs": []}',
        '{"timestamp": 1, "Jobs": {"x": {}}}',
        '{"timestamp": 1, "Jobs": {"-rf.srv": {"job_state": "R"}}}',
        '{"timestamp": 1, "Jobs": {"7.srv": {"job_state": 1}}}',
        '{"timestamp": 1, "Jobs": {"7.srv": null}}',
        "[" * 100_000,
        printed(**{"7_srv": {**RUNNING, "exec_vnode": "(n1:ncpus=2"}}),
        printed(**{"7_srv": {**RUNNING, "exec_vnode": 7}}),
        printed(**{"7_srv": {**RUNNING, "exec_host": "n1/0*2"}}),
        printed(**{"7_srv": {**RUNNING, "exec_host": None}}),
    ],
)
def test_what_is_not_whole_is_no_answer(text):
    with pytest.raises(AnswerError):
        read_jobs(text, owner="placement")


@pytest.mark.parametrize("deep", ["[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000])
def test_what_a_user_wrote_so_deep_as_pbs_reads_it_blinds_nobody(deep):
    text = printed(**{"7_pbs-srv": {**RUNNING, "Variable_List": {**RUNNING["Variable_List"], "X": "deep"}}}).replace(
        '"deep"', deep
    )
    assert [job.tag for job in read_jobs(text, owner="placement")] == [UID]


@given(st.integers(0, 2000))
def test_an_answer_cut_short_is_no_answer(length):
    text = printed(**{"7_pbs-srv": RUNNING, "8_pbs-srv": {"job_state": "Q"}})
    if length < len(text):
        with pytest.raises(AnswerError):
            read_jobs(text[:length], owner="placement")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*RUNNING, "Variable_List"]), VALUES, max_size=4))
def test_1_4_9_bent_values_end_in_jobs_or_in_no_answer(changes):
    try:
        job = one(**changes)
    except AnswerError:
        return
    assert all(isinstance(share.cores, int) for share in job.shares)
    assert not job.tag or job.tag == UID or "Job_Name" in changes
