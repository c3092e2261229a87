# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons that reach the API by way of the proxy, and what must hold whatever it does to them."""

from __future__ import annotations

import itertools
import os
from collections import Counter

from e2e.placement.cluster import NODES, Cluster, Namespace
from e2e.placement.daemon import Daemon, free_port
from e2e.placement.proxy import Proxy
from e2e.playing import until

BINDING = "/binding"
NAMES = (f"faulty-{os.getpid()}-{number}" for number in itertools.count())
CORES = 32
# How often `make soak` does what `make test` does once.
REPEATS = 100


def behind(cluster: Cluster, proxy: Proxy, name: str, **settings: object) -> Daemon:
    """A daemon behind the proxy; unless told otherwise, it keeps its Lease over long faults."""
    chosen = {"scheduler_name": name, "lease_name": name, **settings}
    return cluster.daemon(name, kubeconfig=str(proxy.kubeconfig), **chosen)


def with_graph(cluster: Cluster, proxy: Proxy, name: str, **settings: object) -> Daemon:
    """A daemon behind the proxy that has a graph from its start, and metrics that say whether it was ever wrong."""
    levels = "zone=topology.kubernetes.io/zone"
    return behind(cluster, proxy, name, topology_levels=levels, listen=f"127.0.0.1:{free_port()}", **settings)


def scheduler(daemon: Daemon) -> str:
    """The name by which pods ask for it."""
    return daemon.settings.parent.name


def fill(team: Namespace, daemon: Daemon) -> None:
    """No core is free on any node, and one more pod, `waits`, waits for a place."""
    team.job("filler", replicas=NODES, cpu=str(CORES), scheduler=scheduler(daemon))
    until(lambda: len(team.bound()) == NODES, "the cluster is full")
    team.pod("waits", cpu=str(CORES), scheduler=scheduler(daemon))
    until(lambda: team.condition("waits")[0] == "False", "one pod waits")


def bindings(cluster: Cluster, team: Namespace) -> Counter[str]:
    """How often each pod of a test was bound."""
    return Counter(
        event.name
        for event in cluster.audit()
        if event.namespace == team.name and event.resource == "pods/binding" and event.code == 201
    )


def assert_all_is_well(cluster: Cluster, team: Namespace, pods: int) -> None:
    """Each pod was bound once, and each node has room for what is on it."""
    until(lambda: len(team.bound()) == pods, "all pods are bound")
    assert set(bindings(cluster, team).values()) == {1}
    used: Counter[str] = Counter()
    for pod in cluster.api.items("/api/v1/pods"):
        if pod["spec"].get("nodeName", "").startswith("load-"):
            requests = pod["spec"]["containers"][0]["resources"].get("requests", {})
            used[pod["spec"]["nodeName"]] += int(requests.get("cpu", 0))
    assert len(used) <= NODES
    assert max(used.values()) <= CORES


def scheduled_once(team: Namespace, pod: str) -> bool:
    """Whether exactly one Event says where a pod went."""
    said = "Scheduled", f"Successfully assigned {team.name}/{pod} to {team.places()[pod]}"
    return team.events(pod).count(said) == 1
