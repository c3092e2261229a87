# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes objects of users, as small as they may be, and what is seen of them."""

from __future__ import annotations

import json
from typing import Any

from e2e.hosts import KubeHosts, until
from testbed.api import RunningBed

Json = dict[str, Any]
Cluster = KubeHosts | RunningBed
SLEEP = ["sleep", "3600"]
DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
EVERYWHERE = [{"operator": "Exists"}]


def spec(*, command: list[str] | None = None, grace: int = 1, **fields: Any) -> Json:
    container = {
        "name": "main",
        "image": "localhost/busybox:local",
        "imagePullPolicy": "Never",
        "command": command or SLEEP,
    }
    return {
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "containers": [container],
        **fields,
    }


def pod(name: str, *, node: str = "", finalizers: tuple[str, ...] = (), **fields: Any) -> Json:
    """A bare pod, labelled by its name; `node` leaves the choice to the scheduler but not the place."""
    if node:
        fields["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "labels": {"app": name}, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(**fields)}


def _controlled(kind: str, name: str, more: Json, fields: Json) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec(**fields)}
    selector = {"matchLabels": {"app": name}}
    metadata = {"name": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"selector": selector, "template": template, **more},
    }


def deployment(name: str, replicas: int, **fields: Any) -> Json:
    """Spread over the nodes: a pod whose node is taken waits for it, beside one that runs on the other."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    return _controlled("Deployment", name, {"replicas": replicas}, {"topologySpreadConstraints": [spread], **fields})


def one_on_each(name: str, nodes: int) -> Json:
    """A Deployment with a pod for each node, of which no two share one."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return _controlled("Deployment", name, {"replicas": nodes}, {"affinity": apart})


def daemonset(name: str) -> Json:
    return _controlled("DaemonSet", name, {}, {"tolerations": EVERYWHERE})


def budget(name: str) -> Json:
    """The last pod of this name may not be disturbed."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }


def apply(site: Cluster, *objects: Json) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    site.kubectl("apply", "--filename=-", input=json.dumps(listed))


def on_both_nodes(site: Cluster, count: int = 2) -> None:
    """A Deployment named web, with as many pods on each node."""
    apply(site, deployment("web", count))
    until(lambda: len(ready(site, "web")) == count, "pods on both nodes")
    assert set(ready(site, "web").values()) == {"n1", "n2"}


def uids(site: Cluster, *apps: str) -> set[str]:
    """Uids of the pods of these names, of a static one that which its processes carry."""
    pods = site.objects("pods").values()
    wanted = [item["metadata"] for item in pods if item["metadata"].get("labels", {}).get("app") in apps]
    return {meta.get("annotations", {}).get("kubernetes.io/config.hash") or meta["uid"] for meta in wanted}


def ready(site: Cluster, app: str) -> dict[str, str]:
    """Names of its pods that run and are not about to end, with their nodes."""
    return {
        name: item["spec"]["nodeName"]
        for name, item in site.objects("pods").items()
        if item["metadata"].get("labels", {}).get("app") == app
        and item["status"].get("phase") == "Running"
        and "deletionTimestamp" not in item["metadata"]
        and all(status["ready"] for status in item["status"].get("containerStatuses", [{"ready": False}]))
    }
