#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a bootstrap token when a node needs one, and deletes it; what it decides is in `_kube/cluster`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_bootstrap_token
short_description: Make a short-lived bootstrap token when a node has to join
version_added: 1.0.0
description:
  - Says where the cluster is and by which certificate authority it is known, and makes a bootstrap token if one of the
    named nodes has no Node object yet. A token that nobody needs is not made.
  - The token's text is never shown, and reaches the API by standard input. It is worth nothing after O(ttl) seconds,
    even if it is not deleted.
  - Runs where C(kubectl) reaches the API as administrator.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._kube
  - converged.hpc._kube.cluster
options:
  state:
    description: V(present) makes a token where one is needed, V(absent) deletes that of O(token_id).
    type: str
    choices: [present, absent]
    default: present
  nodes:
    description: Names of the Node objects that there shall be.
    type: list
    elements: str
    default: []
  token_id:
    description: The public part of the token to delete. Nothing is done where this is empty.
    type: str
  ttl:
    description: Seconds for which the token is worth something.
    type: int
    default: 900
attributes:
  check_mode:
    description: Says whether it would make or delete a token.
    support: full
  diff_mode:
    description: There is nothing to show but a secret.
    support: none
  idempotent:
    description: Where every node has its Node object, a call changes nothing. Otherwise each call makes a token.
    support: partial
seealso:
  - module: converged.hpc.kube_join
"""

EXAMPLES = r"""
- name: Have a token for the nodes that must still join
  converged.hpc.kube_bootstrap_token:
    kubeconfig: /etc/kubernetes/admin.conf
    nodes: [n1, n2]
  register: cluster
  run_once: true
  delegate_to: kubectl-host

- name: Delete it
  converged.hpc.kube_bootstrap_token:
    state: absent
    kubeconfig: /etc/kubernetes/admin.conf
    token_id: "{{ cluster.token_id }}"
  run_once: true
  delegate_to: kubectl-host
"""

RETURN = r"""
api_server:
  description: The API as nodes reach it.
  returned: O(state=present)
  type: str
  sample: https://10.0.0.1:6443
ca_hashes:
  description: By what the cluster is known.
  returned: O(state=present)
  type: list
  elements: str
missing:
  description: The named nodes that have no Node object.
  returned: O(state=present)
  type: list
  elements: str
token:
  description: The token, empty where none was needed. A result that holds one is not shown.
  returned: O(state=present)
  type: str
  sample: ""
token_id:
  description: Its public part.
  returned: O(state=present)
  type: str
  sample: ""
"""

import secrets
import string
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._kube import cluster
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.kubectl import ARGUMENT_SPEC, CLUSTER_SPEC, Kubectl

Result = t.Dict[str, t.Any]

_LETTERS = string.ascii_lowercase + string.digits
_SPEC: t.Dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **ARGUMENT_SPEC,
    **CLUSTER_SPEC,
    "nodes": {"type": "list", "elements": "str", "default": []},
    "token_id": {"type": "str", "no_log": False},
    "ttl": {"type": "int", "default": 900},
}


def have(kubectl: Kubectl, params: Result, *, check: bool) -> Result:
    """Create a token if a node is missing, and return what nodes need in order to join."""
    names = cluster.check_names(params["nodes"])
    server, found = kubectl.server_and_pins()
    pinned = cluster.agreed_pins(params["ca_hashes"], found, name=params["kubeconfig"])
    api_server = f"https://{cluster.endpoint(params['api_server'] or server)}"
    known = kubectl.nodes()
    missing = [name for name in names if name not in known]
    result: Result = {"changed": bool(missing), "api_server": api_server, "ca_hashes": pinned, "missing": missing}
    result.update(token="", token_id="")
    if missing and not check:
        token = cluster.Token(_draw(6), _draw(16))
        kubectl.create_secret(cluster.token_secret(token, now=time.time(), ttl=params["ttl"]))
        result.update(token=token.text, token_id=token.id)
    return result


def drop(kubectl: Kubectl, params: Result, *, check: bool) -> Result:
    """Delete the token, and return whether it was there."""
    if not params["token_id"]:
        return {"changed": False}
    name = cluster.Token(params["token_id"], "").object_name
    return {"changed": kubectl.delete_secret(name, namespace=cluster.TOKEN_NAMESPACE, check=check)}


def _draw(count: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _unused in range(count))


def main() -> None:
    """Create or delete the token, or fail with one line."""
    module = AnsibleModule(argument_spec=_SPEC, supports_check_mode=True)
    params = module.params
    kubectl = Kubectl.of(params)
    act = have if params["state"] == "present" else drop
    try:
        result = act(kubectl, params, check=module.check_mode)
    except KubeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
