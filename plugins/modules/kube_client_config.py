#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps a host's identity at a cluster; documentation here, everything else in `_kube/identity/client_identity`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_client_config
short_description: Keep a kubeconfig whose key is made where it is used
version_added: 1.0.0
description:
  - Makes a private key on this host and returns a certificate request. With the certificate, in a second call, it
    writes a kubeconfig. The key never leaves the host and is shown nowhere.
  - A kubeconfig that is in order is left alone. A new certificate is asked for where there is none, where it is for
    somebody else or another authority, and in time before it expires. The old one serves until the new one has come.
  - A renewal makes a new key as well. Key and certificate are replaced in one rename, so that readers never see half.
  - Enters the record of the host first, so that C(converged.hpc.node_state) with C(state=restored) takes it back.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._record
requirements:
  - openssl 1.1.1 or newer on the host
options:
  state:
    description: V(present) keeps the kubeconfig, V(restored) puts back what was there before. V(absent) is
      an older word for it.
    type: str
    choices: [present, restored, absent]
    default: present
  path:
    description: The kubeconfig. Only root can read it.
    type: path
    default: /etc/converged/controller.kubeconfig
  user:
    description: The user that the API shall see. Required with O(state=present).
    type: str
  groups:
    description: The user's groups.
    type: list
    elements: str
    default: []
  api_server:
    description: The API's address. Required with O(state=present).
    type: str
  ca:
    description: Certificates of the cluster's authority, as PEM. Required with O(state=present).
    type: str
  ca_hashes:
    description: The authorities that may be the cluster's, as V(sha256:...) over their public keys. Of O(ca) only these
      are trusted; where there is none, nothing is done. Required with O(state=present).
    type: list
    elements: str
    default: []
  certificate:
    description: The signed certificate, as PEM. It is needed where an earlier call returned a request.
    type: str
    default: ""
  renew_before:
    description: Seconds before its end at which a certificate is renewed, though never in the first two thirds of its
      life.
    type: int
    default: 7776000
  role:
    description: The role's part of the record. One call names one kubeconfig; another one needs another name here.
    type: str
    default: kube_client_config
  openssl:
    description: The program.
    type: path
    default: openssl
attributes:
  check_mode:
    description: Says what it would do, and makes no key. Whether the cluster signs, only doing tells.
    support: full
  diff_mode:
    description: Shows server, user, authorities and validity, never the key.
    support: full
  idempotent:
    description: A call changes nothing while the certificate is in order.
    support: full
seealso:
  - module: converged.hpc.kube_certificate
"""

EXAMPLES = r"""
- name: Have a key, and a request where a certificate is needed
  converged.hpc.kube_client_config: &identity
    user: converged:controller:{{ inventory_hostname_short }}
    groups: [converged:controllers]
    api_server: "{{ cluster.api_server }}"
    ca: "{{ cluster.ca }}"
    ca_hashes: "{{ cluster.ca_hashes }}"
  become: true
  register: identity

- name: Have it signed
  converged.hpc.kube_certificate:
    kubeconfig: /etc/kubernetes/admin.conf
    groups: [converged:controllers]
    requests: "{{ {'converged:controller:' ~ inventory_hostname_short: identity.csr} }}"
  delegate_to: kubectl-host
  register: signed
  when: identity.csr | length > 0

- name: Write the kubeconfig
  converged.hpc.kube_client_config:
    <<: *identity
    certificate: "{{ signed.certificates.values() | first }}"
  become: true
  when: identity.csr | length > 0
"""

RETURN = r"""
csr:
  description: The request for a certificate, as PEM; empty where none is needed, and in check mode.
  returned: O(state=present)
  type: str
  sample: ""
reason:
  description: Why a certificate is needed.
  returned: O(state=present)
  type: str
  sample: it expires on 2027-11-21 13:00:00 UTC
valid_until:
  description: The end of the certificate.
  returned: O(state=present), when there is one
  type: str
  sample: 2027-11-21 13:00:00 UTC
steps:
  description: What was done, or would be.
  returned: success
  type: list
  elements: str
  sample: ["write /etc/converged/controller.kubeconfig (3.1 KiB)"]
site:
  description: What the site has changed since, and which stays as the site has it.
  returned: O(state=restored)
  type: list
  elements: str
left:
  description: What could not be put back, with the reason.
  returned: O(state=restored)
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _states
from ansible_collections.converged.hpc.plugins.module_utils._kube import cluster
from ansible_collections.converged.hpc.plugins.module_utils._kube.certificates import x509
from ansible_collections.converged.hpc.plugins.module_utils._kube.certificates.certificate import check_pin
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.identity import client_config
from ansible_collections.converged.hpc.plugins.module_utils._kube.identity.client_identity import Client, OpenSSL
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.request.desired import role_name
from ansible_collections.converged.hpc.plugins.module_utils._record.run.report import diff_of
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session

Result = t.Dict[str, t.Any]

_SPEC: t.Dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "restored", "absent"], "default": "present"},
    "path": {"type": "path", "default": "/etc/converged/controller.kubeconfig"},
    "user": {"type": "str"},
    "groups": {"type": "list", "elements": "str", "default": []},
    "api_server": {"type": "str"},
    "ca": {"type": "str"},
    "ca_hashes": {"type": "list", "elements": "str", "default": []},
    "certificate": {"type": "str", "default": ""},
    "renew_before": {"type": "int", "default": 90 * 24 * 3600},
    "role": {"type": "str", "default": "kube_client_config"},
    "openssl": {"type": "path", "default": "openssl"},
    "record_dir": {"type": "path", "default": "/var/lib/converged/record"},
}


def run(params: Result, *, check: bool) -> Result:
    """One call."""
    session = Session(Host(), params["record_dir"], holder="kube_client_config")
    if params["state"] == "restored":
        report = session.restore(role_name(params["role"]), check=check)
        shown = {"steps": report.steps, "site": report.site, "left": report.left, "diff": diff_of(report.changes)}
        return {"changed": bool(report.steps), **shown}
    wanted = client_config.Wanted(
        identity=x509.identity(params["user"], params["groups"]),
        server=f"https://{cluster.endpoint(params['api_server'])}",
        authority=client_config.pinned(params["ca"], [check_pin(pin) for pin in params["ca_hashes"]], name="ca"),
        renew_before=params["renew_before"],
    )
    role, openssl = role_name(params["role"]), OpenSSL(params["openssl"])
    client = Client(session, path=params["path"], role=role, openssl=openssl)
    return client.keep(wanted, certificate=params["certificate"], check=check)


def main() -> None:
    """Write the kubeconfig, or fail with one line."""
    module = AnsibleModule(
        argument_spec=_SPEC,
        required_if=[("state", "present", ["user", "api_server", "ca", "ca_hashes"])],
        supports_check_mode=True,
    )
    _states.settle(module, {"absent": "restored"})
    try:
        result = run(module.params, check=module.check_mode)
    except (KubeError, RecordError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
