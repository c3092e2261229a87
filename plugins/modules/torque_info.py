#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads server, queues, nodes and jobs of a Torque cluster as data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torque_info
short_description: Read server, queues, nodes and jobs of a Torque cluster
version_added: 1.0.0
description:
  - Asks C(qmgr), C(pbsnodes) and C(qstat) once for each kind of thing and returns typed records.
  - Reads their XML where they have it, as users can forge lines of the text output. Reads no field of a job that its
    owner writes freely.
  - An error, a timeout or an answer that is not whole fails the module. An empty list always means that there is none.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._torque
options:
  gather:
    description:
      - What to read.
      - V(jobs) has only what Torque shows to the user. Operators see all jobs; others see all only where the server has
        C(query_other_jobs = True).
    type: list
    elements: str
    choices: [server, queues, nodes, jobs]
    default: [server, queues, nodes, jobs]
"""

EXAMPLES = r"""
- name: Read the nodes and what runs on them
  converged.hpc.torque_info:
    gather: [nodes, jobs]
  register: torque
  run_once: true

- name: Name the nodes that are offline
  ansible.builtin.debug:
    msg: "{{ torque.nodes | selectattr('states', 'contains', 'offline') | map(attribute='name') | join(', ') }}"
"""

RETURN = r"""
bin_dir:
  description: The folder of Torque's programs on this host.
  returned: always
  type: str
  sample: /usr/local/bin
server:
  description: The name of the server, which is that of its host.
  returned: when V(server) is in O(gather)
  type: dict
  sample: {name: torque-srv}
settings:
  description: What has been set of the server, as text, each attribute as the list of its elements.
  returned: when V(server) is in O(gather)
  type: dict
  sample: {scheduling: ["True"], submit_hosts: [login1]}
queues:
  description: All queues with what has been set of them, as text, each attribute as the list of its elements.
  returned: when V(queues) is in O(gather)
  type: list
  elements: dict
  sample:
    - name: batch
      attributes: {queue_type: [Execution], enabled: ["True"], started: ["True"]}
nodes:
  description:
    - All nodes. C(slots) is C(np), and C(used) is how many of them jobs have.
    - C(message) is what the node's MoM complains of; such a node is down until its message is cleared.
    - C(memory) is what the MoM says the node has, in bytes. Torque itself does not account for memory.
  returned: when V(nodes) is in O(gather)
  type: list
  elements: dict
  sample:
    - name: n1
      states: [free]
      note: ""
      message: ""
      slots: 4
      used: 2
      properties: [fast]
      gpus: 0
      jobs: [35.torque-srv]
      memory: 8246333440
jobs:
  description:
    - All jobs that the user may see, elements of arrays one by one. A job that has ended is one of them for as long as
      the server keeps it, with the state V(C) and without hosts.
    - C(run) counts the starts of a job. C(hosts) has the slots on each host, the first host of the job first.
    - Times are seconds since 1970, null where there is none yet.
  returned: when V(jobs) is in O(gather)
  type: list
  elements: dict
  sample:
    - id: 31[1].torque-srv
      array_id: 31[].torque-srv
      array_index: 1
      run: 1
      state: R
      substate: 42
      user: alice
      queue: batch
      submitted: 1795262657
      started: 1795262658
      nodes: 2:ppn=2
      hosts: [{host: n2, slots: 2}, {host: n1, slots: 2}]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError
from ansible_collections.converged.hpc.plugins.module_utils._torque.client import Torque, bin_dir

KINDS = ["server", "queues", "nodes", "jobs"]


def gathered(torque: Torque, kinds: t.Sequence[str]) -> t.Dict[str, t.Any]:
    """Ask for the wanted kinds, and return them as plain data."""
    found: t.Dict[str, t.Any] = {}
    if "server" in kinds:
        found["server"] = {"name": torque.server_host()}
    found.update(torque.settings_of(kinds))
    if "nodes" in kinds:
        found["nodes"] = [dict(node._asdict(), states=sorted(node.states)) for node in torque.nodes()]
    if "jobs" in kinds:
        found["jobs"] = [job._asdict() for job in torque.jobs()]
    return found


def main() -> None:
    """Asks, and returns the answers."""
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": KINDS, "default": list(KINDS)},
            **ARGUMENT_SPEC,
        },
        supports_check_mode=True,
    )
    programs = bin_dir(module.params["bin_dir"])
    try:
        found = gathered(Torque(bin_dir=programs, timeout=module.params["timeout"]), module.params["gather"])
    except PbsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, bin_dir=programs, **found)


if __name__ == "__main__":
    main()
