# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon behind a faulty network: each pod is bound once, no node is overfull, no gang stays half placed.

`make test` meets faults a few times, `make soak` every fault, and a hundred times.
"""

from __future__ import annotations

import signal
import threading
import time

import pytest
from e2e.placement import proxy as faults
from e2e.placement.behind_proxy import (
    BINDING,
    NAMES,
    REPEATS,
    assert_all_is_well,
    behind,
    fill,
    scheduled_once,
    scheduler,
)
from e2e.placement.cluster import Cluster, Namespace
from e2e.placement.daemon import Daemon
from e2e.placement.proxy import Fault, Proxy
from e2e.playing import until

PODS = 12
# What becomes of a Binding, and what only seems to have become of it.
BINDINGS: dict[str, Fault] = {
    "late": faults.late(3),
    "lost before it arrived": faults.lost_before,
    "lost after it was done": faults.lost_after,
    "answered by 404": faults.answered(404),
    "answered by 409": faults.answered(409),
    "answered by 422": faults.answered(422),
    "answered by 403": faults.answered(403, message="exceeded quota"),
    "answered by 429": faults.answered(429, retry_after="1"),
    "answered by 500": faults.answered(500),
    "answered by 503": faults.answered(503),
}
# The others are answers that tests/placement/kube/test_performer.py and test_broken_webhook.py give one by one.
OFTEN = ("late", "lost after it was done", "answered by 500")
CASES = [
    *(pytest.param(fault, 4, marks=[] if fault in OFTEN else pytest.mark.soak) for fault in BINDINGS),
    *(pytest.param(fault, REPEATS, marks=pytest.mark.soak) for fault in BINDINGS),
]
# How a server says that it no longer has the version.
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'


@pytest.mark.parametrize(("fault", "times"), CASES)
def test_bindings_that_meet_a_fault(
    cluster: Cluster, proxy: Proxy, proxied: Daemon, team: Namespace, fault: str, times: int
) -> None:
    pods = max(PODS, times)
    with proxy.fault("POST", f"/{team.name}/.*{BINDING}", BINDINGS[fault], times=times) as rule:
        team.job("gang", replicas=pods // 2, cpu="5", scheduler=scheduler(proxied))
        for number in range(pods // 2):
            team.pod(f"pod-{number}", scheduler=scheduler(proxied))
        assert_all_is_well(cluster, team, pods)
    assert rule.met == times
    until(lambda: scheduled_once(team, "pod-0"), "one Event says where it went")


# In every change connections are cut in four other tests of this file, and wherever a test for tests/placement/kube can
# cut one: test_reflector.py and test_http1.py.
@pytest.mark.soak
def test_connections_that_are_cut_again_and_again(
    cluster: Cluster, proxy: Proxy, proxied: Daemon, team: Namespace
) -> None:
    for number in range(60):
        team.pod(f"pod-{number}", scheduler=scheduler(proxied))
        if number % 15 == 0:
            proxy.cut()
    proxy.cut()
    assert_all_is_well(cluster, team, 60)


def test_connections_that_go_silent_are_given_up(
    cluster: Cluster, proxy: Proxy, proxied: Daemon, team: Namespace
) -> None:
    # What has just been used is trusted most.
    for number in range(PODS):
        team.pod(f"before-{number}", scheduler=scheduler(proxied))
    until(lambda: len(team.bound()) == PODS, "all connections work")
    lists = proxied.status()["sources"]["pods"]["relists"]
    proxy.silence()
    for number in range(PODS):
        team.pod(f"after-{number}", scheduler=scheduler(proxied))
    until(lambda: len(team.bound()) == 2 * PODS, "pods are placed over others")
    assert_all_is_well(cluster, team, 2 * PODS)
    said = proxied.status()
    assert said["leader"]
    assert said["sources"]["pods"]["relists"] == lists


EXPIRIES: dict[str, Fault] = {
    "as the answer": faults.answered(410),
    "as an event": lambda _forward: (200, EXPIRED, ""),
    "as silence": lambda _forward: (200, b"", ""),
}


@pytest.mark.parametrize("how", EXPIRIES)
def test_a_version_that_is_too_old_loses_no_deletion(
    cluster: Cluster, proxy: Proxy, proxied: Daemon, team: Namespace, how: str
) -> None:
    fill(team, proxied)
    # The deletion happens while nobody watches, and the version from before is not known any more.
    with proxy.fault("GET", "/api/v1/pods.*watch=true", EXPIRIES[how], times=3):
        with proxy.fault("GET", "/api/v1/pods", faults.lost_before):
            proxy.cut()
            cluster.api.delete(f"{team.path}/pods/filler-0?gracePeriodSeconds=0")
        until(lambda: "waits" in team.bound(), "it has the place")


def test_events_that_come_twice_or_not_at_all(cluster: Cluster, proxy: Proxy, proxied: Daemon, team: Namespace) -> None:
    proxy.lines = lambda path, line: [line, line] if "/pods?" in path else [line]
    proxy.cut()
    try:
        for number in range(20):
            team.pod(f"twice-{number}", scheduler=scheduler(proxied))
        assert_all_is_well(cluster, team, 20)
        # What is dropped shows at the next list, and only there.
        proxy.lines = lambda path, line: [] if b'"dropped-' in line and "/pods?" in path else [line]
        for number in range(5):
            team.pod(f"dropped-{number}", scheduler=scheduler(proxied))
        team.pod("after", scheduler=scheduler(proxied))
        until(lambda: "after" in team.bound(), "what was not dropped is bound")
        assert not team.bound("dropped")
    finally:
        proxy.lines = lambda _path, line: [line]
    with proxy.fault("GET", "/api/v1/pods.*watch=true", faults.answered(410), times=1):
        proxy.cut()
        assert_all_is_well(cluster, team, 26)


def test_an_api_that_is_away_is_asked_for_patiently(
    cluster: Cluster, proxy: Proxy, proxied: Daemon, team: Namespace
) -> None:
    with proxy.fault("GET", "/pods", faults.answered(503, retry_after="1")):
        proxy.cut()
        begun, since = len(proxy.seen), time.monotonic()

        def asked() -> int:
            return sum(seen.path.startswith("/api/v1/pods") for seen in proxy.seen[begun:])

        until(lambda: asked() >= 4, "it asks again and again")
        # Once a second, and once more for a beginning and an end that do not meet a second.
        assert asked() <= time.monotonic() - since + 2
        team.pod("pod", scheduler=scheduler(proxied))
    assert_all_is_well(cluster, team, 1)


def test_a_leader_that_is_stopped_with_a_binding_on_its_way(cluster: Cluster, proxy: Proxy, team: Namespace) -> None:
    name = next(NAMES)
    first = behind(cluster, proxy, name)
    second = cluster.daemon(f"{name}-second", scheduler_name=name, lease_name=name)
    first.start()
    until(first.leads, "the first leads")
    second.start()
    go = threading.Event()
    try:
        with proxy.fault(
            "POST", f"/{team.name}/.*{BINDING}", faults.held(go, then=lambda forward: forward()), times=3
        ) as rule:
            for number in range(PODS):
                team.pod(f"pod-{number}", scheduler=name)
            until(lambda: rule.met == 3, "bindings are on their way")
            first.signal(signal.SIGSTOP)
            cluster.end_lease(name)
            until(second.leads, "the second leads")
            until(lambda: len(team.bound()) == PODS, "it binds what is left")
        # Now they arrive after all, at pods that have a node.
        go.set()
        first.signal(signal.SIGCONT)
        assert first.wait() == 3
        assert_all_is_well(cluster, team, PODS)
    finally:
        go.set()
        first.stop()
        second.stop()
