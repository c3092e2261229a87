# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices at a real API server: the tree has the devices of whole pools, and no others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from e2e.placement.cluster import Cluster, Namespace
from e2e.placement.daemon import Daemon
from e2e.playing import until
from testbed.kube_api import Json

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
DRIVER = f"gpu-{os.getpid()}.example.com"
EXTENDED = f"example.com/gpu-{os.getpid()}"
NODE = "load-00000"


def put(cluster: Cluster, name: str, generation: int, *gpus: int, of: int = 2) -> None:
    """The driver's slice is there, or is changed to this."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "numaNode": {"int": number // 2},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number:02x}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in gpus
    ]
    pool = {"name": NODE, "generation": generation, "resourceSliceCount": of}
    spec = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": devices}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    cluster.apply(SLICES, body)


@pytest.fixture
def slices(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Names of two slices, which are gone afterwards."""
    names = (f"{DRIVER}-a", f"{DRIVER}-b")
    yield names
    for name in names:
        cluster.api.delete(f"{SLICES}/{name}", missing_ok=True)


def shown(daemon: Daemon) -> list[str]:
    """The lines of the tree that are about the driver's devices."""
    return [line.strip() for line in daemon.ask("graph", "show", "--nodes").splitlines() if DRIVER in line]


def line(number: int) -> str:
    return f"gpu gpu-{number}  memory 80 GiB  pcie pci0000:{number:02x}  {DRIVER}"


def lines_are(daemon: Daemon, *expected: str) -> None:
    until(lambda: shown(daemon) == [*expected], f"the tree shows {expected}")


def left_out(why: str) -> str:
    return f"note: node {NODE}: pool {NODE} of {DRIVER} is left out: {why}"


def test_devices_of_whole_pools_come_change_and_go(cluster: Cluster, daemon: Daemon, slices: tuple[str, str]) -> None:
    first, second = slices
    put(cluster, first, 1, 0, 1)
    lines_are(daemon, left_out("1 of 2 slices of generation 1"))
    put(cluster, second, 1, 2)
    lines_are(daemon, line(0), line(1), line(2))
    # The driver replaces its slices one after another.
    put(cluster, first, 2, 0)
    lines_are(daemon, left_out("1 of 2 slices of generation 2"))
    put(cluster, second, 2, 3)
    lines_are(daemon, line(0), line(3))
    made = json.loads(daemon.ask("graph", "dump"))["graph"]
    vertices: dict[str, Json] = {item["id"]: item["metadata"] for item in made["nodes"]}
    above = {edge["target"]: vertices[edge["source"]] for edge in made["edges"]}
    found = {
        item["name"]: (above[name]["type"], above[name]["name"], item["type"], item["properties"]["pcieRoot"])
        for name, item in vertices.items()
        if item["properties"].get("driver") == DRIVER
    }
    assert found == {
        "gpu-0:0": ("numanode", "node-0", "gpu", "pci0000:00"),
        "gpu-3:1": ("numanode", "node-1", "gpu", "pci0000:03"),
    }
    for name in slices:
        cluster.api.delete(f"{SLICES}/{name}")
    lines_are(daemon)
    daemon.assert_graph_in_step()


def test_devices_are_advice_and_no_pod_gets_a_node_by_them(
    cluster: Cluster, daemon: Daemon, team: Namespace, slices: tuple[str, str]
) -> None:
    put(cluster, slices[0], 1, 0, 1, of=1)
    lines_are(daemon, line(0), line(1))
    metadata = {"name": DRIVER}
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}], "extendedResourceName": EXTENDED}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}
    cluster.apply(CLASSES, body)
    try:
        container = {"name": "main", "image": "localhost/none", "resources": {"limits": {EXTENDED: "1"}}}
        team.pod("extended", containers=[container])
        team.pod("claims", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
        team.pod("plain")
        until(lambda: team.bound() == {"plain"}, "the plain pod is bound")
        until(lambda: EXTENDED in team.condition("extended")[1], "the condition names the extended resource")
        until(lambda: "spec.resourceClaims" in team.condition("claims")[1], "the condition names the claims")
        assert team.bound() == {"plain"}
    finally:
        cluster.api.delete(f"{CLASSES}/{DRIVER}")
