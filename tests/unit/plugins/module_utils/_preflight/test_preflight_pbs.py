# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts about PBS: a clean site, and then one thing wrong at a time."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight import batch_pbs, beside, names
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import Finding, Machine

Pbs = t.Dict[str, t.Any]


def vnode(name: str, host: str, *states: str, comment: str = "") -> dict[str, t.Any]:
    return {"name": name, "host": host, "states": list(states or ["free"]), "comment": comment}


def hook(name: str, **attributes: str) -> dict[str, t.Any]:
    return {
        "name": name,
        "attributes": {"enabled": "true", "event": "execjob_begin,execjob_end", "order": "1", **attributes},
    }


def pbs(*nodes: dict[str, t.Any], hooks: t.Sequence[dict[str, t.Any]] = ()) -> Pbs:
    return {"nodes": list(nodes or [vnode("n1", "n1"), vnode("n2", "n2")]), "hooks": list(hooks)}


def told(findings: t.Iterable[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in findings]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (pbs(), []),
        (pbs(hooks=[hook("site"), hook("late", order="300", enabled="false")]), []),
        (pbs(hooks=[hook("late", order="300", event="exechost_periodic")]), []),
        (pbs(hooks=[hook("late", order="300")]), [("warn", "hook_order")]),
        ({"error": "no answer"}, [("refuse", "pbs")]),
    ],
)
def test_the_server_answers_and_no_hook_refuses_a_job_after_ours(answer: Pbs, found: list[tuple[str, str]]) -> None:
    assert told(batch_pbs.cluster(answer)) == found


SEVERAL = pbs(vnode("n1", "n1"), vnode("n1[0]", "n1", "job-busy"), vnode("n1[1]", "n1"), vnode("n2", "n2"))


@pytest.mark.parametrize(
    ("name", "answer", "hostname", "found"),
    [
        ("n1", pbs(), "n1.site", []),
        ("n1", SEVERAL, "n1", [("note", "vnodes")]),
        ("n1[0]", SEVERAL, "n1", [("note", "vnodes")]),
        ("N1", pbs(), "n1", [("refuse", "name_case")]),
        ("n7", pbs(), "n7", [("refuse", "unknown_to_pbs")]),
        ("n1", pbs(), "other", [("refuse", "other_machine")]),
        ("node1", pbs(vnode("node1", "n1")), "n1", []),
        ("n1", pbs(vnode("n1", "n1", "offline", comment="disk")), "n1", [("note", "state")]),
        ("n1", pbs(vnode("n1", "n1", "state-unknown", "down")), "n1", [("warn", "state")]),
    ],
)
def test_a_host_is_known_by_its_name_or_that_of_a_vnode(
    name: str, answer: Pbs, hostname: str, found: list[tuple[str, str]]
) -> None:
    assert told(batch_pbs.node(name, answer, hostname)) == found


@pytest.mark.parametrize(
    ("hooks", "mode", "fence", "found"),
    [
        ([], "placeholder", "cores", [("refuse", "cores")]),
        ([hook("pbs_cgroups", enabled="false")], "placeholder", "cores", [("refuse", "cores")]),
        ([hook("pbs_cgroups")], "placeholder", "cores", []),
        ([hook("pbs_cgroups", order="200")], "placeholder", "cores", [("refuse", "cores")]),
        ([], "placeholder", "counts", [("warn", "cores")]),
        ([], "placeholder", "split", []),
        ([], "handover", "cores", []),
    ],
)
def test_where_jobs_have_no_cgroups_the_site_says_what_keeps_pods_off_their_cores(
    hooks: list[dict[str, t.Any]], mode: str, fence: str, found: list[tuple[str, str]]
) -> None:
    assert told(batch_pbs.cores(pbs(hooks=hooks), mode, fence)) == found


@pytest.mark.parametrize(
    ("hosts", "found"), [({"n1", "n2"}, []), ({"n1"}, ["n2"]), ({"n1[1]"}, ["n2"]), (set(), ["n1", "n2"])]
)
def test_hosts_that_nobody_converts_are_named(hosts: set[str], found: list[str]) -> None:
    assert list(batch_pbs.left_out(hosts, SEVERAL)) == found


@pytest.mark.parametrize(("wlm", "found"), [("pbs", []), ("slurm", [("refuse", "share_mode")])])
def test_beside_placeholders_a_site_with_pbs_is_served(wlm: str, found: list[tuple[str, str]]) -> None:
    assert told(names.share_mode({"share_mode": "placeholder"}, wlm)) == found


PLACES = "/var/lib/converged/placeholders"
SPLIT = {"fence": "split", "pod_cpus": "4-7"}


@pytest.mark.parametrize(
    ("wanted", "kubelet", "found"),
    [
        ({}, {}, []),
        ({"fence": "counts"}, {"cpuManagerPolicy": "static"}, []),
        ({"fence": "pins"}, {}, ["fence"]),
        ({}, {"cpuManagerPolicy": "static"}, ["fence"]),
        (SPLIT, {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-3"}, []),
        ({"fence": "split"}, {"reservedSystemCPUs": "0-3"}, ["fence"]),
        (SPLIT, {}, ["fence"]),
        (SPLIT, {"reservedSystemCPUs": "0-2,7"}, ["fence"]),
        (SPLIT, {"reservedSystemCPUs": "most"}, ["fence"]),
        ({}, {"staticPodPath": PLACES + "/"}, []),
        ({}, {"staticPodPath": "/etc/kubernetes/manifests"}, ["static_pods"]),
        ({"manifests": "/etc/kubernetes/manifests"}, {"staticPodPath": "/etc/kubernetes/manifests"}, []),
        ({"static_pods": ""}, {}, ["static_pods"]),
    ],
)
@pytest.mark.parametrize("mode", ["placeholder", "handover"])
def test_the_kubelet_and_nodeshare_mean_the_same_directory_and_give_no_core_twice(
    wanted: dict[str, str], kubelet: dict[str, str], found: list[str], mode: str
) -> None:
    settings = {"share_mode": mode, "fence": "cores", "manifests": PLACES, "static_pods": PLACES, **wanted}
    judged = beside.placeholders(Machine({**settings, "kubelet_config": kubelet}, {}))
    assert [finding.code for finding in judged] == (found if mode == "placeholder" else [])
