# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kwok plays on nodes for load: pods run as soon as they are bound, and go as soon as they are deleted.

A kwok built from its module has no stages compiled in and ends at once without any, so these are ours. Nodes are
created ready and nobody asks for their leases (see `load`), but kwok watches nodes, and with them the pods on them,
only when it has a stage for nodes as well.
"""

from __future__ import annotations

import yaml

POD_STATUS = """\
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace | Quote }}
conditions:
{{ range $kind := list "Initialized" "ContainersReady" "Ready" }}
- type: {{ $kind }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
"""


NODE_STATUS = """\
conditions:
- type: Ready
  status: "True"
  reason: KubeletReady
  message: a node for load
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
"""


def stage(name: str, kind: str, conditions: list[dict[str, object]], following: dict[str, object]) -> dict[str, object]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": conditions},
            "next": following,
        },
    }


def kwok_yaml() -> str:
    """kwok's configuration."""
    deleted = ".metadata.deletionTimestamp"
    pending: dict[str, object] = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    node = stage(
        "node-is-ready",
        "Node",
        [{"key": ready, "operator": "NotIn", "values": ["True"]}],
        {"statusTemplate": NODE_STATUS},
    )
    run = stage(
        "pod-runs", "Pod", [{"key": deleted, "operator": "DoesNotExist"}, pending], {"statusTemplate": POD_STATUS}
    )
    end = stage("pod-ends", "Pod", [{"key": deleted, "operator": "Exists"}], {"delete": True})
    return yaml.safe_dump_all([node, run, end], sort_keys=False)
