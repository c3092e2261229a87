# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's verdicts about PBS: a clean site, and then one thing wrong at a time."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._preflight import names
from ansible_collections.converged.hpc.plugins.module_utils._preflight.batch import pbs as batch_pbs
from ansible_collections.converged.hpc.plugins.module_utils._preflight.model import Finding, Machine
from ansible_collections.converged.hpc.plugins.module_utils._preflight.node import placeholder_mode, room

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
    ("answer", "wanted", "found"),
    [
        (pbs(), {}, []),
        (pbs(hooks=[hook("site"), hook("late", order="300", enabled="false")]), {}, []),
        (pbs(hooks=[hook("late", order="300", event="exechost_periodic")]), {}, []),
        (pbs(hooks=[hook("late", order="300")]), {}, [("warn", "hook_order")]),
        (pbs(hooks=[hook("late", order="300")]), {"hook_order": 400}, []),
        (pbs(hooks=[hook("site", order="150")]), {"hook_order": 120}, [("warn", "hook_order")]),
        (pbs(hooks=[hook("ours", order="200")]), {"hook_order": 120, "hook": "ours"}, []),
        ({"error": "no answer"}, {}, [("refuse", "pbs")]),
    ],
)
def test_the_server_answers_and_no_hook_refuses_a_job_after_ours(
    answer: Pbs, wanted: dict[str, t.Any], found: list[tuple[str, str]]
) -> None:
    assert told(batch_pbs.cluster(answer, wanted)) == found


def test_without_a_host_of_the_server_the_hook_must_be_there() -> None:
    assert told(batch_pbs.cluster(pbs(), {}, with_server=False)) == [("refuse", "hook")]
    assert told(batch_pbs.cluster(pbs(hooks=[hook("converged")]), {}, with_server=False)) == []


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


CPUSETS = {"cgroup": {"cpuset": {"enabled": True, "exclude_hosts": []}}}
BY_DEFAULT = {
    "cgroup_prefix": "pbs_jobs",
    "exclude_hosts": [],
    "exclude_vntypes": ["no_cgroups"],
    "run_only_on_hosts": [],
    **CPUSETS,
}


def cpuset(**values: object) -> Pbs:
    return {"cgroup": {"cpuset": values}}


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
    answer = {**pbs(hooks=hooks), "cgroups": BY_DEFAULT}
    assert told(batch_pbs.cores(answer, {"share_mode": mode, "fence": fence, "wlm_node": "n1"})) == found


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (BY_DEFAULT, ""),
        (CPUSETS, ""),
        (cpuset(enabled=True, exclude_hosts=["n", "gpu*"]), ""),
        (cpuset(enabled=False), "no cpusets on this host"),
        (cpuset(), "no cpusets on this host"),
        ({"cgroup": {"memory": {"enabled": True}}}, "no cpusets on this host"),
        ({"cgroup": "odd"}, "no cpusets on this host"),
        ({}, "no cpusets on this host"),
        (cpuset(enabled=True, exclude_hosts=["n1"]), "no cpusets on this host"),
        (cpuset(enabled=True, exclude_hosts=["n[0-9]"]), "no cpusets on this host"),
        (cpuset(enabled=False, include_hosts=["n*"]), ""),
        (cpuset(enabled=False, include_hosts=["gpu*"]), "no cpusets on this host"),
        (cpuset(enabled="host not in: gpu1, n1"), "no cpusets on this host"),
        (cpuset(enabled="Host in : gpu1, n*"), ""),
        (cpuset(enabled="vntype in: big"), "condition that is not judged here: vntype in: big"),
        (cpuset(enabled="vntype in: big", exclude_hosts=["n1"]), "no cpusets on this host"),
        ({"enabled": False, **CPUSETS}, "no cpusets on this host"),
        ({"enabled": "vntype in: big", **CPUSETS}, "condition that is not judged here: vntype in: big"),
        ({"exclude_hosts": ["n?"], **CPUSETS}, "no cpusets on this host"),
        ({"run_only_on_hosts": ["n2"], **CPUSETS}, "no cpusets on this host"),
        ({"run_only_on_hosts": ["n*"], **CPUSETS}, ""),
        ({"run_only_on_hosts": ["long.site"], **CPUSETS}, ""),
        ({"run_only_on_hosts": ["n1"], "exclude_hosts": ["n2"], **CPUSETS}, ""),
        ({"cgroup_prefix": "site", **CPUSETS}, "after site, and our hook looks below pbs_jobs"),
    ],
)
def test_the_configuration_of_pbs_cgroups_gives_jobs_cores_of_their_own_here(config: Pbs, words: str) -> None:
    vnodes = vnode("long.site", "n1"), vnode("long.site[0]", "n1"), vnode("n2", "n2")
    answer = {**pbs(*vnodes, hooks=[hook("pbs_cgroups")]), "cgroups": config}
    wanted = {"share_mode": "placeholder", "fence": "cores", "wlm_node": "n1", "cgroup_prefix": "pbs_jobs"}
    found = list(batch_pbs.cores(answer, wanted))
    level = "warn" if "not judged" in words else "refuse"
    assert told(found) == ([(level, "cores")] if words else [])
    assert all(words in finding.text for finding in found)
    assert told(batch_pbs.cores(answer, {**wanted, "fence": "split"})) == []


@pytest.mark.parametrize(
    ("cgroup", "fence", "found"),
    [
        ("v1", "cores", []),
        ("v2", "cores", [("warn", "cores")]),
        ("v2", "split", []),
        ("v2", "counts", [("warn", "cores")]),
    ],
)
def test_on_cgroup_v2_the_hook_of_cgroups_makes_no_cpusets(
    cgroup: str, fence: str, found: list[tuple[str, str]]
) -> None:
    answer = {**pbs(vnode("n1", "n1"), hooks=[hook("pbs_cgroups")]), "cgroups": BY_DEFAULT}
    wanted = {"share_mode": "placeholder", "fence": fence, "wlm_node": "n1"}
    assert told(batch_pbs.cores(answer, wanted, cgroup=cgroup)) == found


def test_our_order_may_be_another_than_ours_by_default() -> None:
    wanted = {"share_mode": "backed", "fence": "cores", "wlm_node": "n1", "hook_order": 90}
    answer = {**pbs(hooks=[hook("pbs_cgroups", order="100")]), "cgroups": BY_DEFAULT}
    assert told(batch_pbs.cores(answer, wanted)) == [("refuse", "cores")]


GIB = 1 << 30


@pytest.mark.parametrize(
    ("given", "wanted", "kubelet", "found"),
    [
        ({"ncpus": 8, "mem": 15 * GIB}, {}, {}, []),
        ({"ncpus": 8, "mem": 15 * GIB}, {}, {"systemReserved": {"cpu": "100m"}}, [("note", "room")]),
        ({"ncpus": 7, "mem": 15 * GIB}, {}, {"systemReserved": {"cpu": "500m"}, "kubeReserved": {"cpu": "500m"}}, []),
        ({"ncpus": 8}, {"share_mode": "backed"}, {"reservedSystemCPUs": "0-1"}, [("warn", "room")]),
        ({"ncpus": 6}, {"share_mode": "backed"}, {"reservedSystemCPUs": "0-1"}, []),
        ({"ncpus": 8, "mem": 16 * GIB}, {"share_mode": "backed"}, {}, [("warn", "room")]),
        ({"ncpus": 8, "mem": 16 * GIB}, {"share_mode": "backed"}, {"evictionHard": {"memory.available": "5%"}}, []),
        ({"ncpus": 8, "mem": 15 * GIB}, {}, {"kubeReserved": {"memory": "2Gi"}}, [("note", "room")]),
        ({"ncpus": 8, "mem": 16 * GIB}, {"share_mode": "handover"}, {"systemReserved": {"cpu": "2"}}, []),
        ({"ncpus": 8}, {"fence": "split"}, {"reservedSystemCPUs": "0-3"}, [("warn", "room")]),
        ({"ncpus": 4}, {"fence": "split"}, {"reservedSystemCPUs": "0-3"}, []),
        ({"ncpus": 4}, {}, {"systemReserved": {"cpu": "many"}}, [("refuse", "kubelet_config")]),
        ({}, {}, {}, []),
    ],
)
def test_what_pbs_gives_away_beyond_what_the_kubelet_can_show_is_said(
    given: dict[str, int], wanted: dict[str, str], kubelet: Pbs, found: list[tuple[str, str]]
) -> None:
    wants = {"share_mode": "placeholder", "fence": "cores", **wanted, "kubelet_config": kubelet}
    vnodes = [dict(vnode("n1", "n1"), available=given), vnode("n1[0]", "n1")]
    assert told(room.what_pbs_gives(vnodes, Machine(wants, {"cpus": 8, "memory": 16 * GIB}))) == found


@pytest.mark.parametrize(
    ("hosts", "found"), [({"n1", "n2"}, []), ({"n1"}, ["n2"]), ({"n1[1]"}, ["n2"]), (set(), ["n1", "n2"])]
)
def test_hosts_that_nobody_converts_are_named(hosts: set[str], found: list[str]) -> None:
    assert list(batch_pbs.left_out(hosts, SEVERAL)) == found


@pytest.mark.parametrize(
    ("mode", "wlm", "found"),
    [
        ("placeholder", "pbs", []),
        ("backed", "pbs", []),
        ("placeholder", "slurm", [("refuse", "share_mode")]),
        ("backed", "slurm", [("refuse", "share_mode")]),
        ("placeholder", "torque", []),
        ("backed", "torque", [("refuse", "share_mode")]),
        ("handover", "sge", []),
        ("placeholder", "sge", [("refuse", "share_mode")]),
    ],
)
def test_pods_run_beside_jobs_of_pbs_and_torque_and_are_backed_by_those_of_pbs(
    mode: str, wlm: str, found: list[tuple[str, str]]
) -> None:
    assert told(names.share_mode({"share_mode": mode}, wlm)) == found


@pytest.mark.parametrize(
    ("users", "hosts", "found"),
    [
        (["placement"], [], []),
        (["placement", "alice"], [], [("warn", "open_queue")]),
        (["+placement", "-alice"], [], []),
        (["*@*"], [], [("warn", "open_queue")]),
        (["placement", "alice"], ["srv"], []),
    ],
)
def test_nobody_submits_jobs_of_his_own_to_the_queue_that_the_hook_leaves_alone(
    users: list[str], hosts: list[str], found: list[tuple[str, str]]
) -> None:
    wanted = {"backed_queue": "pods", "queue_users": users, "queue_hosts": hosts}
    assert told(batch_pbs.queue(wanted)) == found
    assert told(batch_pbs.queue({**wanted, "backed_queue": ""})) == []


@pytest.mark.parametrize(
    ("mode", "queue", "found"),
    [
        ("backed", "", [("refuse", "backed_queue")]),
        ("backed", "pods", []),
        ("placeholder", "", []),
        ("handover", "", []),
    ],
)
def test_backed_pods_need_a_queue_that_the_hook_leaves_alone(
    mode: str, queue: str, found: list[tuple[str, str]]
) -> None:
    assert told(names.backed({"share_mode": mode, "backed_queue": queue})) == found


@pytest.mark.parametrize(
    ("name", "mode", "found"),
    [
        ("n1", "backed", []),
        ("node1", "backed", [("refuse", "vnode_name")]),
        ("node1", "placeholder", [("refuse", "vnode_name")]),
        ("node1", "handover", []),
        ("n7", "backed", []),
    ],
)
def test_a_node_that_jobs_are_beside_is_named_as_jobs_name_it(
    name: str, mode: str, found: list[tuple[str, str]]
) -> None:
    assert told(batch_pbs.host_name(name, pbs(vnode("node1", "n1")), mode)) == found


@pytest.mark.parametrize(
    ("how", "mode", "found"),
    [
        ("ignore_excl", "placeholder", [("warn", "sharing")]),
        ("ignore_excl", "backed", []),
        ("ignore_excl", "handover", []),
        ("default_shared", "placeholder", []),
    ],
)
def test_a_node_that_nobody_has_for_himself_is_named_where_pods_make_room(
    how: str, mode: str, found: list[tuple[str, str]]
) -> None:
    answer = pbs({**vnode("n1[0]", "n1"), "sharing": how}, vnode("n2", "n2"))
    assert told(batch_pbs.sharing("n1", answer, mode)) == found
    assert told(batch_pbs.sharing("n2", answer, mode)) == []


ON_DISK = "/var/lib/converged/placeholders"
PLACES = "/run/converged-placeholders"
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
        (SPLIT, {"reservedSystemCPUs": "3-1"}, ["fence"]),
        ({}, {"staticPodPath": PLACES + "/"}, []),
        ({}, {"staticPodPath": "/etc/kubernetes/manifests"}, ["static_pods"]),
        ({"manifests": "/etc/kubernetes/manifests"}, {"staticPodPath": "/etc/kubernetes/manifests"}, []),
        ({"static_pods": ""}, {}, []),
        ({"static_pods": "", "manifests": ""}, {}, []),
        ({"static_pods": "/srv/pods", "manifests": ""}, {}, ["static_pods"]),
        ({"static_pods": "", "manifests": "/srv/pods"}, {}, []),
        ({"inventory_fence": "cores"}, {}, []),
        ({"inventory_fence": "counts"}, {}, ["fence"]),
    ],
)
@pytest.mark.parametrize("mode", ["placeholder", "backed", "handover"])
def test_the_kubelet_and_nodeshare_mean_the_same_directory_and_give_no_core_twice(
    wanted: dict[str, str], kubelet: dict[str, str], found: list[str], mode: str
) -> None:
    settings = {"share_mode": mode, "fence": "cores", "manifests": PLACES, "static_pods": PLACES, **wanted}
    judged = placeholder_mode.placeholders(Machine({**settings, "kubelet_config": kubelet}, {}))
    assert [finding.code for finding in judged] == ([] if mode == "handover" else found)


@pytest.mark.parametrize(
    ("wanted", "level"),
    [
        ({}, "warn"),
        ({"manifests": ON_DISK}, "warn"),
        ({"manifests": ON_DISK, "static_pods": ON_DISK}, "warn"),
        ({"manifests": PLACES}, ""),
        ({"manifests": PLACES, "static_pods": PLACES}, ""),
        ({"static_pods": PLACES}, "refuse"),
        ({"manifests": PLACES, "static_pods": ON_DISK}, "refuse"),
    ],
)
def test_of_a_node_of_an_earlier_release_what_the_roles_will_do_is_judged(wanted: dict[str, str], level: str) -> None:
    machine = Machine(
        {"share_mode": "placeholder", "fence": "cores", "manifests": "", "static_pods": "", **wanted},
        {"kubelet_file": {"staticPodPath": ON_DISK}},
    )
    found = [finding.level for finding in placeholder_mode.placeholders(machine) if finding.code == "static_pods"]
    assert found == ([level] if level else [])


@pytest.mark.parametrize(
    ("mode", "of_nodeshare", "of_inventory", "found"),
    [
        ("handover", "", "handover", []),
        ("handover", "handover", "handover", []),
        ("placeholder", "placeholder", "placeholder", []),
        ("backed", "placeholder", "backed", []),
        ("handover", "placeholder", "handover", [("refuse", "share_mode")]),
        ("placeholder", "handover", "placeholder", [("refuse", "share_mode")]),
        ("placeholder", "placeholder", "handover", [("refuse", "share_mode")]),
        ("handover", "", "backed", [("refuse", "share_mode")]),
    ],
)
def test_nodeshare_the_label_and_everybody_else_go_by_the_same_share_mode(
    mode: str, of_nodeshare: str, of_inventory: str, found: list[tuple[str, str]]
) -> None:
    settings = {"share_mode": mode, "node_mode": of_nodeshare, "fence": "cores", "manifests": "/m", "static_pods": "/m"}
    settings["inventory_share_mode"] = of_inventory
    assert told(placeholder_mode.placeholders(Machine(settings, {}))) == found
