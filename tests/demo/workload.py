# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs as pods in the demo: a Deployment, and a driver that starts workers and adds up what they found. Pure.

The driver is what programs like Spark or Dask are to Kubernetes: a pod with an account of its own that has workers.
They are a StatefulSet. Its controller replaces at once each worker that has to leave its node; a Job's would wait for
10 s and more. The bed has no image with kubectl in it: the driver uses the one that every bed has mounted into nodes.
"""

from __future__ import annotations

import json
from typing import Any

from testbed.kube_config import BIN

IMAGE = "localhost/busybox:local"
WEB, DRIVER, WORKER = "web", "driver", "worker"
REPLICAS, WORKERS = 3, 6
NUMBERS = 4_320_000
SLICES = 20
"""Slices of a worker's part; after each it waits for a second, so that it is at work while the batch job is."""
TOTAL = NUMBERS * (NUMBERS + 1) // 2
"""What the workers' sums must come to."""
DRIVER_SCRIPT = f"""\
set -eu
account=/var/run/secrets/kubernetes.io/serviceaccount
kubectl() {{
    /bed/kubectl --server="$API" --certificate-authority=$account/ca.crt --token="$(cat $account/token)" "$@"
}}
found() {{ kubectl logs --selector=app={WORKER} --tail=-1 2>/dev/null | grep "^{WORKER} . found " || true; }}
# A driver that had to leave its node is replaced too, and finds its workers at work.
kubectl get statefulsets.apps {WORKER} >/dev/null 2>&1 || kubectl create --filename=/job/workers.json
lines=
for second in $(seq 280); do
    lines=$(found)
    [ "$(echo "$lines" | wc -l)" -lt {WORKERS} ] || break
    sleep 1
done
kubectl delete statefulsets.apps {WORKER} --wait=false
echo "$lines" | awk '{{ sum += $NF }} END {{ printf "driver: the workers found %.0f\\n", sum }}'
"""


def deployment() -> dict[str, Any]:
    """Pods that stand for a service: as many on one node as on the other."""
    pod = _pod(WEB, 'trap "exit 0" TERM; while :; do sleep 1 & wait; done', grace=2)
    return _kept("Deployment", WEB, pod, replicas=REPLICAS)


def driver(api_server: str, *, prefers: str) -> list[dict[str, Any]]:
    """Return the driver with its account and what its workers are.

    The account may make and delete StatefulSets and read pods. The driver prefers the node that Slurm fills last.
    """
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
            {"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["create", "get", "delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
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
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [prefers]}
    preferred = [{"weight": 100, "preference": {"matchExpressions": [here]}}]
    spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    evicted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    template = {"metadata": {"labels": {"app": DRIVER}}, "spec": spec}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": DRIVER},
        "spec": {"backoffLimit": 0, "podFailurePolicy": {"rules": [evicted]}, "template": template},
    }
    return [script, account, role, binding, job]


def workers() -> dict[str, Any]:
    """Return the workers. Each adds up its part of the numbers, slice by slice, and stays until the driver ends it.

    One that has to leave before says nothing and ends with status 143; one that has found its sum ends with 0.
    """
    share = NUMBERS // WORKERS // SLICES
    count = (
        f"for (slice = 0; slice < {SLICES}; slice++) {{ first = (part * {SLICES} + slice) * {share}; "
        f'for (i = first + 1; i <= first + {share}; i++) sum += i; system("sleep 1") }} '
        f'printf "{WORKER} %d found %.0f\\n", part, sum'
    )
    script = (
        f"trap 'exit 143' TERM; part=${{HOSTNAME##*-}}; echo {WORKER} $part begins; file=$(mktemp); "
        f"awk -v part=$part 'BEGIN {{ {count} }}' > $file & wait $!; "
        "trap 'exit 0' TERM; cat $file; while :; do sleep 1 & wait; done"
    )
    pod = _pod(WORKER, script, grace=2)
    # The image has no /tmp.
    pod["containers"][0]["env"] = [{"name": "TMPDIR", "value": "/dev/shm"}]
    # One that has to leave goes to a node that is open, however many are there; the Deployment's pods wait for theirs.
    pod["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = "Honor"
    return _kept("StatefulSet", WORKER, pod, replicas=WORKERS, serviceName=WORKER, podManagementPolicy="Parallel")


def manifest(*objects: dict[str, Any]) -> str:
    """Objects as kubectl takes them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _kept(kind: str, app: str, pod: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an object of a controller that replaces pods of an app; `more` is the rest of its spec."""
    template = {"metadata": {"labels": {"app": app}}, "spec": pod}
    spec = {**more, "selector": {"matchLabels": {"app": app}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": app}, "spec": spec}


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
