# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate of plain English finds what its rules name, and nothing in code."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest
from gates import english
from gates.english import Finding, check_english, compare, judge, load
from gates.gate import Context, GateFailure

RULES = load(english.DATA.read_text(encoding="utf-8"))
LONG = " ".join(["word"] * 31)
# Where no docstring may have a finding left.
DONE = ("roles/node_share/files/nodeshare/", "roles/placement/files/placement/policy/")


def said(tmp_path: Path, text: str, name: str = "page.md") -> list[tuple[int, str]]:
    """Return line and rule of each finding in a file."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return [(one.line, one.said.partition("]")[0].lstrip("[")) for one in judge(Path(name), path, RULES)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Ask the pods whom the job needs.", "person"),
        ("Who is left is killed.", "person"),
        ("The pod who leaves is deleted.", "person"),
        ("A pod keeps his place.", "he"),
        ("The service starts anew.", "dated"),
        ("It is alone, but for static pods.", "dated"),
        ("Pods leave. Not so pods of a DaemonSet.", "inversion"),
        ("Of a job no field is read.", "inversion"),
        ("A pod may come, as one that names its node.", "example"),
        (f"{LONG}.", "long"),
    ],
)
def test_each_rule_finds_its_sentence(tmp_path: Path, text: str, rule: str) -> None:
    assert said(tmp_path, text) == [(1, rule)]
    assert said(tmp_path, f'"""Say it.\n\n{text}\n"""\n', "module.py") == [(3, rule)]


@pytest.mark.parametrize(
    "text",
    [
        "A user who may submit jobs, and administrators who read this.",
        "Such as those of PBS; as much as one of them.",
        "Neither pods nor jobs are left, as it is.",
        "Use it, e.g. The Name of " + "a " * 10 + ". systemd starts it, " + "a " * 25,
        "```\nnobody shall\n```\n\n    whom it concerns\n\n`nobody` [text](https://example.org/nobody/whom)",
        "| a | b |\n|---|---|\n| `whoever` | " + "a " * 16 + "| " + "b " * 16 + "|\n",
        "<!-- nobody -->\n\n- one " + "a " * 20 + "\n- two " + "a " * 20,
    ],
)
def test_code_addresses_persons_and_short_sentences_are_left_alone(tmp_path: Path, text: str) -> None:
    assert said(tmp_path, text) == []


def test_a_finding_names_the_line_of_its_word_in_a_paragraph_and_in_a_table(tmp_path: Path) -> None:
    text = "# Title\n\nOne line\nand nobody there.\n\n| a |\n|---|\n| for somebody |\n"
    assert said(tmp_path, text) == [(4, "person"), (8, "person")]


def test_quotations_examples_and_comments_of_a_module_are_not_judged(tmp_path: Path) -> None:
    text = (
        '"""Read `nobody`, and "somebody said".\n\n    nobody = indented()\n\n>>> nobody\n"""\n'
        "# nobody\nNAME = 'whom'\n\n\ndef act() -> None:\n"
        '    """Act.\n\n    The job is\n    whom it is.\n    """\n'
    )
    assert said(tmp_path, text, "module.py") == [(15, "person")]


def test_a_page_beyond_its_allowance_is_refused_with_all_its_findings() -> None:
    two = [Finding(3, "[he] 'he': name it"), Finding(9, "[he] 'him': name it")]
    assert list(compare({"a.md": two}, {"a.md": 2})) == []
    assert list(compare({"a.md": two}, {})) == ["a.md:3: [he] 'he': name it", "a.md:9: [he] 'him': name it"]


def test_an_allowance_must_shrink_with_the_findings_and_go_with_the_file() -> None:
    (high,) = compare({"a.md": [Finding(3, "[he] 'he': name it")]}, {"a.md": 2})
    assert high.startswith("a.md: 1 findings are left; lower the 2 ")
    assert len(list(compare({}, {"gone.md": 1}))) == 1


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "docs/figures.md", "docs/guides/pbs.md", "docs/docsite/index.md", "roles/a/README.md"]
)
def test_the_gate_reads_pages_of_every_folder(tmp_path: Path, page: str) -> None:
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "init", "--quiet", str(checkout)], check=True, timeout=60)
    (checkout / page).parent.mkdir(parents=True, exist_ok=True)
    (checkout / page).write_text("It waits for nobody.\n", encoding="utf-8")
    context = Context(
        checkout=checkout,
        cache=tmp_path,
        own=tmp_path,
        scratch=tmp_path,
        logs=tmp_path,
        seed=None,
        quick=True,
        environ={},
        log=tmp_path / "english.log",
        deadline=math.inf,
    )

    with pytest.raises(GateFailure, match=f"1 problems, the first: {page}:1: "):
        check_english(context)


def test_no_page_and_neither_nodeshare_nor_the_policy_has_an_allowance() -> None:
    assert [path for path in RULES.allowed if path.startswith(DONE) or path.endswith(".md")] == []
