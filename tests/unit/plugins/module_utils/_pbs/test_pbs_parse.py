# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What PBS prints, read as it is meant, and nothing made up where it is not whole."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._pbs import attributes, parse, qmgr
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import NoAnswerError, PbsError
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(n1:ncpus=1)", [("n1", {"ncpus": 1})]),
        ("(n1:ncpus=2:mem=102400kb)+(n2:ncpus=1)", [("n1", {"ncpus": 2, "mem": 104857600}), ("n2", {"ncpus": 1})]),
        # one chunk over two vnodes
        ("(v[0]:ncpus=2+v[1]:ncpus=1)", [("v[0]", {"ncpus": 2}), ("v[1]", {"ncpus": 1})]),
        ("(n1:ncpus=1)+(n1:ncpus=1)", [("n1", {"ncpus": 1}), ("n1", {"ncpus": 1})]),
        ("(n1:ncpus=0:licence=a1)", [("n1", {"ncpus": 0, "licence": "a1"})]),
        ("(n1)", [("n1", {})]),
    ],
)
def test_chunks_are_read_one_by_one(text: str, expected: list[tuple[str, dict[str, t.Any]]]) -> None:
    assert [(chunk["vnode"], chunk["resources"]) for chunk in parse.chunks(text)] == expected


@pytest.mark.parametrize("text", ["n1:ncpus=1", "(n1:ncpus=1", "(n1:ncpus=1)(n2:ncpus=1)", "(:ncpus=1)", "(n1:ncpus)"])
def test_chunks_that_are_not_whole_are_no_answer(text: str) -> None:
    with pytest.raises(NoAnswerError):
        parse.chunks(text)


@given(st.text(alphabet='{}[]":,0aJobsnodetimp \\', max_size=40) | st.text(max_size=20))
def test_no_text_breaks_the_readers(text: str) -> None:
    for read in (parse.jobs, parse.nodes, parse.queues, parse.chunks, qmgr.printed, qmgr.listed):
        try:
            read(text)
        except NoAnswerError:
            continue


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda some: (
            st.lists(some)
            | st.dictionaries(
                st.sampled_from(
                    ["timestamp", "Jobs", "nodes", "1.s", "job_state", "array_id", "exec_vnode", "jobs", "state"]
                ),
                some,
            )
        ),
    )
)
def test_no_json_breaks_the_readers(answer: t.Any) -> None:
    for read in (parse.jobs, parse.nodes, parse.queues, parse.server_host):
        try:
            read(json.dumps(answer))
        except NoAnswerError:
            continue


@pytest.mark.parametrize("deep", ["[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000])
def test_what_a_user_wrote_so_deep_as_pbs_reads_it_is_read(deep: str) -> None:
    fields = {"job_state": "Q", "queue": "workq", "Variable_List": {"X": "deep"}}
    text = json.dumps({"timestamp": 1, "Jobs": {"7.srv": fields}}).replace('"deep"', deep)
    assert [job.id for job in parse.jobs(text)] == ["7.srv"]


def test_a_job_s_run_is_the_one_that_hooks_see_whatever_its_owner_sets() -> None:
    fields = {"job_state": "R", "queue": "workq", "run_count": 7}
    for more, run in (({"run_version": 1}, 1), ({}, 7)):
        text = json.dumps({"timestamp": 1, "Jobs": {"7.srv": {**fields, **more}}})
        assert [job.run for job in parse.jobs(text)] == [run]


@given(st.text(max_size=30))
def test_what_is_given_to_qmgr_is_read_back_as_one_value(value: str) -> None:
    try:
        command = qmgr.assigned("server", "", "comment", value)
    except PbsError:
        return
    assert qmgr.printed(command + "\n") == {("server", ""): {"comment": (value,)}}


@pytest.mark.parametrize(
    ("attribute", "now", "wished", "same"),
    [
        ("resources_max.mem", "2048mb", "2gb", True),
        ("resources_max.mem", "2048mb", "2g", True),
        ("resources_max.mem", "2047mb", "2gb", False),
        ("resources_max.walltime", "01:00:00", 3600, True),
        ("resources_max.walltime", "01:00:00", "60:00", True),
        ("resources_max.walltime", "01:00:00", "60", False),
        ("resources_max.ncpus", "4", 4, True),
        ("comment", "2048mb", "2gb", False),
        ("scheduling", "True", "true", True),
        ("scheduling", "True", False, False),
        ("comment", "All", "all", False),
        ("queue_type", "Execution", "execution", True),
        ("max_run", "[u:PBS_GENERIC=5]", "[u:PBS_GENERIC=5]", True),
    ],
)
def test_what_means_the_same_is_no_change(attribute: str, now: str, wished: t.Any, same: bool) -> None:
    assert (attributes.plan({attribute: (now,)}, {attribute: wished}) == []) is same


def test_a_long_value_is_whole_again() -> None:
    text = "Hook h\n    event = execjob_begin,\n\texecjob_end,\n\texechost_startup\n    order = 5\n\n"
    assert qmgr.listed(text) == {("hook", "h"): {"event": "execjob_begin,execjob_end,exechost_startup", "order": "5"}}


@pytest.mark.parametrize("text", ["order = 5\n", "    order = 5\n", "Hook h\nordr\n", "\tx\n"])
def test_a_list_in_another_form_is_no_answer(text: str) -> None:
    with pytest.raises(NoAnswerError):
        qmgr.listed(text)
