# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster part of the Kubernetes API for tests, over real TLS: Nodes with versions and watches, pods, evictions."""

import copy
import json
import queue
import urllib.parse

from api_server import ApiServer
from nodeshare.controller.decide import SHARE_MODE


def has_label(item, selector):
    """Whether a Node is there and meets a selector: none, or the name of a label that must be there."""
    return item is not None and (not selector or selector in item["metadata"].get("labels", {}))


class ClusterServer(ApiServer):
    """Change things by the methods below: they are told to whoever watches."""

    def __init__(self, certificates, *, names):
        self.version = 10
        self.nodes = {}
        self.watchers = []
        self.refused = set()  # annotations that an admission policy lets nobody write
        self.expire = False  # the next watch is told that its version is too old
        self.lingering = set()  # pods that only begin to leave when evicted
        super().__init__(certificates)
        for name in names:
            self.add_node(name)

    def add_node(self, name, mode="handover"):
        labels = {SHARE_MODE: mode} if mode else {}
        meta = {"name": name, "uid": "uid-" + name, "annotations": {}, "labels": labels}
        self.change(name, {"metadata": meta, "spec": {}})

    def relabel(self, name, mode):
        """Give a Node a share mode, or take it away."""
        item = copy.deepcopy(self.nodes[name])
        item["metadata"]["labels"] = {SHARE_MODE: mode} if mode else {}
        self.change(name, item)

    def change(self, name, item):
        with self.lock:
            self._store(name, item)

    def _store(self, name, item):
        """A watch with a label selector is told of a Node that comes to match, changes, or ceases to match."""
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        before, self.nodes[name] = self.nodes.get(name), item
        for selector, events in self.watchers:
            was, now = has_label(before, selector), has_label(item, selector)
            if was or now:
                kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
                events.put({"type": kind, "object": copy.deepcopy(item)})

    def annotate(self, name, key, value):
        item = copy.deepcopy(self.nodes[name])
        item["metadata"]["annotations"][key] = value
        self.change(name, item)

    def put_pod(self, name, node, **options):
        self.add_pod(name, **options)
        self.pods[options.get("namespace", "default"), name]["spec"]["nodeName"] = node

    def writes(self):
        with self.lock:
            return [(method, path.partition("?")[0]) for method, path, _body in self.calls if method != "GET"]

    def drop_watchers(self):
        with self.lock:
            for _selector, events in self.watchers:
                events.put(None)

    def close(self):
        self.drop_watchers()
        super().close()

    def answer(self, handler):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)
        if "watch" not in query:
            return super().answer(handler)
        events, selector = queue.Queue(), query.get("labelSelector", [""])[0]
        with self.lock:
            self.calls.append((handler.command, handler.path, None))
            if self.expire:
                self.expire = False
                events.put({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}})
            for item in self.nodes.values():
                changed = int(item["metadata"]["resourceVersion"]) > int(query["resourceVersion"][0])
                if changed and has_label(item, selector):
                    events.put({"type": "MODIFIED", "object": copy.deepcopy(item)})
            self.watchers.append((selector, events))
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:
            event = events.get()
            content = b"" if event is None else json.dumps(event).encode("utf-8") + b"\n"
            handler.wfile.write("{:x}\r\n".format(len(content)).encode("ascii") + content + b"\r\n")
            handler.wfile.flush()
            if event is None:
                break
        with self.lock:
            self.watchers.remove((selector, events))
        return None

    def route(self, handler, body):
        url = urllib.parse.urlsplit(handler.path)
        parts = url.path.strip("/").split("/")
        query = urllib.parse.parse_qs(url.query)
        if parts[2:] == ["nodes"]:
            items = [item for item in self.nodes.values() if has_label(item, query.get("labelSelector", [""])[0])]
            return 200, {"kind": "NodeList", "metadata": {"resourceVersion": str(self.version)}, "items": items}
        if parts[2:3] == ["nodes"] and parts[3] in self.nodes:
            return self._patched(parts[3], body) if handler.command == "PATCH" else (200, self.nodes[parts[3]])
        if parts[2:] == ["pods"]:
            status, page = super().route(handler, body)
            return status, dict(page, kind="PodList")
        if parts[-1] == "eviction" and (parts[3], parts[5]) in self.pods and parts[5] in self.lingering:
            self.pods[parts[3], parts[5]]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            return 201, {}
        return super().route(handler, body)

    def _patched(self, name, body):
        item = copy.deepcopy(self.nodes[name])
        if self.conflicts:
            self.conflicts -= 1
            item["metadata"]["annotations"]["kubelet"] = str(self.version)
            self._store(name, item)
        if self.refused.intersection(body["metadata"].get("annotations", {})):
            return 422, {"message": "a policy denies it"}
        if body["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        for key, value in body["metadata"].get("annotations", {}).items():
            item["metadata"]["annotations"].pop(key, None)
            if value is not None:
                item["metadata"]["annotations"][key] = value
        item["spec"].update(body.get("spec", {}))
        self._store(name, item)
        return 200, item
