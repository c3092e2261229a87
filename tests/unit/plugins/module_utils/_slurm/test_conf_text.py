# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One file of slurm.conf: read as Slurm's parser reads it, kept byte for byte."""

from __future__ import annotations

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf.text import (
    decode,
    encode,
    parse,
    render,
    replace_value,
)
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import ConfError
from hypothesis import given
from hypothesis import strategies as st

SITE = """\
# slurm.conf of the site
ClusterName=Alpha\r
  slurmctldhost = ctl(10.0.0.1)   # primary
Prolog=/etc/slurm/pro\\#1.sh # one # two \\
Epilog=\\
   /etc/slurm/epilog.sh \\
# not a comment of the file, but the end of the statement above
AccountingStorageTRES="gres/gpu, license/x"
Include nodes.conf

NodeName=n[1-2] CPUs=4 RealMemory=1000 \\
   Feature=a,b
LaunchParameters=a\\\\b
# last"""

READ = [
    (1, 1, [("ClusterName", "Alpha")]),
    (2, 1, [("slurmctldhost", "ctl(10.0.0.1)")]),
    (3, 1, [("Prolog", "/etc/slurm/pro#1.sh")]),
    (4, 3, [("Epilog", "/etc/slurm/epilog.sh")]),
    (7, 1, [("AccountingStorageTRES", "gres/gpu, license/x")]),
    (8, 1, [("Include", "nodes.conf")]),
    (10, 2, [("NodeName", "n[1-2]"), ("CPUs", "4"), ("RealMemory", "1000"), ("Feature", "a,b")]),
    (12, 1, [("LaunchParameters", "a\\b")]),
]

# What Slurm 22.05.8 answers with "Parse error" or "unrecognized key", and two things it reads in an unexpected way.
REFUSED = {
    "Prolog=": "'Prolog=' is not Key=Value",
    "  Include nodes.conf": "'Include nodes.conf' is not Key=Value",
    "Include=nodes.conf": "'Include=nodes.conf' is not Key=Value",
    "Include a.conf b.conf": "'b.conf' is not Key=Value",
    "A=1 B=2": "'B=2' is not Key=Value",
    "Prolog=/a b": "'b' is not Key=Value",
    'Prolog="/a b': "'b' is not Key=Value",
    "just words": "'just words' is not Key=Value",
    "NodeName=n1 CPUs": "'CPUs' is not Key=Value",
    "Key=\0": "NUL byte",
}

VALUES = st.text(st.characters(blacklist_characters='"\n\r\0', blacklist_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize("text", ["", "\n", "A=1", SITE, SITE + "\n", decode(b"# \xff\xfe\nA=\xe9\n")])
def test_the_text_comes_back_byte_for_byte(text: str) -> None:
    assert encode(parse("/c", text).text()) == encode(text)


def test_statements_are_read_as_slurm_reads_them() -> None:
    found = [(s.index, s.count, [(p.key, p.value) for p in s.pairs]) for s in parse("/c", SITE).statements]
    assert found == READ


@pytest.mark.parametrize(("line", "message"), REFUSED.items())
def test_a_line_that_slurm_refuses_is_named_with_file_and_number(line: str, message: str) -> None:
    with pytest.raises(ConfError, match=message) as caught:
        parse("/etc/slurm/slurm.conf", f"# one\n{line}\n")
    assert str(caught.value).startswith("/etc/slurm/slurm.conf line 2: ")


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (["Prolog=/a\n"], "/b", "Prolog=/b\n"),
        ([" pROLOG =  /a  # why\n"], "/b", " pROLOG =  /b  # why\n"),
        (["Prolog=/a#why"], "/b", "Prolog=/b#why"),
        (["Prolog=/a\r\n"], "/b c", 'Prolog="/b c"\r\n'),
        (['Prolog="/a b" # c\n'], "/b#\\", "Prolog=/b\\#\\\\ # c\n"),
        (["Prolog=\\\n", "  /a \\\n", "# why\n"], "/b", "Prolog=/b# why\n"),
    ],
)
def test_a_new_value_leaves_the_rest_of_the_line(before: list[str], value: str, after: str) -> None:
    assert replace_value(before, value) == after


def test_a_key_that_is_split_over_lines_is_not_changed() -> None:
    with pytest.raises(ConfError, match="split over lines"):
        replace_value(["Pro\\\n", "log=/a\n"], "/b")


@pytest.mark.parametrize("value", ["", 'a"b', "a\nb", "a\rb", "a\0b"])
def test_a_value_that_slurm_could_not_read_back_is_not_written(value: str) -> None:
    with pytest.raises(ConfError, match="cannot be written"):
        render("Prolog", value)


@given(VALUES, st.sampled_from(["", " # why", "# why"]))
def test_a_written_value_is_read_back(value: str, comment: str) -> None:
    assert parse("/c", render("Prolog", value) + "\n").statements[0].value == value
    replaced = replace_value([f"Prolog=/a{comment}\n"], value)
    assert parse("/c", replaced).statements[0].value == value
    assert replaced.endswith(comment + "\n")


@given(
    st.lists(st.sampled_from(["A=1", "#", "\\", "\n", " ", '"', "x", "NodeName=n1 CPUs=2", "\r", "\v"]), max_size=30)
)
def test_any_text_is_kept_byte_for_byte_or_refused(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        model = parse("/c", text)
    except ConfError:
        return
    assert model.text() == text
    ends = [statement.index + statement.count for statement in model.statements]
    assert ends == sorted(ends)
    assert all(end <= len(model.lines) for end in ends)
