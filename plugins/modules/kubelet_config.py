#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps fields of a KubeletConfiguration as wanted; documentation here, the edits in `_kube/node/yaml_edit`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kubelet_config
short_description: Keep fields of a KubeletConfiguration and take them back
version_added: 1.0.0
description:
  - Changes single fields of the kubelet's configuration file, in place. Comments, order and all other fields stay.
  - Before the first change the file enters the record of the node. O(state=restored) undoes our changes line by line,
    so that what the site has changed since stays. The same happens to a field that is no longer named.
  - The kubelet is restarted when its configuration, its unit or its program are not those of its last successful start,
    and then has to say that it is healthy. A kubelet that is stopped stays so.
  - One call names all fields that this node shall have.
  - Another C(staticPodPath) is refused while the present directory holds manifests, as those pods would end.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._record
options:
  config:
    description:
      - Fields as in a KubeletConfiguration, nested as there. A mapping is merged, everything else is replaced
        as a whole.
      - A field that is C(null) is taken out, so that the kubelet's own default holds.
    type: dict
    default: {}
  state:
    description: V(present) keeps the fields; V(restored) undoes all that this module has changed on this node.
      V(absent) is an older word for it.
    type: str
    choices: [present, restored, absent]
    default: present
  path:
    description: The configuration file.
    type: path
    default: /var/lib/kubelet/config.yaml
  unit:
    description: The kubelet's unit.
    type: str
    default: kubelet.service
  restart_on:
    description: More files that mean a restart when they change.
    type: list
    elements: path
    default: []
  timeout:
    description: Seconds in which the kubelet must say that it is healthy.
    type: int
    default: 30
attributes:
  check_mode:
    description: Says all that it would do. Where there is no file yet, it takes for granted that joining makes it.
    support: full
  diff_mode:
    description: Shows the file before and after.
    support: full
  idempotent:
    description: A second call changes nothing.
    support: full
seealso:
  - module: converged.hpc.kube_join
"""

EXAMPLES = r"""
- name: Leave two cores to the batch system's daemons
  converged.hpc.kubelet_config:
    config:
      systemReserved: {cpu: "2"}
      authentication: {anonymous: {enabled: false}}
      podPidsLimit: null
  become: true

- name: Take all of it back
  converged.hpc.kubelet_config:
    state: restored
  become: true
"""

RETURN = r"""
steps:
  description: What was done, or would be.
  returned: success
  type: list
  elements: str
  sample: [edit /var/lib/kubelet/config.yaml, "restart kubelet.service: /var/lib/kubelet/config.yaml changes"]
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
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import kubelet
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session

_SPEC: t.Dict[str, t.Any] = {
    "config": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["present", "restored", "absent"], "default": "present"},
    "path": {"type": "path", "default": "/var/lib/kubelet/config.yaml"},
    "unit": {"type": "str", "default": "kubelet.service"},
    "restart_on": {"type": "list", "elements": "path", "default": []},
    "timeout": {"type": "int", "default": 30},
    "record_dir": {"type": "path", "default": "/var/lib/converged/record"},
}


def run(module: AnsibleModule) -> t.Dict[str, t.Any]:
    """One call: plan, write, restart, ask."""
    params, check = module.params, module.check_mode
    session = Session(Host(), params["record_dir"], holder="kubelet_config")
    if params["state"] == "restored":
        return kubelet.take_back(session, check=check)
    wanted = kubelet.Wanted(params["path"], params["config"], params["unit"], tuple(params["restart_on"]))
    return kubelet.keep(session, wanted, timeout=params["timeout"], check=check)


def main() -> None:
    """Write the settings of the kubelet, or fail with one line."""
    module = AnsibleModule(argument_spec=_SPEC, supports_check_mode=True)
    _states.settle(module, {"absent": "restored"})
    try:
        result = run(module)
    except (KubeError, RecordError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
