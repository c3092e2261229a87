#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks nodes of Torque offline and gives them back, and leaves to others what they have marked."""

from __future__ import annotations

DOCUMENTATION = r"""
module: torque_node
short_description: Take nodes of Torque offline and give them back
version_added: 1.0.0
description:
  - Marks nodes offline with a note that begins with C(converged.hpc), and ends only marks whose note does.
  - A node that others have marked is neither marked again, which would replace the note, nor given back.
  - A note that was there before is kept behind ours, and is there again when the node is given back.
  - Running jobs go on. RV(busy) names the nodes that still run one, so that a task can wait with C(until).
  - All nodes are handled in one call. A name that Torque does not know stops it before anything is done, and
    with O(state=restored) is left out.
  - C(pbsnodes) ends without an error also where Torque refused what it asked for. So the nodes are read again, and a
    mark that is not there then fails the module.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._torque
options:
  names:
    description:
      - Names of nodes, as C(pbsnodes) has them.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(drained) lets no further job start there, as the nodes are offline; V(restored) ends that.
    type: str
    choices: [drained, restored]
    required: true
  reason:
    description:
      - Why, in one line; needed with O(state=drained).
      - With O(state=restored), nodes that this module has marked for another reason are left as they are; without
        it they are given back, too.
    type: str
attributes:
  check_mode:
    description: Reads the nodes and says what it would do.
    support: full
  diff_mode:
    description: Shows the nodes that change, with their notes.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
seealso:
  - module: converged.hpc.torque_info
"""

EXAMPLES = r"""
- name: Let the jobs of two nodes run out
  converged.hpc.torque_node:
    names: [n1, n2]
    state: drained
    reason: conversion to shared mode
  register: held
  until: not held.busy
  retries: 60
  delay: 60
  become: true

- name: Give them back
  converged.hpc.torque_node:
    names: [n1, n2]
    state: restored
  become: true
"""

RETURN = r"""
offline:
  description: The nodes that were marked offline by this call.
  returned: always
  type: list
  elements: str
  sample: [n1]
given_back:
  description: The nodes whose mark was ended by this call.
  returned: always
  type: list
  elements: str
  sample: []
others:
  description: The nodes that stay marked, as others did it or for another O(reason), with the note.
  returned: always
  type: dict
  sample: {n2: disk is full}
busy:
  description: The nodes that still run a job.
  returned: always
  type: list
  elements: str
  sample: [n1]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _node_drain
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import NoAnswerError, PbsError
from ansible_collections.converged.hpc.plugins.module_utils._torque.client import Torque, bin_dir
from ansible_collections.converged.hpc.plugins.module_utils._torque.parse import Node


def read(torque: Torque, state: str, names: t.Sequence[str]) -> t.List[_node_drain.Node]:
    """Read the named nodes."""
    return _node_drain.named("Torque", [_as_hold(node) for node in torque.nodes()], names, state=state)


def _as_hold(node: Node) -> _node_drain.Node:
    # Torque itself writes a MoM's complaint there, and takes it away again.
    note = "" if node.message and node.note == node.message else node.note
    return _node_drain.Node(node.name, "offline" in node.states, note, bool(node.jobs), keeps=True)


def apply(torque: Torque, change: _node_drain.Change) -> None:
    """Mark the nodes; then look whether it has come true."""
    _node_drain.mark(torque, change)
    changed = [*change.drain, *change.undrain]
    if changed:
        held = {node.name: node.held for node in read(torque, "drained", changed)}
        wrong = [name for name in changed if held[name] != (name in change.drain)]
        if wrong:
            raise NoAnswerError(f"pbsnodes said nothing, and {', '.join(wrong[:10])} is marked as before")


def run(module: AnsibleModule) -> t.Dict[str, t.Any]:
    """One call: read the nodes, decide, act."""
    params = module.params
    torque = Torque(bin_dir=bin_dir(params["bin_dir"]), timeout=params["timeout"])
    nodes = read(torque, params["state"], params["names"])
    change = _node_drain.change_to(params["state"], nodes, params["reason"])
    if not module.check_mode:
        apply(torque, change)
    return _node_drain.result_of(change, nodes, held="offline")


def main() -> None:
    """Close or give back the nodes, or fail with one line."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "restored"], "required": True},
            "reason": {"type": "str"},
            **ARGUMENT_SPEC,
        },
        required_if=[("state", "drained", ["reason"])],
        supports_check_mode=True,
    )
    try:
        result = run(module)
    except (PbsError, _node_drain.HoldError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
