#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has clients' certificates signed by a cluster; documentation here, everything else in `_kube/identity/signing`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_certificate
short_description: Have client certificates signed by a Kubernetes cluster
version_added: 1.0.0
description:
  - Takes certificate requests that hosts have made, creates a CertificateSigningRequest for each, approves it, waits
    for the certificate and deletes the object again, whatever happens.
  - A request is approved only if its subject is exactly the named user in the named groups. Only objects that this call
    has created itself are approved; another request of the same name never is.
  - Without requests it only says where the cluster is and by which authority it is known. That is
    M(converged.hpc.kube_certificate_info) now, and goes with release 2.0.0.
  - With O(state=absent) it deletes requests that carry the collection's label, as a run that was killed leaves them.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._kube
  - converged.hpc._kube.cluster
requirements:
  - a cluster of Kubernetes 1.22 or newer
options:
  state:
    description: V(present) has certificates signed, V(absent) deletes requests that were left.
    type: str
    choices: [present, absent]
    default: present
  requests:
    description: PEM certificate requests, by the user that each must be for.
    type: dict
    default: {}
  groups:
    description: The groups that each request must name, no more and no less.
    type: list
    elements: str
    default: []
  duration:
    description: Seconds for which certificates are asked. The cluster may give less.
    type: int
    default: 31536000
  approve:
    description: Approve the requests. Where a site has an approver of its own, V(false) waits for that.
    type: bool
    default: true
  wait:
    description: Seconds in which the certificates must come.
    type: int
    default: 60
attributes:
  check_mode:
    description: Checks the requests, and creates nothing.
    support: full
  diff_mode:
    description: There is no text to show.
    support: none
  idempotent:
    description: Without requests a call changes nothing. Each request is signed anew.
    support: partial
seealso:
  - module: converged.hpc.kube_certificate_info
  - module: converged.hpc.kube_client_config
"""

EXAMPLES = r"""
- name: Sign the requests of two controllers
  converged.hpc.kube_certificate:
    kubeconfig: /etc/kubernetes/admin.conf
    groups: [converged:controllers]
    requests:
      converged:controller:ctl1: "{{ hostvars.ctl1.identity.csr }}"
      converged:controller:ctl2: "{{ hostvars.ctl2.identity.csr }}"
  register: signed

- name: Delete what a killed run has left
  converged.hpc.kube_certificate:
    state: absent
    kubeconfig: /etc/kubernetes/admin.conf
"""

RETURN = r"""
certificates:
  description: PEM certificates by user.
  returned: O(state=present)
  type: dict
  sample: {}
api_server:
  description: The API as clients reach it.
  returned: O(state=present)
  type: str
  sample: https://10.0.0.1:6443
ca:
  description: Certificates of the authorities that the kubeconfig trusts, as PEM.
  returned: O(state=present)
  type: str
ca_hashes:
  description: By what the cluster is known.
  returned: O(state=present)
  type: list
  elements: str
deleted:
  description: Requests that were deleted, or would be.
  returned: O(state=absent)
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.identity import signing
from ansible_collections.converged.hpc.plugins.module_utils._kube.kubectl import ARGUMENT_SPEC, CLUSTER_SPEC

Result = t.Dict[str, t.Any]

_SHORTEST = 600  # the API takes no less
_SPEC: t.Dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    **ARGUMENT_SPEC,
    **CLUSTER_SPEC,
    "requests": {"type": "dict", "default": {}},
    "groups": {"type": "list", "elements": "str", "default": []},
    "duration": {"type": "int", "default": 365 * 24 * 3600},
    "approve": {"type": "bool", "default": True},
    "wait": {"type": "int", "default": 60},
}


def have(signer: signing.Signer, params: Result, *, check: bool) -> Result:
    """Certificates, and what a client has to know besides."""
    if params["duration"] < _SHORTEST:
        raise KubeError(f"duration {params['duration']}: expected at least {_SHORTEST} seconds")
    requests: t.Dict[str, str] = {user: str(pem) for user, pem in params["requests"].items()}
    for user, pem in requests.items():
        signing.check(user, params["groups"], pem)
    known = signing.known_by(signer, params["api_server"], params["ca_hashes"], name=params["kubeconfig"])
    result: Result = {"changed": bool(requests), "certificates": {}, **known}
    if requests and not check:
        order = signing.Order(tuple(params["groups"]), params["duration"], params["approve"], params["wait"])
        result["certificates"] = signing.sign(signer, requests, order)
    return result


def clean(signer: signing.Signer, params: Result, *, check: bool) -> Result:
    """No requests of ours."""
    names = signer.ours()
    if not check:
        signer.delete(names)
    return {"changed": bool(names), "deleted": names}


def main() -> None:
    """Have the requests signed, or delete them, or fail with one line."""
    module = AnsibleModule(argument_spec=_SPEC, supports_check_mode=True)
    params = module.params
    if params["state"] == "present" and not params["requests"]:
        text = "kube_certificate without requests is converged.hpc.kube_certificate_info"
        module.deprecate(text, version="2.0.0", collection_name="converged.hpc")
    signer = signing.Signer.of(params)
    act = have if params["state"] == "present" else clean
    try:
        result = act(signer, params, check=module.check_mode)
    except KubeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
