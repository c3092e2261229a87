# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon while the API server is away for long, while nodes change, and when another version follows it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e.outage import without_api
from e2e.placement import proxy as faults
from e2e.placement.behind_proxy import BINDING, NAMES, assert_all_is_well, behind, bindings, fill, scheduler
from e2e.placement.cluster import LEASES, NODES, Cluster, Namespace
from e2e.placement.daemon import Daemon, free_port
from e2e.placement.proxy import Proxy
from e2e.placement.role import ROLE
from e2e.playing import until
from testbed.kube_api import STRATEGIC_PATCH, Json
from testbed.run import run

# How often the daemon tries in vain to renew its lease, which it does twice a second, before the API comes back.
TRIES, LONG_TRIES = 10, 60
KWOK = "kwok.service"
ETCD = "http://127.0.0.1:2379"
ODD = ("odd-1", "odd-2", "odd-3")
# The last daemon that had no deadline for gangs bound in part, and wrote phases before anything was bound.
FORMER = "f4c522c"


def compact(cluster: Cluster) -> None:
    """etcd forgets everything up to now, on disk too."""
    version = cluster.api.get("/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"]
    body = json.dumps({"revision": version, "physical": True})
    done = cluster.bed.exec("kube", ["curl", "--silent", "--fail", "--data", body, f"{ETCD}/v3/kv/compaction"])
    assert "revision" in json.loads(done.out)["header"]


def relists(daemon: Daemon) -> int:
    """How often the daemon has listed all pods."""
    found: int = daemon.status()["sources"]["pods"]["relists"]
    return found


def asked(proxy: Proxy, since: int, path: str) -> int:
    """How often the daemon has asked for something, of all that came after so many requests."""
    return sum(seen.path.startswith(path) for seen in proxy.seen[since:])


@pytest.mark.parametrize("tries", [TRIES, pytest.param(LONG_TRIES, marks=pytest.mark.soak)])
def test_an_outage_with_a_compaction_loses_neither_a_deletion_nor_a_namesake(
    cluster: Cluster, proxy: Proxy, proxied: Daemon, team: Namespace, tries: int
) -> None:
    fill(team, proxied)
    listed = relists(proxied)
    with ExitStack() as outage:
        with proxy.fault("GET", "/api/v1/pods", faults.lost_before):
            proxy.cut()
            # It deletes by name, and would meet the namesake.
            cluster.bed.exec("kube", ["systemctl", "stop", KWOK])
            outage.callback(cluster.bed.exec, "kube", ["systemctl", "start", KWOK])
            for name in ("filler-0", "filler-1"):
                cluster.api.delete(f"{team.path}/pods/{name}?gracePeriodSeconds=0")
            team.pod("filler-1", cpu="32", scheduler=scheduler(proxied))
            compact(cluster)
            outage.enter_context(without_api(cluster.bed))
        since = len(proxy.seen)
        until(lambda: asked(proxy, since, LEASES) >= tries, "it tries to renew its lease")
        until(lambda: asked(proxy, since, "/api/v1/pods?") >= 2, "it tries to list pods")
    # The test's own connection ended with the old server.
    cluster.api.close()
    until(lambda: {"waits", "filler-1"} <= team.bound(), "both places are taken")
    assert relists(proxied) > listed
    assert proxied.leads()
    assert len(set(team.places().values())) == NODES
    often = bindings(cluster, team)
    # Once each of the two that had its name.
    assert often.pop("filler-1") == 2
    assert set(often.values()) == {1}


@pytest.fixture
def odd(cluster: Cluster, team: Namespace) -> Iterator[None]:
    """Three nodes of four cores, on each of which another scheduler has put a pod of two."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    for name in ODD:
        node = {"metadata": {"name": name, "labels": {"odd": "true"}}, "status": {"allocatable": room}}
        cluster.api.create("/api/v1/nodes", node)
        # Admission calls every new node not ready.
        cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}})
        team.pod(f"foreign-{name}", cpu="2", scheduler="default-scheduler", nodeName=name)
    yield
    team.clear()
    cluster.api.delete("/api/v1/nodes?labelSelector=odd")


def shrink(cluster: Cluster, node: str, cpu: str) -> None:
    status = {"status": {"allocatable": {"cpu": cpu}}}
    cluster.api.patch(f"/api/v1/nodes/{node}/status", status, content_type=STRATEGIC_PATCH)


@pytest.mark.usefixtures("odd")
def test_nodes_that_are_cordoned_shrink_or_vanish_get_nothing_more(
    cluster: Cluster, daemon: Daemon, team: Namespace
) -> None:
    where = {"nodeSelector": {"odd": "true"}}
    # Two cores are left of each: what others have placed counts.
    team.job("gang", replicas=3, cpu="2", **where)
    until(lambda: len(set(team.places("gang").values())) == 3, "each node has one member")
    cluster.api.patch("/api/v1/nodes/odd-1", {"spec": {"unschedulable": True}})
    # Less than what is on it.
    shrink(cluster, "odd-2", "1")
    cluster.api.delete("/api/v1/nodes/odd-3")
    team.pod("late", **where)
    refusing = {"not matched by node selector or node affinity": NODES, "unschedulable": 1, "Insufficient cpu": 1}
    until(lambda: reasons(daemon, f"{team.name}/late") == refusing, "each node is counted for what it is now")
    team.finish("foreign-odd-1", "Succeeded")
    cluster.api.patch("/api/v1/nodes/odd-1", {"spec": {"unschedulable": False}})
    until(lambda: team.places("late") == {"late": "odd-1"}, "the first place that is free again is taken")
    assert daemon.leads()


def reasons(daemon: Daemon, pod: str) -> dict[str, int]:
    """By how many nodes a pod is refused for what."""
    answer = daemon.ask("why", pod, "--json")
    refusing = json.loads(answer)["nodes"] if answer else ()
    return {item["reason"]: item["nodes"] for item in refusing}


def only(cluster: Cluster, node: str) -> Json:
    """What a pod says that may go to this node and to no other."""
    where = {"kubernetes.io/hostname": node}
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": where}})
    return {"nodeSelector": where}


@pytest.mark.usefixtures("odd", "daemon")
def test_a_node_that_turns_a_pod_away_is_left_alone_for_a_while(cluster: Cluster, team: Namespace) -> None:
    where = only(cluster, "odd-1")
    team.pod("first", **where)
    until(lambda: team.places("first") == {"first": "odd-1"}, "the pod is bound")
    # As a kubelet does that knows better what is on its node.
    rejected = {"phase": "Failed", "reason": "OutOfcpu"}
    cluster.api.patch(f"{team.path}/pods/first/status", {"status": rejected}, content_type=STRATEGIC_PATCH)
    team.pod("second", **where)
    until(lambda: "turned pods away" in team.condition("second")[1], "the next pod is told why it waits")
    until(lambda: team.places("second") == {"second": "odd-1"}, "the node is tried again")


def overfull(cluster: Cluster, node: str, scheduler_name: str) -> list[str]:
    """What a scheduler's Events say of a node that is; other tests' daemons on this cluster see it as well."""
    found = cluster.api.items("/apis/events.k8s.io/v1/namespaces/default/events")
    about = (event for event in found if event["regarding"]["name"] == node and event["reason"] == "Overfull")
    return [event["note"] for event in about if event["reportingController"] == scheduler_name]


@pytest.mark.usefixtures("odd")
def test_a_node_that_two_leaders_have_filled_is_told_of_until_its_kubelet_has_mended_it(
    cluster: Cluster, proxy: Proxy, team: Namespace
) -> None:
    name = next(NAMES)
    first = behind(cluster, proxy, name)
    listen = f"127.0.0.1:{free_port()}"
    second = cluster.daemon(f"{name}-second", scheduler_name=name, lease_name=name, listen=listen)
    cluster.priority("urgent", 1000)
    # Admission may find out that nobody renews the node's own lease.
    where = only(cluster, "odd-1") | {"tolerations": [{"operator": "Exists"}], "scheduler": name, "cpu": "2"}
    go = threading.Event()
    try:
        first.start()
        until(first.leads, "the first leads")
        second.start()
        with proxy.fault("POST", f"/{team.name}/.*{BINDING}", faults.held(go, then=lambda forward: forward())) as rule:
            team.pod("late", **where)
            until(lambda: rule.met == 1, "a binding is on its way")
            first.signal(signal.SIGSTOP)
            cluster.end_lease(name)
            team.pod("early", priorityClassName="urgent", **where)
            until(lambda: team.bound() >= {"early"}, "the second takes the last room for another pod")
            go.set()
            until(lambda: team.bound() >= {"early", "late"}, "and the first's arrives after all")
        until(lambda: overfull(cluster, "odd-1", name) == ["Its pods request 6 of 4 cpu"], "an Event says so")
        assert second.figure("overfull_nodes") == 1
        assert "overfull nodes: odd-1\n" in second.ask("status")
        # A kubelet turns away what it has no room for.
        rejected = {"phase": "Failed", "reason": "OutOfcpu"}
        cluster.api.patch(f"{team.path}/pods/late/status", {"status": rejected}, content_type=STRATEGIC_PATCH)
        until(lambda: second.status().get("overfull_nodes") == [], "the node is in order")
        assert len(overfull(cluster, "odd-1", name)) == 1
    finally:
        go.set()
        first.stop()
        second.stop()


@pytest.fixture
def former(cluster: Cluster) -> Path:
    """The package as it was, from the history of the checkout."""
    folder = cluster.folder / "former"
    packed = f"{folder}.tar"
    run(
        ["git", "-C", str(ROLE.parents[1]), "archive", f"--output={packed}", f"{FORMER}:roles/placement/files"],
        timeout=300,
    )
    folder.mkdir(exist_ok=True)
    run(["tar", "--extract", f"--directory={folder}", f"--file={packed}"], timeout=300)
    return folder


# The history of the checkout may be cut off where `make test` runs.
@pytest.mark.soak
@pytest.mark.parametrize("downwards", [False, True], ids=["upgrade", "downgrade"])
def test_a_gang_that_another_version_has_begun_becomes_whole(
    cluster: Cluster, proxy: Proxy, team: Namespace, former: Path, downwards: bool
) -> None:
    name = next(NAMES)
    daemon = behind(cluster, proxy, name, journal=str(cluster.folder / name / "journal"))
    go = threading.Event()
    try:
        daemon.files = daemon.files if downwards else former
        daemon.start()
        until(daemon.leads, "the first leads")
        with proxy.fault("POST", f"/{team.name}/.*{BINDING}", faults.held(go), after=3):
            team.job("gang", replicas=6, cpu="8", scheduler=name)
            until(lambda: len(team.bound()) == 3, "half of the gang is bound")
            daemon.signal(signal.SIGKILL)
            daemon.wait()
            cluster.end_lease(name)
            go.set()
        daemon.files = former if downwards else ROLE / "files"
        daemon.start()
        assert_all_is_well(cluster, team, 6)
    finally:
        go.set()
        daemon.stop()
