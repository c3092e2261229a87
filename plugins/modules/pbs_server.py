#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps attributes of a PBS server as they are wished, and leaves all others alone."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pbs_server
short_description: Set attributes of a PBS server
version_added: 1.0.0
description:
  - Sets the named attributes of the default server, and no others, each by a command of its own.
  - What PBS spells another way is no change, such as the order of a list, V(2gb) for V(2048mb) or V(01:00:00) for
    V(3600) in a resource.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._pbs
  - converged.hpc._pbs.manages
options:
  attributes:
    description:
      - Attributes by name, such as C(scheduling) or C(resources_default.ncpus).
      - A list is set whole. A value that is null or an empty list is unset, which brings PBS's own default back.
    type: dict
    required: true
seealso:
  - module: converged.hpc.pbs_queue
  - module: converged.hpc.pbs_info
"""

EXAMPLES = r"""
- name: Keep what jobs have been, and give every job a share of memory that did not ask for it
  converged.hpc.pbs_server:
    attributes:
      job_history_enable: true
      resources_default.mem: 1gb
  become: true

- name: Take both back to PBS's own defaults
  converged.hpc.pbs_server:
    attributes: {job_history_enable: null, resources_default.mem: null}
  become: true
"""

RETURN = r"""
commands:
  description: The commands that were given to qmgr, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: ["set server job_history_enable = True"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _programs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.client import Pbs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError


def main() -> None:
    """Set the attributes of the server that differ, or fail with one line."""
    module = AnsibleModule(
        argument_spec={"attributes": {"type": "dict", "required": True}, **ARGUMENT_SPEC},
        supports_check_mode=True,
    )
    pbs = Pbs(bin_dir=_programs.pbs_bin_dir(module.params["bin_dir"]), timeout=module.params["timeout"])
    try:
        result = pbs.keep_attributes(module.params["attributes"], only_plan=module.check_mode)
    except PbsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
