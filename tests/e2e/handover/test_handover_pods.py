# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that do not simply leave: budgets, deaf ones, finalizers, those that come back, and what nobody knows of."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from e2e import workload
from e2e.handover.sharing import CONTROLLER, KUBELETS, Sharing
from e2e.playing import until

HELD = "example.org/held"
LEFTOVER = "ctr --namespace k8s.io run --detach localhost/busybox:local e2e-leftover sleep 98765"


@pytest.fixture(scope="module", autouse=True)
def impatient(converted: Sharing) -> Iterator[None]:
    """None of these pods leaves by itself."""
    with converted.impatient():
        yield


def test_what_does_not_leave_is_asked_until_the_deadline_and_then_ended_with_an_event(site: Sharing) -> None:
    names = ("guarded", "deaf", "frozen", "final", "bare")
    workload.apply(site, workload.daemonset("agent"), workload.budget("guarded"))
    workload.apply(
        site,
        workload.pod("guarded", node="n1"),
        workload.pod("deaf", node="n1", command=workload.DEAF, grace=300),
        workload.pod("frozen", node="n1"),
        workload.pod("final", node="n1", finalizers=(HELD,)),
        workload.pod("bare", node="n1"),
    )
    until(lambda: all(workload.ready(site, name) for name in (*names, "agent")), "pods run")
    site.node("n1", LEFTOVER)
    # As a runtime leaves it that was killed while it killed a container: signals do not reach it, SIGKILL included.
    container = site.objects("pods")["frozen"]["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
    site.node("n1", f"ctr --namespace k8s.io tasks pause {container}")
    asked_at, staying = time.time(), workload.uids(site, "agent")
    try:
        job = site.job("-w", "n1", command="pgrep -fc 'sleep [9]8765'; sleep 1")

        assert job.pods() <= staying
        assert "\n0\n" in job.out, "a shim that belongs to no pod was left"
        assert site.pods_started("n1", since=job.began, until=job.ended) == set()
        refused = {
            event.user: event.received
            for event in reversed(site.audit(since=asked_at, resource="pods/eviction"))
            if event.name == "guarded" and event.code == 429
        }
        deletions = site.audit(since=asked_at, verb="delete", resource="pods", name="guarded")
        by_node = [event.received for event in deletions if event.user == KUBELETS + "n1"]
        assert refused[CONTROLLER] < refused[KUBELETS + "n1"] < min(by_node), (
            "both have asked in vain, one after another"
        )
        for said in (
            "BatchDrainIncomplete: pods have not left in time for batch job slurm/",
            "DeadlinePassed: ",
            "default/guarded",
        ):
            until(lambda said=said: said in site.reports("n1"), said)
        left = site.objects("pods")
        assert "deletionTimestamp" in left["final"]["metadata"], (
            "only its finalizer holds it, and nobody waits for that"
        )
    finally:
        patch = json.dumps({"metadata": {"finalizers": None}})
        site.kubectl("patch", "pod", "final", "--type=merge", f"--patch={patch}")
        remove = (
            "ctr --namespace k8s.io task rm --force e2e-leftover; ctr --namespace k8s.io containers rm e2e-leftover"
        )
        site.node("n1", f"({remove}) 2>/dev/null", check=False)


@pytest.mark.soak
def test_where_the_site_chose_so_the_job_waits_for_a_budget(site: Sharing) -> None:
    site.settings(after_deadline="job_waits")
    try:
        workload.apply(site, workload.budget("guarded"), workload.pod("guarded", node="n1"))
        until(lambda: bool(workload.ready(site, "guarded")), "the pod runs")
        uid = workload.uids(site, "guarded")
        job = site.batch("-w", "n1")
        until(lambda: site.state(job).split() == ["PENDING", "1"], "the job is put back")
        until(lambda: "BatchJobWaits: " in site.reports("n1"), "an event says so")
        assert set(workload.ready(site, "guarded")) == {"guarded"}
        assert workload.uids(site, "guarded") == uid, "the pod was not disturbed"
        site.until("ctl", "scontrol show node n1 | grep -q 'Prolog error'")
    finally:
        site.settings(after_deadline="job_wins")


# In every change payloads/test_taking has such pods end in stop, and test_handover_faults a job that finds no pod where
# kubelets were stopped for it.
@pytest.mark.soak
def test_pods_that_tolerate_our_taint_and_come_back_at_once_do_not_meet_the_job(site: Sharing) -> None:
    workload.apply(site, workload.deployment("back", 4, tolerations=workload.EVERYWHERE))
    until(lambda: len(workload.ready(site, "back")) == 4, "pods run")
    job = site.job("-N2", command="sleep 2")
    assert job.kubelets() == {"inactive"}, "only without a kubelet do they stay away"
    assert job.pods() == set()
    for node in ("n1", "n2"):
        assert site.pods_started(node, since=job.began, until=job.ended) == set()
    site.free()
    site.pods_return("back", 4)
