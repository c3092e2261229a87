#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells what this collection has changed on a node, from the node's own record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: share_facts
short_description: Tell what this collection has changed on a node
version_added: 1.0.0
description:
  - Reads the record that C(node_state) keeps on a node and returns what it holds, thing by thing, as a fact.
  - Says besides whether batch scripts act there, who holds the node, and which services run.
  - Changes nothing and needs no record to be there.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._attributes.reads
  - converged.hpc._record
attributes:
  facts:
    description: The result is a fact of the host.
    support: full
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
        sharing:
          description: How the node is shared right now.
          type: dict
          contains:
            enabled:
              description: Whether batch scripts act there.
              type: bool
            services:
              description: What systemd says of the services of sharing, by name.
              type: dict
              sample: {kubelet: active, containerd: active, converged-controller: inactive}
            node:
              description: What C(nodeshare show --json) says, empty where it is not installed.
              type: dict
            error:
              description: Why nodeshare could not be asked.
              type: str
"""

import json
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _command
from ansible_collections.converged.hpc.plugins.module_utils._record.host.host import Host
from ansible_collections.converged.hpc.plugins.module_utils._record.model.errors import RecordError
from ansible_collections.converged.hpc.plugins.module_utils._record.model.replay import View
from ansible_collections.converged.hpc.plugins.module_utils._record.store.store import Store

FLAG = "/etc/converged/enabled"
NODESHARE = "/usr/local/sbin/nodeshare"
SERVICES = ("kubelet", "containerd", "converged-controller")
SECONDS = 30.0


def describe(view: View) -> t.Dict[str, t.Any]:
    """Describe the record of a node as a fact."""
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


def sharing() -> t.Dict[str, t.Any]:
    """How the node is shared right now, from what lies and runs on it."""
    found: t.Dict[str, t.Any] = {"enabled": os.path.exists(FLAG), "services": {}, "node": {}, "error": ""}
    try:
        # `is-active` of services that do not run exits with a status of its own.
        said = _command.run(["systemctl", "is-active", *SERVICES], timeout=SECONDS, ok=range(256)).out.split()
        found["services"] = dict(zip(SERVICES, said))
        if os.path.exists(NODESHARE):
            found["node"] = json.loads(_command.run([NODESHARE, "show", "--json"], timeout=SECONDS).out)
    except (_command.CommandError, ValueError) as error:
        found["error"] = str(error)
    return found


def main() -> None:
    """Read the record and return it."""
    module = AnsibleModule(
        argument_spec={"record_dir": {"type": "path", "default": "/var/lib/converged/record"}},
        supports_check_mode=True,
    )
    try:
        fact = dict(describe(Store(Host(), module.params["record_dir"]).load()), sharing=sharing())
    except RecordError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, ansible_facts={"converged_share": fact})


if __name__ == "__main__":
    main()
