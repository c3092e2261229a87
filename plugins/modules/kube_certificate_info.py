#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads where a cluster is and which authority signs for it; everything else is in `_kube/identity/signing`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kube_certificate_info
short_description: Read where a Kubernetes cluster is and which authority signs for it
version_added: 1.0.0
description:
  - Reads from a kubeconfig where clients reach the API and which certificate authorities stand for the cluster.
  - Compares the authorities with those that are expected, and fails where none agrees.
  - Changes nothing. M(converged.hpc.kube_certificate) has certificates signed.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._kube
  - converged.hpc._kube.cluster
seealso:
  - module: converged.hpc.kube_certificate
  - module: converged.hpc.kube_client_config
"""

EXAMPLES = r"""
- name: Read where the cluster is
  converged.hpc.kube_certificate_info:
    kubeconfig: /etc/kubernetes/admin.conf
  register: cluster
"""

RETURN = r"""
api_server:
  description: The API as clients reach it.
  returned: always
  type: str
  sample: https://10.0.0.1:6443
ca:
  description: Certificates of the authorities that the kubeconfig trusts, as PEM.
  returned: always
  type: str
ca_hashes:
  description: By what the cluster is known.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.identity import signing
from ansible_collections.converged.hpc.plugins.module_utils._kube.kubectl import ARGUMENT_SPEC, CLUSTER_SPEC


def main() -> None:
    """Return what the kubeconfig says of the cluster, or say in one line why it cannot be said."""
    module = AnsibleModule(argument_spec={**ARGUMENT_SPEC, **CLUSTER_SPEC}, supports_check_mode=True)
    params = module.params
    try:
        found = signing.known_by(
            signing.Signer.of(params), params["api_server"], params["ca_hashes"], name=params["kubeconfig"]
        )
    except KubeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
