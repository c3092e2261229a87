#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels Node objects and waits until they are ready, or deletes them; what it decides is in `_kube/cluster`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_node
short_description: Label Node objects and see them ready, or delete them
version_added: 1.0.0
description:
  - Gives Node objects the labels they shall have, all of them in one call, and waits until they are ready.
  - A node that has no Node object, or is not ready in time, costs the others nothing. They get their labels and taints,
    and the module fails with RV(late).
  - Labels below C(node-restriction.kubernetes.io/) are set here with the administrator's identity; a kubelet may not
    set them itself. Labels that are not named stay.
  - With O(state=absent) the Node objects are deleted. With O(state=restored) they stay, and lose every label,
    annotation and taint of this collection.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._kube
options:
  state:
    description: V(present) labels and waits, V(absent) deletes, V(restored) removes only what is ours. V(cleared) is
      an older word for V(restored).
    type: str
    choices: [present, absent, restored, cleared]
    default: present
  nodes:
    description: Labels by the name of the Node object.
    type: dict
    required: true
  no_taints:
    description: Keys of taints that the Node objects shall not have. They are removed once the nodes are ready.
    type: list
    elements: str
    default: []
  taints:
    description:
      - By the key of a taint, those of O(nodes) that shall have it with the effect C(NoSchedule).
      - The others of O(nodes) lose it. Pods that run there already stay.
    type: dict
    default: {}
  wait:
    description: Seconds in which the nodes must become ready. V(0) does not ask.
    type: int
    default: 60
attributes:
  check_mode:
    description: Says which labels it would set. A Node object that is missing is taken for one that joining makes.
    support: full
  diff_mode:
    description: Shows labels before and after.
    support: full
  idempotent:
    description: A second call changes nothing.
    support: full
seealso:
  - module: converged.hpc.kube_join
"""

EXAMPLES = r"""
- name: Say how the nodes are shared
  converged.hpc.kube_node:
    kubeconfig: /etc/kubernetes/admin.conf
    nodes:
      n1: {node-restriction.kubernetes.io/converged-share-mode: handover}
      n2: {node-restriction.kubernetes.io/converged-share-mode: handover}
  run_once: true
  delegate_to: kubectl-host
"""

RETURN = r"""
labelled:
  description: Labels that were set, or would be, by node.
  returned: O(state=present)
  type: dict
  sample: {n1: {node-restriction.kubernetes.io/converged-share-mode: handover}}
untainted:
  description: Nodes from which a taint was removed, or would be.
  returned: O(state=present)
  type: list
  elements: str
tainted:
  description: Nodes that got one of O(taints), or would.
  returned: O(state=present)
  type: list
  elements: str
cleared:
  description: Nodes from which something of ours was removed, or would be.
  returned: O(state=restored)
  type: list
  elements: str
late:
  description: By node, why it is not ready, or that it has no Node object.
  returned: O(state=present), when there is such a node
  type: dict
  sample: {n2: "not ready after 60 s: container runtime is down"}
deleted:
  description: Node objects that were deleted, or would be.
  returned: O(state=absent)
  type: list
  elements: str
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _states
from ansible_collections.converged.hpc.plugins.module_utils._kube import cluster
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.kubectl import ARGUMENT_SPEC, Kubectl

Result = t.Dict[str, t.Any]

_PAUSE = 0.5
_REGISTERING = 10.0  # a kubelet that has just joined makes its Node object a moment later
_SPEC: t.Dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "restored", "cleared"], "default": "present"},
    **ARGUMENT_SPEC,
    "nodes": {"type": "dict", "required": True},
    "no_taints": {"type": "list", "elements": "str", "default": []},
    "taints": {"type": "dict", "default": {}},
    "wait": {"type": "int", "default": 60},
}


def keep(kubectl: Kubectl, params: Result, *, check: bool) -> Result:
    """Labels and taints as wanted, nodes ready; under `late` those that are not, and why."""
    wanted: t.Dict[str, t.Dict[str, str]] = {name: labels or {} for name, labels in params["nodes"].items()}
    nodes, late = (kubectl.nodes(), {}) if check else _registered(kubectl, wanted)
    wanted = {name: labels for name, labels in wanted.items() if name not in late}
    changes = cluster.relabelled(nodes, wanted)
    given: t.Dict[str, t.List[str]] = params["taints"]
    missing = {
        key: cluster.without(nodes, [name for name in names if name in wanted], key) for key, names in given.items()
    }
    if not check:
        for labels, names in cluster.groups(changes):
            kubectl.label(names, labels)
        for key, names in missing.items():
            if names:
                kubectl.taint(names, key, cluster.NO_SCHEDULE)
        if params["wait"]:
            late.update(_not_ready(kubectl, list(wanted), seconds=params["wait"]))
    ready = [name for name in wanted if name not in late]
    tainted = cluster.tainted(nodes, ready, params["no_taints"])
    for key, names in given.items():
        tainted.update(cluster.tainted(nodes, sorted(set(ready) - set(names)), [key]))
    if not check:
        for key, names in tainted.items():
            kubectl.untaint(names, key)
    diff = [_shown(name, nodes, labels) for name, labels in changes.items()]
    return {
        "changed": bool(changes or tainted or any(missing.values())),
        "labelled": changes,
        "tainted": _names(missing),
        "untainted": _names(tainted),
        "diff": diff,
        **({"late": late} if late else {}),
    }


def _names(by_taint: t.Mapping[str, t.Iterable[str]]) -> t.List[str]:
    return sorted({name for names in by_taint.values() for name in names})


def remove(kubectl: Kubectl, params: Result, *, check: bool) -> Result:
    """No Node objects of these names."""
    known = kubectl.nodes()
    names = [name for name in params["nodes"] if name in known]
    if names and not check:
        kubectl.delete_nodes(names)
    return {"changed": bool(names), "deleted": names}


def clear(kubectl: Kubectl, params: Result, *, check: bool) -> Result:
    """Take what is ours from Node objects that stay.

    The label goes first: without it the batch controllers leave a Node alone. They may have written to it until then.
    """
    ours = cluster.ours(kubectl.nodes(), params["nodes"])
    if ours and not check:
        for name, found in ours.items():
            kubectl.clear(name, labels=found.labels, annotations=[])
        nodes = kubectl.nodes()
        left = cluster.ours(nodes, ours)
        for name, found in left.items():
            kubectl.clear(name, labels=[], annotations=found.annotations)
        keys = sorted({key for found in left.values() for key in found.taints})
        for key, names in cluster.tainted(nodes, left, keys).items():
            kubectl.untaint(names, key)
    return {"changed": bool(ours), "cleared": sorted(ours)}


def _registered(kubectl: Kubectl, wanted: t.Iterable[str]) -> t.Tuple[t.Dict[str, t.Any], t.Dict[str, str]]:
    """Return the Node objects, and of each node that has none what to do."""
    deadline = time.monotonic() + _REGISTERING
    while True:
        nodes = kubectl.nodes()
        missing = [name for name in wanted if name not in nodes]
        if not missing or time.monotonic() > deadline:
            return nodes, dict.fromkeys(missing, "has no Node object: join it first, and see its journalctl -u kubelet")
        time.sleep(_PAUSE)


def _not_ready(kubectl: Kubectl, names: t.Sequence[str], *, seconds: float) -> t.Dict[str, str]:
    """Return the nodes that are not ready after so long, and what the cluster says of each."""
    deadline = time.monotonic() + seconds
    while True:
        late = cluster.not_ready(kubectl.nodes(), names)
        if not late or time.monotonic() > deadline:
            return {name: f"not ready after {seconds:g} s: {why}" for name, why in late.items()}
        time.sleep(_PAUSE)


def _shown(name: str, nodes: cluster.Nodes, labels: t.Mapping[str, str]) -> Result:
    has = (nodes.get(name) or {"metadata": {}})["metadata"].get("labels") or {}
    before = "".join(f"{key}: {has[key]}\n" for key in sorted(labels) if key in has)
    after = "".join(f"{key}: {value}\n" for key, value in sorted(labels.items()))
    return {"before_header": f"node {name}", "after_header": f"node {name}", "before": before, "after": after}


def main() -> None:
    """Change the Node object, or fail with one line."""
    module = AnsibleModule(argument_spec=_SPEC, supports_check_mode=True)
    _states.settle(module)
    params = module.params
    kubectl = Kubectl.of(params)
    act = {"present": keep, "absent": remove, "restored": clear}[params["state"]]
    try:
        cluster.check_names(list(params["nodes"]))
        result = act(kubectl, params, check=module.check_mode)
    except KubeError as error:
        module.fail_json(msg=str(error))
    if result.get("late"):
        module.fail_json(msg="; ".join(f"node {name}: {why}" for name, why in result["late"].items()), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
