# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host lists of a topology.conf are read as Slurm reads them."""

import pytest
from placement.graph.formats.switches import read_switches
from placement.graph.topology import TopologyError


def nodes(text: str) -> list[str]:
    return list(read_switches(f"SwitchName=s1 Nodes={text}\n", "topology.conf").paths)


def test_three_brackets_are_counted_in_the_order_of_slurm() -> None:
    assert nodes("a[1-2]b[3-4]c[5-6]") == [
        "a1b3c5",
        "a1b3c6",
        "a2b3c5",
        "a2b3c6",
        "a1b4c5",
        "a1b4c6",
        "a2b4c5",
        "a2b4c6",
    ]


def test_a_node_that_a_line_names_twice_is_there_once() -> None:
    assert nodes("n[1-2],n1") == ["n1", "n2"]


@pytest.mark.parametrize("text", ["n[1-3", "n]1", "n[1-]", "n[a]", "n[3-1]", "n[[1]]", "n[]", "n{1}", "n[1-65537]"])
def test_a_malformed_or_huge_list_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(TopologyError, match="topology.conf: line 1: host list"):
        nodes(text)
