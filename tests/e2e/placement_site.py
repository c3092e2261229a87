# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster with the role's own objects and identity, and the daemon as processes of this checkout."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jinja2.nativetypes import NativeEnvironment
from testbed.api import RunningBed, command_line
from testbed.controlplane import audit_log, kubeconfig
from testbed.kube_api import STRATEGIC_PATCH, Api, ApiError
from testbed.kube_audit import AuditEvent, read_audit

Json = dict[str, Any]

ROLE = Path(__file__).resolve().parents[2] / "roles/placement"
USER = "converged:placement:e2e"
NODES = 20
SCHEDULER = "placement"
READY_SECONDS = 40.0
SIGNER = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


class RoleVariables(Mapping[str, Any]):
    """The role's variables, rendered one by one as they are asked for, as Ansible does."""

    def __init__(self, **given: Any) -> None:
        self._given = given
        self._texts = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
        self._jinja = NativeEnvironment()

    def __getitem__(self, name: str) -> Any:
        return self._given[name] if name in self._given else self._rendered(self._texts[name])

    def __iter__(self) -> Iterator[str]:
        return iter({**self._texts, **self._given})

    def __len__(self) -> int:
        return len({**self._texts, **self._given})

    def _rendered(self, value: Any) -> Any:
        if isinstance(value, str) and "{{" in value:
            return self._evaluated(value)
        if isinstance(value, list):
            return [self._rendered(item) for item in value]
        if isinstance(value, dict):
            return {key: self._rendered(item) for key, item in value.items()}
        return value

    def _evaluated(self, text: str) -> Any:
        # Only what the text names: everything else may need what only a play has.
        names = {name: self[name] for name in self if re.search(rf"\b{name}\b", text)}
        return self._jinja.from_string(text).render(names)


class Site:
    """The cluster."""

    def __init__(self, bed: RunningBed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.api = Api.from_kubeconfig(kubeconfig(bed.bed))
        self.role = RoleVariables(placement_settings={})
        self._audit = audit_log(bed.bed)
        self.kubeconfig = folder / "kubeconfig"

    def prepare(self) -> None:
        """CRDs, rights and flow level as the role makes them, an identity, and nodes on which pods seem to run."""
        crds = (ROLE / "files/crds/crds.yml").read_text(encoding="utf-8")
        objects = self.role["_placement_objects"]
        # An empty CRD of the dialects that we do not ship, so that they are served.
        foreign = [crd("scheduling.volcano.sh", "v1beta1"), crd("scheduling.volcano.sh", "v1beta1", "Queue")]
        foreign.append(crd("scheduling.x-k8s.io", "v1alpha1"))
        self.bed.kubectl("apply", "-f", "-", input=crds)
        self.bed.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([*objects, *foreign]))
        self._sign()
        if not self.api.items("/api/v1/nodes?labelSelector=converged.hpc/load&limit=1"):
            command_line("load", self.bed.bed.name, "--nodes", str(NODES), "--kind", "kwok", timeout=120)

    def _sign(self) -> None:
        """A certificate of the group that the role's rights are for."""
        key = self.folder / "key.pem"
        subject = f"/O={self.role['_placement_group']}/CN={USER}"
        made = subprocess.run(
            [
                *("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
                *("-keyout", str(key), "-subj", subject),
            ],
            capture_output=True,
            timeout=30,
            check=True,
        )
        name = f"placement-e2e-{os.getpid()}"
        spec = {
            "request": base64.b64encode(made.stdout).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        }
        body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}}
        self.api.create(SIGNER, {**body, "spec": spec})
        self.bed.kubectl("certificate", "approve", name)
        found = self.api.wait_for(
            f"{SIGNER}/{name}", lambda item: "certificate" in item.get("status", {}), timeout=30, what="certificate"
        )
        config = yaml.safe_load(kubeconfig(self.bed.bed).read_text(encoding="utf-8"))
        for user in config["users"]:
            user["user"] = {
                "client-certificate-data": found["status"]["certificate"],
                "client-key-data": base64.b64encode(key.read_bytes()).decode(),
            }
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        self.api.delete(f"{SIGNER}/{name}")

    def audit(self) -> list[AuditEvent]:
        """What the daemon has asked the API for."""
        return [event for event in read_audit(self._audit) if event.user == USER]

    def namespace(self, name: str) -> Namespace:
        """A namespace of a test's own."""
        self.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.api.wait_for(
            f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _item: True, timeout=30, what="account"
        )
        return Namespace(self.api, name)

    def daemon(self, name: str, **settings: Any) -> Daemon:
        """The daemon with a Lease that passes on quickly; the role gives rights to the one Lease it is told of."""
        lease = settings.get("lease_name", "converged-placement")
        role = RoleVariables(placement_settings={"lease_name": lease})
        for part in (role["_placement_lease_role"], role["_placement_lease_binding"]):
            part["metadata"]["name"] = lease
            if "roleRef" in part:
                part["roleRef"]["name"] = lease
            self.bed.kubectl("apply", "-f", "-", input=yaml.safe_dump(part))
        return Daemon(self.folder / name, self.kubeconfig, settings)


class Namespace:
    """Pods and groups of one test."""

    def __init__(self, api: Api, name: str) -> None:
        self.api = api
        self.name = name
        self.path = f"/api/v1/namespaces/{name}"

    def pod(self, name: str, *, cpu: str = "1", scheduler: str = SCHEDULER, **more: Any) -> None:
        """A pod with one container."""
        metadata = {"name": name, "namespace": self.name}
        metadata |= {key: more.pop(key) for key in ("annotations", "labels") if key in more}
        container = {"name": "main", "image": "localhost/none", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": scheduler, "containers": [container], **more}
        self.api.create(f"{self.path}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def create(self, version: str, kind: str, name: str, spec: Json) -> None:
        """An object of a dialect."""
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.api.create(self.group_path(version), body)

    def group_path(self, version: str) -> str:
        """Where groups of a dialect are."""
        return f"/apis/{version}/namespaces/{self.name}/podgroups"

    def pods(self) -> list[Json]:
        """All pods."""
        return self.api.items(f"{self.path}/pods")

    def bound(self) -> set[str]:
        """Names of pods that have a node."""
        return {pod["metadata"]["name"] for pod in self.pods() if pod["spec"].get("nodeName")}

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and note of each Event about an object."""
        found = self.api.items(f"/apis/events.k8s.io/v1/namespaces/{self.name}/events")
        return [(item["reason"], item["note"]) for item in found if item["regarding"]["name"] == name]

    def condition(self, pod: str) -> tuple[str, str]:
        """Status and message of PodScheduled."""
        conditions = self.api.get(f"{self.path}/pods/{pod}").get("status", {}).get("conditions") or []
        return next(((c["status"], c.get("message", "")) for c in conditions if c["type"] == "PodScheduled"), ("", ""))

    def finish(self, pod: str, phase: str) -> None:
        """What a kubelet would write when the pod has ended."""
        self.api.patch(f"{self.path}/pods/{pod}/status", {"status": {"phase": phase}}, content_type=STRATEGIC_PATCH)


class Daemon:
    """One process of the daemon."""

    def __init__(self, folder: Path, config: Path, settings: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / "socket"
        self.log = folder / "log"
        self.settings = folder / "settings.yml"
        chosen = {
            "kubeconfig": str(config),
            "socket": str(self.socket),
            "listen": "",
            "lease_duration": 4,
            "renew_deadline": 2,
            "retry_period": 0.5,
            **settings,
        }
        self.settings.write_text(yaml.safe_dump(chosen), encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None

    def argv(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "placement", *arguments]

    def environment(self) -> dict[str, str]:
        """With this checkout's package."""
        return {**os.environ, "PYTHONPATH": str(ROLE / "files"), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self) -> Daemon:
        """Starts it, and waits until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv("run", "--settings", str(self.settings)), env=self.environment(), stderr=log
            )
        eventually(self.synced, "the daemon is synced", seconds=READY_SECONDS)
        return self

    def synced(self) -> bool:
        """Whether it has seen everything."""
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the daemon has ended: {self.log.read_text(encoding='utf-8')[-2000:]}")
        answer = self.ask("status", "--json")
        return bool(answer) and all(source["synced"] for source in json.loads(answer)["sources"].values())

    def leads(self) -> bool:
        """Whether it may write."""
        answer = self.ask("status", "--json")
        return bool(answer) and bool(json.loads(answer)["leader"])

    def ask(self, *arguments: str) -> str:
        """What a question prints; empty where there is no answer."""
        done = subprocess.run(
            [*self.argv(arguments[0]), "--socket", str(self.socket), *arguments[1:]],
            env=self.environment(),
            capture_output=True,
            timeout=30,
            check=False,
        )
        return done.stdout.decode() if done.returncode == 0 else ""

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = 30) -> int:
        """Its exit status."""
        assert self.process is not None
        return self.process.wait(timeout=seconds)

    def stop(self) -> None:
        """Ends it, however it is."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            self.wait()


def eventually(holds: Callable[[], bool], what: str, *, seconds: float = 20.0) -> None:
    """Waits until it holds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if holds():
                return
        except ApiError as error:
            if error.status not in (0, 404):
                raise
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {seconds:g} s: {what}")
        time.sleep(0.1)


def crd(group: str, version: str, kind: str = "PodGroup") -> Json:
    """A CRD without a schema, as a dialect of others."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "scope": "Cluster" if kind == "Queue" else "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
