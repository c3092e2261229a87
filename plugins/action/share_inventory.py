# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges what a run was asked for and the variables of all hosts, on the controller alone, before any host is touched.

An action plugin, as it needs the options of the run and the variables of hosts that the run may never reach.
"""

from __future__ import annotations

import typing as t

from ansible import constants as C  # noqa: N812
from ansible.errors import AnsibleActionFail
from ansible.inventory.manager import split_host_pattern
from ansible.utils.vars import load_extra_vars
from ansible_collections.converged.hpc.plugins.module_utils._preflight import report
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import CLUSTER, Finding
from ansible_collections.converged.hpc.plugins.plugin_utils import _asked, _values
from ansible_collections.converged.hpc.plugins.plugin_utils._judging import JudgingAction, Variables, refused

GROUPS = ("converged_nodes", "converged_controllers", "converged_kube")


class ActionModule(JudgingAction):
    """Judge the run."""

    ARGUMENT_SPEC: t.ClassVar[t.Dict[str, t.Any]] = {
        "playbook": {"type": "str", "required": True, "choices": sorted(_asked.PLAYBOOKS)},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "named": {"type": "str", "default": ""},
    }

    def judge(self, given: Variables, known: Variables) -> t.Dict[str, t.Any]:
        """Return that nothing changed. Raise AnsibleActionFail for a refusal, after each finding was printed once."""
        asked = _asked.Asked(
            playbook=given["playbook"],
            limit=str(known.get("ansible_limit") or ""),
            tags=tuple(known.get("ansible_run_tags") or ()),
            skip_tags=tuple(known.get("ansible_skip_tags") or ()),
            hosts=tuple(given["hosts"]),
            left=tuple(known.get("ansible_play_hosts_all") or ()),
            named=given["named"],
            extra=frozenset(load_extra_vars(self._loader)),
            words=tuple(split_host_pattern([given["named"], str(known.get("ansible_limit") or "")])),
            known=frozenset(known["hostvars"]) | frozenset(known["groups"]),
        )
        options = list(_asked.options(asked))
        found = {CLUSTER: options} if options else self._site(asked, known["groups"], known["hostvars"])
        lines = report.lines(found)
        for _level, line in lines:
            self._display.display(line.removeprefix("refuse ").replace(f"{CLUSTER}: ", ""), color=C.COLOR_ERROR)
        if lines:
            raise AnsibleActionFail(refused(found))
        return {"changed": False}

    def _site(
        self, asked: _asked.Asked, groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Any
    ) -> t.Dict[str, t.List[Finding]]:
        """Return what is wrong with groups and values, by host."""
        playbook = _asked.PLAYBOOKS[asked.playbook]
        if not playbook.values:
            return {}
        hosts = list(dict.fromkeys(host for group in GROUPS for host in groups.get(group, ())))
        # As they were written: what is no template is judged once for all hosts that have it.
        variables = {host: hostvars.raw_get(host) for host in hosts}
        specs = _values.known(playbook.roles)
        found = _values.judge(variables, lambda host, name: hostvars[host][name], specs, unknown=playbook.unknown)
        if asked.playbook == "site":
            names = {name for own in variables.values() for name in own}
            judged = _asked.site(asked, _asked.Inventory(groups, variables))
            found[CLUSTER] = [*_asked.misplaced(asked, names), *judged]
        elif asked.playbook == "restore":
            found[CLUSTER] = list(_asked.way_back(asked, _asked.Inventory(groups, {})))
        return found
