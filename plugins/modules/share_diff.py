#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of an action that runs on the controller alone."""

from __future__ import annotations

DOCUMENTATION = r"""
module: share_diff
short_description: Print the differences of a plan once, with the hosts that have them
version_added: 1.0.0
description:
  - Prints what modules of this collection would change on many hosts. Each difference is printed once, under the list
    of its hosts.
  - Where texts differ only in a host's own names and addresses, the names of variables, such as
    C({{ inventory_hostname }}), stand for their values. All else that differs is printed apart.
  - It prints diffs of results that were registered in check mode in a play with C(_converged_diffs_together), where
    Ansible prints none.
  - Runs on the controller of Ansible only, once (C(run_once)), and reaches no host.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._attributes.on_controller
options:
  hosts:
    description:
      - The hosts on which results were registered.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show each difference once, with the hosts that have it
  converged.hpc.share_diff:
    hosts: "{{ groups['all'] }}"
  run_once: true
  when: ansible_check_mode and ansible_diff_mode
"""

RETURN = r"""
diffs:
  description: Each difference, its hosts, and the things (files, units, ...) on them that it is about.
  returned: on success
  type: list
  elements: dict
  sample:
    - {hosts: [n1, n2], things: [/etc/motd], diff: {before: "", after: "hello\n", prepared: ""}}
"""
