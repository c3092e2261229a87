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
from ansible_collections.converged.hpc.plugins.module_utils._preflight import report
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import (
    CLUSTER,
    LEFT_OUT,
    NOTE,
    WARN,
    Verdict,
)
from ansible_collections.converged.hpc.plugins.module_utils._preflight.verdicts import Cluster, Settings, verdicts
from ansible_collections.converged.hpc.plugins.plugin_utils._judging import JudgingAction, Variables, refused


class ActionModule(JudgingAction):
    """Judge the hosts."""

    ARGUMENT_SPEC: t.ClassVar[t.Dict[str, t.Any]] = {
        "registered": {"type": "str", "required": True},
        "hosts": {"type": "list", "elements": "str", "required": True},
        "controllers": {"type": "list", "elements": "str", "default": []},
        "slurm": {"type": "dict", "default": {}},
        "pbs": {"type": "dict", "default": {}},
        "torque": {"type": "dict", "default": {}},
        "kube": {"type": "dict", "default": {}},
        "wlm": {"type": "str", "default": "slurm"},
        "excepted": {"type": "list", "elements": "str", "default": []},
        "unjudged": {"type": "list", "elements": "str", "default": []},
        "accepted": {"type": "list", "elements": "str", "default": []},
        "max_skew": {"type": "float", "default": 30.0},
        "min_free": {"type": "float", "default": 5.0},
        "limit": {"type": "int", "default": 90},
        "kubelet": {"type": "str", "default": ""},
        "slurm_conf": {"type": "str", "default": "auto"},
    }

    def judge(self, given: Variables, known: Variables) -> t.Dict[str, t.Any]:
        """Return the verdicts, or that the task failed where a host is refused."""
        hostvars = known["hostvars"]
        groups = known["groups"]
        nodes = {host: seen(host, hostvars[host], given["registered"], groups) for host in given["hosts"]}
        if not nodes:
            raise AnsibleActionFail("hosts: the play has no host to judge")
        names = ("wlm", "max_skew", "min_free", "limit", "kubelet", "slurm_conf")
        judged = verdicts(
            nodes,
            Cluster(*(answer(given[name]) for name in ("slurm", "kube", "pbs", "torque"))),
            Settings(
                controllers=tuple(given["controllers"]),
                excepted=tuple(left_out(groups, hostvars)),
                listed=tuple(given["excepted"]),
                unjudged=tuple(given["unjudged"]),
                aside=tuple(aside(groups, hostvars, given["hosts"])),
                accepted=tuple(given["accepted"]),
                **{name: given[name] for name in names},
            ),
        )
        self._say(judged)
        return result(judged)

    def _say(self, judged: t.Mapping[str, Verdict]) -> None:
        """In plain words and each finding once, besides the result, which callbacks print as data."""
        for level, line in report.lines({host: verdict.findings for host, verdict in judged.items()}):
            shade = {NOTE: C.COLOR_OK, WARN: C.COLOR_WARN}.get(level, C.COLOR_ERROR)
            self._display.display(line, color=shade)
        for word, hosts in by_word(judged).items():
            colour = C.COLOR_ERROR if word == "refused" else C.COLOR_OK
            self._display.display(f"{word}: {report.hosts(hosts)}", color=colour)


def by_word(judged: t.Mapping[str, Verdict]) -> t.Dict[str, t.List[str]]:
    """Group the hosts by verdict, those that are refused last."""
    found: t.Dict[str, t.List[str]] = {}
    for host, verdict in judged.items():
        if host != CLUSTER or verdict.refusals:
            found.setdefault(verdict.word, []).append(host)
    return dict(sorted(found.items(), key=lambda item: item[0] == "refused"))


def left_out(groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any]) -> t.List[str]:
    """Return the batch system's names of the hosts that the inventory leaves out of a conversion."""
    return [wlm_node(host, hostvars[host]) for host in groups.get("converged_excepted", ())]


def wlm_node(host: str, variables: t.Mapping[str, t.Any]) -> str:
    """Return a node's name in the batch system, by the inventory."""
    return str(variables.get("converged_wlm_node", host.partition(".")[0]))


def aside(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Any], hosts: t.Container[str]
) -> t.List[str]:
    """Return the batch system's names of nodes of the inventory to which this run does not go."""
    others = [host for host in groups.get("converged_nodes", ()) if host not in hosts]
    excepted = groups.get("converged_excepted", ())
    return [wlm_node(host, hostvars[host]) for host in others if host not in excepted]


def seen(
    host: str, variables: t.Mapping[str, t.Any], registered: str, groups: t.Mapping[str, t.Sequence[str]]
) -> t.Dict[str, t.Any]:
    """Return what was registered on a host; if nothing was found, its names by the inventory, and why."""
    got = variables.get(registered) or {}
    if "found" in got:
        return {"wanted": got["wanted"], "found": got["found"], "offset": got["offset"]}
    short = host.partition(".")[0]
    wanted = {
        "wlm_node": wlm_node(host, variables),
        "kube_node": variables.get("converged_kube_node", short),
        "is_node": host in groups.get("converged_nodes", [host]),
        "is_shared": host in groups.get("converged_shared", [host]),
    }
    return {"wanted": wanted, "error": " ".join(str(got.get("msg", "")).split())}


def answer(got: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """Return a module's result; of one that failed, only the message."""
    if "version" in got or "nodes" in got:
        return dict(got)
    return {"error": " ".join(str(got.get("msg", "it was not asked")).split())}


def result(judged: t.Mapping[str, Verdict]) -> t.Dict[str, t.Any]:
    """Return the verdicts as data. If hosts are refused, return only how many and by what, since each was printed."""
    found = {host: verdict.findings for host, verdict in judged.items()}
    if any(verdict.refusals for verdict in judged.values()):
        return {"changed": False, "failed": True, "msg": refused(found)}
    fit = by_word(judged)
    return {
        "changed": False,
        "failed": False,
        "msg": "; ".join(f"{word}: {len(hosts)}" for word, hosts in fit.items()),
        "left_out": fit.get(LEFT_OUT, []),
        "verdicts": {
            host: {"fit": verdict.fit, "findings": [finding._asdict() for finding in verdict.findings]}
            for host, verdict in judged.items()
        },
    }
