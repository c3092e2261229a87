# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small Kubernetes API over real TLS with client certificates, for tests: one Node, its pods, evictions, events."""

import hashlib
import http.server
import json
import os
import shutil
import socketserver
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse


class Certificates:
    """A CA, a server certificate for 127.0.0.1 and a client's, made by openssl."""

    def __init__(self, directory):
        self.directory = directory
        self.ca = self._path("ca.crt")
        self._run(
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=test-ca",
            "-keyout",
            self._path("ca.key"),
            "-out",
            self.ca,
        )
        self.server = self.issue("server", "/CN=api", "subjectAltName=IP:127.0.0.1")
        self.client = self.issue("client", "/O=system:nodes/CN=system:node:n1", "extendedKeyUsage=clientAuth")

    def issue(self, name, subject, extension):
        """Certificate and key in one file, as kubelet-client-current.pem is."""
        request, certificate, both = self._path(name + ".csr"), self._path(name + ".crt"), self._path(name + ".pem")
        with open(self._path(name + ".ext"), "w") as stream:
            stream.write(extension + "\n")
        self._run(
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            subject,
            "-keyout",
            self._path(name + ".key"),
            "-out",
            request,
        )
        self._run(
            "x509",
            "-req",
            "-in",
            request,
            "-CA",
            self.ca,
            "-CAkey",
            self._path("ca.key"),
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            self._path(name + ".ext"),
            "-out",
            certificate,
        )
        with open(both, "w") as stream:
            for part in (certificate, self._path(name + ".key")):
                with open(part) as source:
                    stream.write(source.read())
        return both

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _run(self, *arguments):
        subprocess.run(
            ("openssl", *arguments), check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


class ApiCase(unittest.TestCase):
    """The certificates are made once for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.mkdtemp()
        cls.certificates = Certificates(cls.keys)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.keys)


class ApiServer:
    """`node` and `pods` are the objects served; `fail` answers the next requests of a method with a status."""

    def __init__(self, certificates):
        self.node = {"metadata": {"name": "n1", "resourceVersion": "1", "annotations": {}}, "spec": {}, "status": {}}
        self.pods = {}
        self.protected = set()
        self.calls = []
        self.fail = []  # (method, status) for one request each, or (method, status, seconds of Retry-After)
        self.delay = 0.0  # bounds of tests lie far below those of their servers: a loaded machine proves the same
        self.meet = None  # a threading.Barrier: requests are answered when so many are there at once
        self.drip = False
        self.hang_up = False  # after every answer, without a word
        self.raw = None
        self.conflicts = 0
        self.lock = threading.Lock()

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request, client_address):
                """Clients that break off are part of the tests."""

        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10
            disable_nagle_algorithm = True  # an answer in two parts must not wait for an acknowledgement

            def do(self):
                outer.answer(self)

            do_GET = do_PATCH = do_POST = do_DELETE = do  # noqa: N815 - the names that http.server looks for

            def log_message(self, *arguments):
                """The tests read `calls` instead."""

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server)
        context.load_verify_locations(certificates.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = "https://127.0.0.1:{}".format(self.server.server_address[1])
        # Daemon: a run that is interrupted ends without `close`.
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def add_pod(self, name, *, namespace="default", owner=None, mirror=False, phase="Running", leaving=False):
        meta = {"name": name, "namespace": namespace, "uid": "uid-" + name, "annotations": {}}
        if owner:
            meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": owner, "name": "x", "controller": True}]
        if mirror:
            static = hashlib.md5(name.encode("ascii")).hexdigest()  # as a kubelet makes the uid of a static pod
            meta["annotations"] = {"kubernetes.io/config.mirror": "h", "kubernetes.io/config.hash": static}
        if leaving:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"phase": phase, "startTime": "2026-01-01T00:00:00Z"}  # as a kubelet writes it
        self.pods[namespace, name] = {"metadata": meta, "spec": {"nodeName": "n1"}, "status": status}

    def answer(self, handler):
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length).decode("utf-8")) if length else None
        with self.lock:
            self.calls.append((handler.command, handler.path, body))
            forced = next((entry for entry in self.fail if entry[0] == handler.command), None)
            if forced:
                self.fail.remove(forced)
        if self.meet is not None:
            self.meet.wait(300)
        time.sleep(self.delay)
        with self.lock:
            status, answer = (forced[1], {"message": "forced"}) if forced else self.route(handler, body)
        content = self.raw if self.raw is not None else json.dumps(answer).encode("utf-8")
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        if forced and len(forced) > 2:
            handler.send_header("Retry-After", forced[2])
        handler.end_headers()
        for start in range(0, len(content), 1 if self.drip else len(content) or 1):
            handler.wfile.write(content[start : start + (1 if self.drip else len(content))])
            handler.wfile.flush()
            time.sleep(0.4 if self.drip else 0)
        handler.close_connection = handler.close_connection or self.hang_up

    def route(self, handler, body):
        url = urllib.parse.urlsplit(handler.path)
        parts = url.path.strip("/").split("/")
        if parts[2:] == ["nodes", "n1"] and self.node is not None:
            return self.patched(body) if handler.command == "PATCH" else (200, self.node)
        query = urllib.parse.parse_qs(url.query)
        namespace = parts[3] if parts[2:3] == ["namespaces"] and parts[4:] == ["pods"] else ""
        if parts[2:] == ["pods"] or namespace:
            found = [pod for pod in self.pods.values() if namespace in ("", pod["metadata"]["namespace"])]
            selected = [pod for pod in found if self.selected(pod, query)]
            start, size = int(query.get("continue", ["0"])[0]), int(query.get("limit", ["1000000"])[0])
            more = str(start + size) if start + size < len(selected) else ""
            return 200, {"metadata": {"continue": more}, "items": selected[start : start + size]}
        if handler.command == "GET" and len(parts) == 6 and (parts[3], parts[5]) in self.pods:
            return 200, self.pods[parts[3], parts[5]]
        if parts[-1] == "events":
            return 201, body
        if len(parts) > 4 and parts[4] == "pods" and (parts[3], parts[5]) in self.pods:
            wanted = body.get("deleteOptions", body)["preconditions"]["uid"]
            if wanted != self.pods[parts[3], parts[5]]["metadata"]["uid"]:
                return 409, {"message": "the UID in the precondition does not match"}
            if (parts[3], parts[5]) in self.protected and parts[-1] == "eviction":
                return 429, {"message": "Cannot evict pod as it would violate the pod's disruption budget."}
            del self.pods[parts[3], parts[5]]
            return 200, {}
        return 404, {"message": "not found"}

    @staticmethod
    def selected(pod, query):
        """By fields, and by nothing, `LABEL=VALUE`, or `LABEL!=VALUE`. The last a pod without that label meets too."""
        meta = pod["metadata"]
        fields = {
            "spec.nodeName": pod["spec"].get("nodeName", "n1"),
            "metadata.namespace": meta["namespace"],
            "status.phase": pod["status"]["phase"],
        }
        for requirement in query["fieldSelector"][0].split(","):
            name, _equals, value = requirement.partition("=")
            if (fields[name.rstrip("!")] == value) == name.endswith("!"):
                return False
        name, equals, value = query.get("labelSelector", [""])[0].partition("=")
        has = (meta.get("labels") or {}).get(name.rstrip("!")) == value
        return not equals or has != name.endswith("!")

    def patched(self, body):
        if self.conflicts:
            self.conflicts -= 1
            self.node["metadata"]["resourceVersion"] += "0"
        if body["metadata"]["resourceVersion"] != self.node["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        for key, value in body["metadata"]["annotations"].items():
            if value is None:
                self.node["metadata"]["annotations"].pop(key, None)
            else:
                self.node["metadata"]["annotations"][key] = value
        self.node["metadata"]["resourceVersion"] += "1"
        return 200, self.node
