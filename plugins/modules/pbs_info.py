#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads server, queues, nodes, hooks and jobs of a PBS cluster as data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pbs_info
short_description: Read server, queues, nodes, hooks and jobs of a PBS cluster
version_added: 1.0.0
description:
  - Asks C(qmgr), C(pbsnodes) and C(qstat) once for each kind of thing and returns typed records.
  - Reads no field of a job that its owner writes freely, since C(qstat) turns text that looks like JSON into JSON.
  - An error, a timeout or an answer that is not whole fails the module. An empty list always means that there is none;
    with the server down C(qstat) prints JSON without jobs, and this is an error here.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._pbs
options:
  gather:
    description:
      - What to read. C(hooks) and C(cgroups) need root on the host of the server.
    type: list
    elements: str
    choices: [server, queues, nodes, hooks, cgroups, jobs]
    default: [server, queues, nodes, jobs]
"""

EXAMPLES = r"""
- name: Read the nodes and what runs on them
  converged.hpc.pbs_info:
    gather: [nodes, jobs]
  register: pbs
  run_once: true

- name: Name the nodes that are offline
  ansible.builtin.debug:
    msg: "{{ pbs.nodes | selectattr('states', 'contains', 'offline') | map(attribute='name') | join(', ') }}"
"""

RETURN = r"""
bin_dir:
  description: The folder of PBS's programs on this host.
  returned: always
  type: str
  sample: /opt/pbs/bin
home:
  description: The folder of PBS's own files on this host, C(PBS_HOME).
  returned: always
  type: str
  sample: /var/spool/pbs
server:
  description: The server with everything that C(qmgr -c 'list server') shows, as text.
  returned: when C(server) is in O(gather)
  type: dict
  sample: {name: pbs-srv, attributes: {server_state: Active, pbs_version: 23.06.06, scheduling: "True"}}
settings:
  description: What has been set of the server, as text, each attribute as the list of its elements.
  returned: when C(server) is in O(gather)
  type: dict
  sample: {scheduling: ["True"], acl_roots: [root]}
queues:
  description: All queues with what has been set of them, as text, each attribute as the list of its elements.
  returned: when C(queues) is in O(gather)
  type: list
  elements: dict
  sample:
    - name: workq
      attributes: {queue_type: [Execution], enabled: ["True"], started: ["True"]}
nodes:
  description:
    - All vnodes. Several can be on one C(host).
    - C(available) and C(assigned) are resources; sizes are bytes. What is not assigned at all has no key.
  returned: when C(nodes) is in O(gather)
  type: list
  elements: dict
  sample:
    - name: n1
      host: n1
      mom: n1
      states: [free]
      comment: ""
      queue: ""
      sharing: default_shared
      version: 23.06.06
      jobs: [14.pbs-srv]
      available: {arch: linux, host: n1, mem: 25276502016, ncpus: 4, vnode: n1}
      assigned: {ncpus: 1}
hooks:
  description: The site's hooks with their attributes as text, without their programs.
  returned: when C(hooks) is in O(gather)
  type: list
  elements: dict
  sample:
    - name: converged
      attributes: {type: site, enabled: "true", event: "execjob_begin,execjob_end", order: "200"}
cgroups:
  description:
    - What PBS's own hook C(pbs_cgroups) is configured to do. Empty where there is no such hook, or no configuration
      that can be read.
  returned: when C(cgroups) is in O(gather)
  type: dict
  sample: {cgroup_prefix: pbs_jobs, cgroup: {cpuset: {enabled: true}}}
jobs:
  description:
    - All jobs that have not ended; sub-jobs of arrays one by one, beside their parents, which have no chunks.
    - C(run) counts the starts of a job, so that C(id) and C(run) together name one run of it.
    - Times are seconds since 1970, null where there is none yet. C(chunks) is what it takes of each vnode, sizes in
      bytes.
  returned: when C(jobs) is in O(gather)
  type: list
  elements: dict
  sample:
    - id: 15[1].pbs-srv
      array_id: 15[].pbs-srv
      array_index: 1
      run: 1
      state: R
      substate: 42
      user: alice
      queue: workq
      submitted: 1795262657
      started: 1795262658
      placement: scatter
      chunks: [{vnode: n1, resources: {ncpus: 1, mem: 1073741824}}]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _programs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.client import Pbs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError


def gathered(pbs: Pbs, kinds: t.Sequence[str]) -> t.Dict[str, t.Any]:
    """Ask for the wanted kinds, and return them as plain data."""
    found: t.Dict[str, t.Any] = {}
    if "server" in kinds:
        name, attributes = pbs.server()
        found["server"] = {"name": name, "attributes": attributes}
    found.update(pbs.settings_of(kinds))
    if "nodes" in kinds:
        found["nodes"] = [dict(node._asdict(), states=sorted(node.states)) for node in pbs.nodes()]
    if "hooks" in kinds:
        found["hooks"] = [{"name": name, "attributes": attributes} for name, attributes in pbs.hooks().items()]
    if "cgroups" in kinds:
        found["cgroups"] = pbs.cgroups()
    if "jobs" in kinds:
        found["jobs"] = [job._asdict() for job in pbs.jobs()]
    return found


def main() -> None:
    """Asks, and returns the answers."""
    kinds = ["server", "queues", "nodes", "hooks", "cgroups", "jobs"]
    module = AnsibleModule(
        argument_spec={
            "gather": {
                "type": "list",
                "elements": "str",
                "choices": kinds,
                "default": ["server", "queues", "nodes", "jobs"],
            },
            **ARGUMENT_SPEC,
        },
        supports_check_mode=True,
    )
    bin_dir = _programs.pbs_bin_dir(module.params["bin_dir"])
    pbs = Pbs(bin_dir=bin_dir, timeout=module.params["timeout"])
    try:
        found = gathered(pbs, module.params["gather"])
    except PbsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, bin_dir=bin_dir, home=_programs.pbs_home(), **found)


if __name__ == "__main__":
    main()
