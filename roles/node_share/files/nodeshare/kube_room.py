# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What share mode `placeholder` asks of the API: what the node has, who is on it, and which placeholders are in.

Placeholders are left out where room is counted: their sizes are the leases', and there may be many. The API leaves them
out, by their label, but only in their own namespace, where nobody but administrators makes pods: anywhere else the
label makes no placeholder of a pod. A pod never changes its namespace, so two lists neither miss one nor have it twice.
"""

import urllib.parse
from typing import Any, Dict, FrozenSet, Mapping

from .kube import ApiError, NodeClient, announcement, read_pod
from .placeholder import LABEL, NAMESPACE
from .room import amounts, gang_of, requests_of
from .view import Guest, Room

NOT_OURS = ",metadata.namespace!=" + NAMESPACE


def ask_room(node: NodeClient) -> Room:
    try:
        found = node.client.request("GET", node.path)
        others = node.client.request("GET", _pods(node, NOT_OURS))
        beside = node.client.request("GET", _pods(node, namespace=NAMESPACE, labels=LABEL + "!=true"))
        return Room(
            True,
            "",
            amounts((found.get("status") or {}).get("allocatable")),
            tuple(_guest(item) for pods in (others, beside) for item in pods.get("items") or ()),
            announcement(found),
        )
    except ApiError as error:
        return Room(False, str(error))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Room(False, "an answer that is not understood: {!r}".format(error))


def admitted(node: NodeClient, placed: Mapping[str, str]) -> FrozenSet[str]:
    """A mirror pod appears when the kubelet has let the pod in, never before. One is read alone, several in a list."""
    if len(placed) == 1:
        name = "{}-{}".format(next(iter(placed)), node.node.lower())
        try:
            items = [node.client.request("GET", "/api/v1/namespaces/{}/pods/{}".format(NAMESPACE, name))]
        except ApiError as error:
            if error.status not in (403, 404):  # a node may not even ask for pods that are not bound to it
                raise
            items = []
    else:
        path = _pods(node, namespace=NAMESPACE, labels=LABEL + "=true")
        items = node.client.request("GET", path).get("items") or []
    found = (read_pod(item) for item in items)
    return frozenset(pod.uid for pod in found if pod.namespace == NAMESPACE and not (pod.over or pod.leaving))


def _pods(node: NodeClient, fields: str = "", *, namespace: str = "", labels: str = "") -> str:
    query = {"fieldSelector": "spec.nodeName=" + node.node + fields}
    if labels:
        query["labelSelector"] = labels
    scope = "namespaces/{}/pods".format(namespace) if namespace else "pods"
    return "/api/v1/{}?{}".format(scope, urllib.parse.urlencode(query))


def _guest(item: Dict[str, Any]) -> Guest:
    spec = item["spec"]
    return Guest(read_pod(item), int(spec.get("priority") or 0), gang_of(item["metadata"], spec), requests_of(spec))
