#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks vnodes of PBS offline and gives them back, and leaves to others what they have marked."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pbs_node
short_description: Take nodes of PBS offline and give them back
version_added: 1.0.0
description:
  - Marks vnodes offline with a comment that begins with C(converged.hpc), and ends only marks whose comment does.
  - A vnode that somebody else has marked is neither marked again, which would replace the comment, nor given back.
  - A comment that was there before is kept behind ours, and is there again when the vnode is given back.
  - Running jobs go on. RV(busy) names the vnodes that still run one, so that a task can wait with C(until).
  - All vnodes are handled in one call. A name that PBS does not know stops it before anything is done, and
    with O(state=restored) is left out.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._pbs
options:
  names:
    description:
      - Names of vnodes, as C(pbsnodes) has them, or of hosts, which stand for all their vnodes.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(drained) lets no further job start there, as the vnodes are offline; V(restored) ends that.
      - V(offline) and V(given_back) are older words for these.
    type: str
    choices: [drained, restored, offline, given_back]
    required: true
  reason:
    description:
      - Why, in one line; needed with O(state=drained).
      - With O(state=restored), vnodes that this module has marked for another reason are left as they are; without
        it they are given back, too.
    type: str
attributes:
  check_mode:
    description: Reads the vnodes and says what it would do.
    support: full
  diff_mode:
    description: Shows the vnodes that change, with their comments.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
seealso:
  - module: converged.hpc.pbs_info
"""

EXAMPLES = r"""
- name: Let the jobs of two nodes run out
  converged.hpc.pbs_node:
    names: [n1, n2]
    state: drained
    reason: conversion to shared mode
  register: held
  until: not held.busy
  retries: 60
  delay: 60
  become: true

- name: Give them back
  converged.hpc.pbs_node:
    names: [n1, n2]
    state: restored
  become: true
"""

RETURN = r"""
offline:
  description: The vnodes that were marked offline by this call.
  returned: always
  type: list
  elements: str
  sample: [n1]
given_back:
  description: The vnodes whose mark was ended by this call.
  returned: always
  type: list
  elements: str
  sample: []
others:
  description: The vnodes that stay marked, as somebody else did it or for another O(reason), with the comment.
  returned: always
  type: dict
  sample: {n2: disk is full}
busy:
  description: The vnodes that still run a job.
  returned: always
  type: list
  elements: str
  sample: [n1]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.converged.hpc.plugins.module_utils import _node_drain, _programs, _states
from ansible_collections.converged.hpc.plugins.module_utils._pbs.client import Pbs
from ansible_collections.converged.hpc.plugins.module_utils._pbs.commands import ARGUMENT_SPEC
from ansible_collections.converged.hpc.plugins.module_utils._pbs.errors import PbsError

# PBS writes such a comment itself, and does it anew where it is true.
_SERVERS_OWN = "node down:"


def read(pbs: Pbs, state: str, names: t.Sequence[str]) -> t.List[_node_drain.Node]:
    """Read the named vnodes, and all vnodes of the named hosts."""
    found = pbs.nodes()
    by_host: t.Dict[str, t.List[str]] = {}
    for node in found:
        by_host.setdefault(node.host, []).append(node.name)
    nodes = [
        _node_drain.Node(
            name=node.name,
            held="offline" in node.states,
            reason="" if node.comment.startswith(_SERVERS_OWN) else node.comment,
            busy=bool(node.jobs),
            keeps=True,
        )
        for node in found
    ]
    vnodes = [vnode for name in names for vnode in by_host.get(name, [name])]
    return _node_drain.named("PBS", nodes, vnodes, state=state)


def run(module: AnsibleModule) -> t.Dict[str, t.Any]:
    """One call: read the vnodes, decide, act."""
    params = module.params
    pbs = Pbs(bin_dir=_programs.pbs_bin_dir(params["bin_dir"]), timeout=params["timeout"])
    nodes = read(pbs, params["state"], params["names"])
    change = _node_drain.change_to(params["state"], nodes, params["reason"])
    if not module.check_mode:
        _node_drain.mark(pbs, change)
    return _node_drain.result_of(change, nodes, held="offline")


def main() -> None:
    """Close or give back the vnodes, or fail with one line."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "restored", "offline", "given_back"], "required": True},
            "reason": {"type": "str"},
            **ARGUMENT_SPEC,
        },
        required_if=[("state", "drained", ["reason"]), ("state", "offline", ["reason"])],
        supports_check_mode=True,
    )
    _states.settle(module)
    try:
        result = run(module)
    except (PbsError, _node_drain.HoldError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
