# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same text means the same to the modules, to the program on the nodes, to the daemon and to the hooks."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.converged.hpc.plugins.module_utils import _quantity
from ansible_collections.converged.hpc.plugins.module_utils._pbs import parse
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import NoAnswerError
from ansible_collections.converged.hpc.plugins.module_utils._shared import hostlist, quantity
from hypothesis import given
from hypothesis import strategies as st
from nodeshare.batch import pbs as pbs_on_node
from nodeshare.batch.hostlist import expand as expand_on_node
from nodeshare.model.pods.pod_resources import thousandths
from placement.ledger import pbs_answers
from placement.model.amounts.quantity import parse_quantity

pytestmark = pytest.mark.prose
ROLES = Path(__file__).resolve().parents[2] / "roles"
NUMBERS = st.from_regex(r"[+-]?[0-9]{0,20}(\.[0-9]{0,12})?", fullmatch=True)
SUFFIXES = st.sampled_from(
    ["", *"numkKMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e+40", "e120", "i", "kb"]
)
SIZES = st.from_regex(r"[0-9]{1,3}[kKmMgGtTpP]?[bBwW]?", fullmatch=True)


def loaded(path: Path) -> ModuleType:
    """Import a file that is deployed by itself."""
    spec = importlib.util.spec_from_file_location(f"alone_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = [loaded(ROLES / "pbs_share/files/converged_hook.py"), loaded(ROLES / "torque_share/files/pelogue.py")]


def thousandths_or_none(text: str) -> list[int | None]:
    """Return what the modules, the program on the nodes and the daemon read, each None where it refuses the text."""
    found: list[int | None] = []
    for read in (_quantity.millicores, thousandths, lambda one: -(-parse_quantity(one) // 10**6)):
        try:
            found.append(read(text))
        except ValueError:
            found.append(None)
    return found


@given(NUMBERS, SUFFIXES)
def test_a_quantity_that_modules_take_is_the_same_amount_everywhere(number: str, suffix: str) -> None:
    modules, node, daemon = thousandths_or_none(number + suffix)
    if modules is not None:
        assert modules == node == daemon


@given(NUMBERS, SUFFIXES)
def test_a_quantity_of_the_api_is_refused_on_a_node_only_below_zero(number: str, suffix: str) -> None:
    _modules, node, _daemon = thousandths_or_none(number + suffix)
    try:
        nano = parse_quantity(number + suffix)
    except ValueError:
        assert node is None
    else:
        assert node == (None if nano < 0 else -(-nano // 10**6))


@pytest.mark.parametrize(
    ("text", "amount"), [("+1", 1000), ("9Ei", 1000 * (2**63 - 1)), ("1e-99", 1), ("-1", None), ("1e100", None)]
)
def test_signs_caps_and_exponents_are_those_of_the_api_for_modules_and_nodes(text: str, amount: int | None) -> None:
    assert thousandths_or_none(text)[:2] == [amount, amount]


@given(SIZES)
@pytest.mark.parametrize("hook", HOOKS)
def test_a_size_of_pbs_is_as_many_bytes_to_a_hook_as_to_the_modules(hook: ModuleType, text: str) -> None:
    assert hook.size(text) == quantity.pbs_size(text)


@given(st.lists(st.sampled_from(["n", "rack-", "[1-3]", "[07-10]", "[2,4,9-11]", "a.b", "x_"]), min_size=1, max_size=3))
def test_a_list_of_hosts_has_the_same_names_on_a_node_each_once(words: list[str]) -> None:
    names = tuple(dict.fromkeys(hostlist.expand("".join(words))))
    if all(name[0].isalnum() for name in names):
        assert expand_on_node("".join(words)) == names


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("version", [None, 1, 2])
def test_a_job_of_pbs_is_in_the_same_run_to_all_whatever_its_owner_has_set(count: int, version: int | None) -> None:
    fields = {"job_state": "R", "exec_vnode": "(n1:ncpus=1)", "exec_host": "n1/0", "run_count": count}
    fields.update({} if version is None else {"run_version": version})
    text = json.dumps({"timestamp": 1, "Jobs": {"7.srv": fields}})
    wanted = count if version is None else version
    assert [job.run for job in parse.jobs(text)] == [wanted]
    assert pbs_on_node.jobs(text)["7.srv"].run == wanted
    assert [job.run for job in pbs_answers.read_jobs(text, owner="placement")] == [wanted]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"timestamp": "x"}', '{"timestamp": 1, "Jobs": []}', '{"timestamp": 1']
)
def test_what_is_no_whole_answer_of_qstat_is_none_to_all(text: str) -> None:
    with pytest.raises(NoAnswerError, match="qstat"):
        parse.jobs(text)
    with pytest.raises(ValueError, match="qstat"):
        pbs_on_node.jobs(text)
    with pytest.raises(pbs_answers.AnswerError, match="qstat"):
        pbs_answers.read_jobs(text, owner="placement")
