# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that ResourceSlices publish: shown and written below their nodes where their pools are whole, no more."""

import json
from typing import Any

import pytest
from placement.app.topology import TopologyView
from placement.core.scheduler import Scheduler
from placement.graph.formats.jgf import read_jgf, write_jgf
from placement.graph.tree.tree import Graph
from placement.graph.views.show import show
from placement.model.device_slices import GPU, Device, DeviceSlice
from placement.model.messages.action import Bind
from placement.model.messages.event import UNSERVED, Deleted, Unreadable, Upserted
from placement.model.messages.refusal import Refusal
from placement.model.node_zones import NodeZones, NumaNode
from placement.model.slicing import finish
from placement.state.cluster import Cluster
from placement_kit.builders import amounts, mine, node
from placement_kit.drawn_graph import ZONES
from placement_kit.simulated import Simulated

DRIVER = "gpu.example.com"


def gpus(*numa: int, **more: Any) -> tuple[Device, ...]:
    """Return GPUs in these NUMA nodes."""
    return tuple(Device(f"gpu-{index}", kind=GPU, numa=number, **more) for index, number in enumerate(numa))


def part(name: str, *devices: Device, at: str = "n0", pool: str = "", **more: Any) -> DeviceSlice:
    """Return a slice of a pool that has this one alone."""
    more = {"version": 1, "driver": DRIVER, "generation": 1, "of": 1, **more}
    return DeviceSlice(uid=f"uid-{name}", name=name, pool=pool or at, node=at, devices=devices, **more)


def cluster_of(*items: Any, **more: Any) -> Cluster:
    cluster = Cluster()
    for item in (node("n0", **more), node("n1"), *items):
        cluster.apply(Upserted(item))
    return cluster


def graph_of(cluster: Cluster) -> Graph:
    return Graph(
        cluster.columns,
        ZONES,
        numa_nodes=lambda name: cluster.objects.find(NodeZones, name),
        devices=cluster.devices,
    )


def names(cluster: Cluster, at: str = "n0") -> list[str]:
    return [device.name for pool in cluster.devices.of(at) for device in pool.devices]


def test_a_pool_is_known_once_all_its_slices_of_the_newest_generation_are_there() -> None:
    a, b = gpus(0, 1)
    cluster = cluster_of(part("s1", a, of=2))
    assert names(cluster) == []
    assert [*cluster.devices.findings("n0")] == [
        "node n0: pool n0 of gpu.example.com is left out: 1 of 2 slices of generation 1"
    ]
    cluster.apply(Upserted(part("s2", b, of=2)))
    assert names(cluster) == ["gpu-0", "gpu-1"]
    assert [*cluster.devices.findings("n0")] == []
    # The driver replaces one slice after the other, and one of them with fewer devices.
    cluster.apply(Upserted(part("s1", a, of=2, generation=2, version=2)))
    assert names(cluster) == []
    cluster.apply(Upserted(part("s2", of=2, generation=2, version=3)))
    assert names(cluster) == ["gpu-0"]
    cluster.apply(Deleted(DeviceSlice, "uid-s2", 4))
    assert names(cluster) == []
    cluster.apply(Deleted(DeviceSlice, "uid-s1", 5))
    assert len(cluster.devices) == 0


def test_a_pool_of_several_nodes_is_whole_by_all_its_slices() -> None:
    a, b = gpus(0, 0)
    cluster = cluster_of(part("s1", a, pool="fabric", of=2), part("s2", b, at="n1", pool="fabric", of=2))
    assert (names(cluster), names(cluster, "n1")) == (["gpu-0"], ["gpu-1"])
    # The newer generation has nothing on n0 any more.
    cluster.apply(Upserted(part("s3", b, at="n1", pool="fabric", generation=2)))
    assert (names(cluster), names(cluster, "n1")) == ([], ["gpu-1"])
    assert [*cluster.devices.findings("n0")] == [
        "node n0: pool fabric of gpu.example.com is left out: generation 2 replaces it"
    ]


def test_two_nodes_may_each_have_a_pool_of_one_name() -> None:
    a, _unused = gpus(0, 0)
    cluster = cluster_of(part("s1", a, pool="gpus"), part("s2", a, at="n1", pool="gpus", generation=4))
    assert (names(cluster), names(cluster, "n1")) == (["gpu-0"], ["gpu-0"])


def test_devices_of_one_slice_may_be_in_several_nodes() -> None:
    cluster = cluster_of(part("s1", Device("a", node="n0"), Device("b", node="n1"), Device("c"), at="", pool="p"))
    assert (names(cluster), names(cluster, "n1")) == (["a"], ["b"])


def test_a_pool_with_two_devices_of_one_name_is_left_out() -> None:
    cluster = cluster_of(part("s1", Device("a"), of=2), part("s2", Device("a"), of=2))
    assert names(cluster) == []
    assert [*cluster.devices.findings("n0")] == [
        "node n0: pool n0 of gpu.example.com is left out: 2 devices are called a"
    ]


def unreadable(name: str, version: int) -> Unreadable:
    refusal = Refusal(kind="ResourceSlice", field="spec", reason="odd", name=name, uid=f"uid-{name}", version=version)
    return Unreadable(DeviceSlice, refusal)


def test_a_pool_is_left_out_while_one_of_its_slices_cannot_be_read() -> None:
    a, b = gpus(0, 0)
    shared = {"pool": "fabric", "of": 2}
    cluster = cluster_of(part("s1", a, **shared), part("s2", b, at="n1", **shared))
    for version in (2, 3):
        cluster.apply(unreadable("s1", version))
        assert (names(cluster), names(cluster, "n1")) == ([], [])
    assert [*cluster.devices.findings("n0"), *cluster.devices.findings("n1")] == [
        "node n0: pool fabric of gpu.example.com is left out: slice s1 cannot be read",
        "node n1: pool fabric of gpu.example.com is left out: 1 of 2 slices of generation 1",
    ]
    cluster.apply(Upserted(part("s1", a, version=4, **shared)))
    assert (names(cluster), names(cluster, "n1")) == (["gpu-0"], ["gpu-1"])
    cluster.apply(unreadable("s1", 5))
    cluster.apply(unreadable("never-read", 5))
    for name in ("s1", "s2", "never-read"):
        cluster.apply(Deleted(DeviceSlice, f"uid-{name}", 6))
    assert len(cluster.devices) == 0


def test_what_is_not_served_any_more_is_forgotten() -> None:
    cluster = cluster_of(part("s1", *gpus(0)))
    cluster.apply(Deleted(DeviceSlice, "uid-s1", UNSERVED))
    assert (names(cluster), len(cluster.devices)) == ([], 0)


def numa_nodes(*cores: str, gpu: int = 0) -> NodeZones:
    has = [amounts(cpu=each, **({"nvidia.com/gpu": str(gpu)} if gpu else {})) for each in cores]
    found = tuple(NumaNode(name=f"node-{index}", has=each, free=each) for index, each in enumerate(has))
    return NodeZones(uid="zones", name="n0", version=1, numa_nodes=found)


def test_devices_have_lines_below_their_numa_node_or_their_node() -> None:
    devices = (
        *gpus(1, 1, -1, memory=80 * 2**30, pcie_root="pci0000:00"),
        Device("gpu-10", kind=GPU, numa=1),
        Device("nic", numa=7, type="vf"),
    )
    lines = [*show(graph_of(cluster_of(numa_nodes("2", "2"), part("s1", *devices))), nodes=True)]
    at = next(index for index, line in enumerate(lines) if "node n0" in line)
    inside = lines[at].index("node") * " " + "  "
    assert lines[at + 1 : at + 9] == [
        f"{inside}numa node-0  cpu 0/2",
        f"{inside}numa node-1  cpu 0/2",
        f"{inside}  gpu gpu-0  memory 80 GiB  pcie pci0000:00  gpu.example.com",
        f"{inside}  gpu gpu-1  memory 80 GiB  pcie pci0000:00  gpu.example.com",
        f"{inside}  gpu gpu-10  gpu.example.com",
        f"{inside}numa node-7",
        f"{inside}  device nic  type vf  gpu.example.com",
        f"{inside}gpu gpu-2  memory 80 GiB  pcie pci0000:00  gpu.example.com",
    ]


def written(graph: Graph, *, pools: bool = True) -> list[tuple[str, str, str, int, dict[str, str]]]:
    """What each device, or pool of GPUs, is in, and what the file says of it."""
    made = json.loads("".join(write_jgf(graph, pools=pools)))["graph"]
    vertices = {item["id"]: item["metadata"] for item in made["nodes"]}
    above = {edge["target"]: vertices[edge["source"]]["name"] for edge in made["edges"]}
    paths = [item["paths"]["containment"] for item in vertices.values()]
    assert len(set(paths)) == len(paths)
    return [
        (above[name], item["type"], item["name"], item["size"], item["properties"])
        for name, item in vertices.items()
        if item["type"] in ("gpu", "device")
    ]


@pytest.mark.parametrize("pools", [True, False])
def test_devices_are_vertices_of_the_jgf(*, pools: bool) -> None:
    other = part("s2", Device("gpu-0", type="mig", numa=0), driver="mig.example.com", pool="x")
    graph = graph_of(cluster_of(part("s1", *gpus(0, -1, pcie_root="pci0000:00", memory=4)), other))
    said = {"driver": DRIVER, "pool": "n0", "pcieRoot": "pci0000:00", "memory": "4"}
    assert written(graph, pools=pools) == [
        ("node-0", "gpu", "gpu-0:0", 1, said),
        ("node-0", "device", "gpu-0:1", 1, {"driver": "mig.example.com", "pool": "x", "type": "mig"}),
        ("n0", "gpu", "gpu-1:2", 1, said),
    ]
    again = read_jgf("".join(write_jgf(graph, pools=pools)), "written")
    assert dict(again.amounts["n0"])["nvidia.com/gpu"] == 2
    assert dict(again.amounts["n0"])["cpu"] == 4000


def test_a_device_and_a_numa_node_may_have_similar_names() -> None:
    zones = NodeZones(uid="z", name="n0", version=1, numa_nodes=(NumaNode(name="nic-0", has=(), free=()),))
    # `written` compares the paths.
    assert [item[:3] for item in written(graph_of(cluster_of(zones, part("s1", Device("nic")))))] == [
        ("n0", "device", "nic:0")
    ]


@pytest.mark.parametrize(
    ("numa", "items", "left"),
    [
        ((0, 1), [], [("n0", 2)]),
        ((0, 1), [numa_nodes("2", "2")], [("n0", 2)]),
        ((0, 1), [numa_nodes("2", "2", gpu=2)], [("node-0", 1), ("node-1", 1)]),
        ((0, 1), [numa_nodes("2", "2", gpu=1)], [("n0", 2)]),
        # The driver does not say in which NUMA nodes they are.
        ((-1, -1), [numa_nodes("2", "2", gpu=2)], [("node-1", 2)]),
        ((-1, -1, -1), [numa_nodes("2", "2", gpu=2)], [("node-1", 1)]),
        ((-1, -1, -1), [numa_nodes("2", "2", gpu=1)], [("node-1", 1)]),
        ((1, -1), [numa_nodes("2", "2", gpu=2)], [("node-0", 1), ("node-1", 1)]),
    ],
)
def test_a_gpu_that_is_a_resource_too_is_in_the_file_once(
    numa: tuple[int, ...], items: list[NodeZones], left: list[tuple[str, int]]
) -> None:
    has = amounts(cpu="4", **{"nvidia.com/gpu": "4"})
    graph = graph_of(cluster_of(*items, part("s1", *gpus(*numa)), allocatable=has))
    assert [(at, size) for at, _type, _name, size, said in written(graph) if not said] == left


def test_the_daemon_shows_devices_and_names_pools_that_are_not_whole() -> None:
    site = Simulated()
    site.see(node("n0"), part("s1", *gpus(0)), part("s2", of=3, pool="other"))
    view = TopologyView(site.scheduler.cluster, site.scheduler.graph)
    lines = finish(view.show(nodes=True))
    assert any("gpu gpu-0  gpu.example.com" in line for line in lines)
    assert lines[-1] == ("note: node n0: pool other of gpu.example.com is left out: 1 of 3 slices of generation 1")
    site.gone(part("s1"))
    assert not any("gpu-0" in line for line in finish(view.show(nodes=True)))


def test_devices_give_no_room_and_wake_nobody() -> None:
    site = Simulated()
    site.see(node("n0"), mine("p", request=amounts(cpu="1", **{DRIVER: "1"})))
    site.run()
    scheduler: Scheduler = site.scheduler
    before = (scheduler.cache.versions.room, scheduler.cluster.columns.generation)
    site.see(part("s1", *gpus(0)))
    actions = site.run()
    assert (scheduler.cache.versions.room, scheduler.cluster.columns.generation) == before
    assert not any(isinstance(action, Bind) for action in actions)
