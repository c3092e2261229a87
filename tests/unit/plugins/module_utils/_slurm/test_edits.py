# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of slurm.conf: where they land, what they leave alone, and that each can be undone."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.edits import LineEdit, Plan, Wish, applied, plan
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.model import Conf, load
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.text import encode
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError
from ansible_collections.converged.hpc.plugins.module_utils._slurm.version import Version
from hypothesis import given
from hypothesis import strategies as st

OLD = Version(22, 5, 8)
NEW = Version(24, 11, 5)
MAIN = "/etc/slurm/slurm.conf"
MORE = "/etc/slurm/more.conf"


def conf(main: str, more: str | None = None, release: Version = OLD) -> Conf:
    files = {MAIN: main} if more is None else {MAIN: main, MORE: more}
    return load(MAIN, release=release, read=lambda path: encode(files[path]))


def planned(text: str, *wishes: Wish, release: Version = OLD) -> str:
    found = conf(text, release=release)
    return plan(found, wishes).changed.get(MAIN, text)


FLAGS = Wish("merge", "PrologFlags", "Alloc,DeferBatch")
SET_B = Wish("set", "Prolog", "/b")
ADD_B = Wish("add", "Prolog", "/b")
CASES = {
    "a value is replaced in place": ("A=1\nProlog=/a # why\nB=2\n", SET_B, OLD, "A=1\nProlog=/b # why\nB=2\n"),
    "a new key goes to the end": ("A=1\n# end\n", SET_B, OLD, "A=1\n# end\nProlog=/b\n"),
    "a last line without an ending gets one": ("A=1", SET_B, OLD, "A=1\nProlog=/b\n"),
    "an empty file gets its first line": ("", SET_B, OLD, "Prolog=/b\n"),
    "carriage returns are kept up": ("A=1\r\n", SET_B, OLD, "A=1\r\nProlog=/b\r\n"),
    "the line that counts is changed": ("A=1\nA=2\n", Wish("set", "a", "3"), OLD, "A=1\nA=3\n"),
    "a line is added behind its kind": ("Prolog=/a\nB=2\n", ADD_B, NEW, "Prolog=/a\nProlog=/b\nB=2\n"),
    "a first line is added at the end": ("B=2\n", ADD_B, OLD, "B=2\nProlog=/b\n"),
    "a line that is there is not added": ("Prolog=/b\n", ADD_B, OLD, "Prolog=/b\n"),
    "flags are merged with the site's": ("PrologFlags=X11\n", FLAGS, OLD, "PrologFlags=X11,Alloc,DeferBatch\n"),
    "flags that are there stay": ("PrologFlags=deferbatch,alloc\n", FLAGS, OLD, "PrologFlags=deferbatch,alloc\n"),
    "a list that is not there is made": ("", FLAGS, OLD, "PrologFlags=Alloc,DeferBatch\n"),
    "all our lines are removed": (
        "Prolog=/a\nA=1\nProlog=/b\nProlog=\\\n/a\n",
        Wish("remove", "Prolog", "/a"),
        NEW,
        "A=1\nProlog=/b\n",
    ),
    "another's line is not removed": ("Prolog=/a\n", Wish("remove", "Prolog", "/b"), OLD, "Prolog=/a\n"),
}


@pytest.mark.parametrize(("before", "wish", "release", "after"), CASES.values(), ids=CASES.keys())
def test_an_edit(before: str, wish: Wish, release: Version, after: str) -> None:
    assert planned(before, wish, release=release) == after
    assert planned(after, wish, release=release) == after


@pytest.mark.parametrize(
    ("text", "wishes", "release", "message"),
    [
        ("Prolog=/a\n", [Wish("add", "Prolog", "/b")], OLD, "line 1 sets Prolog already, and Slurm 22.05.8 takes one"),
        ("Prolog=/a\nProlog=/c\n", [Wish("set", "Prolog", "/b")], NEW, r"all count \(.* line 1, .* line 2\)"),
        ("PrologFlags=NoHold\n", [Wish("merge", "PrologFlags", "Contain")], OLD, "NoHold and Contain exclude"),
        ("A+=1\n", [Wish("set", "A", "2")], OLD, r"line 1: A\+= is not changed"),
        ("A=1 \\", [Wish("set", "B", "2")], OLD, "line 1: the file ends in a continued line"),
        ("A=1 \\\n", [Wish("set", "B", "2")], OLD, "line 1: the file ends in a continued line"),
        ("", [Wish("set", "Prolog", "")], OLD, "cannot be written"),
        ("", [Wish("set", "NodeName", "n1")], OLD, "lines that define something"),
        ("", [Wish("set", "Include", "x")], OLD, "lines that define something"),
        ("", [Wish("set", "A", "1"), Wish("set", "a", "2")], OLD, "contradicts itself"),
        ("A=1\n", [Wish("remove", "A", "1"), Wish("set", "A", "1")], OLD, "contradicts itself"),
    ],
)
def test_what_cannot_be_planned_is_said(text: str, wishes: list[Wish], release: Version, message: str) -> None:
    with pytest.raises(ConfError, match=message):
        plan(conf(text, release=release), wishes)


def test_a_key_is_changed_in_the_included_file_it_lives_in() -> None:
    site = conf("Prolog=/a\nInclude more.conf\nA=1\n", "# theirs\nProlog=/b\n")
    assert plan(site, [Wish("set", "Prolog", "/c")]) == Plan(
        (LineEdit(MORE, 1, ("Prolog=/b\n",), ("Prolog=/c\n",)),), {MORE: "# theirs\nProlog=/c\n"}
    )


def test_edits_of_one_plan_are_made_one_after_the_other() -> None:
    site = conf("A=1\nB=2", "", release=NEW)
    made = plan(site, [Wish("remove", "A", "1"), Wish("set", "B", "3"), Wish("set", "C", "4")])
    assert [(edit.index, edit.before, edit.after) for edit in made.edits] == [
        (0, ("A=1\n",), ()),
        (0, ("B=2",), ("B=3",)),
        (0, ("B=3",), ("B=3\n", "C=4\n")),
    ]


def test_an_edit_of_lines_that_have_changed_is_refused() -> None:
    with pytest.raises(ConfError, match="no longer what it was"):
        applied(["A=2\n"], LineEdit(MAIN, 0, ("A=1\n",), ()))


KEYS = st.sampled_from(["A", "b", "Prolog", "PrologFlags"])
WORDS = st.sampled_from(["x", "y", "/p q", "a#b", "c\\d"])
LINES = st.one_of(
    st.builds(
        lambda k, v, c: f"{k}={v}{c}\n", KEYS, st.sampled_from(["x", "y", '"u v"']), st.sampled_from(["", " # c"])
    ),
    st.sampled_from(["\n", "# A=1\n", "A=\\\n x\n", "NodeName=n1 CPUs=1\n", "#\\\n"]),
)


@given(
    st.lists(LINES, max_size=8).map("".join),
    st.lists(st.builds(Wish, st.sampled_from(["set", "add", "merge", "remove"]), KEYS, WORDS), max_size=3),
    st.sampled_from([OLD, NEW]),
    st.booleans(),
)
def test_a_plan_holds_when_read_again_and_every_edit_can_be_undone(
    text: str, wishes: list[Wish], release: Version, ended: bool
) -> None:
    text = text if ended else text.rstrip("\n")
    try:
        made = plan(conf(text, release=release), wishes)
    except ConfError:
        return
    after = made.changed.get(MAIN, text)
    assert plan(conf(after, release=release), wishes).edits == ()
    back = conf(after, release=release)
    for edit in reversed(made.edits):
        undo = edit._replace(before=edit.after, after=edit.before)
        back = conf(applied(back.files[MAIN].lines, undo), release=release)
    assert back.files[MAIN].text() == text
