#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the scripts that a MoM of Torque runs around jobs on this host; it is read in `_preflight.gather.torque`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torque_mom_info
short_description: Read the prologue and epilogue scripts of a Torque node
version_added: 1.0.0
description:
  - Reads the files of C(mom_priv) that Torque runs around jobs, their owners and modes, and the time that they have.
  - Asks no server, and changes nothing.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
options:
  home:
    description: Torque's own folder, below which C(mom_priv) is.
    type: path
    default: /var/spool/torque
  folder:
    description: Where role C(torque_share) keeps the site's scripts while its own stand in their place.
    type: path
    default: /etc/converged/torque
"""

EXAMPLES = r"""
- name: Read the scripts of this host's MoM
  converged.hpc.torque_mom_info:
  register: mom

- name: Name those that Torque does not run
  ansible.builtin.debug:
    msg: "{{ mom.refused }}"
"""

RETURN = r"""
present:
  description: Whether a MoM has a folder on this host.
  returned: always
  type: bool
alarm:
  description: Seconds after which Torque ends a script, C($prologalarm) less the 10 that it takes off.
  returned: always
  type: int
  sample: 290
servers:
  description: The values of C($pbsserver).
  returned: always
  type: list
  elements: str
  sample: [srv]
scripts:
  description:
    - The site's scripts by name. One that role C(torque_share) has replaced is C(ours), and its C(content) is that of
      the site's own.
  returned: always
  type: list
  elements: dict
  sample: [{name: prologue, ours: false, mode: "0500", content: "#!/bin/sh\nexit 0\n"}]
refused:
  description: What is wrong with the scripts, one line each. Torque would not run such a script, or it cannot be kept.
  returned: always
  type: list
  elements: str
  sample: ["/var/spool/torque/mom_priv/prologue is a link to '/opt/prologue': put the script itself there"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import torque as gather_torque


def main() -> None:
    """Read the host and return what was found."""
    module = AnsibleModule(
        argument_spec={
            "home": {"type": "path", "default": gather_torque.HOME},
            "folder": {"type": "path", "default": gather_torque.FOLDER},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, **gather_torque.mom(module.params["home"], module.params["folder"]))


if __name__ == "__main__":
    main()
