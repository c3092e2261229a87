#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps a hook of PBS as it is wished: attributes, program, configuration."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pbs_hook
short_description: Make, change and delete a hook of PBS
version_added: 1.0.0
description:
  - Makes a hook where there is none, stores its program and its configuration, and sets the named attributes, and no
    others.
  - Both texts are compared with what PBS has stored, byte by byte, and stored only where they differ.
  - Before anything is sent, the program is compiled and the configuration read as JSON, because PBS accepts a
    configuration that is none. The program is compiled by the Python that runs this module, and again by PBS.
  - The program is stored before the configuration, so that no program of before meets keys that it does not know.
  - A new hook gets its events after its program, and a hook that is to be disabled is disabled first, so that it never
    runs half made.
  - It must run as root on the host of the server; PBS refuses it elsewhere.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._pbs
  - converged.hpc._pbs.manages
options:
  name:
    description:
      - Name of the hook.
    type: str
    required: true
  state:
    description:
      - Whether there shall be one.
    type: str
    choices: [present, absent]
    default: present
  attributes:
    description:
      - Attributes by name, of C(event), C(alarm), C(debug), C(enabled), C(fail_action), C(freq), C(order) and C(user).
      - C(event) and C(fail_action) may be lists. C(freq) needs the event C(exechost_periodic).
    type: dict
    default: {}
  content:
    description:
      - The program. Read it with C(rstrip=False), since a file usually ends with a line end.
    type: str
  config:
    description:
      - The configuration, JSON as text.
    type: str
seealso:
  - module: converged.hpc.pbs_info
"""

EXAMPLES = r"""
- name: The hook that keeps pods and jobs apart
  converged.hpc.pbs_hook:
    name: converged
    content: "{{ lookup('ansible.builtin.file', 'hook.py', rstrip=false) }}"
    config: "{{ {'deadline': 60} | to_json }}"
    attributes:
      event: [execjob_begin, execjob_end, exechost_periodic]
      freq: 120
      order: 200
      alarm: 60
      enabled: true
  become: true

- name: Delete it
  converged.hpc.pbs_hook:
    name: converged
    state: absent
  become: true
"""

RETURN = r"""
commands:
  description: The commands that were given to qmgr, or would be in check mode, but for the imports of texts.
  returned: always
  type: list
  elements: str
  sample: ["create hook converged", "set hook converged order = 200"]
stored:
  description: The content types of the texts that were stored, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [application/x-python, application/x-config]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _programs
from ansible_collections.converged.hpc.plugins.module_utils._pbs import hooks, qmgr
from ansible_collections.converged.hpc.plugins.module_utils._pbs.client import CONFIG, CONTENT, Pbs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError


def read(pbs: Pbs, name: str) -> hooks.Found:
    """Read the hook as it is; ask for its texts only if it exists."""
    attributes = pbs.hooks().get(name)
    if attributes is None:
        return hooks.Found(None, "", "")
    return hooks.Found(attributes, pbs.stored(name, CONTENT), pbs.stored(name, CONFIG))


def apply(pbs: Pbs, name: str, change: hooks.Change) -> None:
    """In the order of the plan."""
    for command in change.before:
        pbs.manage(command)
    for kind, (_old, new) in change.texts.items():
        pbs.store(name, kind, new)
    for command in change.after:
        pbs.manage(command)


def run(module: AnsibleModule) -> t.Dict[str, t.Any]:
    """One call: read, decide, act."""
    params = module.params
    name = qmgr.checked_name("hook", params["name"])
    pbs = Pbs(bin_dir=_programs.pbs_bin_dir(params["bin_dir"]), timeout=params["timeout"])
    found = read(pbs, name)
    if params["state"] == "absent":
        change = hooks.absent(name, found)
    else:
        change = hooks.present(name, found, params["attributes"], content=params["content"], config=params["config"])
    if not module.check_mode:
        apply(pbs, name, change)
    return {
        "changed": bool(change),
        "commands": [*change.before, *change.after],
        "stored": list(change.texts),
        "diff": hooks.diff(name, found, change),
    }


def main() -> None:
    """Make, change or delete the hook, or fail with one line."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "attributes": {"type": "dict", "default": {}},
            "content": {"type": "str"},
            "config": {"type": "str"},
            **ARGUMENT_SPEC,
        },
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except PbsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
