# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read nodes and pods of the API server's lists into what the checker knows."""

from collections.abc import Mapping
from typing import Any, Final

from placement_churn.checks import Node, Pod, Size

Json = Mapping[str, Any]

POOL: Final = "converged.hpc/churn-pool"
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
_UNITS: Final = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024}


def milli(text: str) -> int:
    """Return thousandths of a core."""
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def mebi(text: str) -> int:
    """Return MiB."""
    return round(int(text[:-2]) * _UNITS[text[-2:]])


def node_of(item: Json) -> Node:
    """Return a node; it is open if it is ready, not cordoned and without taints."""
    room = item["status"]["allocatable"]
    conditions = item["status"].get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    spec, meta = item.get("spec", {}), item["metadata"]
    closed = bool(spec.get("unschedulable") or spec.get("taints"))
    size = Size(milli(room["cpu"]), mebi(room["memory"]), int(room["pods"]))
    leaving = "deletionTimestamp" in meta
    return Node(meta["name"], size, meta.get("labels", {}).get(POOL, ""), ready and not closed and not leaving)


def pod_of(item: Json) -> Pod:
    """Return a pod; its requests are those of its containers."""
    meta, spec, status = item["metadata"], item["spec"], item.get("status", {})
    size = Size(0, 0)
    for container in spec["containers"]:
        asked = container.get("resources", {}).get("requests", {})
        size += Size(milli(asked.get("cpu", "0")), mebi(asked.get("memory", "0Mi")), 0)
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        size=size,
        node=spec.get("nodeName", ""),
        gang=meta.get("annotations", {}).get(GROUP_NAME, ""),
        pool=spec.get("nodeSelector", {}).get(POOL, ""),
        nominated=status.get("nominatedNodeName", ""),
        ended=status.get("phase") in ("Succeeded", "Failed"),
        leaving="deletionTimestamp" in meta,
    )
