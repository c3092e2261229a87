#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps attributes of a Torque server as they are wished, and leaves all others alone."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torque_server
short_description: Set attributes of a Torque server
version_added: 1.0.0
description:
  - Sets the named attributes of the default server, and no others, each by a command of its own.
  - What Torque spells another way is no change, such as the order of a list, V(2gb) for V(2048mb) or V(01:00:00) for
    V(3600) in a resource.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._torque
  - converged.hpc._torque.manages
options:
  attributes:
    description:
      - Attributes by name, such as C(scheduling) or C(resources_default.walltime).
      - A list is set whole. A value that is null or an empty list is unset, which brings Torque's own default back.
    type: dict
    required: true
seealso:
  - module: converged.hpc.torque_info
"""

EXAMPLES = r"""
- name: Let nodes ask about jobs of all users
  converged.hpc.torque_server:
    attributes:
      query_other_jobs: true
  become: true

- name: Take this back to Torque's own default
  converged.hpc.torque_server:
    attributes: {query_other_jobs: null}
  become: true
"""

RETURN = r"""
commands:
  description: The commands that were given to qmgr, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: ["set server query_other_jobs = True"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError
from ansible_collections.converged.hpc.plugins.module_utils._torque.client import Torque, bin_dir


def main() -> None:
    """Set the attributes of the server that differ, or fail with one line."""
    module = AnsibleModule(
        argument_spec={"attributes": {"type": "dict", "required": True}, **ARGUMENT_SPEC},
        supports_check_mode=True,
    )
    torque = Torque(bin_dir=bin_dir(module.params["bin_dir"]), timeout=module.params["timeout"])
    try:
        result = torque.keep_attributes(module.params["attributes"], only_plan=module.check_mode)
    except PbsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
