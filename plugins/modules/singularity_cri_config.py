#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps Singularity-CRI's configuration and sees it answer; the work is in `_kube/node/singularity_cri`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: singularity_cri_config
short_description: Keep the configuration of Singularity-CRI and see it answer
version_added: 1.0.0
description:
  - Changes single keys of C(sycri.yaml), in place; comments, order and all other keys stay. Where there is no file, it
    makes one.
  - Singularity-CRI ignores keys that it does not know, and ends with status 0 when it cannot start. So keys and values
    are judged here, those that the file had before too, and after a start somebody has to answer on the socket.
  - A socket on which another program listens is refused with the name of that program, before anything is changed.
  - The unit is started, and started again when the file, or one of O(restart_on), is not that of its last successful
    start. A restart ends all pods of Singularity-CRI.
  - Before the first change everything enters the record of the node; O(state=restored) undoes our changes line by line.
  - One call names all keys that this node shall have; what an earlier call named and this one does not is taken back.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._record
options:
  config:
    description:
      - Keys as in C(sycri.yaml), namely C(listenSocket), C(storageDir), C(baseRunDir), C(streamingURL), C(cniBinDir),
        C(cniConfDir), C(trashDir) and C(debug). The first three must be in the file, since they have no default then.
      - A key that is C(null) is taken out, so that the default of Singularity-CRI holds.
    type: dict
    default: {}
  state:
    description:
      - V(present) keeps the keys and has the unit run.
      - V(absent) is an older word for V(restored).
      - V(restored) undoes all that this module has changed on this node. A C(storageDir) that was not there before is
        emptied and removed, after the unit was stopped.
    type: str
    choices: [present, restored, absent]
    default: present
  path:
    description: The configuration file.
    type: path
    default: /usr/local/etc/sycri/sycri.yaml
  unit:
    description: The unit of Singularity-CRI.
    type: str
    default: sycri.service
  engine_path:
    description:
      - The PATH of the unit, in which the engine C(singularity) is looked for and judged before anything is changed. An
        engine whose release or flags do not serve is refused.
      - Empty means that the engine is not judged.
    type: str
    default: ""
  restart_on:
    description: More files that mean a restart when they change.
    type: list
    elements: path
    default: []
  timeout:
    description: Seconds in which somebody must answer on the socket after a start.
    type: int
    default: 30
attributes:
  check_mode:
    description: Says all that it would do. Whether the engine serves and Singularity-CRI starts, only doing tells.
    support: full
  diff_mode:
    description: Shows the file before and after.
    support: full
  idempotent:
    description: A second call changes nothing.
    support: full
seealso:
  - module: converged.hpc.kubelet_config
"""

EXAMPLES = r"""
- name: Keep images on the large disk
  converged.hpc.singularity_cri_config:
    config:
      listenSocket: /run/singularity.sock
      storageDir: /scratch/singularity
      baseRunDir: /run/singularity
  become: true

- name: Take it back
  converged.hpc.singularity_cri_config:
    state: restored
  become: true
"""

RETURN = r"""
socket:
  description: Where Singularity-CRI listens.
  returned: O(state=present)
  type: str
  sample: /run/singularity.sock
steps:
  description: What was done, or would be.
  returned: success
  type: list
  elements: str
  sample: [edit /usr/local/etc/sycri/sycri.yaml, start sycri.service]
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
from ansible_collections.converged.hpc.plugins.module_utils._command import CommandError
from ansible_collections.converged.hpc.plugins.module_utils._kube.errors import KubeError
from ansible_collections.converged.hpc.plugins.module_utils._kube.node import engine, singularity_cri
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.run.session import Session

_SPEC: t.Dict[str, t.Any] = {
    "config": {"type": "dict", "default": {}},
    "state": {"type": "str", "choices": ["present", "restored", "absent"], "default": "present"},
    "path": {"type": "path", "default": "/usr/local/etc/sycri/sycri.yaml"},
    "unit": {"type": "str", "default": "sycri.service"},
    "engine_path": {"type": "str", "default": ""},
    "restart_on": {"type": "list", "elements": "path", "default": []},
    "timeout": {"type": "int", "default": 30},
    "record_dir": {"type": "path", "default": "/var/lib/converged/record"},
}


def run(params: t.Dict[str, t.Any], *, check: bool) -> t.Dict[str, t.Any]:
    """One call: judge, write, start, ask."""
    session = Session(Host(), params["record_dir"], holder="singularity_cri_config")
    if params["state"] == "restored":
        return singularity_cri.take_back(session, path=params["path"], unit=params["unit"], check=check)
    # A plan comes before packages are installed, so only doing judges what is there then.
    if params["engine_path"] and not check:
        engine.see(params["engine_path"])
    wanted = singularity_cri.Wanted(params["path"], params["config"], params["unit"], tuple(params["restart_on"]))
    return singularity_cri.keep(session, wanted, timeout=params["timeout"], check=check)


def main() -> None:
    """Write the settings of Singularity-CRI, or fail with one line."""
    module = AnsibleModule(argument_spec=_SPEC, supports_check_mode=True)
    _states.settle(module, {"absent": "restored"})
    try:
        result = run(module.params, check=module.check_mode)
    except (KubeError, RecordError, CommandError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
