# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few requests that a node makes of the Kubernetes API, with the kubelet's own identity.

A kubelet may read and annotate its own Node, list, evict and delete the pods bound to it, and create Events; never
change its own taints. One kept-alive connection, the cluster's CA and no other, and a bound on every wait.
"""

import http.client
import json
import re
import socket
import ssl
import time
import urllib.parse
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, TypeVar

from .backoff import spread
from .kubeconfig import Credentials
from .view import Api, Pod

TAINT = "converged.hpc/batch"
ANNOTATION, HELD_BY = "converged.hpc/leases", "converged.hpc/held-by"
WRITER = "?fieldManager=nodeshare-on-node"  # so that the API tells when the controllers have written last
LARGEST_ANSWER = 64 << 20
LONG_ANSWER = 1 << 20  # one that is late is too long, and no longer a sign that the server is slow
PAGE = 100  # pods of one answer: as many as a kubelet runs by default, nearly
SMALLER = 8  # by what a page shrinks whose pods are too long for one answer
BUSY_SECONDS = 4.0  # for all tries of a request, in timeouts of one
PAGES_SECONDS = 10.0  # for all pages of a list, in timeouts of one
RUNNING_FIELDS = ",status.phase!=Succeeded,status.phase!=Failed"  # finished pods need no room, and there may be many
MERGE_PATCH = "application/merge-patch+json"
GONE = (404, 409)  # no such pod any more, or another one by its name
MIRROR, STATIC = "kubernetes.io/config.mirror", "kubernetes.io/config.hash"
STATIC_UID = re.compile(r"[0-9a-f]{32}", re.ASCII)  # a kubelet's; the API server's own uids have another form
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
OF_THE_NODE = {"name", "emptyDir", "hostPath", "configMap", "secret", "downwardAPI", "projected"}  # of a pod's volume

T = TypeVar("T")


class ApiError(Exception):
    """The API did not do as asked. `status` is 0 where it did not answer at all.

    `retry_after` is in how many seconds it wants to be asked again, where it says so because it has too much to do.
    """

    def __init__(self, status: int, message: str, *, retry_after: Optional[float] = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class TooLong(ApiError):
    """An answer is longer than allowed, or too long for its time."""


class Client:
    """Not for use by several threads at once: each has its own. `longest` bounds an answer, in bytes."""

    longest: Optional[int] = None  # LARGEST_ANSWER

    def __init__(self, credentials: Credentials, *, timeout: float) -> None:
        self.credentials = credentials
        self.timeout = timeout
        self.context = _tls(credentials)
        self.connection: Optional[http.client.HTTPSConnection] = None
        self.date = ""  # of the last answer, by the server's clock

    def clone(self) -> "Client":
        other = Client.__new__(Client)
        other.credentials, other.timeout, other.context = self.credentials, self.timeout, self.context
        other.longest, other.connection, other.date = self.longest, None, ""
        return other

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def request(
        self, method: str, path: str, body: Optional[Dict[str, Any]] = None, *, kind: str = "application/json"
    ) -> Any:
        """Return the answer's object. An API that has too much to do is asked again when it says, in bounded time.

        It has not carried out what it turned away. An API that is busy is no API that is silent.
        """
        give_up = time.monotonic() + BUSY_SECONDS * self.timeout
        while True:
            try:
                return self._request(method, path, body, kind)
            except ApiError as error:
                asked = error.retry_after if method in ("GET", "PATCH") else None
                if asked is None or time.monotonic() + asked > give_up:
                    raise
                time.sleep(spread(asked))

    def _request(self, method: str, path: str, body: Optional[Dict[str, Any]], kind: str) -> Any:
        """The answer's object. A kept connection that the server has closed meanwhile is opened once more.

        How its end shows is up to the TLS library, and whether the request was carried out cannot be told: none of ours
        does harm when it comes twice.
        """
        content = None if body is None else json.dumps(body).encode("utf-8")
        headers = {"Accept": "application/json", "User-Agent": "nodeshare"}
        if content is not None:
            headers["Content-Type"] = kind
        kept = self.connection is not None
        try:
            return self._exchange(method, path, content, headers)
        except (OSError, ssl.CertificateError, http.client.HTTPException) as error:
            self.close()
            if not kept or isinstance(error, socket.timeout):
                raise ApiError(0, _told(method, path, error)) from error
        try:
            return self._exchange(method, path, content, headers)
        except (OSError, ssl.CertificateError, http.client.HTTPException) as error:
            self.close()
            raise ApiError(0, _told(method, path, error)) from error

    def lines(self, path: str, *, quiet: float) -> Iterator[Dict[str, Any]]:
        """The objects of a watch as they come, until the server ends it; an error after `quiet` seconds of silence."""
        try:
            connection = self._connected()
            connection.sock.settimeout(quiet)
            connection.request("GET", path, None, {"Accept": "application/json", "User-Agent": "nodeshare"})
            response = connection.getresponse()
            if response.status >= 300:
                raise ApiError(response.status, "GET {}: {}".format(path.partition("?")[0], response.status))
            while True:
                line = response.readline(LARGEST_ANSWER)
                if not line:
                    return
                yield json.loads(line.decode("utf-8"))
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ApiError(0, _told("GET", path, error)) from error
        finally:
            self.close()

    def _connected(self) -> http.client.HTTPSConnection:
        if self.connection is None:
            host = urllib.parse.urlsplit(self.credentials.server)
            self.connection = http.client.HTTPSConnection(
                host.hostname or "", host.port or 443, timeout=self.timeout, context=self.context
            )
            self.connection.connect()
            self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.connection

    def _exchange(self, method: str, path: str, content: Optional[bytes], headers: Dict[str, str]) -> Any:
        give_up = time.monotonic() + 2 * self.timeout
        connection = self._connected()
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        parts: List[bytes] = []  # joined once: a long answer comes in thousands of parts
        length = 0
        while True:  # a server that sends a byte now and then must not hold us for ever
            part = response.read1(1 << 16)
            if not part:
                break
            parts.append(part)
            length += len(part)
            late = time.monotonic() > give_up
            if length > (self.longest or LARGEST_ANSWER) or (late and length > LONG_ANSWER):
                self.close()
                raise TooLong(0, "{} {}: the answer is too long".format(method, path.partition("?")[0]))
            if late:
                raise socket.timeout("the answer is too slow")
        self.date = response.getheader("Date") or ""
        response.close()  # before Python 3.12 read1 leaves this undone, and the connection would not be reused
        text = b"".join(parts)
        try:
            answer = json.loads(text.decode("utf-8")) if text else {}
        except ValueError as error:
            raise http.client.HTTPException("the answer is not JSON") from error
        if response.status >= 300:
            message = answer.get("message") if isinstance(answer, dict) else None
            told = ascii(message or response.reason)[:300]
            raise ApiError(
                response.status,
                "{} {}: {} {}".format(method, path.partition("?")[0], response.status, told),
                retry_after=_retry_after(response),
            )
        return answer


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
            return Api(True, "", _tainted(node), announcement(node), pods, True, holders_of(node) if held else (), held)
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
            if not more:
                return tuple(found)
            query["continue"] = str(more)
            if time.monotonic() > give_up:
                raise ApiError(0, "GET {}: the pages take too long".format(path[:-1]))

    def announce(self, text: str, *, tries: int = 3) -> None:
        """Set our annotation by compare-and-set: whoever has changed the Node since we looked is looked at first."""
        for attempt in range(tries):
            node, self.seen = self.seen or self.client.request("GET", self.path), None
            if announcement(node) == text:
                return
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
        """False: a PodDisruptionBudget forbids it for now. A pod that is gone already is as good as evicted."""
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


def _tls(credentials: Credentials) -> ssl.SSLContext:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = True
        if credentials.ca_pem:
            context.load_verify_locations(cadata=credentials.ca_pem)
        else:
            context.load_verify_locations(cafile=credentials.ca_file)
        if credentials.cert_pem or credentials.key_pem:
            _load_chain(context, credentials)
        else:
            context.load_cert_chain(credentials.cert_file, credentials.key_file)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise ApiError(0, "credentials cannot be loaded: {}".format(error)) from error
    return context


def _load_chain(context: ssl.SSLContext, credentials: Credentials) -> None:
    """The ssl module reads key and certificate from files only: an unlinked one, which nobody else can open."""
    import tempfile

    parts = []
    for pem, path in ((credentials.cert_pem, credentials.cert_file), (credentials.key_pem, credentials.key_file)):
        if pem:
            parts.append(pem)
        else:
            with open(path) as stream:
                parts.append(stream.read())
    with tempfile.TemporaryFile(mode="w") as stream:
        stream.write("\n".join(parts))
        stream.flush()
        context.load_cert_chain("/proc/self/fd/{}".format(stream.fileno()))


def _retry_after(response: http.client.HTTPResponse) -> Optional[float]:
    """Return the seconds after which a busy API wants to be asked again; None where it does not say so."""
    try:
        seconds = float(response.getheader("Retry-After") or "")
    except ValueError:
        return None  # not there, or a date, which no API server sends
    return seconds if response.status in (429, 503) and 0 <= seconds <= 3600 else None


def _told(method: str, path: str, error: Exception) -> str:
    return "{} {}: {}".format(method, path.partition("?")[0], error or type(error).__name__)


def announcement(node: Dict[str, Any]) -> str:
    return str((node["metadata"].get("annotations") or {}).get(ANNOTATION) or "")


def holders_of(node: Dict[str, Any]) -> Tuple[str, ...]:
    """Return the jobs, as keys, for which the controllers have tainted the node and asked its pods to leave."""
    text = str((node["metadata"].get("annotations") or {}).get(HELD_BY) or "")
    return tuple(word for word in text.split(",") if word)


def held_seconds(node: Dict[str, Any], date: str) -> float:
    """Return the seconds since the controllers wrote their list of jobs, by the server's clock; 0: cannot tell.

    They may have written something else since, so it may be longer.
    """
    if not holders_of(node):
        return 0.0
    import calendar
    import email.utils

    now = email.utils.parsedate_tz(date)
    times = [
        str(entry.get("time"))
        for entry in node["metadata"].get("managedFields") or ()
        if "f:" + HELD_BY in (entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations") or {})
    ]
    if not times or now is None or not all(_TIME.fullmatch(text) for text in times):
        return 0.0
    written = calendar.timegm(tuple(int(number) for number in re.findall(r"[0-9]+", max(times))))
    return max(0.0, float(email.utils.mktime_tz(now) - written))


def is_our_taint(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == TAINT and taint.get("effect") in ("NoSchedule", "NoExecute")


def _tainted(node: Dict[str, Any]) -> bool:
    return any(is_our_taint(taint) for taint in node.get("spec", {}).get("taints") or ())


def read_pod(item: Dict[str, Any]) -> Pod:
    """Read a pod in our words. Both words that let a pod stay are its creator's own, so neither is believed alone.

    The garbage collector deletes a pod whose DaemonSet does not exist, and however long it may take to leave, it no
    longer stays. A static pod's processes carry the hash of its manifest, not the uid of its mirror; the hash has a
    form that no pod of the API has, so a forged mirror speaks for no process of a pod that its creator has.
    """
    meta = item["metadata"]
    annotations = meta.get("annotations") or {}
    static = str(annotations.get(STATIC)) if MIRROR in annotations else ""
    mirror = STATIC_UID.fullmatch(static) is not None
    daemon = any(
        (owner.get("apiVersion"), owner.get("kind"), owner.get("controller")) == ("apps/v1", "DaemonSet", True)
        for owner in meta.get("ownerReferences") or ()
    )
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


def _pod_path(pod: Pod) -> str:
    names: Tuple[str, ...] = tuple(urllib.parse.quote(name, safe="") for name in (pod.namespace, pod.name))
    return "/api/v1/namespaces/{}/pods/{}".format(*names)
