# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What share mode `placeholder` asks of the API: what the node has, who is on it, and which placeholders are in.

Placeholders are left out where room is counted: their sizes are the leases', and there may be many. The API leaves them
out, by their label, but only in their own namespace, where nobody but administrators makes pods: anywhere else the
label makes no placeholder of a pod. A pod never changes its namespace, so two lists neither miss one nor have it twice.
"""

from typing import Any, Callable, Dict, FrozenSet, Mapping, Tuple

from .kube import STATIC_UID, ApiError, NodeClient, announcement, read_pod
from .placeholder import LABEL, NAMESPACE
from .room import amounts, gang_of, requests_of
from .view import Guest, Pod, Room

NOT_OURS = ",metadata.namespace!=" + NAMESPACE


def ask_room(node: NodeClient, running: Callable[[], FrozenSet[str]]) -> Room:
    """Read what this node has, and the pods that count. `running` returns the uids of pods with processes here.

    A static pod stays if it runs here: without that anybody's mirror pod would take room from jobs by its mere words.
    """
    try:
        found = node.client.request("GET", node.path)
        others = node.pods(_guest, NOT_OURS)
        beside = node.pods(_guest, namespace=NAMESPACE, labels=LABEL + "!=true")
        guests = others + beside
        if any(_is_static(guest.pod) for guest in guests):
            here = running()
            guests = tuple(
                guest._replace(pod=guest.pod._replace(stays=False))
                if _is_static(guest.pod) and guest.pod.uid not in here
                else guest
                for guest in guests
            )
        return Room(True, "", amounts((found.get("status") or {}).get("allocatable")), guests, announcement(found))
    except ApiError as error:
        return Room(False, str(error))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Room(False, "an answer that is not understood: {!r}".format(error))


def admitted(node: NodeClient, placed: Mapping[str, str]) -> FrozenSet[str]:
    """A mirror pod appears when the kubelet has let the pod in, never before. One is read alone, several in a list."""
    found: Tuple[Pod, ...]
    if len(placed) == 1:
        name = "{}-{}".format(next(iter(placed)), node.node.lower())
        try:
            found = (read_pod(node.client.request("GET", "/api/v1/namespaces/{}/pods/{}".format(NAMESPACE, name))),)
        except ApiError as error:
            if error.status not in (403, 404):  # a node may not even ask for pods that are not bound to it
                raise
            found = ()
    else:
        found = node.pods(read_pod, namespace=NAMESPACE, labels=LABEL + "=true")
    return frozenset(pod.uid for pod in found if pod.namespace == NAMESPACE and not (pod.over or pod.leaving))


def _guest(item: Dict[str, Any]) -> Guest:
    spec = item["spec"]
    return Guest(read_pod(item), int(spec.get("priority") or 0), gang_of(item["metadata"], spec), requests_of(spec))


def _is_static(pod: Pod) -> bool:
    return pod.stays and STATIC_UID.fullmatch(pod.uid) is not None
