# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts about Torque: a clean site, and then one thing wrong at a time."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight.batch import torque as batch_torque
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import LEFT_OUT, SHARED, Finding, Verdict
from ansible_collections.converged.hpc.plugins.module_utils._preflight.verdicts import Cluster, verdicts
from unit.plugins.module_utils._preflight.spoiled_site import Site

Torque = t.Dict[str, t.Any]


def server(*states: str, note: str = "", slots: int = 4) -> Torque:
    nodes = [{"name": name, "states": ["free"], "note": "", "slots": 4} for name in ("n1", "n2")]
    nodes[0].update(states=list(states or ["free"]), note=note, slots=slots)
    return {"nodes": nodes}


def scripts(*names: str, refused: t.Sequence[str] = (), alarm: int = 290, present: bool = True) -> Torque:
    found = [{"name": name, "ours": False, "mode": "0755"} for name in names]
    return {"present": present, "refused": list(refused), "alarm": alarm, "servers": ["srv"], "scripts": found}


def told(findings: t.Iterable[Finding]) -> t.List[t.Tuple[str, str]]:
    return [(finding.level, finding.code) for finding in findings]


def test_a_server_that_is_down_is_one_line_that_names_it() -> None:
    answer = {"error": "qstat: cannot connect to server srv (errno=111) Connection refused"}
    [finding] = batch_torque.cluster(answer)
    assert str(finding) == (
        "refuse [torque] Torque does not answer: qstat: cannot connect to server srv (errno=111) Connection refused:"
        " start pbs_server and trqauthd first"
    )
    assert told(batch_torque.cluster(server())) == []


@pytest.mark.parametrize(
    ("name", "torque", "found"),
    [
        ("n1", server(), []),
        ("n1", server("job-exclusive"), []),
        ("N1", server(), [("refuse", "name_case")]),
        ("n7", server(), [("refuse", "unknown_to_torque")]),
        ("n1", server("offline", note="disk"), [("note", "state")]),
        ("n1", server("down", note="ERROR: prolog failed"), [("warn", "state")]),
        ("n1", server("down", "offline"), [("warn", "state")]),
    ],
)
def test_a_node_is_known_by_its_name(name: str, torque: Torque, found: list[tuple[str, str]]) -> None:
    assert told(batch_torque.node(name, torque)) == found


@pytest.mark.parametrize(
    ("found", "seconds", "codes"),
    [
        (scripts("prologue", "epilogue"), 60, []),
        (scripts(alarm=65), 60, []),
        (scripts(alarm=64), 60, [("refuse", "prologalarm")]),
        (scripts(alarm=5), 60, [("refuse", "prologalarm")]),
        (scripts(alarm=600), 160, [("warn", "silent_mom")]),
        (scripts("prologue.user", "prologue"), 60, [("note", "job_types")]),
        (scripts(refused=["/m/prologue is a link to 'x': put it there"]), 60, [("refuse", "torque_script")]),
        (scripts(refused=["/m is no folder: no MoM here"], present=False), 60, [("refuse", "torque_script")]),
    ],
)
def test_scripts_that_torque_would_not_run_and_an_alarm_before_ours_are_refused(
    found: Torque, seconds: int, codes: list[tuple[str, str]]
) -> None:
    assert told(batch_torque.mom(found, {"script_seconds": seconds})) == codes


def test_an_alarm_is_told_with_both_numbers() -> None:
    [finding] = batch_torque.mom(scripts(alarm=5), {"script_seconds": 60})
    assert "after 5 s ($prologalarm less 10), and torque_share_timeout is 60 s" in finding.text
    assert "raise $prologalarm to 75" in finding.advice


@pytest.mark.parametrize(
    ("mode", "fence", "found"),
    [
        ("handover", "cores", []),
        ("placeholder", "cores", [("refuse", "cores"), ("note", "sizes")]),
        ("placeholder", "counts", [("warn", "cores"), ("note", "sizes")]),
        ("placeholder", "split", [("note", "sizes")]),
    ],
)
def test_what_torque_cannot_promise_beside_pods_is_said(mode: str, fence: str, found: list[tuple[str, str]]) -> None:
    assert told(batch_torque.beside({"share_mode": mode, "fence": fence})) == found


def test_a_refusal_that_the_site_wants_takes_nodes_down() -> None:
    assert told(batch_torque.outcomes({"on_failure": "accept", "after_deadline": "kill"})) == []
    assert told(batch_torque.outcomes({"on_failure": "drain"})) == [("warn", "refusals")]
    assert told(batch_torque.outcomes({"after_deadline": "requeue"})) == [("warn", "refusals")]


def test_more_slots_than_cores_are_named() -> None:
    assert told(batch_torque.room("n1", server(slots=4), 4)) == []
    assert told(batch_torque.room("n1", server(slots=8), 4)) == [("warn", "room")]


class TorqueSite(Site):
    """Two nodes with a MoM, to be spoiled."""

    def __init__(self) -> None:
        super().__init__()
        self.torque = server()
        self.settings = self.settings._replace(wlm="torque")
        for name in ("n1", "n2"):
            self.nodes[name]["found"].update(torque=scripts("prologue"), cpus=4)
            self.nodes[name]["wanted"]["script_seconds"] = 60

    def judge(self) -> t.Dict[str, Verdict]:
        unasked = {"error": "it was not asked"}
        return verdicts(copy.deepcopy(self.nodes), Cluster(unasked, self.kube, unasked, self.torque), self.settings)


def test_a_clean_site_of_torque_is_fit_without_a_finding() -> None:
    judged = TorqueSite().judge()
    assert [judged[host].word for host in ("n1", "n2")] == [SHARED, SHARED]
    assert not [one for verdict in judged.values() for one in verdict.findings]


def test_a_script_that_is_a_link_refuses_its_node_alone() -> None:
    site = TorqueSite()
    site.n1["torque"] = scripts(refused=["/m/prologue is a link to '/opt/x': put the script itself there"])
    judged = site.judge()
    assert [str(one) for one in judged["n1"].refusals] == [
        "refuse [torque_script] /m/prologue is a link to '/opt/x': put the script itself there"
    ]
    assert judged["n2"].word == SHARED


def test_pods_are_not_backed_by_jobs_of_torque_yet() -> None:
    site = TorqueSite()
    site.wanted.update(share_mode="backed", backed_queue="pods", fence="split")
    assert "share_mode" in [one.code for one in site.judge()["n1"].refusals]


def test_a_node_that_is_not_in_the_inventory_stays_with_jobs() -> None:
    site = TorqueSite()
    site.torque["nodes"].append({"name": "n9", "states": ["free"], "note": "", "slots": 4})
    judged = site.judge()
    assert told(judged["n9"].findings) == [("note", "not_in_inventory")]
    assert judged["n9"].word == LEFT_OUT


def test_a_node_that_could_not_be_read_is_left_as_it_is() -> None:
    site = TorqueSite()
    site.nodes["n2"] = {"wanted": site.nodes["n2"]["wanted"], "error": "no route"}
    judged = site.judge()
    assert told(judged["n2"].findings) == [("warn", "unreachable")]
