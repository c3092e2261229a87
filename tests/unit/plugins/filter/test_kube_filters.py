# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the roles that put Kubernetes on nodes, as templates see them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.converged.hpc.plugins.filter.kube_nodes import SHARE_MODE, kube_nodes
from ansible_collections.converged.hpc.plugins.filter.toml import to_toml

HOSTVARS = {
    "a.example.org": {"inventory_hostname_short": "a"},
    "b": {
        "inventory_hostname_short": "b",
        "converged_kube_node": "b.cluster",
        "converged_share_mode": "backed",
        "node_kubelet_labels": {"rack": 7},
    },
    "c": {"inventory_hostname_short": "c", "converged_kube_node": "a"},
}


def test_each_host_is_a_node_with_its_own_labels() -> None:
    assert kube_nodes(["a.example.org", "b"], HOSTVARS) == {
        "a": {SHARE_MODE: "handover"},
        "b.cluster": {"rack": "7", SHARE_MODE: "backed"},
    }


def test_two_hosts_cannot_be_one_node() -> None:
    with pytest.raises(AnsibleFilterError, match="host c: another host is node a"):
        kube_nodes(["a.example.org", "c"], HOSTVARS)


def test_a_table_is_written_as_toml() -> None:
    assert to_toml({"version": 2, "a.b": {"on": True}}) == 'version = 2\n["a.b"]\non = true\n'


@pytest.mark.parametrize("value", ["text", {"a": None}])
def test_what_is_no_table_is_a_filter_error(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match="to_toml"):
        to_toml(value)
