#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins a node to a cluster, and takes it out; documentation here, everything else in `_kube/node/join`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_join
short_description: Join a node to a Kubernetes cluster with its CA pinned, and take it out again
version_added: 1.0.0
description:
  - Joins this node by C(kubeadm join). The hash of the cluster's certificate authority is always checked; there is no
    way to leave that out.
  - A node that is in this cluster already is left alone, whoever joined it. One that is in another cluster, or holds
    parts of another Kubernetes, is refused before anything is changed. The cluster is told by its authority.
  - A join that fails is taken back, so that the next one begins with a plain node.
  - On a node with cgroup v1 kubeadm's check C(SystemVerification), which refuses cgroup v1 whatever the kubelet is
    told, is left out. Every other check holds.
  - Before a kubelet starts for the first time, the record holds what it is about to change by itself, so that a restore
    puts it back. These are the kernel's settings C(vm.overcommit_memory), C(vm.panic_on_oom), C(kernel.panic),
    C(kernel.panic_on_oops), C(kernel.keys.root_maxkeys) and C(kernel.keys.root_maxbytes), mounts of its directory on
    itself, and the tables and chains of nftables.
  - With O(state=absent) the kubelet is stopped, pods are ended by the container runtime, and what they leave behind
    (shims, mounts, network links, chains of iptables) is removed by name. A node that we did not join stays as it is.
  - The record still knows of the join then, so that a way back that is broken off can go on and delete the Node object.
    Once that is done, M(converged.hpc.node_state) with C(state=restored) and C(role=kube_join) ends it.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._record
requirements:
  - kubeadm 1.22 or newer on the node
options:
  state:
    description: V(present) joins, V(absent) takes a node that we joined out again. V(emptied) only empties a container
      runtime that we installed, on a node that is in no cluster.
    type: str
    choices: [present, absent, emptied]
    default: present
  node:
    description: Name of the Node object. Required with O(state=present).
    type: str
  api_server:
    description: The API as nodes reach it. Required with O(state=present).
    type: str
  ca_hashes:
    description: The authorities that may be the cluster's, as V(sha256:...) over their public keys. Required with
      O(state=present).
    type: list
    elements: str
    default: []
  token:
    description: A bootstrap token. It is needed only to join, and never shown; kubeadm gets it in a file.
    type: str
  socket:
    description: The container runtime's socket.
    type: str
    default: unix:///run/containerd/containerd.sock
  kubeadm:
    description: The program.
    type: path
    default: /usr/bin/kubeadm
  ignore_preflight_errors:
    description: More checks of kubeadm to leave out, by name.
    type: list
    elements: str
    default: []
  taints:
    description: Taints with which the Node object is made, as in a Node's C(spec.taints).
    type: list
    elements: dict
    default: []
  timeout:
    description: Seconds that kubeadm waits for the cluster's answers.
    type: int
    default: 60
  links:
    description: With O(state=absent) or O(state=emptied), network links of pods to remove.
    type: list
    elements: str
    default: []
  stop:
    description: With O(state=absent) or O(state=emptied), units of the runtime to stop once all pods have ended.
    type: list
    elements: str
    default: []
  directories:
    description: With O(state=absent) or O(state=emptied), directories of the runtime to empty then.
    type: list
    elements: path
    default: []
  runtime_package:
    description: The runtime's package. O(stop) and O(directories) count only where the record says that we installed
      it; the state of a site's own runtime is never touched.
    type: str
    default: containerd
attributes:
  check_mode:
    description: Says whether it would join. Whether the token, the network and the certificate request are accepted,
      only joining tells. With O(state=absent) it names what it finds now.
    support: full
  diff_mode:
    description: There is no text to show.
    support: none
  idempotent:
    description: A second call changes nothing.
    support: full
seealso:
  - module: converged.hpc.kube_bootstrap_token
  - module: converged.hpc.kubelet_config
"""

EXAMPLES = r"""
- name: Join
  converged.hpc.kube_join:
    node: "{{ inventory_hostname_short }}"
    api_server: https://api.example.org:6443
    ca_hashes: ["sha256:5e1f0e7f6b5b3c9a5e1f0e7f6b5b3c9a5e1f0e7f6b5b3c9a5e1f0e7f6b5b3c9a"]
    token: "{{ bootstrap_token }}"
  become: true

- name: Leave
  converged.hpc.kube_join:
    state: absent
    links: [cni0]
  become: true
"""

RETURN = r"""
steps:
  description: What was done, or would be.
  returned: success
  type: list
  elements: str
  sample: ["join n1 to the cluster at 10.0.0.1:6443"]
server:
  description: The API server of the cluster that the node is in.
  returned: O(state=present)
  type: str
  sample: https://10.0.0.1:6443
ignored:
  description: Checks of kubeadm that were left out.
  returned: O(state=present)
  type: list
  elements: str
  sample: [SystemVerification]
ours:
  description: Whether we had joined the node. Its Node object is to be deleted then.
  returned: O(state=absent) or O(state=emptied)
  type: bool
left:
  description: What could not be removed, with the reason.
  returned: O(state=absent) or O(state=emptied)
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._kube import cluster
from ansible_collections.converged.hpc.plugins.module_utils._kube.certificates import certificate
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import join as kube_join
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session

Result = t.Dict[str, t.Any]

_SPEC: t.Dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "emptied"], "default": "present"},
    "node": {"type": "str"},
    "api_server": {"type": "str"},
    "ca_hashes": {"type": "list", "elements": "str", "default": []},
    "token": {"type": "str", "no_log": True},
    "socket": {"type": "str", "default": "unix:///run/containerd/containerd.sock"},
    "kubeadm": {"type": "path", "default": "/usr/bin/kubeadm"},
    "ignore_preflight_errors": {"type": "list", "elements": "str", "default": []},
    "taints": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": 60},
    "links": {"type": "list", "elements": "str", "default": []},
    "stop": {"type": "list", "elements": "str", "default": []},
    "directories": {"type": "list", "elements": "path", "default": []},
    "runtime_package": {"type": "str", "default": "containerd"},
    "record_dir": {"type": "path", "default": "/var/lib/converged/record"},
}


def join(session: Session, params: Result, *, check: bool) -> Result:
    """Into the cluster."""
    pinned = [certificate.check_pin(pin) for pin in params["ca_hashes"]]
    if not pinned:
        raise KubeError("ca_hashes: name at least one: no cluster is joined on trust")
    wanted = kube_join.Join(
        node=cluster.check_names([params["node"]])[0],
        endpoint=cluster.endpoint(params["api_server"]),
        pinned=pinned,
        token=params["token"] or "",
        socket=params["socket"],
        kubeadm=params["kubeadm"],
        ignore=params["ignore_preflight_errors"],
        taints=params["taints"],
        timeout=params["timeout"],
    )
    return kube_join.join(session, wanted, check=check)


def leave(session: Session, params: Result, *, check: bool) -> Result:
    """Out of it."""
    wanted = kube_join.Leave(
        kubeadm=params["kubeadm"],
        socket=params["socket"],
        links=params["links"],
        runtime_package=params["runtime_package"],
        stop=params["stop"],
        directories=params["directories"],
        only_runtime=params["state"] == "emptied",
    )
    sweep, ours = kube_join.leave(session, wanted, check=check)
    steps = [f"remove {what}" for what in sweep.removed]
    return {"changed": bool(steps), "steps": steps, "left": sweep.left, "ours": ours}


def main() -> None:
    """Join or leave the cluster, or fail with one line."""
    module = AnsibleModule(
        argument_spec=_SPEC,
        required_if=[("state", "present", ["node", "api_server"])],
        supports_check_mode=True,
    )
    act = join if module.params["state"] == "present" else leave
    try:
        session = Session(Host(), module.params["record_dir"], holder="kube_join")
        result = act(session, module.params, check=module.check_mode)
    except (KubeError, RecordError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
