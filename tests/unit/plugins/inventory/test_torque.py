# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory from Torque, through Ansible's own command."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.inventory.torque import node_hosts
from ansible_collections.converged.hpc.plugins.module_utils._torque.parse import Node
from ansible_collections.converged.hpc.plugins.plugin_utils._inventory import InventoryError

NODES = """\
<Data><Node><name>n1</name><state>offline,job-exclusive</state><np>4</np><properties>fast-x,k8s</properties>\
<note>{{ lookup('pipe', 'exit 3') }}</note></Node>\
<Node><name>n2</name><state>free</state><np>8</np><gpus>2</gpus></Node></Data>
"""
CALLS = [
    {"argv": ["pbsnodes", "-x"], "out": NODES},
    {"argv": ["qmgr", "-c", "list server"], "out": "Server torque.site\n\tserver_state = Active\n"},
]
NODE = Node("n1", frozenset(["free"]), "", "", 4, 0, (), 0, (), None)
PLUGIN = "torque"


def test_a_cluster_becomes_hosts_groups_and_variables(listed: t.Callable[..., tuple[str, str]]) -> None:
    groups = {"converged_nodes": "'k8s' in torque_properties | default([])", "chiefs": "torque_server is defined"}
    out, errors = listed(CALLS, groups=groups, compose={"copied": "torque_note"}, command_prefix=["nice"])
    found = json.loads(out)
    assert found["torque_nodes"]["hosts"] == ["n1", "n2"]
    assert found["torque_property_fast_x"]["hosts"] == found["converged_nodes"]["hosts"] == ["n1"]
    assert found["torque_servers"]["hosts"] == found["chiefs"]["hosts"] == ["torque.site"]
    variables = found["_meta"]["hostvars"]["n1"]
    assert (variables["torque_slots"], variables["torque_gpus"]) == (4, 0)
    assert variables["torque_states"] == [{"__ansible_unsafe": "job-exclusive"}, {"__ansible_unsafe": "offline"}]
    # a note is never a template
    assert variables["copied"] == {"__ansible_unsafe": "{{ lookup('pipe', 'exit 3') }}"}
    assert errors == ""


def test_without_an_answer_there_is_no_inventory(listed: t.Callable[..., tuple[str, str]]) -> None:
    out, errors = listed([{**CALLS[0], "out": NODES[:90]}])
    assert out == ""
    assert "XML that is not whole" in errors


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "n1;x", "n$(x)", ""])
def test_a_host_that_is_more_than_a_name_is_refused(name: str) -> None:
    with pytest.raises(InventoryError, match="is no name or address"):
        node_hosts([NODE._replace(name=name)])


def test_properties_whose_groups_would_be_one_are_refused() -> None:
    with pytest.raises(InventoryError, match="would both be the group torque_property_a_b"):
        node_hosts([NODE._replace(properties=("a-b", "a.b"))])
