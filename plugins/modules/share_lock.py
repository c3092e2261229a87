#!/usr/bin/python
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets one operator at a time change a site; its decisions are in `_site_lock`, and the action plugin names the run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: share_lock
short_description: Let one operator at a time change a site
version_added: 1.0.0
description:
  - Takes and frees a lock on the host that it runs on, as a rule the primary batch controller. Who has it is named to
    everybody else.
  - A run that was killed leaves its lock. From the same Ansible controller the next run sees that its process is gone
    and takes it over; from another one O(force) is needed.
  - In check mode nothing is taken, and a lock of somebody else fails as it would.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
options:
  state:
    description: V(present) takes the lock, V(absent) frees it if it is ours.
    type: str
    choices: [present, absent]
    default: present
  force:
    description: Take it from whoever has it.
    type: bool
    default: false
  path:
    description: The file.
    type: path
    default: /run/converged.hpc.lock
  _mine:
    description: Who asks. The action plugin sets it.
    type: dict
    default: {}
  _over:
    description: Whose lock may be taken over. The action plugin sets it.
    type: str
    default: ""
attributes:
  check_mode:
    description: Looks, and takes nothing.
    support: full
  diff_mode:
    description: There is no text to show.
    support: none
  idempotent:
    description: A second call of the same run changes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Be the only one who changes this site
  converged.hpc.share_lock:
  become: true
"""

RETURN = r"""
holder:
  description: Who had it before, empty where nobody had.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _site_lock


def main() -> None:
    """Take or free the lock, or fail with the run that holds it."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "force": {"type": "bool", "default": False},
            "path": {"type": "path", "default": _site_lock.PATH},
            "_mine": {"type": "dict", "default": {}},
            "_over": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not params["_mine"]:
        module.fail_json(msg="share_lock works only through its action plugin: call it as converged.hpc.share_lock")
    held = {}
    try:
        held = _site_lock.holder(params["path"])
        if params["state"] == "absent":
            changed = _site_lock.leave(params["path"], params["_mine"], check=module.check_mode)
        else:
            over = held.get("token", "") if params["force"] else params["_over"]
            changed = _site_lock.take(params["path"], params["_mine"], over=over, check=module.check_mode)
    except _site_lock.LockError as error:
        module.fail_json(msg=str(error), holder=held)
    # Not a change of the host: nothing of it is there when the run is over.
    module.exit_json(changed=False, taken=changed, holder=held)


if __name__ == "__main__":
    main()
