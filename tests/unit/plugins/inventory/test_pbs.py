# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin: what it makes of a PBS cluster, and what it refuses."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.inventory.pbs import node_hosts
from ansible_collections.converged.hpc.plugins.module_utils._pbs.parse import Node, Queue
from ansible_collections.converged.hpc.plugins.plugin_utils._inventory import InventoryError

HEAD: dict[str, t.Any] = {"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "pbs-srv"}
NODES = {
    "v[0]": {
        "Mom": "n1",
        "state": "free",
        "resources_available": {"host": "n1", "ncpus": 2, "mem": "1gb"},
        "comment": "{{ lookup('pipe', 'exit 3') }}",
    },
    "v[1]": {"Mom": "n1", "state": "offline", "resources_available": {"host": "n1", "ncpus": 2, "mem": "1gb"}},
    "n2": {"Mom": "n2", "state": "free", "queue": "gpu-q", "resources_available": {"host": "n2", "ncpus": 4}},
}
QUEUES = {
    "workq": {"queue_type": "Execution"},
    "gpu-q": {"queue_type": "Execution"},
    "in": {"queue_type": "Route"},
}
CALLS = [
    {"argv": ["pbsnodes", "-av", "-F", "json"], "out": json.dumps({**HEAD, "nodes": NODES})},
    {"argv": ["qstat", "-Q", "-f", "-F", "json"], "out": json.dumps({**HEAD, "Queue": QUEUES})},
    {
        "argv": ["qstat", "-B", "-f", "-F", "json"],
        "out": json.dumps({**HEAD, "Server": {"pbs-srv": {"server_host": "pbs-srv.site"}}}),
    },
]
NODE = Node("n1", "n1", "n1", frozenset(["free"]), "", "", "", "", (), {}, {})


def test_a_cluster_becomes_hosts_groups_and_variables(listed: t.Callable[..., tuple[str, str]]) -> None:
    groups = {"converged_nodes": "'workq' in pbs_queues | default([])", "chiefs": "pbs_server is defined"}
    compose = {"copied": "pbs_comment"}
    out, errors = listed(CALLS, groups=groups, compose=compose, command_prefix=["nice"])
    found = json.loads(out)
    assert found["pbs_nodes"]["hosts"] == ["n1", "n2"]
    assert found["pbs_queue_workq"]["hosts"] == ["n1"]
    assert found["pbs_queue_gpu_q"]["hosts"] == ["n2"]
    assert found["pbs_servers"]["hosts"] == found["chiefs"]["hosts"] == ["pbs-srv.site"]
    assert found["converged_nodes"]["hosts"] == ["n1"]
    variables = found["_meta"]["hostvars"]["n1"]
    assert (variables["pbs_ncpus"], variables["pbs_memory_bytes"]) == (4, 2 * 1024**3)
    assert variables["pbs_vnodes"] == [{"__ansible_unsafe": "v[0]"}, {"__ansible_unsafe": "v[1]"}]
    assert variables["pbs_states"] == [{"__ansible_unsafe": "free"}, {"__ansible_unsafe": "offline"}]
    # a comment is never a template
    assert variables["copied"] == {"__ansible_unsafe": "{{ lookup('pipe', 'exit 3') }}"}
    assert errors == ""


def test_without_an_answer_there_is_no_inventory(listed: t.Callable[..., tuple[str, str]]) -> None:
    silent = {**CALLS[0], "rc": 1, "out": "", "err": "pbsnodes: cannot connect to server pbs-srv, error=15010\n"}
    out, errors = listed([silent])
    assert out == ""
    assert "cannot connect to server pbs-srv" in errors


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "a b", "n1;x", "n$(x)", ""])
def test_a_host_that_is_more_than_a_name_is_refused(name: str) -> None:
    with pytest.raises(InventoryError, match="is no name or address"):
        node_hosts([NODE._replace(host=name)], [])


def test_queues_whose_groups_would_be_one_are_refused() -> None:
    with pytest.raises(InventoryError, match="queues 'a-b' and 'a.b' would both be the group pbs_queue_a_b"):
        node_hosts([NODE], [Queue("a-b", execution=True), Queue("a.b", execution=True)])
