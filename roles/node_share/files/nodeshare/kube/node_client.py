# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node asks of the API about itself and its pods."""

import re
import time
import urllib.parse
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from ..model.node.names import ANNOTATION, announcement, held_seconds, holders_of, is_our_taint
from ..model.node.observed import Api, Pod
from ..shared.victims import MIRROR, Owner, is_of_daemon_set
from .client import MERGE_PATCH, ApiError, Client, TooLong

WRITER = "?fieldManager=nodeshare-on-node"  # so that the API tells when the controllers have written last
PAGE = 100  # pods of one answer: as many as a kubelet runs by default, nearly
SMALLER = 8  # a page shrinks by this when its pods are too long for one answer
PAGES_SECONDS = 10.0  # for all pages of a list, in timeouts of one
RUNNING_FIELDS = ",status.phase!=Succeeded,status.phase!=Failed"  # finished pods need no room, and there may be many
GONE = (404, 409)  # no such pod any more, or another one by its name
STATIC = "kubernetes.io/config.hash"
STATIC_UID = re.compile(r"[0-9a-f]{32}", re.ASCII)  # a kubelet's; the API server's own uids have another form
OF_THE_NODE = {"name", "emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected"}  # of a pod's volume
T = TypeVar("T")


class NodeClient:
    """What nodeshare asks, in terms of this node."""

    def __init__(self, client: Client, *, node: str) -> None:
        self.client = client
        self.node = node
        self.path = "/api/v1/nodes/" + urllib.parse.quote(node, safe="")
        self.seen: Optional[Dict[str, Any]] = None  # the Node as last looked at

    def look(self) -> Api:
        """Read the Node and its pods that have not finished.

        A Node object that is not there is an answer too: nothing is bound to it.
        """
        try:
            node = self.seen = self.client.request("GET", self.path)
            pods = self.pods(read_pod)
        except ApiError as error:
            if error.status == 404:
                return Api(True, "no Node object named {}".format(self.node), registered=False)
            return Api(False, str(error))
        try:
            held = held_seconds(node, self.client.date)
            return Api(True, "", _tainted(node), announcement(node), pods, True, holders_of(node), held)
        except (AttributeError, KeyError, TypeError) as error:
            return Api(False, "an answer that is not understood: {!r}".format(error))

    def pods(
        self, read: Callable[[Dict[str, Any]], T], fields: str = "", *, namespace: str = "", labels: str = ""
    ) -> Tuple[T, ...]:
        """Read the pods of this node that have not finished, page by page; of each only what `read` keeps of it.

        No pod is too long for an answer of its own, and no number of pods too long for pages, but the time of all
        pages is bounded. Raises ApiError.
        """
        query = {"fieldSelector": "spec.nodeName=" + self.node + fields + RUNNING_FIELDS, "limit": str(PAGE)}
        if labels:
            query["labelSelector"] = labels
        scope = "namespaces/{}/pods".format(namespace) if namespace else "pods"
        path = "/api/v1/{}?".format(scope)
        found: List[T] = []
        give_up = time.monotonic() + PAGES_SECONDS * self.client.timeout
        while True:
            try:
                page = self.client.request("GET", path + urllib.parse.urlencode(query))
            except TooLong:
                if query["limit"] == "1":
                    raise
                query["limit"] = str(max(1, int(query["limit"]) // SMALLER))
                continue
            try:
                found.extend(read(item) for item in page["items"] or ())  # without the key it is no list at all
                more = (page.get("metadata") or {}).get("continue")
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise ApiError(0, "an answer that is not understood: {!r}".format(error)) from error
            del page  # before the next one is in memory
            if not more:
                return tuple(found)
            query["continue"] = str(more)
            if time.monotonic() > give_up:
                raise ApiError(0, "GET {}: the pages take too long".format(path[:-1]))

    def announce(self, text: str, *, tries: int = 3) -> None:
        """Set our annotation by compare-and-set: a Node that has changed since we looked is read again first.

        What nodeshare has decided for a Node with our taint is announced on no Node that has lost it: raises ApiError,
        status 409. The controllers keep the taint of a Node that announces something, and lift no other by accident.
        """
        tainted = self.seen is not None and _tainted(self.seen)
        for attempt in range(tries):
            node, self.seen = self.seen or self.client.request("GET", self.path), None
            if announcement(node) == text:
                return
            if text and tainted and not _tainted(node) and not announcement(node):
                raise ApiError(409, "{}: the taint was lifted since".format(self.node))
            body = {
                "metadata": {
                    "resourceVersion": node["metadata"]["resourceVersion"],
                    "annotations": {ANNOTATION: text or None},
                }
            }
            try:
                self.client.request("PATCH", self.path + WRITER, body, kind=MERGE_PATCH)
                return
            except ApiError as error:
                if error.status != 409 or attempt + 1 == tries:
                    raise

    def evict(self, pod: Pod) -> bool:
        """Evict a pod. False: a PodDisruptionBudget forbids it for now. A pod that is gone counts as evicted."""
        meta, options = {"name": pod.name, "namespace": pod.namespace}, {"preconditions": {"uid": pod.uid}}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
        try:
            self.client.request("POST", _pod_path(pod) + "/eviction", body)
        except ApiError as error:
            if error.status == 429:
                return False
            if error.status not in GONE:
                raise
        return True

    def delete(self, pod: Pod, *, grace: int) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace}
        try:
            self.client.request("DELETE", _pod_path(pod), {**body, "preconditions": {"uid": pod.uid}})
        except ApiError as error:
            if error.status not in GONE:
                raise

    def event(self, reason: str, text: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "type": "Warning",
            "reason": reason,
            "message": text[:1000],
            "metadata": {"generateName": "nodeshare-", "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": self.node},
            "source": {"component": "nodeshare", "host": self.node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self.client.request("POST", "/api/v1/namespaces/default/events", body)


def _tainted(node: Dict[str, Any]) -> bool:
    return any(is_our_taint(taint) for taint in node.get("spec", {}).get("taints") or ())


def read_pod(item: Dict[str, Any]) -> Pod:
    """Read a pod in our words. Both words that let a pod stay are its creator's own, so neither is believed alone.

    The garbage collector deletes a pod whose DaemonSet does not exist, and however long it may take to leave, it no
    longer stays. A static pod's processes carry the hash of its manifest, not the uid of its mirror. The hash has a
    form that no pod of the API has. So a forged mirror speaks for no process of a pod that its creator has.
    """
    meta = item["metadata"]
    annotations = meta.get("annotations") or {}
    static = str(annotations.get(STATIC)) if MIRROR in annotations else ""
    mirror = STATIC_UID.fullmatch(static) is not None
    daemon = is_of_daemon_set([_owner(owner) for owner in meta.get("ownerReferences") or ()])
    leaving = meta.get("deletionTimestamp") is not None
    over = (item.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return Pod(
        str(meta["namespace"]),
        str(meta["name"]),
        static if mirror else str(meta["uid"]),
        mirror or (daemon and not leaving),
        leaving,
        over,
        any(set(volume) - OF_THE_NODE for volume in (item.get("spec") or {}).get("volumes") or ()),
    )


def _owner(item: Dict[str, Any]) -> Owner:
    api, kind, name = (str(item.get(field) or "") for field in ("apiVersion", "kind", "name"))
    return Owner(api, kind, name, is_controller=item.get("controller") is True)


def _pod_path(pod: Pod) -> str:
    names: Tuple[str, ...] = tuple(urllib.parse.quote(name, safe="") for name in (pod.namespace, pod.name))
    return "/api/v1/namespaces/{}/pods/{}".format(*names)
