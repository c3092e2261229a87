# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What share mode `placeholder` asks of the API: what the node has, its pods, and which placeholders are in.

Placeholders are left out where room is counted: their sizes are the leases', and there may be many. The API leaves them
out, by their label, but only in their own namespace, where only administrators make pods: anywhere else the label makes
no placeholder of a pod. A pod never changes its namespace, so two lists neither miss one nor have it twice.
"""

from typing import Any, Callable, Dict, FrozenSet, Mapping, NamedTuple, Tuple

from ..model.node.names import announcement
from ..model.node.observed import Guest, Pod, Room
from ..model.pods.placeholder import LABEL, NAMESPACE
from ..model.pods.pod_resources import amounts, gang_of, requests_of
from ..shared.victims import MIRROR
from .client import ApiError
from .node_client import NodeClient, read_pod

NOT_OURS = ",metadata.namespace!=" + NAMESPACE


class Shown(NamedTuple):
    """A pod as the API shows it. `mirror`: it calls itself one; `acknowledged`: by the kubelet of its node."""

    guest: Guest
    mirror: bool
    acknowledged: bool


def ask_room(node: NodeClient, running: Callable[[], FrozenSet[str]]) -> Room:
    """Read what this node has, and the pods that count. `running` returns the uids of pods with processes here."""
    try:
        found = node.client.request("GET", node.path)
        others = node.pods(read_guest, NOT_OURS)
        beside = node.pods(read_guest, namespace=NAMESPACE, labels=LABEL + "!=true")
        guests = believed(others + beside, running)
        return Room(True, "", amounts((found.get("status") or {}).get("allocatable")), guests, announcement(found))
    except ApiError as error:
        return Room(False, str(error))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Room(False, "an answer that is not understood: {!r}".format(error))


def believed(shown: Tuple[Shown, ...], running: Callable[[], FrozenSet[str]]) -> Tuple[Guest, ...]:
    """Return the guests, of which a mirror counts only if its kubelet has acknowledged it and its static pod runs here.

    Any creator of pods may write a mirror, with a finalizer that keeps it. It may bear the hash of a static pod that
    runs, which any user of the node can see. By mere words it would take room from jobs. But a kubelet takes a mirror
    for the one of its static pod by namespace and name, and writes no status of any other.
    """
    here = running() if any(one.mirror and one.acknowledged for one in shown) else frozenset()
    return tuple(one.guest for one in shown if not one.mirror or (one.acknowledged and one.guest.pod.uid in here))


def admitted(node: NodeClient, placed: Mapping[str, str]) -> FrozenSet[str]:
    """Return the placeholders that the kubelet has let in: their mirror pods are there. Reads one alone."""
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


def read_guest(item: Dict[str, Any]) -> Shown:
    """Read a pod with what counts when room is needed, and what speaks for it if it calls itself a mirror.

    The API server empties the status of a pod that is created, and users may not write it. The kubelet writes the time
    when it has acknowledged the pod, before any container runs.
    """
    meta, spec = item["metadata"], item["spec"]
    guest = Guest(read_pod(item), int(spec.get("priority") or 0), gang_of(meta, spec), requests_of(spec))
    acknowledged = bool((item.get("status") or {}).get("startTime"))
    return Shown(guest, MIRROR in (meta.get("annotations") or {}), acknowledged)
