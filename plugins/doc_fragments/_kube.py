# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules reach the Kubernetes API as its administrator.

PRIVATE to the collection.
"""

from __future__ import annotations


class ModuleDocFragment:
    """``converged.hpc._kube`` for modules that call kubectl, ``.cluster`` for those that say where the API is."""

    DOCUMENTATION = r"""
requirements:
  - kubectl on the host
options:
  kubeconfig:
    description: The administrator's kubeconfig on this host.
    type: path
    required: true
  kubectl:
    description: The program.
    type: path
    default: kubectl
  timeout:
    description: Seconds after which an answer of the API is no longer waited for.
    type: int
    default: 30
"""

    CLUSTER = r"""
options:
  api_server:
    description: The API as clients and nodes reach it. The default is the kubeconfig's.
    type: str
  ca_hashes:
    description: The authorities that may be the cluster's, as V(sha256:...). The default is those of the kubeconfig.
      One of them must be.
    type: list
    elements: str
    default: []
"""
