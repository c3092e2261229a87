# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked for pods is enough for them, and not much more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.amounts.quantity import CPU, MEMORY
from placement.model.batch import BackingSettings, HostShare
from placement.model.objects.pod import PodSpec
from placement.model.rules.selector import NodeSelector, NodeSelectorTerm, Operator, Requirement
from placement.policy.backing.job_request import Demand, SharePacking, Unbackable, chunks_of, demand_of, walltime_of
from placement_kit.builders import pairs, pod

GPU = "example.com/gpu"
PODS = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 5) | st.just(1 << 30)), min_size=1, max_size=12)


# KiB of memory that the largest node has.
NODE = 1 << 20


def shares_of(chunks, nodes):
    copies = [chunk for chunk in chunks for _unused in range(chunk.count)]
    return [
        HostShare(host=f"n{index % nodes}", cores=chunk.cores, memory=chunk.memory, devices=chunk.devices)
        for index, chunk in enumerate(copies)
    ]


@given(PODS, st.booleans(), st.integers(1, 4))
def test_every_pod_has_its_part_in_what_was_asked_for(sizes, pack, nodes):
    settings = BackingSettings(pack=pack)
    demands = sorted((demand_of(pod(request=((CPU, cpu), (MEMORY, memory))), settings) for cpu, memory in sizes))
    chunks = chunks_of(demands, NODE)
    bins = SharePacking(shares_of(chunks, nodes), str, ())
    for demand in reversed(demands):
        node, _refused = bins.put(demand, lambda _node: "")
        assert node
    assert sum(chunk.cores * chunk.count for chunk in chunks) * 1000 >= sum(cpu for cpu, _memory in sizes)
    assert sum(chunk.cores * chunk.count for chunk in chunks) <= sum(max(1, -(-cpu // 1000)) for cpu, _memory in sizes)


@pytest.mark.parametrize(
    ("memory", "devices", "chunks"),
    [
        (1 << 10, (), [(1, 1, 10 << 10)]),
        (NODE, (), [(10, 1, NODE)]),
        (NODE >> 2, (), [(2, 1, NODE), (1, 1, NODE >> 1)]),
        (NODE << 2, (), [(10, 1, NODE << 2)]),
        (1 << 10, (("ngpus", 1),), [(10, 1, 1 << 10)]),
    ],
)
def test_pods_share_no_chunk_that_no_node_has(memory, devices, chunks):
    found = chunks_of([Demand(100, memory, devices, ())] * 10, NODE)
    assert [(chunk.count, chunk.cores, chunk.memory, chunk.devices) for chunk in found] == [
        (*chunk, devices) for chunk in chunks
    ]


@pytest.mark.parametrize("first", ["plain", "gpu"])
def test_a_part_with_a_device_is_for_who_asked_for_it(first):
    """Whoever comes first, and whatever else the batch system has added to both parts."""
    settings = BackingSettings(devices={GPU: "ngpus"})
    plain = demand_of(pod(request=((CPU, 1000),)), settings)
    gpu = demand_of(pod(request=((CPU, 1000), (GPU, 1))), settings)
    shares = [
        HostShare(host="n1", cores=1, devices=(("licence", 9), ("ngpus", 1))),
        HostShare(host="n1", cores=1, devices=(("licence", 9),)),
    ]
    demands = [plain, gpu] if first == "plain" else [gpu, plain]
    bins = SharePacking(shares, str, settings.devices.values())
    assert all(bins.take("n1", demand) for demand in demands)
    bins = SharePacking(shares, str, settings.devices.values())
    assert [bins.put(demand, lambda _node: "")[0] for demand in demands] == ["n1", "n1"]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (NodeSelector(pairs(**{"kubernetes.io/hostname": "n1"})), (("host", "n1"),)),
        (NodeSelector(pairs(zone="a", other="b")), (("rack", "a"),)),
        (NodeSelector((), (NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),)),)), (("rack", "a"),)),
        (NodeSelector((), (NodeSelectorTerm((Requirement("zone", Operator.IN, ("a", "b")),)),)), ()),
        (NodeSelector((), (NodeSelectorTerm((Requirement("zone", Operator.NOT_IN, ("a",)),)),)), ()),
        (
            NodeSelector((), (NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, ("n2",)),)),)),
            (("host", "n2"),),
        ),
        (NodeSelector(pairs(zone="")), ()),
    ],
)
def test_wishes_for_nodes_are_passed_on_where_they_are_one_value(selector, found):
    settings = BackingSettings(labels={"zone": "rack"})
    assert demand_of(pod(selector=selector), settings).properties == found


def timed(deadline=None, text=None):
    annotations = () if text is None else (("converged.hpc/walltime", text),)
    return pod(annotations=annotations, **({} if deadline is None else {"deadline": deadline}))


@pytest.mark.parametrize(
    ("pods", "seconds"),
    [
        ([timed(60)], 60),
        ([timed(60, "01:00:00")], 60),
        ([timed(None, "01:00:00")], 3600),
        ([timed(None, "90")], 90),
        ([timed(None, "02:30")], 150),
        ([timed(60), timed(90)], 90),
        ([timed(60), timed()], None),
        ([timed()], None),
    ],
)
def test_a_job_may_take_as_long_as_the_longest_of_its_pods(pods, seconds):
    assert walltime_of(pods) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "99:99:99", "UNLIMITED", "1h", "٣", "1" * 100, "$(date)", "1\n"])
def test_a_walltime_that_is_none_is_refused_by_name(text):
    with pytest.raises(Unbackable, match="converged.hpc/walltime"):
        walltime_of([timed(None, text)])


def test_a_pod_s_deadline_is_part_of_its_spec():
    assert PodSpec(deadline=60) != PodSpec()
