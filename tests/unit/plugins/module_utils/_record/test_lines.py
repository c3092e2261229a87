# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of lines and their undo: tables, and what must hold for every text."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.model.line_edits import LineEdit, apply_edits, undo
from hypothesis import assume, given
from hypothesis import strategies as st

# before, edit, after
EDITED = [
    ("", LineEdit("a"), "a\n"),
    ("a\n", LineEdit("a"), "a\n"),
    ("a", LineEdit("a"), "a"),
    ("a", LineEdit("b"), "a\nb\n"),
    ("a\n\n", LineEdit("b"), "a\n\nb\n"),
    ("k 1\nz\n", LineEdit("k 2", "^k "), "k 2\nz\n"),
    ("z\n", LineEdit("k 2", "^k "), "z\nk 2\n"),
    ("k 2\nz\n", LineEdit("k 2", "^k "), "k 2\nz\n"),
    ("a\nb\na\n", LineEdit("a", present=False), "b\n"),
    ("a 1\nb\na 2", LineEdit("", "^a", present=False), "b\n"),
    ("a\r\n", LineEdit("b"), "a\r\nb\n"),
]

# without us, ours, as it is now, undone, conflicts
UNDONE = [
    ("a\n", "a\nx\n", "a\nx\n", "a\n", 0),
    ("a\n", "a\nx\n", "a\nx\nsite\n", "a\nsite\n", 0),
    ("a\n", "a\nx\n", "site\na\nx\n", "site\na\n", 0),
    ("a", "a\nx\n", "a\nx\n", "a", 0),
    ("k 1\nz\n", "k 2\nz\n", "k 2\nz\nsite\n", "k 1\nz\nsite\n", 0),
    ("k 1\nz\n", "k 2\nz\n", "k 3\nz\n", "k 3\nz\n", 1),
    ("k 1\nz\n", "k 2\nz\n", "z\n", "z\n", 1),
    ("a\nb\nc\n", "a\nc\n", "a\nc\nd\n", "a\nb\nc\nd\n", 0),
    ("a\nb\nc\n", "a\nc\n", "new\na\nc\n", "new\na\nb\nc\n", 0),
    ("", "x\n", "x\nsite\n", "site\n", 0),
    ("a\n", "a\nx\ny\n", "a\ny\n", "a\n", 1),
    ("a\nb\n", "x\ny\n", "x\nmine\n", "a\nmine\n", 1),
]

LINES = st.lists(st.sampled_from(["a", "b", "c", "k 1", "k 2", "", "#"]), max_size=8)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + (end if lines else ""), LINES, st.sampled_from(["\n", ""]))
EDITS = st.lists(
    st.sampled_from([LineEdit("ours 1"), LineEdit("ours 2"), LineEdit("k ours", "^k 1"), LineEdit("a", present=False)]),
    min_size=1,
    max_size=3,
)


@pytest.mark.parametrize(("before", "edit", "after"), EDITED)
def test_an_edit_does_what_it_says_and_no_more(before: str, edit: LineEdit, after: str) -> None:
    assert apply_edits("/f", [edit], before.encode()) == after.encode()


def test_an_expression_that_finds_two_lines_is_refused_with_their_numbers() -> None:
    with pytest.raises(RecordError, match="matches lines 1, 3"):
        apply_edits("/f", [LineEdit("k 9", "^k")], b"k 1\nz\nk 2\n")


@pytest.mark.parametrize(("without", "ours", "now", "undone", "conflicts"), UNDONE)
def test_undo_takes_back_ours_and_leaves_the_sites(
    without: str, ours: str, now: str, undone: str, conflicts: int
) -> None:
    found = undo(ours=ours.encode(), without=without.encode(), now=now.encode())
    assert found.text.decode() == undone
    assert len(found.conflicts) == conflicts


def test_a_conflict_says_what_we_had_written_and_what_was_there_before() -> None:
    found = undo(ours=b"k ours\n", without=b"k old\n", now=b"k site\n")
    assert found.conflicts == ("our line 'k ours' was changed since; before us it was 'k old'",)


@given(text=TEXTS, edits=EDITS)
def test_an_edit_made_twice_is_made_once(text: str, edits: list[LineEdit]) -> None:
    assume(sum(line == "k 1" for line in text.split("\n")) < 2)
    assume(sorted({edit.line for edit in edits}) == sorted(edit.line for edit in edits))
    once = apply_edits("/f", edits, text.encode())
    assert apply_edits("/f", edits, once) == once


@given(
    text=TEXTS, edits=EDITS, site=st.lists(st.tuples(st.booleans(), st.sampled_from(["site 1", "site 2"])), max_size=3)
)
def test_lines_that_the_site_adds_survive_the_undo_and_ours_are_gone(
    text: str, edits: list[LineEdit], site: list[tuple[bool, str]]
) -> None:
    assume(sum(line == "k 1" for line in text.split("\n")) < 2)
    ours = apply_edits("/f", edits, text.encode()).decode()
    assume(ours.endswith("\n"))  # beside nothing there is no place to put lines back to
    now, expected = ours, text
    for first, line in site:
        now = f"{line}\n{now}" if first else f"{now}{line}\n"
        expected = (
            f"{line}\n{expected}"
            if first
            else expected + ("" if expected.endswith("\n") or not expected else "\n") + f"{line}\n"
        )
    found = undo(ours=ours.encode(), without=text.encode(), now=now.encode())
    assert found.conflicts == ()
    assert found.text.decode().rstrip("\n").split("\n") == expected.rstrip("\n").split("\n")


@given(without=TEXTS, ours=TEXTS, now=TEXTS)
def test_undo_never_fails_and_alone_gives_back_the_very_bytes(without: str, ours: str, now: str) -> None:
    undo(ours=ours.encode(), without=without.encode(), now=now.encode())
    assert undo(ours=ours.encode(), without=without.encode(), now=ours.encode()).text == without.encode()
