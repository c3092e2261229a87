# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Torque's XML: what is read, what is refused, and that no user's text can become more than text."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import NoAnswerError
from ansible_collections.converged.hpc.plugins.module_utils._torque import elements, parse
from hypothesis import given
from hypothesis import strategies as st

JOB = "<Job><Job_Id>1.srv</Job_Id><job_state>R</job_state>{}</Job>"
WHOLE = '<?xml version="1.0"?>\n<Data><Job><Job_Id>1.srv</Job_Id><R><a>1</a><b>2</b></R><c></c></Job><Job /></Data>\n'


def read(text: str) -> list[dict[str, str]]:
    return elements.records(text, "Job", program="qstat")


def test_leaves_are_named_by_their_levels() -> None:
    assert read(WHOLE) == [{"Job_Id": "1.srv", "R.a": "1", "R.b": "2", "c": ""}, {}]


@pytest.mark.parametrize("end", range(len('<?xml version="1.0"?>\n<Data>'), len(WHOLE) - 1))
def test_an_answer_that_is_cut_anywhere_is_none(end: int) -> None:
    with pytest.raises(NoAnswerError, match="not whole"):
        read(WHOLE[:end])


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Data><Job><x>&b;</x></Job></Data>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><Data></Data>',
        "<Data><![CDATA[x]]></Data>",
        "<Data></Data><Data></Data>",
        "<Data></Job>",
        "<Job></Job>",
        "qstat: something",
        "<Data>" + "<a>" * 50,
    ],
)
def test_what_torque_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(NoAnswerError):
        read(text)


def test_entities_that_are_not_plain_stay_text() -> None:
    [found] = read("<Data><Job><x>&lol; &amp;lt; &lt;&gt;&quot;&apos; &#65;&#0;</x></Job></Data>")
    assert found["x"] == "&lol; &lt; <>\"' A"


def test_control_characters_of_one_user_hide_nothing() -> None:
    [found] = read("<Data><Job><Account_Name>bell\x07\x00\udcff</Account_Name><x>1</x></Job></Data>")
    assert found == {"Account_Name": "bell\udcff", "x": "1"}


def test_an_answer_without_bounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "MOST_CHARACTERS", 50)
    with pytest.raises(NoAnswerError, match="more than 50 characters"):
        read(WHOLE)


@given(st.text(st.characters(exclude_characters="<>&"), max_size=60))
def test_the_name_of_a_job_changes_nothing_else(name: str) -> None:
    text = f"<Data>{JOB.format(f'<Job_Name>{name}</Job_Name><exec_host>n1/0-3</exec_host>')}</Data>"
    [job] = parse.jobs(text)
    assert (job.id, job.state, job.hosts) == ("1.srv", "R", ({"host": "n1", "slots": 4},))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n2/0-3+n1/0-3", {"n2": 4, "n1": 4}),
        ("n2/0,2-3+n1/7", {"n2": 3, "n1": 1}),
        ("n1/0+n1/1+n2/0", {"n1": 2, "n2": 1}),
        ("", {}),
    ],
)
def test_hosts_of_a_job(text: str, expected: dict[str, int]) -> None:
    assert {one["host"]: one["slots"] for one in parse.places(text)} == expected


@pytest.mark.parametrize("text", ["n1", "n1/", "n1/x", "/0", "n1/3-0", "n1/0-9999999", "n1/0+", "n 1/0", "n1/0--2"])
def test_hosts_that_cannot_be_are_no_answer(text: str) -> None:
    with pytest.raises(NoAnswerError):
        parse.places(text)
