# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of faults fits the checkout as it is, so it cannot rot."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
import yaml
from mutations.faults import LAYERS, Fault, FaultError, chosen, read_faults, with_fault

ROOT = Path(__file__).parents[3]
FAULTS = read_faults()


@pytest.mark.prose
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_each_fault_can_be_put_into_its_file_and_the_file_can_still_be_read(fault: Fault) -> None:
    assert fault.file.startswith(("playbooks/", "plugins/", "roles/")), "faults are put into product code only"
    text = with_fault(fault, (ROOT / fault.file).read_text(encoding="utf-8"))
    if fault.file.endswith(".py"):
        ast.parse(text)
    elif fault.file.endswith(".yml"):
        assert yaml.safe_load(text)


@pytest.mark.prose
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_the_tests_that_a_fault_names_are_there(fault: Fault) -> None:
    assert fault.hints, "name the test files that should notice"
    missing = [name for name in (*fault.hints, *fault.beyond) if name != "demo" and not (ROOT / name).exists()]
    assert not missing, f"{fault.id} names tests that are not there: {', '.join(missing)}"


def test_every_layer_has_its_share_of_the_list() -> None:
    by_layer = Counter(fault.layer for fault in FAULTS)
    assert len(FAULTS) >= 36
    assert {layer: number for layer in LAYERS if (number := by_layer[layer]) < 4} == {}


ENTRY = """
[[fault]]
id = "one"
layer = "hook"
file = "roles/a.py"
before = '''x = 1'''
after = '''x = 2'''
breaks = "it is two"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ENTRY + ENTRY, "one: two faults have this id"),
        (ENTRY.replace('"hook"', '"book"'), "one: layer 'book' is none of hook, decide"),
        (ENTRY.replace("x = 2", "x = 1"), "one: 'before' and 'after' are the same"),
        (ENTRY.replace("breaks", "brakes"), "one: 'breaks' must be a text"),
        (ENTRY + "hint = []", "one: unknown keys: hint"),
        (ENTRY + "hints = [1]", "one: 'hints' must be a list of texts"),
        (ENTRY + "[[fault", "faults.toml: "),
    ],
)
def test_an_entry_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "faults.toml").write_text(text, encoding="utf-8")
    with pytest.raises(FaultError, match=said):
        read_faults(tmp_path / "faults.toml")


@pytest.mark.parametrize(("text", "times"), [("y = 1\n", 0), ("x = 1\nx = 1\n", 2)])
def test_a_text_that_is_not_there_exactly_once_names_the_fault(tmp_path: Path, text: str, times: int) -> None:
    (tmp_path / "faults.toml").write_text(ENTRY, encoding="utf-8")
    (fault,) = read_faults(tmp_path / "faults.toml")
    assert with_fault(fault, "y\nx = 1\n") == "y\nx = 2\n"
    with pytest.raises(FaultError, match=f"one: its text is in roles/a.py {times} times"):
        with_fault(fault, text)


def test_faults_are_chosen_by_id_and_by_layer() -> None:
    assert chosen(FAULTS, []) == FAULTS
    assert {fault.layer for fault in chosen(FAULTS, ["hook"])} == {"hook"}
    one = FAULTS[-1]
    assert chosen(FAULTS, [one.id]) == (one,)
    with pytest.raises(FaultError, match="nothing: there is no such fault"):
        chosen(FAULTS, ["nothing"])
