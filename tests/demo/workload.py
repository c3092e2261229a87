# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs as pods in the demo: a Deployment, and a driver that starts workers and adds up what they found. Pure.

The driver is what programs like Spark or Dask are to Kubernetes: a pod with an account of its own that makes pods.
The bed has no image with kubectl in it, so the driver uses the one that every bed has mounted into its nodes.
"""

from __future__ import annotations

import json
from typing import Any

from testbed.kube_config import BIN

IMAGE = "localhost/busybox:local"
WEB, DRIVER, WORKER = "web", "driver", "worker"
REPLICAS, WORKERS = 4, 4
NUMBERS = 4_000_000
TOTAL = NUMBERS * (NUMBERS + 1) // 2
"""What the workers' sums must come to."""
DRIVER_SCRIPT = """\
set -eu
account=/var/run/secrets/kubernetes.io/serviceaccount
kubectl() { /bed/kubectl --server="$API" --certificate-authority=$account/ca.crt --token="$(cat $account/token)" "$@"; }
kubectl create --filename=/job/workers.json
kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod --selector=app=worker --timeout=280s
kubectl logs --selector=app=worker --tail=-1 |
    awk '{ sum += $NF } END { printf "driver: the workers found %.0f\\n", sum }'
"""


def deployment() -> dict[str, Any]:
    """Pods that stand for a service: as many on one node as on the other."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": WEB},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": WEB}},
            "template": {
                "metadata": {"labels": {"app": WEB}},
                "spec": _pod(WEB, 'trap "exit 0" TERM; while :; do sleep 1 & wait; done', grace=2),
            },
        },
    }


def driver(api_server: str) -> list[dict[str, Any]]:
    """The driver with its account, which may make pods and read them, and what its workers are."""
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": DRIVER},
        "data": {"workers.json": json.dumps(workers())},
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DRIVER}}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": DRIVER},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": DRIVER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": DRIVER},
        "subjects": [{"kind": "ServiceAccount", "name": DRIVER, "namespace": "default"}],
    }
    spec = _pod(DRIVER, DRIVER_SCRIPT, grace=2) | {"restartPolicy": "Never", "serviceAccountName": DRIVER}
    spec["automountServiceAccountToken"] = True
    spec["containers"][0] |= {
        "env": [{"name": "API", "value": api_server}],
        "volumeMounts": [{"name": "bed", "mountPath": "/bed"}, {"name": "job", "mountPath": "/job"}],
    }
    spec["volumes"] = [
        {"name": "bed", "hostPath": {"path": BIN, "type": "Directory"}},
        {"name": "job", "configMap": {"name": DRIVER}},
    ]
    template = {"metadata": {"labels": {"app": DRIVER}}, "spec": spec}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": DRIVER},
        "spec": {"backoffLimit": 0, "template": template},
    }
    return [script, account, role, binding, job]


def workers() -> dict[str, Any]:
    """Each adds up its part of the numbers."""
    share = NUMBERS // WORKERS
    items = []
    for number in range(WORKERS):
        first, last = number * share + 1, (number + 1) * share
        count = f'for (i = {first}; i <= {last}; i++) sum += i; printf "worker {number}: %.0f\\n", sum'
        spec = _pod(WORKER, f"awk 'BEGIN {{ {count} }}'", grace=2) | {"restartPolicy": "Never"}
        metadata = {"name": f"{WORKER}-{number}", "labels": {"app": WORKER}}
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return {"apiVersion": "v1", "kind": "List", "items": items}


def manifest(*objects: dict[str, Any]) -> str:
    """Objects as kubectl takes them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _pod(app: str, script: str, *, grace: int) -> dict[str, Any]:
    """One container; pods of one app go where fewest of them are, and wait for a node that is closed."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "topologySpreadConstraints": [spread],
        "containers": [container],
    }
