#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of an action that runs on the controller alone."""

from __future__ import annotations

DOCUMENTATION = r"""
module: share_verdict
short_description: Judge whether nodes can be shared, before anything is touched
version_added: 1.0.0
description:
  - Judges what M(converged.hpc.share_node_info) found on all hosts, together with what M(converged.hpc.slurm_info) or
    M(converged.hpc.pbs_info) and M(converged.hpc.kube_info) say, and prints each finding once, with the hosts that it
    is about.
  - Nodes outside the group C(converged_shared), where the inventory has that group, are judged only for the scripts
    that Slurm needs on every node.
  - Fails where any host is refused. Runs on the controller of Ansible only, once for all hosts (C(run_once)).
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._attributes.on_controller
options:
  registered:
    description:
      - The name of the variable into which the results of M(converged.hpc.share_node_info) were registered.
    type: str
    required: true
  hosts:
    description:
      - The hosts to judge, as a rule C(ansible_play_hosts_all), so that those which did not answer are named too.
    type: list
    elements: str
    required: true
  controllers:
    description:
      - The hosts of the batch system's controller, the primary first.
    type: list
    elements: str
    default: []
  slurm:
    description:
      - The result of M(converged.hpc.slurm_info).
    type: dict
    default: {}
  pbs:
    description:
      - The result of M(converged.hpc.pbs_info) with C(nodes) and C(hooks).
    type: dict
    default: {}
  kube:
    description:
      - The result of M(converged.hpc.kube_info).
    type: dict
    default: {}
  wlm:
    description:
      - The batch system.
    type: str
    default: slurm
  excepted:
    description:
      - Host lists of nodes that the batch system knows and that are in no inventory. Hosts of the group
        C(converged_excepted) are left out by themselves.
    type: list
    elements: str
    default: []
  unjudged:
    description:
      - Host lists of nodes that are not judged.
    type: list
    elements: str
    default: []
  accepted:
    description:
      - Codes of refusals that the site accepts; they become warnings.
    type: list
    elements: str
    default: []
  max_skew:
    description:
      - Seconds that the clock of a host may be off that of the first controller. A tenth of it is warned about.
    type: float
    default: 30.0
  min_free:
    description:
      - GiB that must be free where the kubelet and the runtime keep their files.
    type: float
    default: 5.0
  limit:
    description:
      - Seconds that a Prolog of ours may take.
    type: int
    default: 90
  kubelet:
    description:
      - The release of the kubelet that nodes are going to run. Empty means that of the API server.
    type: str
    default: ""
  slurm_conf:
    description:
      - The site's C(slurm_share_conf). With V(auto) the hosts must show one way to keep C(slurm.conf).
    type: str
    default: auto
"""

EXAMPLES = r"""
- name: Judge every node before anything is touched
  converged.hpc.share_verdict:
    registered: node
    hosts: "{{ ansible_play_hosts_all }}"
    controllers: "{{ groups['converged_controllers'] }}"
    slurm: "{{ slurm }}"
    kube: "{{ kube }}"
  run_once: true
"""

RETURN = r"""
verdicts:
  description: By host what it is fit for, and every finding. What concerns all nodes is under C((cluster)).
  returned: on success
  type: dict
  sample:
    n1:
      fit: fit to be shared
      findings:
        - {level: warn, code: kernel, text: "kernel 4.18.0 is older than 4.19", advice: update it}
left_out:
  description: Hosts that could not be read and without which the run goes on, and nodes that are excepted.
  returned: on success
  type: list
  elements: str
  sample: [n7]
msg:
  description: How many hosts are fit for what; on failure how many are refused, by what.
  returned: always
  type: str
  sample: "Refused, and nothing was touched: swap (2 hosts), node_ip (1 host); see above."
"""
