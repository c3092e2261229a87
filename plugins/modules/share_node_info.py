#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads everything of a node that preflight judges, in one call that changes nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: share_node_info
short_description: Read what decides whether a node can be shared
version_added: 1.0.0
description:
  - Reads clock, kernel, cgroups, swap, ports, file systems, addresses, services, runtimes, munge, the batch system's
    configuration as the node sees it, and the lines of the site's scripts that kill foreign processes.
  - Changes nothing. Asks neither the batch system's controller nor the Kubernetes API.
  - M(converged.hpc.share_verdict) judges the results of all hosts together.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._record
options:
  wanted:
    description:
      - What the inventory wants of this host. It is returned as it is, beside what was found.
    type: dict
    default: {}
  ports:
    description:
      - The TCP ports of which to say who listens on them.
    type: list
    elements: int
    default: [10248, 10250]
  paths:
    description:
      - Where room and a lasting file system are needed.
    type: list
    elements: path
    default: [/etc, /usr, /var/lib/kubelet, /var/lib/containerd, /var/lib/converged]
  socket:
    description:
      - The address of the container runtime that the kubelet is to use.
    type: str
    default: ""
  slurm_conf:
    description:
      - The C(slurm.conf) of this host, where it is not in one of the usual places.
    type: path
  slurm_conf_told:
    description:
      - The path of C(slurm.conf) that slurmctld names, which is one of the places in which it is looked for.
    type: str
    default: ""
  slurm_bin_dir:
    description:
      - The folder of Slurm's programs on this host. By default the search path is looked through, then the folders
        beside slurmctld and slurmd.
    type: str
    default: ""
  api_server:
    description:
      - The address of the Kubernetes API to which this host is to come. Empty where the host needs none.
    type: str
    default: ""
  torque_home:
    description:
      - Torque's own folder on this host, whose C(mom_priv) is read. Empty on hosts of another batch system.
    type: str
    default: ""
attributes:
  action:
    description: The clock of the host is compared with that of the machine on which Ansible runs.
    support: full
"""

EXAMPLES = r"""
- name: Read the node
  converged.hpc.share_node_info:
    wanted:
      share_mode: handover
  become: true
  register: node

- name: Say which lines kill foreign processes
  ansible.builtin.debug:
    msg: "{{ node.found.killing }}"
"""

RETURN = r"""
wanted:
  description: The option O(wanted).
  returned: always
  type: dict
  sample: {share_mode: handover}
found:
  description: What was found, by kind.
  returned: always
  type: dict
  sample:
    hostname: n1
    cgroup: v2
    swap: []
    ports: {"10250": kubelet}
    killing:
      - {path: /e.sh, line: 7, text: "pkill -u $SLURM_JOB_USER", why: kills all processes of a user, anyone: false}
offset:
  description:
    - Between which two numbers of seconds the clock of the host is ahead of that of the machine on which Ansible runs.
  returned: always
  type: list
  elements: float
  sample: [-0.31, 0.02]
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _programs
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import node as gather_node
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import slurm as gather_slurm
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import torque as gather_torque
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.store.store import Store
from ansible_collections.converged.hpc.plugins.module_utils._torque.client import bin_dir

# What the roles write or edit, besides the files of slurm.conf.
TOUCHED = (
    "/etc/containerd/config.toml",
    "/etc/systemd/system/kubelet.service",
    "/etc/default/kubelet",
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet.conf",
    "/etc/crictl.yaml",
    "/etc/cni/net.d/10-converged.conflist",
)


ENABLED = "/etc/converged/enabled"  # the flag of role slurm_share


def main() -> None:
    """Read the host and return what was found."""
    module = AnsibleModule(
        argument_spec={
            "wanted": {"type": "dict", "default": {}},
            "ports": {"type": "list", "elements": "int", "default": [10248, 10250]},
            "paths": {
                "type": "list",
                "elements": "path",
                "default": ["/etc", "/usr", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/converged"],
            },
            "socket": {"type": "str", "default": ""},
            "slurm_conf": {"type": "path"},
            "slurm_conf_told": {"type": "str", "default": ""},
            "slurm_bin_dir": {"type": "str", "default": ""},
            "api_server": {"type": "str", "default": ""},
            "torque_home": {"type": "str", "default": ""},
            "record_dir": {"type": "path", "default": "/var/lib/converged/record"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        slurm = gather_slurm.slurm(
            given["slurm_conf"] or "", told=given["slurm_conf_told"], bin_dir=given["slurm_bin_dir"]
        )
        found = gather_node.node(
            ports=given["ports"],
            paths=given["paths"],
            sock=given["socket"].partition("unix://")[2] or given["socket"],
            files=[*TOUCHED, *slurm["files"]],
            api_server=given["api_server"],
        )
        torque_home = given["torque_home"] or gather_torque.HOME
        killing = gather_slurm.killing(slurm["scripts"], pbs_home=_programs.pbs_home(), torque_home=torque_home)
        record = Store(Host(), given["record_dir"]).load().roles()
    except (RecordError, OSError) as error:
        module.fail_json(msg=str(error))
    pbs = {"bin_dir": _programs.pbs_bin_dir(None), "home": _programs.pbs_home()}
    torque = _torque(given["torque_home"])
    ours = {"pbs": pbs, "torque": torque, "record": record, "enabled": os.path.exists(ENABLED)}
    module.exit_json(changed=False, wanted=given["wanted"], found=dict(found, slurm=slurm, killing=killing, **ours))


def _torque(home: str) -> t.Dict[str, t.Any]:
    """Return where Torque's programs are, and what a MoM runs around jobs without the scripts' content."""
    programs = {"bin_dir": bin_dir(None)}
    if not home:
        return programs
    found = gather_torque.mom(home)
    return dict(found, scripts=[dict(one, content=None) for one in found["scripts"]], **programs)


if __name__ == "__main__":
    main()
