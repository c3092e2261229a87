#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of an action that runs on the controller alone."""

from __future__ import annotations

DOCUMENTATION = r"""
module: share_inventory
short_description: Refuse options, groups and values of a run that cannot be meant
version_added: 1.0.0
description:
  - Judges options of the command line with which a playbook of this collection does not work, the groups of the
    inventory, and the values of all variables of this collection on all hosts, by the specifications of the roles and
    by the checks of the program that reads them.
  - Runs on the controller of Ansible only, once (C(run_once)), and reaches no host. A value that many hosts have is
    judged once.
  - The playbooks of this collection begin with it. In a playbook of your own the roles judge their values themselves.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._attributes.on_controller
options:
  playbook:
    description:
      - The playbook of this collection that begins.
    type: str
    required: true
    choices: ["off", "on", restore, site, status, verify]
  hosts:
    description:
      - The hosts that the run goes to.
    type: list
    elements: str
    default: []
  named:
    description:
      - The pattern that O(hosts) are the hosts of. A run that goes to no host is refused.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Refuse what cannot be meant
  converged.hpc.share_inventory:
    playbook: site
  run_once: true
"""

RETURN = r"""
msg:
  description: How many hosts are refused, by what. What is wrong is printed above, each thing once.
  returned: on failure
  type: str
  sample: "Refused, and nothing was touched: value (600 hosts); see above."
"""
