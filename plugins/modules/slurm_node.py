#!/usr/bin/python

# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains nodes of Slurm and gives them back, and leaves to others what they have drained."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node
short_description: Drain nodes of Slurm and give them back
version_added: 1.0.0
description:
  - Drains nodes with a reason that begins with C(converged.hpc), and ends only drains whose reason does.
  - A node that somebody else has drained is neither drained again, which would replace the reason, nor given back.
  - Running jobs go on. RV(busy) names the nodes that still run one, so that a task can wait with C(until).
  - All nodes are handled in one call. A name that Slurm does not know stops it before anything is done, and
    with O(state=restored) is left out.
author:
  - converged.hpc maintainers (@converged)
extends_documentation_fragment:
  - converged.hpc._attributes
  - converged.hpc._slurm
  - converged.hpc._slurm.conf_path
options:
  names:
    description:
      - Names of nodes, or host lists such as V(n[1-3]).
    type: list
    elements: str
    required: true
  state:
    description:
      - V(drained) lets no further job start there; V(restored) ends that.
      - V(given_back) is an older word for V(restored).
    type: str
    choices: [drained, restored, given_back]
    required: true
  reason:
    description:
      - Why, in one line; needed with O(state=drained).
      - With O(state=restored), nodes that this module has drained for another reason are left as they are; without
        it they are given back, too.
    type: str
attributes:
  check_mode:
    description: Reads the nodes and says what it would do.
    support: full
  diff_mode:
    description: Shows the nodes that change, with their reasons.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
seealso:
  - module: converged.hpc.slurm_info
"""

EXAMPLES = r"""
- name: Let the jobs of two nodes run out
  converged.hpc.slurm_node:
    names: ["n[1-2]"]
    state: drained
    reason: conversion to shared mode
  register: drain
  until: not drain.busy
  retries: 60
  delay: 60
  become: true

- name: Give them back
  converged.hpc.slurm_node:
    names: ["n[1-2]"]
    state: restored
  become: true
"""

RETURN = r"""
drained:
  description: The nodes that were drained by this call.
  returned: always
  type: list
  elements: str
  sample: [n1]
given_back:
  description: The nodes whose drain was ended by this call.
  returned: always
  type: list
  elements: str
  sample: []
others:
  description: The nodes that stay drained, as somebody else did it or for another O(reason), with the reason.
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
from ansible_collections.converged.hpc.plugins.module_utils import _node_drain, _programs, _states
from ansible_collections.converged.hpc.plugins.module_utils._shared import hostlist
from ansible_collections.converged.hpc.plugins.module_utils._slurm.client import ARGUMENT_SPEC, Slurm
from ansible_collections.converged.hpc.plugins.module_utils._slurm.errors import SlurmError

_WORKING = frozenset(["ALLOCATED", "MIXED", "COMPLETING"])


def read(slurm: Slurm, state: str, names: t.Sequence[str]) -> t.List[_node_drain.Node]:
    """Read the named nodes; Slurm itself gives a reason to a node that is down."""
    nodes = [
        _node_drain.Node(
            name=node.name,
            held="DRAIN" in node.flags,
            reason=node.reason,
            busy=not _WORKING.isdisjoint({node.state, *node.flags}),
            keeps=node.state == "DOWN",
        )
        for node in slurm.nodes()
    ]
    return _node_drain.named("Slurm", nodes, names, state=state)


def apply(slurm: Slurm, change: _node_drain.Change) -> None:
    """One command for all nodes that get the same reason."""
    for reason in dict.fromkeys(change.drain.values()):
        slurm.drain([name for name, given in change.drain.items() if given == reason], reason)
    if change.undrain:
        give_back(slurm, change.undrain)
    for name, reason in change.explain.items():
        slurm.explain([name], reason)


def give_back(slurm: Slurm, names: t.Sequence[str]) -> None:
    """Slurm 22.05 reports an error for a node that has never registered, although the drain is gone: look again."""
    try:
        slurm.undrain(names)
    except SlurmError:
        if any(node.ours for node in read(slurm, "restored", names)):
            raise


def run(module: AnsibleModule) -> t.Dict[str, t.Any]:
    """One call: read the nodes, decide, act."""
    params = module.params
    slurm = Slurm(
        bin_dir=_programs.slurm_bin_dir(params["bin_dir"]), conf_path=params["conf_path"], timeout=params["timeout"]
    )
    names = hostlist.expand(",".join(params["names"]))
    nodes = read(slurm, params["state"], names)
    change = _node_drain.change_to(params["state"], nodes, params["reason"])
    if not module.check_mode:
        apply(slurm, change)
        if change.drain:  # a job may have begun just before
            change = change._replace(busy=[node.name for node in read(slurm, "drained", names) if node.busy])
    return _node_drain.result_of(change, nodes, held="drained")


def main() -> None:
    """Close or give back the nodes, or fail with one line."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["drained", "restored", "given_back"], "required": True},
            "reason": {"type": "str"},
            "conf_path": {"type": "path"},
            **ARGUMENT_SPEC,
        },
        required_if=[("state", "drained", ["reason"])],
        supports_check_mode=True,
    )
    _states.settle(module)
    try:
        result = run(module)
    except (SlurmError, _node_drain.HoldError, hostlist.HostlistError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
