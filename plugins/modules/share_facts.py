#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells what this collection has changed on a node, from the node's own record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: share_facts
short_description: Tell what this collection has changed on a node
version_added: 0.1.0
description:
  - Reads the record that C(node_state) keeps on a node and returns what it holds, thing by thing, as a fact.
  - Changes nothing and needs no record to be there.
author:
  - converged.hpc maintainers (@converged-hpc)
options:
  record_dir:
    description:
      - The directory of the record.
    type: path
    default: /var/lib/converged/record
attributes:
  check_mode:
    description: The module runs the same in check mode.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
  idempotent:
    description: Two runs return the same while nothing changes on the node.
    support: full
  facts:
    description: The result is a fact of the host.
    support: full
  action_group:
    description: Use C(group/converged.hpc.hpc) in C(module_defaults) to set options for all modules of this collection.
    support: full
    membership: [converged.hpc.hpc]
"""

EXAMPLES = r"""
- name: Read what was changed on this node
  converged.hpc.share_facts:
  become: true

- name: Say it
  ansible.builtin.debug:
    msg: "{{ ansible_facts.converged_share.summary }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host.
  returned: always
  type: dict
  contains:
    converged_share:
      description: What the record of this node says.
      type: dict
      contains:
        present:
          description: Whether anything on this node is held by a role of this collection.
          type: bool
          sample: true
        roles:
          description: The roles that hold something.
          type: list
          elements: str
          sample: [node_share, slurm_share]
        things:
          description: What is held, with the roles that hold it, by kind; path, unit, package, sysctl or module.
          type: dict
          sample:
            path: {/etc/converged/nodeshare.json: [node_share]}
        summary:
          description: The same in one line.
          type: str
          sample: "held by node_share: 1 path"
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils._record.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.store import Store
from ansible_collections.converged.hpc.plugins.module_utils._record.view import View


def describe(view: View) -> t.Dict[str, t.Any]:
    """The record of a node, as a fact."""
    things: t.Dict[str, t.Dict[str, t.List[str]]] = {}
    for key, owners in sorted(view.claims.items()):
        kind, _separator, name = key.partition(":")
        if owners:
            things.setdefault(kind, {})[name] = sorted(owners)
    return {
        "present": bool(things),
        "roles": view.roles(),
        "things": things,
        "summary": summary(view.roles(), {kind: len(names) for kind, names in things.items()}),
    }


def summary(roles: t.Sequence[str], counts: t.Mapping[str, int]) -> str:
    """One line for people."""
    if not counts:
        return "nothing of converged.hpc is on this node"
    parts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in sorted(counts.items())]
    return f"held by {', '.join(roles)}: {', '.join(parts)}"


def main() -> None:
    """Reads the record and returns it."""
    module = AnsibleModule(
        argument_spec={"record_dir": {"type": "path", "default": "/var/lib/converged/record"}},
        supports_check_mode=True,
    )
    try:
        fact = describe(Store(Host(), module.params["record_dir"]).load())
    except RecordError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, ansible_facts={"converged_share": fact})


if __name__ == "__main__":
    main()
