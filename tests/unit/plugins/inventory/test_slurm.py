# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin: what it makes of a cluster, and what it refuses."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.inventory.slurm import (
    controller_hosts,
    node_host,
)
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError
from ansible_collections.converged.hpc.plugins.module_utils._slurm.parse import Node
from ansible_collections.converged.hpc.plugins.plugin_utils._inventory import (
    InventoryError,
    group_name,
    refuse_shared_groups,
)

NODE = Node(
    "n1", "IDLE", frozenset(["DRAIN"]), "n1", "n1", 2, 1000, ("gpu",), ("batch",), "22.05.8", "why", "root", "now"
)

SHOW_NODES = {
    "argv": ["scontrol", "--all", "--oneliner", "show", "node"],
    "out": (
        "NodeName=n1 CPUTot=2 AvailableFeatures=a-b NodeAddr=10.0.0.1 RealMemory=1000 State=IDLE Partitions=batch\n"
        "NodeName=n2 CPUTot=2 NodeAddr=n2 RealMemory=1000 State=IDLE+DRAIN Partitions=debug "
        "Reason={{ lookup('pipe', 'exit 3') }} [root@now]\n"
    ),
}
SHOW_CONFIG = {
    "argv": ["scontrol", "show", "config"],
    "out": (
        "Configuration data as of now\nSLURM_VERSION = 24.11.5\n"
        "SlurmctldHost[0] = ctl(10.0.0.9)\nSlurmctldHost[1] = ctl2\n\nSlurmctld(primary) at ctl is UP\n"
    ),
}


def test_a_cluster_becomes_hosts_groups_and_variables(listed: t.Callable[..., tuple[str, str]]) -> None:
    groups = {"converged_nodes": "'batch' in slurm_partitions | default([])", "chiefs": "slurm_controller is defined"}
    out, errors = listed([SHOW_NODES, SHOW_CONFIG], groups=groups, command_prefix=["nice"])
    found = json.loads(out)
    assert found["slurm_nodes"]["hosts"] == ["n1", "n2"]
    assert found["slurm_partition_batch"]["hosts"] == ["n1"]
    assert found["slurm_feature_a_b"]["hosts"] == ["n1"]
    assert found["slurm_controllers"]["hosts"] == ["ctl", "ctl2"]
    assert found["converged_nodes"]["hosts"] == ["n1"]
    assert found["chiefs"]["hosts"] == ["ctl", "ctl2"]
    variables = found["_meta"]["hostvars"]
    assert variables["n1"]["ansible_host"] == {"__ansible_unsafe": "10.0.0.1"}
    assert "ansible_host" not in variables["n2"]
    assert variables["n2"]["slurm_flags"] == [{"__ansible_unsafe": "DRAIN"}]
    assert errors == ""


def test_a_reason_is_never_a_template(listed: t.Callable[..., tuple[str, str]]) -> None:
    compose = {"copied": "slurm_reason"}
    out, _errors = listed([SHOW_NODES, SHOW_CONFIG], compose=compose)
    copied = json.loads(out)["_meta"]["hostvars"]["n2"]["copied"]
    assert copied == {"__ansible_unsafe": "{{ lookup('pipe', 'exit 3') }}"}


def test_without_an_answer_there_is_no_inventory(listed: t.Callable[..., tuple[str, str]]) -> None:
    silent = {**SHOW_NODES, "rc": 1, "out": "", "err": "Unable to contact slurm controller (connect failure)\n"}
    out, errors = listed([silent])
    assert out == ""
    assert "Unable to contact slurm controller (connect failure)" in errors


def test_a_node_is_in_the_group_of_each_partition_and_feature() -> None:
    host = node_host(NODE)
    assert host.groups == ["slurm_nodes", "slurm_partition_batch", "slurm_feature_gpu"]
    assert host.variables["converged_wlm_node"] == "n1"


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "n1;x", "n$(x)", ""])
def test_a_name_that_is_more_than_a_name_is_refused(name: str) -> None:
    with pytest.raises(InventoryError, match="is no name or address"):
        node_host(NODE._replace(name=name, address=name))
    with pytest.raises(InventoryError, match="is no name or address"):
        node_host(NODE._replace(address=name))


def test_partitions_whose_groups_would_be_one_are_refused() -> None:
    with pytest.raises(InventoryError, match="'a-b' and 'a.b' would both be the group slurm_partition_a_b"):
        refuse_shared_groups("slurm_partition", "partition", ["a-b", "a-b", "a.b"])
    assert group_name("slurm_partition", "a-b") == group_name("slurm_partition", "a.b")


def test_a_controller_in_an_unknown_form_is_refused() -> None:
    with pytest.raises(SlurmError, match="expected name or name"):
        controller_hosts(["ctl (10.0.0.1"])
    assert controller_hosts(None) == []
