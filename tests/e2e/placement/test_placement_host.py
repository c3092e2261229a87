# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host does to the daemon: its clock is set, its disk is full, its memory is at an end."""

from __future__ import annotations

import resource
from functools import partial
from pathlib import Path

import pytest
from e2e.placement import proxy as faults
from e2e.placement.behind_proxy import NAMES, assert_all_is_well, behind, scheduled_once
from e2e.placement.clock import Clock
from e2e.placement.cluster import LEASES, Cluster, Namespace
from e2e.placement.daemon import free_port
from e2e.placement.proxy import Proxy
from e2e.playing import until

PODS = 12
HOUR = 3600
# Both look twice a second, so each has looked a few times.
LOOKS = 12
LARGE, NOTES = 60, "x" * 240_000


# Only times of the API are judged by a clock that can be set, and no two lead whatever their clocks say:
# tests/placement, app/test_clocks.py and kube/test_lease.py.
@pytest.mark.soak
def test_clocks_that_are_put_on_and_back_make_no_second_leader_and_lose_no_pod(
    cluster: Cluster, team: Namespace
) -> None:
    name = next(NAMES)
    folder = cluster.folder / name
    clocks = [Clock(folder / f"clock-{side}") for side in "ab"]
    # A certificate that is younger than an hour would be none to who is an hour behind.
    clocks[0].step(-2 * HOUR)
    with Proxy(cluster.kubeconfig, folder / "proxy", clocks[0].variables) as network:
        clocks[0].step(0)
        names = {"scheduler_name": name, "lease_name": name}
        first, second = (behind(cluster, network, f"{name}-{side}", **names) for side in "ab")

        def looks() -> int:
            return sum(seen.method == "GET" and seen.path == f"{LEASES}/{name}" for seen in list(network.seen))

        def still_leads(wanted: int) -> bool:
            said = [daemon.status().get("leader", leads) for daemon, leads in ((first, True), (second, False))]
            assert said == [True, False], "one that does not answer in time says nothing"
            return looks() >= wanted

        for daemon, clock in zip((first, second), clocks, strict=True):
            daemon.variables = clock.variables
        try:
            first.start()
            until(first.leads, "the first leads")
            second.start()
            for number, offsets in enumerate(((HOUR, -HOUR), (-HOUR, HOUR))):
                for clock, seconds in zip(clocks, offsets, strict=True):
                    clock.step(seconds)
                for pod in range(PODS):
                    team.pod(f"pod-{number}-{pod}", scheduler=name)
                until(partial(still_leads, looks() + LOOKS), "both have looked at the lease again and again")
                assert_all_is_well(cluster, team, (number + 1) * PODS)
            found = cluster.api.get(f"{LEASES}/{name}")["spec"]
            assert found["leaseTransitions"] == 0
            until(lambda: scheduled_once(team, "pod-1-0"), "one Event says where it went")
        finally:
            first.stop()
            second.stop()


def test_a_daemon_without_disk_and_memory_ends_and_begins_anew_from_what_is_true(
    cluster: Cluster, proxy: Proxy, team: Namespace
) -> None:
    name = next(NAMES)
    daemon = behind(cluster, proxy, name, journal="/dev/full", listen=f"127.0.0.1:{free_port()}").start()
    try:
        until(daemon.leads, "it leads")
        for number in range(LARGE):
            team.pod(f"large-{number}", annotations={"notes": NOTES}, scheduler=name)
        until(lambda: len(team.bound()) == LARGE, "what cannot be noted is done all the same")
        until(lambda: daemon.figure("journal_lost_lines_total") >= LARGE, "it knows what was not noted")
        assert daemon.log.read_text(encoding="utf-8").count("No space left on device") == 1
        # No more than it has: too little for a list of all.
        assert daemon.process is not None
        has = data_bytes(daemon.process.pid)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_DATA, (has, has))
        with proxy.fault("GET", "/api/v1/pods.*watch=true", faults.answered(410), times=1):
            proxy.cut()
            assert daemon.wait() == 1
        assert "MemoryError" in daemon.log.read_text(encoding="utf-8")
        for number in range(PODS):
            team.pod(f"pod-{number}", scheduler=name)
        cluster.end_lease(name)
        daemon.start()
        assert_all_is_well(cluster, team, LARGE + PODS)
    finally:
        daemon.stop()


def data_bytes(pid: int) -> int:
    """What the kernel counts against the limit."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:"))
