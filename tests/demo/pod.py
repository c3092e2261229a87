# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo's pod: what it is, and how its state is read."""

from __future__ import annotations

import json
from typing import Any


def pod(node: str) -> dict[str, Any]:
    """A pod for one node that says where it runs and ends. The scheduler places it, by the node's label."""
    container = {
        "name": "hello",
        "image": "localhost/busybox:local",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", 'echo "hello from a pod on node $NODE"'],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}},
    }
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": node},
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello", "namespace": "default"}, "spec": spec}


def pod_state(text: str) -> str:
    """Succeeded, Failed, Running ...; with the reason a container waits for, where it has one."""
    status = json.loads(text).get("status", {})
    for container in status.get("containerStatuses", []):
        reason = container.get("state", {}).get("waiting", {}).get("reason")
        if reason and reason != "ContainerCreating":
            return str(reason)
    return str(status.get("phase", "Unknown"))
