# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster with the role's own objects and identity, and namespaces of tests in it."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml
from e2e.placement.daemon import Daemon
from e2e.placement.role import ROLE, RoleVariables
from testbed.api import RunningBed, command_line
from testbed.controlplane import audit_log, kubeconfig
from testbed.kube_api import STRATEGIC_PATCH, Api
from testbed.kube_audit import AuditEvent, read_audit

Json = dict[str, Any]

USER = "converged:placement:e2e"
NODES = 20
SCHEDULER = "placement"
CONVERGED = "scheduling.converged.hpc/v1alpha1"
KUBE_BATCH = "scheduling.incubator.k8s.io/v1alpha1"
GROUP_NAME = "scheduling.k8s.io/group-name"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# JSON is YAML.
APPLY = "application/apply-patch+yaml"
SIGNER = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


class Cluster:
    """The cluster."""

    def __init__(self, bed: RunningBed, folder: Path) -> None:
        self.bed = bed
        self.folder = folder
        self.api = Api.from_kubeconfig(kubeconfig(bed.bed))
        self.role = RoleVariables(placement_settings={})
        self._audit = audit_log(bed.bed)
        self.kubeconfig = folder / "kubeconfig"

    def prepare(self, nodes: int = NODES) -> None:
        """CRDs, rights and flow level as the role makes them, an identity, and nodes on which pods seem to run."""
        crds = (ROLE / "files/crds/crds.yml").read_text(encoding="utf-8")
        # An empty CRD of the dialects that we do not ship, so that they are served.
        foreign = [crd("scheduling.volcano.sh", "v1beta1"), crd("scheduling.volcano.sh", "v1beta1", "Queue")]
        foreign.append(crd("scheduling.x-k8s.io", "v1alpha1"))
        self.bed.kubectl("apply", "-f", "-", input=crds)
        self.bed.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(foreign))
        self.grant()
        self._sign()
        if not self.api.items("/api/v1/nodes?labelSelector=converged.hpc/load&limit=1"):
            command_line("load", self.bed.bed.name, "--nodes", str(nodes), "--kind", "kwok", timeout=600)

    def grant(self) -> None:
        """The rights and the flow level."""
        self.bed.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(self.role["_placement_objects"]))

    def allowed(self) -> set[tuple[str, str]]:
        """Verb and resource of everything that the role lets the daemon do."""
        rules = [rule for part in ("role", "lease_role") for rule in self.role[f"_placement_{part}"]["rules"]]
        return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}

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
            timeout=300,
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
            f"{SIGNER}/{name}", lambda item: "certificate" in item.get("status", {}), timeout=300, what="certificate"
        )
        config = yaml.safe_load(kubeconfig(self.bed.bed).read_text(encoding="utf-8"))
        for user in config["users"]:
            user["user"] = {
                "client-certificate-data": found["status"]["certificate"],
                "client-key-data": base64.b64encode(key.read_bytes()).decode(),
            }
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        self.api.delete(f"{SIGNER}/{name}")

    def audit(self, users: Collection[str] = (USER,)) -> list[AuditEvent]:
        """What the daemon has asked the API for."""
        return [event for event in read_audit(self._audit) if event.user in users]

    def apply(self, path: str, body: Json) -> None:
        """Create an object below this path, or make it so again, without a program for it."""
        name = body["metadata"]["name"]
        self.api.patch(f"{path}/{name}?fieldManager=e2e&force=true", body, content_type=APPLY)

    def namespace(self, name: str, *, labels: dict[str, str] | None = None) -> Namespace:
        """A namespace of a test's own."""
        metadata = {"name": name, "labels": labels or {}}
        self.apply("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.api.wait_for(
            f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _item: True, timeout=300, what="account"
        )
        return Namespace(self.api, name)

    def priority(self, name: str, value: int) -> None:
        """A PriorityClass."""
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        self.apply("/apis/scheduling.k8s.io/v1/priorityclasses", {**body, "value": value})

    def end_lease(self, name: str) -> None:
        """Of a daemon that does nothing any more, so that nobody has to wait until it is over."""
        self.api.delete(f"{LEASES}/{name}")

    def daemon(self, name: str, **settings: Any) -> Daemon:
        """The daemon with a Lease of its own; the role gives rights to the one Lease it is told of."""
        lease = settings.get("lease_name", "converged-placement")
        role = RoleVariables(placement_settings={"lease_name": lease})
        for part in (role["_placement_lease_role"], role["_placement_lease_binding"]):
            # Without the label by which the role's own are told.
            part["metadata"] = {"name": lease, "namespace": part["metadata"]["namespace"]}
            if "roleRef" in part:
                part["roleRef"]["name"] = lease
            group = f"/apis/{part['apiVersion']}/namespaces/{part['metadata']['namespace']}"
            self.apply(f"{group}/{part['kind'].lower()}s", part)
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
        metadata |= {key: more.pop(key) for key in ("annotations", "labels", "finalizers") if key in more}
        container = {"name": "main", "image": "localhost/none", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
        spec = {"schedulerName": scheduler, "containers": [container], **more}
        self.api.create(f"{self.path}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def job(self, name: str, *, replicas: int, least: int | None = None, **more: Any) -> None:
        """Pods of one PodGroup of kube-batch's, which all must start together unless `least` says fewer."""
        group = {"minMember": replicas if least is None else least}
        group |= {key: more.pop(key) for key in ("queue", "priorityClassName") if key in more}
        self.create(KUBE_BATCH, "PodGroup", name, group)
        if "priorityClassName" in group:
            more["priorityClassName"] = group["priorityClassName"]
        for number in range(replicas):
            self.pod(f"{name}-{number}", annotations={GROUP_NAME: name}, **more)

    def create(self, version: str, kind: str, name: str, spec: object) -> None:
        """An object of a dialect."""
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.api.create(self.group_path(version), body)

    def group_path(self, version: str) -> str:
        """Where groups of a dialect are."""
        return f"/apis/{version}/namespaces/{self.name}/podgroups"

    def pods(self) -> list[Json]:
        """All pods."""
        return self.api.items(f"{self.path}/pods")

    def bound(self, prefix: str = "") -> set[str]:
        """Names of pods that have a node and keep it."""
        return set(self.places(prefix))

    def places(self, prefix: str = "") -> dict[str, str]:
        """The node of each pod that has one and is not about to leave it."""
        found = ((pod["metadata"], pod["spec"].get("nodeName")) for pod in self.pods())
        return {
            meta["name"]: node
            for meta, node in found
            if node and "deletionTimestamp" not in meta and meta["name"].startswith(prefix)
        }

    def clear(self) -> None:
        """Nothing of it is left on a node."""
        self.api.delete(f"{self.path}/pods?gracePeriodSeconds=0")

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
