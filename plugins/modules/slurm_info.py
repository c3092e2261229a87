#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads configuration, nodes, partitions and jobs of a Slurm cluster as data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_info
short_description: Read configuration, nodes, partitions and jobs of a Slurm cluster
version_added: 1.0.0
description:
  - Asks C(scontrol) and C(squeue) once for each kind of thing and returns typed records.
  - Reads only fields that no batch user can write, so that the name or comment of a job cannot pose as its state.
  - An error, a timeout or an answer that is not whole fails the module. An empty list always means that there is none.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._slurm
  - converged.hpc._slurm.conf_path
options:
  gather:
    description:
      - What to read. C(host) is about the host itself, and asks no daemon.
    type: list
    elements: str
    choices: [config, host, jobs, nodes, partitions]
    default: [config, jobs, nodes, partitions]
"""

EXAMPLES = r"""
- name: Read the nodes and what runs on them
  converged.hpc.slurm_info:
    gather: [nodes, jobs]
  register: slurm
  run_once: true

- name: Name the nodes that are drained
  ansible.builtin.debug:
    msg: "{{ slurm.nodes | selectattr('flags', 'contains', 'DRAIN') | map(attribute='name') | join(', ') }}"
"""

RETURN = r"""
version:
  description: The release of the programs.
  returned: when anything but C(host) is in O(gather)
  type: str
  sample: 22.05.8
bin_dir:
  description: The folder of Slurm's programs on this host.
  returned: always
  type: str
  sample: /usr/bin
host:
  description:
    - The host's own C(slurm.conf), empty where it has none, and how the host has it.
    - C(kept) is V(local), V(shared) on a file system that other hosts have too, V(fetched) by slurmd from slurmctld,
      V(unknown) on a network root, or V(none).
  returned: when C(host) is in O(gather)
  type: dict
  sample: {conf: /etc/slurm/slurm.conf, kept: local}
user:
  description: C(SlurmUser) and its primary group on this host, empty where the host does not know the user.
  returned: when C(config) is in O(gather)
  type: dict
  sample: {name: slurm, group: slurm}
config:
  description:
    - The running configuration as C(scontrol show config) prints it, null where a key is not set.
    - C(SlurmctldHost) is a list, and so are C(Prolog), C(Epilog), C(PrologSlurmctld) and C(EpilogSlurmctld), whatever
      the release.
  returned: when C(config) is in O(gather)
  type: dict
  sample: {ClusterName: alpha, MessageTimeout: 10 sec, Prolog: [/etc/slurm/prolog.sh], SuspendProgram: null}
nodes:
  description: All nodes, with one C(state) and further C(flags).
  returned: when C(nodes) is in O(gather)
  type: list
  elements: dict
  sample:
    - name: n1
      state: IDLE
      flags: [DRAIN]
      hostname: n1
      address: 10.0.0.1
      cpus: 64
      memory_mebibytes: 257000
      features: [gpu]
      partitions: [batch]
      version: 22.05.8
      reason: disk is full
      reason_user: root
      reason_since: "2026-11-21T12:04:19"
partitions:
  description: All partitions, with their nodes by name.
  returned: when C(partitions) is in O(gather)
  type: list
  elements: dict
  sample:
    - name: batch
      state: UP
      default: true
      nodes: [n1, n2]
      max_time: UNLIMITED
      oversubscribe: "NO"
      preempt_mode: "OFF"
      suspend_time: GLOBAL
jobs:
  description:
    - All jobs that the controller still knows, array tasks one by one, finished ones too.
    - C(run) counts the restarts of a job, so that C(id) and C(run) together name one run of it.
    - Times are seconds since 1970, null where there is none yet; the start of a pending job is expected, not certain.
  returned: when C(jobs) is in O(gather)
  type: list
  elements: dict
  sample:
    - id: 4711
      array_job: null
      array_task: null
      het_job: null
      run: 0
      state: RUNNING
      user: alice
      uid: 1001
      partition: batch
      submitted: 1795262657
      started: 1795262658
      cpus: 2
      nodes: [n1, n2]
"""

import grp
import pwd
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _programs
from ansible_collections.converged.hpc.plugins.module_utils._slurm import parse
from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import ARGUMENT_SPEC, Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.conf import kept
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError


def gathered(slurm: Slurm, kinds: t.Sequence[str]) -> t.Dict[str, t.Any]:
    """Ask for the wanted kinds, and return them as plain data."""
    found: t.Dict[str, t.Any] = {"version": str(slurm.version())} if set(kinds) - {"host"} else {}
    if "config" in kinds:
        found["config"] = slurm.config()
        found["user"] = user(parse.slurm_user(found["config"]))
    if "nodes" in kinds:
        found["nodes"] = [dict(node._asdict(), flags=sorted(node.flags)) for node in slurm.nodes()]
    if "partitions" in kinds:
        found["partitions"] = [partition._asdict() for partition in slurm.partitions()]
    if "jobs" in kinds:
        found["jobs"] = [job._asdict() for job in slurm.jobs()]
    return found


def host(path: str, bin_dir: t.Optional[str]) -> t.Dict[str, str]:
    """Return this host's own slurm.conf and how it is kept."""
    conf, how = (path, kept.how(path)) if path else kept.here("", bin_dir)
    return {"conf": conf, "kept": how}


def user(name: str) -> t.Dict[str, str]:
    """Return SlurmUser and its primary group on this host."""
    try:
        return {"name": name, "group": grp.getgrgid(pwd.getpwnam(name).pw_gid).gr_name}
    except KeyError:
        return {"name": name, "group": ""}


def main() -> None:
    """Asks, and returns the answers."""
    kinds = ["config", "host", "jobs", "nodes", "partitions"]
    usual = ["config", "jobs", "nodes", "partitions"]
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": kinds, "default": usual},
            "conf_path": {"type": "path"},
            **ARGUMENT_SPEC,
        },
        supports_check_mode=True,
    )
    bin_dir = _programs.slurm_bin_dir(module.params["bin_dir"])
    slurm = Slurm(bin_dir=bin_dir, conf_path=module.params["conf_path"], timeout=module.params["timeout"])
    try:
        found = gathered(slurm, module.params["gather"])
        if "host" in module.params["gather"]:
            found["host"] = host(module.params["conf_path"] or "", bin_dir)
    except SlurmError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, bin_dir=bin_dir or "", **found)


if __name__ == "__main__":
    main()
