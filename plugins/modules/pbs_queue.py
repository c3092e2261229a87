#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps a queue of PBS as it is wished, or has none of its name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pbs_queue
short_description: Make, change and delete a queue of PBS
version_added: 1.0.0
description:
  - Makes a queue where there is none, and sets the named attributes, and no others.
  - Its type is set first, and C(enabled) and C(started) last, so that no job finds it half made.
  - What PBS spells another way is no change, such as the order of a list, V(2gb) for V(2048mb) or V(01:00:00) for
    V(3600) in a resource.
  - PBS deletes no queue that still has jobs; this is an error here.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._pbs
  - converged.hpc._pbs.manages
options:
  name:
    description:
      - Name of the queue; PBS takes at most 15 characters.
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
      - Attributes by name, such as C(queue_type), C(acl_users) or C(resources_max.ncpus).
      - A list is set whole. A value that is null or an empty list is unset, which brings PBS's own default back.
    type: dict
    default: {}
seealso:
  - module: converged.hpc.pbs_server
  - module: converged.hpc.pbs_info
"""

EXAMPLES = r"""
- name: A queue that takes jobs of one user only
  converged.hpc.pbs_queue:
    name: pods
    attributes:
      queue_type: execution
      acl_user_enable: true
      acl_users: [placement]
      enabled: true
      started: true
  become: true

- name: Delete it
  converged.hpc.pbs_queue:
    name: pods
    state: absent
  become: true
"""

RETURN = r"""
commands:
  description: The commands that were given to qmgr, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: ["create queue pods", "set queue pods queue_type = execution"]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _programs
from ansible_collections.converged.hpc.plugins.module_utils._pbs import attributes, qmgr
from ansible_collections.converged.hpc.plugins.module_utils._pbs.client import Pbs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError, SpecError

LONGEST_NAME = 15


def run(module: AnsibleModule) -> t.Dict[str, t.Any]:
    """One call: read all queues, decide, act."""
    name, wanted = qmgr.checked_name("queue", module.params["name"]), module.params["attributes"]
    if len(name) > LONGEST_NAME:
        raise SpecError(f"queue {name[:60]}: PBS takes at most {LONGEST_NAME} characters")
    pbs = Pbs(bin_dir=_programs.pbs_bin_dir(module.params["bin_dir"]), timeout=module.params["timeout"])
    current = pbs.settings().get(("queue", name))
    before = after = ""
    if module.params["state"] == "absent":
        commands = [] if current is None else [f"delete queue {name}"]
        before = f"queue {name}\n" if commands else ""
    else:
        steps = attributes.plan(current or {}, wanted)
        commands = ["create queue " + name] if current is None else []
        after = f"queue {name}\n" if commands else ""
        commands += attributes.commands("queue", name, steps)
        before += attributes.shown("queue", name, steps, after=False)
        after += attributes.shown("queue", name, steps, after=True)
    for command in [] if module.check_mode else commands:
        pbs.manage(command)
    return {"changed": bool(commands), "commands": commands, "diff": {"before": before, "after": after}}


def main() -> None:
    """Make, change or delete the queue, or fail with one line."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "attributes": {"type": "dict", "default": {}},
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
