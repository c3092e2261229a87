# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's side of the Kubernetes API: all nodes kept current by a watch, patches, pods, evictions.

Every thread has a kept-alive connection of its own. The identity is read again when the API stops taking it, because
it is renewed beside us.
"""

import threading
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ...kube import kubeconfig
from ...kube.client import MERGE_PATCH, ApiError, Client, TooLong
from ...kube.node_client import PAGES_SECONDS, RUNNING_FIELDS, SMALLER, NodeClient, read_pod
from ...model.backoff import Backoff
from ...model.node.observed import Pod
from ..decide import SHARE_MODE, NodeSeen, node_from
from ..watchdog import Beat

NODES = "/api/v1/nodes"
NODES_PAGE = 500
PODS_PAGE = 100
PAGES_AT_ONCE = 16  # in memory as bytes; the client makes objects of one at a time
EVICTION_SECONDS = 12.0  # a webhook has 10 s by default, and the API server cancels a request when its client goes
WATCH_SECONDS = 60
SHORTEST_WATCH = 1.0  # one that ends sooner and says nothing is no API server's
Event = Tuple[str, NodeSeen]


class GoneError(Exception):
    """The watch is too old to be continued: list again."""


class Page(NamedTuple):
    """What is kept of a page of a list; `token` asks for the next one, and is empty behind the last."""

    items: List[Any]
    token: str
    version: str


class ClusterApi:
    """May be used by several threads at once."""

    def __init__(self, path: str, *, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self.lock = threading.Lock()
        self.reading = threading.BoundedSemaphore(PAGES_AT_ONCE)
        self.first: Optional[Client] = None
        self.own = threading.local()

    def renew(self) -> None:
        """Read the kubeconfig again; connections with an older identity are not used again."""
        try:
            client = Client(kubeconfig.load(self.path), timeout=self.timeout)
        except kubeconfig.KubeconfigError as error:
            raise ApiError(0, str(error)) from error
        with self.lock:
            self.first = client

    def client(self, *, timeout: float = 0.0) -> Client:
        """Return a connection of this thread, for requests that take so many seconds at most, or `self.timeout`."""
        with self.lock:
            first = self.first
        if first is None:
            raise ApiError(0, "{} has not been read".format(self.path))
        known: Optional[Client] = getattr(self.own, "first", None)
        if known is not first:
            self.own.first, self.own.clients = first, {}
        client: Optional[Client] = self.own.clients.get(timeout)
        if client is None:
            client = self.own.clients[timeout] = first.clone()
            client.timeout = max(timeout, self.timeout)
        return client

    def nodes(self) -> Tuple[List[NodeSeen], str]:
        """List all converted nodes, and the version from which a watch goes on."""
        found: List[NodeSeen] = []
        version = ""
        query = {"labelSelector": SHARE_MODE}
        for page in self._pages(NODES, query, kind="NodeList", size=NODES_PAGE, read=_read_node):
            found += page.items
            version = page.version
        return found, version

    def watch(self, version: str, *, beat: Beat) -> Iterator[Event]:
        """Follow changes of converted nodes after `version`; a node that loses its label is deleted for us.

        Bookmarks keep the version young, and have no event. `beat` is called for each of them, too.
        """
        while True:
            query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
            query["labelSelector"] = SHARE_MODE
            query["timeoutSeconds"] = str(WATCH_SECONDS)
            path = NODES + "?" + urllib.parse.urlencode(query)
            began, heard = time.monotonic(), False
            try:
                beat()
                for event in self.client().lines(path, quiet=WATCH_SECONDS + 10.0):
                    beat()
                    heard = True
                    if event.get("type") == "ERROR":
                        raise GoneError(str(event.get("object", {}).get("message", ""))[:200])
                    version = str(event["object"]["metadata"]["resourceVersion"])
                    if event["type"] != "BOOKMARK":
                        yield str(event["type"]), node_from(event["object"])
            except ApiError as error:
                if error.status == 410:
                    raise GoneError(str(error)) from error
                raise
            except (KeyError, TypeError, AttributeError) as error:
                raise ApiError(0, "watch: an event that is not understood: {!r}".format(error)) from error
            if not heard and time.monotonic() - began < SHORTEST_WATCH:
                raise ApiError(0, "watch: ended at once, without an event")

    def node(self, name: str) -> NodeSeen:
        return _read_node(self.client().request("GET", _node_path(name)))

    def patch(self, name: str, body: Dict[str, Any], *, manager: str = "") -> NodeSeen:
        """Patch a Node; `manager` is the field manager where it is not the program's own."""
        path = _node_path(name) + ("?" + urllib.parse.urlencode({"fieldManager": manager}) if manager else "")
        return _read_node(self.client().request("PATCH", path, body, kind=MERGE_PATCH))

    def pods(self, names: Iterable[str]) -> Dict[str, List[Pod]]:
        """List the pods of these nodes that must leave, by node. Each node is a request of its own."""
        found: Dict[str, List[Pod]] = {}
        for name in names:
            found[name] = self._pods("spec.nodeName=" + name).get(name, [])
        return found

    def all_pods(self) -> Dict[str, List[Pod]]:
        """List all pods that must leave, by node."""
        return self._pods("spec.nodeName!=")

    def _pods(self, selector: str) -> Dict[str, List[Pod]]:
        """List the pods of a selector that must leave, by node. Finished pods, which may be very many, are left out."""
        found: Dict[str, List[Pod]] = {}
        query = {"fieldSelector": selector + RUNNING_FIELDS}
        for page in self._pages("/api/v1/pods", query, kind="PodList", size=PODS_PAGE, read=_read_pod):
            for node, pod in page.items:
                if not pod.stays and not pod.over:
                    found.setdefault(node, []).append(pod)
        return found

    def evict(self, pod: Pod) -> bool:
        return NodeClient(self.client(timeout=EVICTION_SECONDS), node="").evict(pod)

    def event(self, node: str, reason: str, text: str) -> None:
        NodeClient(self.client(), node=node).event(reason, text)

    def _pages(
        self, path: str, query: Dict[str, str], *, kind: str, size: int, read: Callable[[Any], Any]
    ) -> Iterator[Page]:
        """Read a list page by page. An answer of another kind is an error, and never an empty list.

        A page that is too long is asked for again with fewer objects, down to one: no user's big pods hide the others.
        The time of all pages is bounded.
        """
        token, limit = "", size
        give_up = time.monotonic() + PAGES_SECONDS * self.timeout
        while True:
            more = dict(query, limit=str(limit), **({"continue": token} if token else {}))
            url = path + "?" + urllib.parse.urlencode(more)
            try:
                with self.reading:
                    page = self.client().request("GET", url, read=lambda answer: _read_page(answer, kind, path, read))
            except TooLong:
                if limit == 1 or time.monotonic() > give_up:
                    raise
                limit = max(1, limit // SMALLER)
                continue
            yield page
            token, limit = page.token, min(size, 2 * limit)
            if not token:
                return
            if time.monotonic() > give_up:
                raise ApiError(0, "GET {}: the pages take too long".format(path))


def follow(
    api: ClusterApi,
    *,
    replace: Callable[[List[NodeSeen]], None],
    event: Callable[[str, NodeSeen], None],
    lost: Callable[[str], None],
    stopping: threading.Event,
    beat: Beat,
) -> None:
    """Keep the caller's nodes current until told to stop: list, watch, and list again when the watch is too old.

    Any error is told to `lost` and ends in a new list: nothing else would do this thread's work.
    """
    backoff = Backoff(0.5, 10.0)
    while not stopping.is_set():
        beat()
        try:
            api.renew()
            nodes, version = api.nodes()
            replace(nodes)
            backoff.reset()
            for kind, node in api.watch(version, beat=beat):
                event(kind, node)
                if stopping.is_set():
                    return
        except (ApiError, GoneError) as error:
            lost(str(error))
        except Exception as error:  # noqa: BLE001 - a loop that ends is worse than any error
            lost("watch: {!r}".format(error))
        stopping.wait(backoff.failed())


def _read_page(answer: Any, kind: str, path: str, read: Callable[[Any], Any]) -> Page:
    """Return what `read` keeps of each object of a page. ApiError: it is no page of this kind."""
    parts = answer if isinstance(answer, dict) else {}
    items, meta = parts.get("items"), parts.get("metadata")
    if parts.get("kind") != kind or not isinstance(items, list) or not isinstance(meta, dict):
        raise ApiError(0, "GET {}: no {}: {}".format(path, kind, ascii(answer)[:100]))
    return Page([read(item) for item in items], str(meta.get("continue") or ""), str(meta.get("resourceVersion") or ""))


def _read_node(item: Any) -> NodeSeen:
    """Read a Node. ApiError: it is something else, as a proxy answers in the API's place."""
    try:
        return node_from(item)
    except (KeyError, TypeError, AttributeError) as error:
        raise ApiError(0, "no Node: {}".format(ascii(item)[:100])) from error


def _read_pod(item: Any) -> Tuple[str, Pod]:
    """Read a pod and the name of its node. ApiError: it is something else."""
    try:
        return str(item["spec"].get("nodeName", "")), read_pod(item)
    except (KeyError, TypeError, AttributeError) as error:
        raise ApiError(0, "no Pod: {}".format(ascii(item)[:100])) from error


def _node_path(name: str) -> str:
    return NODES + "/" + urllib.parse.quote(name, safe="")
