# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cluster for the tests of a process: twenty nodes on which pods seem to run, and hosts for daemons."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from e2e.beds import own_bed
from e2e.placement import behind_proxy
from e2e.placement.cluster import Cluster, Namespace
from e2e.placement.daemon import Daemon, free_port
from e2e.placement.proxy import Proxy
from e2e.playing import until

# Of each process its own, so that parts of these tests can run beside each other.
BED = f"place-{os.getpid()}"
NAMES = (f"place-{os.getpid()}-{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A bed of our own, because nodes for load switch off what other tests need; with hosts, where a test has some."""
    hosts = any("deployment" in getattr(item, "fixturenames", ()) for item in request.session.items)
    with own_bed(request, BED, "--nodes", "2" if hosts else "1", "--wlm", "none") as bed:
        made = Cluster(bed, tmp_path_factory.mktemp("placement"))
        made.prepare()
        yield made
        made.api.close()


@pytest.fixture(scope="module")
def daemon(cluster: Cluster) -> Iterator[Daemon]:
    """One daemon for the tests that do not disturb it."""
    policy = cluster.folder / "policy.yml"
    policy.write_text(
        'actions: "allocate, backfill, preempt"\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n'
        "- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]\n"
    )
    running = cluster.daemon("main", policy=str(policy), lease_name="main", listen=f"127.0.0.1:{free_port()}").start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A network that does what it is told to."""
    with Proxy(cluster.kubeconfig, cluster.folder / "proxy") as running:
        yield running


@pytest.fixture(scope="module")
def proxied(cluster: Cluster, proxy: Proxy) -> Iterator[Daemon]:
    """A daemon behind that network."""
    running = behind_proxy.with_graph(cluster, proxy, next(behind_proxy.NAMES)).start()
    until(running.leads, "it leads")
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def graph_in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test has done to that network, the graph of the daemon behind it agrees with the pods afterwards."""
    running: Daemon | None = request.getfixturevalue("proxied") if "proxied" in request.fixturenames else None
    yield
    if running is not None:
        running.assert_graph_in_step()


@pytest.fixture
def team(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace; what a test leaves on nodes would be in the next one's way."""
    made = cluster.namespace(next(NAMES))
    yield made
    made.clear()
