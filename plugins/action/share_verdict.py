# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges all hosts of a play together, from what was registered on each; nothing runs on any host.

An action plugin, as verdicts need the facts of every host at once, also of those that could not be reached.
"""

from __future__ import annotations

import typing as t

from ansible import constants as C  # noqa: N812
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import CLUSTER, NOTE, WARN, Verdict
from ansible_collections.converged.hpc.plugins.module_utils._preflight.verdicts import Cluster, Settings, verdicts

ARGUMENT_SPEC: t.Dict[str, t.Any] = {
    "registered": {"type": "str", "required": True},
    "hosts": {"type": "list", "elements": "str", "required": True},
    "controllers": {"type": "list", "elements": "str", "default": []},
    "slurm": {"type": "dict", "default": {}},
    "pbs": {"type": "dict", "default": {}},
    "kube": {"type": "dict", "default": {}},
    "wlm": {"type": "str", "default": "slurm"},
    "excepted": {"type": "list", "elements": "str", "default": []},
    "accepted": {"type": "list", "elements": "str", "default": []},
    "max_skew": {"type": "float", "default": 30.0},
    "min_free": {"type": "float", "default": 5.0},
    "limit": {"type": "int", "default": 90},
    "kubelet": {"type": "str", "default": ""},
}


class ActionModule(ActionBase):
    """One result for all hosts."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        """What Ansible calls."""
        super().run(tmp, task_vars)
        given = self.validate_argument_spec(ARGUMENT_SPEC)[1]
        known = task_vars or {}
        hostvars = known["hostvars"]
        nodes = {host: seen(host, hostvars[host], given["registered"]) for host in given["hosts"]}
        if not nodes:
            raise AnsibleActionFail("hosts: the play has no host to judge")
        names = ("wlm", "max_skew", "min_free", "limit", "kubelet")
        judged = verdicts(
            nodes,
            Cluster(answer(given["slurm"]), answer(given["kube"]), answer(given["pbs"])),
            Settings(
                controllers=tuple(given["controllers"]),
                excepted=(*given["excepted"], *left_out(known["groups"], hostvars)),
                accepted=tuple(given["accepted"]),
                **{name: given[name] for name in names},
            ),
        )
        self._say(judged)
        return result(judged)

    def _say(self, judged: t.Mapping[str, Verdict]) -> None:
        """In plain words, besides the result, which callbacks print as data."""
        for host, verdict in judged.items():
            if host == CLUSTER and not verdict.findings:
                continue
            colour = C.COLOR_ERROR if verdict.refusals else C.COLOR_OK
            self._display.display(f"{host}: {verdict.word}", color=colour)
            for finding in verdict.findings:
                shade = {NOTE: C.COLOR_OK, WARN: C.COLOR_WARN}.get(finding.level, C.COLOR_ERROR)
                self._display.display(f"    {finding}", color=shade)


def left_out(groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any]) -> t.List[str]:
    """The batch system's names of the hosts that the inventory leaves out of a conversion."""
    return [wlm_node(host, hostvars[host]) for host in groups.get("converged_excepted", ())]


def wlm_node(host: str, variables: t.Mapping[str, t.Any]) -> str:
    """A node's name in the batch system, by the inventory."""
    return str(variables.get("converged_wlm_node", host.partition(".")[0]))


def seen(host: str, variables: t.Mapping[str, t.Any], registered: str) -> t.Dict[str, t.Any]:
    """What was registered on a host; where nothing was found, its names by the inventory, and why."""
    got = variables.get(registered) or {}
    if "found" in got:
        return {"wanted": got["wanted"], "found": got["found"], "offset": got["offset"]}
    short = host.partition(".")[0]
    wanted = {
        "wlm_node": wlm_node(host, variables),
        "kube_node": variables.get("converged_kube_node", short),
        "is_node": "converged_nodes" in variables.get("group_names", ["converged_nodes"]),
    }
    return {"wanted": wanted, "error": " ".join(str(got.get("msg", "")).split())}


def answer(got: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """A module's result; of one that failed, only why."""
    if "version" in got or "nodes" in got:
        return dict(got)
    return {"error": " ".join(str(got.get("msg", "it was not asked")).split())}


def result(judged: t.Mapping[str, Verdict]) -> t.Dict[str, t.Any]:
    """The verdicts as data; failed where any node is refused, with every refusal named."""
    refused = {host: verdict.refusals for host, verdict in judged.items() if verdict.refusals}
    nodes = [host for host in judged if host != CLUSTER]
    reasons = [f"{host}: {finding.text}" for host, findings in refused.items() for finding in findings]
    return {
        "changed": False,
        "failed": bool(refused),
        "msg": "Refused, and nothing was touched. " + "; ".join(reasons)
        if refused
        else f"hosts fit to be shared: {len(nodes)}",
        "verdicts": {
            host: {"refused": bool(verdict.refusals), "findings": [finding._asdict() for finding in verdict.findings]}
            for host, verdict in judged.items()
        },
    }
