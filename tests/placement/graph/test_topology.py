# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where nodes are in the tree: labels, switches and placement sets, and what is refused."""

from itertools import chain

import pytest
from placement.graph.formats.placement_sets import read_placement_sets
from placement.graph.formats.switches import read_switches
from placement.graph.topology import Topology, TopologyError, natural_key
from placement_kit.builders import node

TWO_LEVELS = """
# our switches
SwitchName=spine Switches=leaf[1-2] LinkSpeed=100
SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 \\
    Nodes=n3,n4
"""


def test_labels_say_the_path_of_a_node() -> None:
    topology = Topology(levels=("zone", "rack"), labels=("zone", "rack"))
    assert topology.path(node("n1", labels=(("rack", "r1"), ("zone", "a")))) == ("a", "r1")


def test_a_node_without_an_outer_label_is_in_no_inner_domain() -> None:
    topology = Topology(levels=("zone", "rack"), labels=("zone", "rack"))
    lost = node("n1", labels=(("rack", "r1"),))
    assert topology.path(lost) == (None, None)
    assert [*chain.from_iterable(topology.findings([lost]))] == ["node n1: node labels does not say its zone"]


def test_switches_are_levels_with_the_leaves_innermost() -> None:
    topology = read_switches(TWO_LEVELS, "topology.conf")
    assert topology.levels == ("switch2", "switch")
    assert topology.path(node("n4")) == ("spine", "leaf2")
    assert topology.path(node("n9")) == (None, None)


def test_a_site_names_the_levels_of_its_switches() -> None:
    assert read_switches(TWO_LEVELS, "topology.conf", ("island", "rack")).levels == ("island", "rack")


def test_a_leaf_that_hangs_higher_stands_for_the_level_between() -> None:
    text = "SwitchName=top Switches=mid,c\nSwitchName=mid Switches=a,b\n"
    text += "\n".join(f"SwitchName={name} Nodes=n{name}" for name in "abc")
    topology = read_switches(text, "topology.conf")
    assert topology.path(node("na")) == ("top", "mid", "a")
    assert topology.path(node("nc")) == ("top", "c", "c")


def test_blocks_are_one_level() -> None:
    topology = read_switches("BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2\n", "topology.conf")
    assert (topology.levels, topology.path(node("n3"))) == (("block",), ("b2",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "line 2: node n1 is in b, but line 1 has it in a"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "is below itself or a cycle"),
        ("SwitchName=a Switches=a", "line 1: the switch a is below itself or a cycle"),
        ("SwitchName=a Switches=b", "line 1: a has the switch b, which no line describes"),
        (
            "SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=n1",
            "line 2: the switch c is in b and, by line 1, in a",
        ),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2: a is also in line 1"),
        ("\n\nSwitchName=a", "line 3: a has neither Nodes and Switches"),
        ("SwitchName=a Nodes=n[1-", "line 1: .*: a bracket is not closed"),
        ("SwitchName=a Node=n1", "line 1: 'Node=n1' is none of"),
        ("SwitchName=a Nodes=n1 Nodes=n2", "line 1: Nodes is there twice"),
        ("Nodes=n1", "line 1: neither SwitchName nor BlockName"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "line 2: switches and blocks"),
        ("SwitchName=a Nodes=../etc", "no name of a node"),
        ("SwitchName=a \\", "line 1: the last line goes on"),
    ],
)
def test_a_topology_conf_that_makes_no_tree_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=f"^topology.conf: .*{message}"):
        read_switches(text, "topology.conf")


def test_more_levels_of_switches_than_names_are_refused() -> None:
    with pytest.raises(TopologyError, match="2 levels high, but 1 levels are named"):
        read_switches(TWO_LEVELS, "topology.conf", ("rack",))


def test_labels_that_contradict_the_switches_are_named() -> None:
    topology = read_switches(TWO_LEVELS, "topology.conf", ("island", "rack"), ("", "rack"))
    nodes = [node(f"n{index}", labels=(("rack", f"r{index}"),)) for index in (1, 2, 3)]
    assert [*chain.from_iterable(topology.findings(nodes))] == [
        "node n2: label rack=r2, but topology.conf has it in rack leaf1 with node n1, whose label is r1"
    ]
    nodes = [node("n1", labels=(("rack", "r1"),)), node("n3", labels=(("rack", "r1"),))]
    assert [*chain.from_iterable(topology.findings(nodes))] == [
        "node n3: label rack=r1 as on node n1, but topology.conf has them in rack leaf2 and leaf1"
    ]


def test_labels_of_other_names_agree_when_they_divide_the_nodes_alike() -> None:
    topology = read_switches(TWO_LEVELS, "topology.conf", ("island", "rack"), ("", "rack"))
    nodes = [node(f"n{index}", labels=(("rack", f"R{(index + 1) // 2}"),)) for index in (1, 2, 3, 4)]
    assert [*chain.from_iterable(topology.findings(nodes))] == []


def test_placement_sets_are_levels() -> None:
    vnodes = {"v1": {"row": "A", "switch": "s1", "ncpus": "4"}, "v2": {"row": "A"}, "v3": {}}
    topology = read_placement_sets(vnodes, ("row", "switch"), "pbsnodes")
    assert [topology.path(node(name)) for name in vnodes] == [("A", "s1"), ("A", None), (None, None)]


def test_a_vnode_in_two_sets_of_one_resource_is_refused() -> None:
    with pytest.raises(TopologyError, match="pbsnodes: vnode v1 is in two sets of switch: s1 and s2"):
        read_placement_sets({"v1": {"switch": "s1,s2"}}, ("switch",), "pbsnodes")


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (("rack", "rack"), "listed twice"),
        (("node",), "always there"),
        (("a b",), "no name of a level"),
        (tuple(f"l{index}" for index in range(17)), "17 levels"),
    ],
)
def test_levels_that_cannot_be_are_refused(levels: tuple[str, ...], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        Topology(levels=levels, labels=levels)


def test_names_sort_by_their_numbers() -> None:
    names = ["n10", "n2", "n02", "rack2-n1", "rack10-n1", "n"]
    assert sorted(names, key=natural_key) == ["n", "n2", "n02", "n10", "rack2-n1", "rack10-n1"]
