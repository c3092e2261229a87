# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fault in the middle of a burst, with gangs and victims: afterwards every pod is bound or waits, and nothing else.

The daemon has the times of its Lease as a site has them, and is started again when it ends, as systemd does.
`make test` meets one fault with a small burst, `make soak` each of them with a thousand pods.
"""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from e2e.outage import without_api
from e2e.placement import proxy as faults
from e2e.placement.behind_proxy import BINDING, CORES, NAMES, behind, bindings, fill, with_graph
from e2e.placement.clock import Clock
from e2e.placement.cluster import NODES, Cluster, Namespace
from e2e.placement.daemon import Daemon
from e2e.placement.proxy import Proxy
from e2e.playing import until
from placement_kit.kube_batch import policy

HOUR = 3600
# As the settings are unless a site says otherwise.
TERMS = {"lease_duration": 15, "renew_deadline": 10, "retry_period": 2}
KWOK = "kwok.service"
DATA, BACKUP = "/var/lib/etcd", "/var/lib/etcd-backup"


@dataclass(frozen=True, slots=True)
class Burst:
    """A full cluster of low priority, and what comes all at once: urgent gangs, and pods that have to wait."""

    fillers: int
    gangs: int
    singles: int
    members: int = 20

    def fill(self, team: Namespace, scheduler: str) -> None:
        """No core is free."""
        cpu = str(NODES * CORES // self.fillers)
        for number in range(self.fillers):
            team.pod(f"filler-{number}", cpu=cpu, scheduler=scheduler)
        until(lambda: len(team.bound()) == self.fillers, "the cluster is full")

    def come(self, team: Namespace, scheduler: str) -> None:
        """The burst."""
        for number in range(self.gangs):
            team.job(f"gang-{number}", replicas=self.members, scheduler=scheduler, priorityClassName="urgent")
        for number in range(self.singles):
            team.pod(f"single-{number}", scheduler=scheduler)


SMALL = Burst(fillers=40, gangs=4, singles=60)
LARGE = Burst(fillers=320, gangs=20, singles=600)


def held(seconds: float) -> None:
    """Let a fault last for so many seconds; that time is what the test is about."""
    threading.Event().wait(seconds)


@contextmanager
def frozen(daemon: Daemon) -> Iterator[None]:
    """The process stands still."""
    daemon.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.signal(signal.SIGCONT)


@contextmanager
def half_open(proxy: Proxy) -> Iterator[None]:
    """All connections that there are lose what is said over them."""
    proxy.silence()
    yield


# What happens meanwhile, by its name, to the network or the daemon.
FAULTS: dict[str, Callable[[Proxy, Daemon], AbstractContextManager[None]]] = {
    "away": lambda proxy, _daemon: proxy.outage(),
    "frozen": lambda _proxy, daemon: frozen(daemon),
    "half-open": lambda proxy, _daemon: half_open(proxy),
    "429": lambda proxy, _daemon: proxy.outage(faults.answered(429)),
    "429-retry-after": lambda proxy, _daemon: proxy.outage(faults.answered(429, retry_after="7")),
}
TIMES = [("frozen", 5), ("frozen", 9), ("frozen", 12), ("frozen", 20), *(("away", n) for n in (6, 8, 10, 12))]
CASES = [
    pytest.param(SMALL, "away", 9, id="away-9"),
    *(pytest.param(LARGE, name, n, id=f"many-{name}-{n}", marks=pytest.mark.soak) for name, n in TIMES),
    pytest.param(LARGE, "half-open", 40, id="many-half-open", marks=pytest.mark.soak),
    pytest.param(LARGE, "429", 60, id="many-429", marks=pytest.mark.soak),
    pytest.param(LARGE, "429-retry-after", 60, id="many-429-retry-after", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("burst", "fault", "seconds"), CASES)
def test_a_fault_in_a_burst_leaves_every_pod_bound_or_waiting(
    cluster: Cluster, proxy: Proxy, team: Namespace, burst: Burst, fault: str, seconds: float
) -> None:
    name = next(NAMES)
    daemon = made(cluster, proxy, name)
    with daemon.kept() as ended:
        begin(cluster, team, daemon, burst)
        # Slow enough that the fault meets bindings and evictions on their way.
        with proxy.fault("POST", f"/{team.name}/.*({BINDING}|/eviction)", faults.late(1)):
            burst.come(team, name)
            until(lambda: len(team.bound("gang")) >= burst.members, "the burst is being placed")
            with FAULTS[fault](proxy, daemon):
                held(seconds)
        assert_all_is_settled(cluster, team, daemon, burst)
        # By the loss of its Lease, or not at all.
        assert set(ended) <= {3}


@pytest.mark.soak
def test_a_clock_that_jumps_in_a_burst_leaves_every_pod_bound_or_waiting(cluster: Cluster, team: Namespace) -> None:
    name = next(NAMES)
    folder = cluster.folder / name
    clock = Clock(folder / "clock")
    # By a clock that is an hour behind, a certificate that is younger than an hour is not valid yet.
    clock.step(-2 * HOUR)
    with Proxy(cluster.kubeconfig, folder / "proxy", clock.variables) as network:
        clock.step(0)
        daemon = made(cluster, network, name)
        daemon.variables = clock.variables
        with daemon.kept() as ended:
            begin(cluster, team, daemon, LARGE)
            with network.fault("POST", f"/{team.name}/.*({BINDING}|/eviction)", faults.late(1)):
                LARGE.come(team, name)
                for number, seconds in enumerate((HOUR, -HOUR, 0), 1):
                    until(lambda wanted=number * 100: len(team.bound("gang")) >= wanted, "the burst is being placed")
                    clock.step(seconds)
            assert_all_is_settled(cluster, team, daemon, LARGE)
            assert ended == []


def made(cluster: Cluster, proxy: Proxy, name: str) -> Daemon:
    """A daemon that preempts, with a Lease as short as a site's."""
    file = cluster.folder / f"{name}-policy.yml"
    file.write_text(policy("allocate, backfill, preempt"), encoding="utf-8")
    return with_graph(cluster, proxy, name, policy=str(file), **TERMS)


def begin(cluster: Cluster, team: Namespace, daemon: Daemon, burst: Burst) -> None:
    """The daemon leads, and the cluster is full."""
    cluster.priority("urgent", 1000)
    until(daemon.leads, "it leads")
    burst.fill(team, daemon.settings.parent.name)


def assert_all_is_settled(cluster: Cluster, team: Namespace, daemon: Daemon, burst: Burst) -> None:
    """Each gang is whole, all others that have no node wait and say so, and no core is free or given twice."""

    def is_settled() -> bool:
        members, used, waiting = Counter[str](), Counter[str](), 0
        for pod in team.pods():
            if "deletionTimestamp" in pod["metadata"]:
                return False
            node = pod["spec"].get("nodeName", "")
            if node:
                members[pod["metadata"]["name"].rpartition("-")[0]] += 1
                used[node] += int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            else:
                waiting += 1
                conditions = pod["status"].get("conditions") or ()
                if not any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions):
                    return False
        assert all(cores <= CORES for cores in used.values()), used
        gangs = [members[f"gang-{number}"] for number in range(burst.gangs)]
        if gangs != [burst.members] * burst.gangs or sum(used.values()) != NODES * CORES:
            return False
        # And the daemon sees it so: what it had assumed would not be pending.
        return pending(daemon) == waiting

    until(is_settled, "every pod is bound or waits")
    until(lambda: under_way(daemon) == 0, "nothing is under way")
    assert set(bindings(cluster, team).values()) == {1}
    daemon.assert_graph_in_step()


def under_way(daemon: Daemon) -> int:
    """How many writes the API has not answered; -1 where the daemon does not answer."""
    said = daemon.status()
    return sum(said[what] for what in ("bindings_under_way", "writes_under_way")) if said else -1


def pending(daemon: Daemon) -> int:
    """How many pods wait for a node, as the daemon says; -1 where it does not answer."""
    answer = daemon.ask("queues", "--json")
    return (
        next((queue["pending_pods"] for queue in json.loads(answer) if queue["name"] == "default"), -1)
        if answer
        else -1
    )


@contextmanager
def etcd_stopped(cluster: Cluster) -> Iterator[None]:
    """Neither the API server nor etcd runs meanwhile."""
    with without_api(cluster.bed), ExitStack() as stopped:
        cluster.bed.exec("kube", ["systemctl", "stop", "etcd.service"])
        stopped.callback(cluster.bed.exec, "kube", ["systemctl", "start", "etcd.service"])
        yield
    # The test's own connection ended with the old server.
    cluster.api.close()


@pytest.mark.soak
def test_a_cluster_that_is_restored_from_a_backup_is_read_anew(cluster: Cluster, proxy: Proxy, team: Namespace) -> None:
    name = next(NAMES)
    daemon = behind(cluster, proxy, name)
    with daemon.kept() as ended:
        until(daemon.leads, "it leads")
        team.pod("before", scheduler=name)
        until(lambda: team.bound() == {"before"}, "one pod is bound")
        with etcd_stopped(cluster):
            cluster.bed.exec("kube", ["cp", "-a", DATA, BACKUP])
        until(daemon.leads, "it leads")
        # All of it is forgotten by the restore, and all of it is more than the cluster writes in a minute.
        for turn in range(10):
            fill_once(team, name, turn)
        with etcd_stopped(cluster):
            cluster.bed.exec("kube", ["systemctl", "stop", KWOK])
            cluster.bed.exec("kube", ["sh", "-c", f"rm -rf {DATA} && mv {BACKUP} {DATA}"])
        cluster.bed.exec("kube", ["systemctl", "start", KWOK])
        until(lambda: ended == [1], "it ends")
        assert "etcd was restored from a backup" in daemon.log.read_text(encoding="utf-8")
        until(daemon.synced, "it has begun anew")
        until(daemon.leads, "it leads")
        assert {pod["metadata"]["name"] for pod in team.pods()} == {"before"}
        team.clear()
        # Each node has room for one, and what was forgotten holds none.
        fill(team, daemon)


def fill_once(team: Namespace, scheduler: str, turn: int) -> None:
    """Pods come, are bound and go."""
    names = [f"turn-{turn}-{number}" for number in range(50)]
    for name in names:
        team.pod(name, scheduler=scheduler)
    until(lambda: len(team.bound(f"turn-{turn}-")) == len(names), "all are bound")
    for name in names:
        team.api.delete(f"{team.path}/pods/{name}?gracePeriodSeconds=0")
