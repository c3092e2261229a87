# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices as drivers write them, and what is read of them; odd ones are refused with the field."""

import json

import pytest
from placement.kube.decode.decoder import Decoder
from placement.kube.watch.watched_resources import sources
from placement.model.device_slices import DEVICE, GPU, Device, DeviceSlice
from placement.model.messages.refusal import Refusal
from placement_kit.decoded import Json, decode, meta

DRIVER = "gpu.nvidia.com"
MANY = [{"name": f"gpu-{number}"} for number in range(129)]


def attributes(**more: Json) -> Json:
    return {
        "architecture": {"string": "Hopper"},
        "driverVersion": {"version": "580.65.6"},
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        **more,
    }


def slice_of(*devices: Json, **spec: object) -> Json:
    pool = {"name": "n1", "generation": 3, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": meta(generateName="n1-gpu.nvidia.com-"),
        "spec": {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [*devices], **spec},
    }


def gpu(name: str = "gpu-0", **more: Json) -> Json:
    return {"name": name, "attributes": attributes(**more), "capacity": {"memory": {"value": "80Gi"}}}


def read(value: Json) -> DeviceSlice:
    found = decode(DeviceSlice, value)
    assert isinstance(found, DeviceSlice), found
    return found


READ = Device("gpu-0", kind=GPU, type="gpu", pcie_root="pci0000:00", memory=80 * 2**30)


def test_a_slice_is_read_with_its_pool_and_its_node() -> None:
    assert read(slice_of(gpu())) == DeviceSlice(
        uid="u1", name="a", version=7, driver=DRIVER, pool="n1", generation=3, of=1, node="n1", devices=(READ,)
    )


def test_the_older_version_says_the_same_one_level_deeper() -> None:
    flat = gpu() | {"nodeName": "n7"}
    deep = {"name": flat.pop("name"), "basic": flat}
    found = read(slice_of(deep))
    assert found == read(slice_of(gpu() | {"nodeName": "n7"}))
    assert found.devices[0].node == "n7"


def test_devices_that_several_nodes_reach_are_in_none() -> None:
    selected = slice_of(gpu(), nodeName=None, nodeSelector={"nodeSelectorTerms": [{}]})
    assert read(selected).nodes == frozenset()
    each = slice_of({**gpu(), "nodeName": "n7"}, gpu("gpu-1"), nodeName=None, perDeviceNodeSelection=True)
    assert read(each).nodes == {"n7"}
    assert read(slice_of(nodeName=None, devices=None)).devices == ()


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ({"numa": {"int": 1}}, 1),
        ({"dra.net/numaNode": {"int": 0}}, 0),
        ({"dra.cpu/numaNodeID": {"int": 3}}, 3),
        ({"gpu.example.com/numa_node": {"string": "2"}}, 2),
        ({"resource.kubernetes.io/numaNode": {"int": 5}, "a.example.com/numa": {"int": 6}}, 5),
        ({"numa": {"int": -1}}, -1),
        ({"numa": {"int": 2**70}}, -1),
        ({"numa": {"string": "9" * 4000}}, -1),
        ({"numa": {"string": "²"}}, -1),
        ({"numa": {"version": "1.0.0"}}, -1),
        ({"numanodes": {"int": 1}}, -1),
    ],
)
def test_numa_nodes_are_found_by_what_vendors_call_them(said: Json, number: int) -> None:
    assert read(slice_of(gpu(**said))).devices[0].numa == number


@pytest.mark.parametrize(
    ("driver", "kind", "found"),
    [
        ("gpu.nvidia.com", "gpu", GPU),
        ("gpu.amd.com", "amdgpu", GPU),
        ("gpu.example.com", None, GPU),
        ("gpu.nvidia.com", "mig", DEVICE),
        ("dra.net", None, DEVICE),
        ("dra.cpu", "gpu", GPU),
    ],
)
def test_a_vertex_is_a_gpu_by_the_driver_s_word_or_name(driver: str, kind: str | None, found: str) -> None:
    device: Json = {"name": "x-0", "attributes": {"type": {"string": kind}} if kind else {}}
    assert read(slice_of(device, driver=driver)).devices[0].kind == found


def test_a_root_or_type_that_is_no_word_is_left_out() -> None:
    odd: Json = {"type": {"string": "a b"}, "resource.kubernetes.io/pcieRoot": {"string": "\x1b[2J"}}
    device = read(slice_of(gpu(**odd))).devices[0]
    assert (device.type, device.pcie_root, device.kind) == ("", "", DEVICE)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (slice_of(driver="a/b"), "spec.driver"),
        (slice_of(spec=None) | {"spec": None}, "spec.pool.name"),
        (slice_of(pool={"name": "a//b", "resourceSliceCount": 1}), "spec.pool.name"),
        (slice_of(pool={"name": "a", "resourceSliceCount": 0}), "spec.pool"),
        (slice_of(pool={"name": "a", "generation": 2**63, "resourceSliceCount": 1}), "spec.pool"),
        (slice_of(nodeName="n\n1"), "spec.nodeName"),
        (slice_of(*MANY), "spec.devices"),
        (slice_of({"name": "\x1b[2J"}), "spec.devices[0].name"),
        (slice_of({"name": "x" * 64}), "spec.devices[0].name"),
        (slice_of({"name": "x", "nodeName": "a b"}), "spec.devices[0].nodeName"),
        (slice_of({"name": "x", "capacity": {"memory": {"value": "-1"}}}), "spec.devices[0].capacity[memory]"),
        (slice_of({"name": "x", "attributes": {"numa": {"int": "1"}}}), "spec.devices[0].attributes[...].int"),
    ],
)
def test_an_odd_slice_is_refused_with_its_field(value: Json, field: str) -> None:
    found = decode(DeviceSlice, value)
    assert isinstance(found, Refusal)
    assert found.field == field


def test_an_absurd_amount_is_cut_to_what_can_be_calculated_with() -> None:
    huge = {"name": "x", "capacity": {"memory": {"value": "9E"}}}
    assert read(slice_of(huge)).devices[0].memory == 2**50
    assert len(read(slice_of(*MANY[:128])).devices) == 128


def test_equal_devices_of_many_nodes_are_stored_once() -> None:
    decoder = Decoder()
    found = [
        decoder.decode_object(DeviceSlice, json.dumps(slice_of(gpu(uuid={"string": name}), nodeName=name)).encode())
        for name in ("n1", "n2")
    ]
    first, second = (item.devices for item in found if isinstance(item, DeviceSlice))
    assert first is second


def test_the_newest_version_that_is_served_is_read() -> None:
    source = next(item for item in sources() if item.name == "resourceslices")
    assert [item.path.split("/")[3] for item in source.versions()] == ["v1", "v1beta2", "v1beta1"]
    assert all(item.dispensable and item.shared for item in source.versions())
