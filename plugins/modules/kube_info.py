#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads release and nodes of a Kubernetes cluster as data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_info
short_description: Read release and nodes of a Kubernetes cluster
version_added: 1.0.0
description:
  - Asks the API once for its release and once for all Node objects, and returns what preflight compares.
  - Says whether the Python package C(kubernetes) is here, on which other tasks on this host depend.
  - An API that does not answer fails the module, and so does a kubeconfig without a current context.
  - An empty list always means that there is none.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._kube
"""

EXAMPLES = r"""
- name: Read the cluster
  converged.hpc.kube_info:
    kubeconfig: /etc/kubernetes/admin.conf
  register: kube
  run_once: true

- name: Say its release
  ansible.builtin.debug:
    msg: "{{ kube.version }}, {{ kube.nodes | length }} nodes"
"""

RETURN = r"""
version:
  description: The release of the API server.
  returned: always
  type: str
  sample: v1.36.3
api_server:
  description: The API's address in the kubeconfig.
  returned: always
  type: str
  sample: https://10.20.0.10:6443
nodes:
  description: All Node objects by name.
  returned: always
  type: dict
  sample:
    n1:
      kubelet: v1.36.3
      runtime: containerd://1.6.20
      addresses: [10.0.0.1]
      ready: true
      unschedulable: false
      taints: ["converged.hpc/batch:NoSchedule"]
      held_by: slurm/4711/0
python_client:
  description: Whether this host's Python has the package C(kubernetes), which the modules of C(kubernetes.core) need.
  returned: always
  type: bool
"""

import importlib.util
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._kube import cluster
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.kubectl import ARGUMENT_SPEC, Kubectl


def described(nodes: cluster.Nodes) -> t.Dict[str, t.Dict[str, t.Any]]:
    """Return what preflight compares and a report shows of each Node object, by name."""
    found = {}
    for name, node in nodes.items():
        status = node.get("status", {})
        about = status.get("nodeInfo", {})
        found[name] = {
            "kubelet": about.get("kubeletVersion", ""),
            "runtime": about.get("containerRuntimeVersion", ""),
            "addresses": [one["address"] for one in status.get("addresses", []) if one.get("type") == "InternalIP"],
            "ready": not cluster.not_ready(nodes, [name]),
            "unschedulable": bool(node.get("spec", {}).get("unschedulable")),
            "taints": [f"{one['key']}:{one['effect']}" for one in node.get("spec", {}).get("taints") or []],
            "held_by": (node.get("metadata", {}).get("annotations") or {}).get("converged.hpc/held-by", ""),
        }
    return found


def main() -> None:
    """Asks, and returns the answers."""
    module = AnsibleModule(argument_spec=dict(ARGUMENT_SPEC), supports_check_mode=True)
    kube = Kubectl.of(module.params)
    try:
        server = kube.server()  # first, as kubectl asks localhost where the kubeconfig names no cluster
        version, nodes = kube.version(), described(kube.nodes())
        client = importlib.util.find_spec("kubernetes") is not None
        module.exit_json(changed=False, version=version, api_server=server, nodes=nodes, python_client=client)
    except KubeError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
