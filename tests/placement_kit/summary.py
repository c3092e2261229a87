# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state in names and plain numbers, so that two states can be compared whatever rows their nodes have."""

from typing import Any

from placement.state.affinity.labelsets import Rule
from placement.state.cluster import Cluster
from placement.state.nodes.node_columns import UNREADABLE


def summary(cluster: Cluster, rules: tuple[Rule, ...] = ()) -> dict[str, Any]:
    """Everything that decides placements."""
    columns = cluster.columns
    return {
        "nodes": {name: _node(cluster, row) for name, row in columns.rows.items()},
        "pods": {uid: (entry.pod, entry.plan, entry.at, entry.charged) for uid, entry in cluster.pods.by_uid.items()},
        "names": {space: dict(names) for space, names in cluster.pods.by_name.items()},
        "waiting": {name: sorted(uids) for name, uids in cluster.pods.waiting().items()},
        "ports": {
            port: {_name(cluster, row): dict(addresses) for row, addresses in users.items()}
            for port, users in cluster.ports.users().items()
        },
        "objects": {kind.__name__: dict(items) for kind, items in cluster.objects.items() if items},
        "rules": [_counts(cluster, rule) for rule in rules],
        "repelling": {
            (entry.pod.namespace, entry.pod.labels): {
                anti.term: {_name(cluster, row): number for row, number in anti.holders.items()}
                for anti in cluster.labelsets.repelling(entry.labelset)
            }
            for entry in cluster.pods.by_uid.values()
        },
    }


def _name(cluster: Cluster, row: int) -> str:
    node = cluster.columns.nodes[row]
    assert node is not None, f"row {row} is a tombstone"
    return node.name


def _node(cluster: Cluster, row: int) -> dict[str, Any]:
    columns = cluster.columns
    arrays = {"allocatable": columns.allocatable, "free": columns.free, "unpromised": columns.unpromised}
    arrays |= {"releasing": columns.releasing, "nominated": columns.nominated}
    # A resource keeps its place on the axis when its last node is gone; nothing can be placed by it then.
    offered = {
        index: name for index, name in enumerate(columns.axis.names) if columns.allocatable[index].any() or index < 4
    }
    amounts = {
        label: {name: int(array[index, row]) for index, name in offered.items() if array[index, row]}
        for label, array in arrays.items()
    }
    return {
        **amounts,
        "own_pods": int(columns.own_pods[row]),
        "node": columns.nodes[row],
        "unreadable": bool(int(columns.flags[row]) & UNREADABLE),
    }


def _counts(cluster: Cluster, rule: Rule) -> dict[str, tuple[int, int]]:
    count = cluster.labelsets.count(rule)
    return {
        name: (count.pods[row], count.staying.get(row, 0))
        for name, row in cluster.columns.rows.items()
        if row in count.pods
    }
