# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod's request: the cases of Kubernetes' own `component-helpers/resource`, and what they mean as a property."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.model.amounts.request import Container, PodResources, ResizeState, pod_requests


def run(cpu: int | None = None, *, name: str = "c", **more: int) -> Container:
    return Container(name=name, requests=amounts(cpu, **more))


def sidecar(cpu: int | None = None, *, name: str = "s", **more: int) -> Container:
    return Container(name=name, requests=amounts(cpu, **more), restartable=True)


def amounts(cpu: int | None = None, **more: int) -> dict[str, int]:
    return more if cpu is None else {"cpu": cpu, **more}


@pytest.mark.parametrize(
    ("init", "containers", "cpu"),
    [
        ([], [run(1), run(2)], 3),
        ([run(5)], [run(1)], 5),
        ([run(5), run(4)], [run(3), run(3)], 6),
        ([sidecar(1)], [run(1)], 2),
        # The first init container runs alone, before any sidecar.
        ([run(5), sidecar(1), sidecar(2), sidecar(3)], [run(1)], 7),
        # The second runs beside the two sidecars started before it, not beside the third.
        ([run(5), sidecar(1), sidecar(2), run(5), sidecar(3)], [run(1)], 8),
        ([sidecar(10), run(200)], [run(100)], 210),
    ],
)
def test_init_containers_and_sidecars_count_in_their_order(
    init: Sequence[Container], containers: Sequence[Container], cpu: int
) -> None:
    assert pod_requests(PodResources(containers=containers, init_containers=init)) == {"cpu": cpu}


def test_overhead_comes_on_top_even_of_resources_nothing_asks_for() -> None:
    resources = PodResources(containers=[run(1)], overhead={"cpu": 2, "memory": 3})
    assert pod_requests(resources) == {"cpu": 3, "memory": 3}


def test_pod_level_resources_replace_the_sum_of_the_containers_but_not_the_overhead() -> None:
    resources = PodResources(containers=[run(7, memory=1)], pod_level={"cpu": 5}, overhead={"cpu": 1})
    assert pod_requests(resources) == {"cpu": 6, "memory": 1}


@pytest.mark.parametrize(("name", "counts"), [("memory", True), ("hugepages-2Mi", True), ("example.com/gpu", False)])
def test_pod_level_resources_are_cpu_memory_and_huge_pages_only(name: str, counts: bool) -> None:
    total = pod_requests(PodResources(containers=[run(1)], pod_level={name: 9}))
    assert total == ({"cpu": 1, name: 9} if counts else {"cpu": 1})


@pytest.mark.parametrize(
    ("spec", "allocated", "actuated", "infeasible", "charged"),
    [
        (2, 2, 2, False, 2),
        # Growing: the wish counts at once.
        (4, 2, 2, False, 4),
        # Shrinking: what is still in force counts.
        (2, 2, 4, False, 4),
        (2, 3, 1, False, 3),
        # Refused by the kubelet: the wish no longer counts.
        (9, 2, 3, True, 3),
    ],
)
def test_a_pod_in_resize_is_charged_for_the_most_that_is_promised_or_in_force(
    spec: int, allocated: int, actuated: int, infeasible: bool, charged: int
) -> None:
    state = ResizeState(allocated={"cpu": allocated}, actuated={"cpu": actuated})
    for resources in (
        PodResources(containers=[run(spec)], resizes={"c": state}, resize_infeasible=infeasible),
        PodResources(
            containers=[], init_containers=[sidecar(spec)], resizes={"s": state}, resize_infeasible=infeasible
        ),
        PodResources(containers=[], pod_level={"cpu": spec}, pod_resize=state, resize_infeasible=infeasible),
    ):
        assert pod_requests(resources) == {"cpu": charged}


def test_a_refused_pod_level_resize_with_nothing_in_force_counts_nothing() -> None:
    resources = PodResources(
        containers=[run(3)], pod_level={"cpu": 9}, pod_resize=ResizeState(), resize_infeasible=True
    )
    assert pod_requests(resources) == {"cpu": 0}


def test_an_ordinary_init_container_is_never_resized() -> None:
    state = ResizeState(actuated={"cpu": 9})
    resources = PodResources(containers=[], init_containers=[run(1, name="i")], resizes={"i": state})
    assert pod_requests(resources) == {"cpu": 1}


containers_of = st.builds(
    Container,
    name=st.just("c"),
    requests=st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(0, 9)),
    restartable=st.booleans(),
)


@given(init=st.lists(containers_of, max_size=5), main=st.lists(containers_of, max_size=3))
def test_the_request_is_the_most_that_ever_runs_at_once(init: list[Container], main: list[Container]) -> None:
    moments = []
    alive: list[Container] = []
    for container in init:
        moments.append([*alive, container])
        if container.restartable:
            alive.append(container)
    moments.append([*alive, *main])
    total = pod_requests(PodResources(containers=main, init_containers=init))
    for name in ("cpu", "memory"):
        peak = max(sum(container.requests.get(name, 0) for container in moment) for moment in moments)
        assert total.get(name, 0) == peak
