# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the lines that Slurm and the API server write to who had which node when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from demo import chart, evidence, handover, page, slurm_record
from demo.hands import Step
from demo.intervals import (
    ASKED,
    CLOSED,
    HELD,
    LEAVING,
    PLAIN,
    RUNNING,
    SHARED,
    STARTING,
    UP,
    WORKING,
    Interval,
    chain,
    lanes,
)
from demo.kube_record import Pod, node_intervals, pod_intervals, read_pods
from hypothesis import given
from hypothesis import strategies as st
from testbed.kube_audit import AuditEvent

ZERO = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
SLURMCTLD = """\
[2026-11-21T15:00:01.000] error: Could not open job state file
[2026-11-21T15:00:02.000] sched: _slurm_rpc_allocate_resources JobId=3 NodeList=n[1-2] usec=803
[2026-11-21T15:00:05.500] _job_complete: JobId=3 WEXITSTATUS 0
[2026-11-21T15:00:05.501] _job_complete: JobId=3 done
[2026-11-21T15:00:06.000] sched: Allocate JobId=5_1(6) NodeList=n1 #CPUs=1 Partition=batch
[2026-11-21T15:00:07.000] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=6 uid 0
[2026-11-21T15:00:08.000] sched: Allocate JobId=7 NodeList=n2 #CPUs=1 Partition=batch
"""
SLURMD = {
    "n1": "[2026-11-21T15:00:03.000] launch task StepId=3.0 request from UID:0 GID:0 HOST:10.89.0.2 PORT:54624\n"
    "[2026-11-21T15:00:06.250] Launching batch job 6 for UID 0\n",
    "n2": "[2026-11-21T15:00:03.100] launch task StepId=3.0 request from UID:0 GID:0 HOST:10.89.0.2 PORT:54624\n"
    "[2026-11-21T15:00:09.000] [3.0] done with job\n",
}


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def told(intervals: list[Interval]) -> list[tuple[str, str, str, float, float]]:
    return [
        (one.node, one.who, one.what, (one.begin - ZERO).total_seconds(), (one.end - ZERO).total_seconds())
        for one in intervals
    ]


def event(
    seconds: float, verb: str, resource: str, name: str, body: dict[str, Any] | None, code: int = 200
) -> AuditEvent:
    return AuditEvent(verb, "somebody", resource, "default", name, code, at(seconds), at(seconds), body)


def status(**states: Any) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"state": states}]}}


def bound(seconds: float, name: str, node: str) -> AuditEvent:
    return event(seconds, "create", "pods/binding", name, {"target": {"kind": "Node", "name": node}}, 201)


def test_a_job_waits_for_its_nodes_until_its_first_task_and_ends_with_slurmctlds_word() -> None:
    jobs = slurm_record.read_jobs(SLURMCTLD, SLURMD, zone="+00:00")

    assert told(slurm_record.job_intervals(jobs, end=at(20))) == [
        ("n1", "3", ASKED, 2.0, 3.0),
        ("n1", "3", RUNNING, 3.0, 5.5),
        ("n2", "3", ASKED, 2.0, 3.0),
        ("n2", "3", RUNNING, 3.0, 5.5),
        ("n1", "6", ASKED, 6.0, 6.25),
        ("n1", "6", RUNNING, 6.25, 7.0),
        ("n2", "7", ASKED, 8.0, 20.0),
    ]


def test_slurms_times_are_those_of_its_host() -> None:
    (job, *_others) = slurm_record.read_jobs(SLURMCTLD, SLURMD, zone="+02:00")

    assert job.allocated == at(2 - 7200)


@pytest.mark.parametrize(
    ("text", "names"),
    [("n1", ("n1",)), ("n[1-2]", ("n1", "n2")), ("n[08-10,12],x", ("n08", "n09", "n10", "n12", "x"))],
)
def test_host_lists_are_expanded(text: str, names: tuple[str, ...]) -> None:
    assert slurm_record.host_names(text) == names


def test_a_pod_starts_runs_is_asked_to_leave_and_ends_with_its_last_container() -> None:
    events = [
        bound(1, "web", "n1"),
        event(2, "patch", "pods/status", "web", {"status": {"conditions": []}}),
        event(3, "patch", "pods/status", "web", status(running={})),
        event(4, "create", "pods/eviction", "web", {}, 429),
        event(5, "create", "pods/eviction", "web", {}, 201),
        event(6, "patch", "pods/status", "web", status(terminated={}, running=None)),
        event(7, "delete", "pods", "web", {"gracePeriodSeconds": 0}),
    ]

    assert told(pod_intervals(events, end=at(20))) == [
        ("n1", "web", STARTING, 1.0, 3.0),
        ("n1", "web", UP, 3.0, 5.0),
        ("n1", "web", LEAVING, 5.0, 6.0),
    ]


def test_a_pod_that_nobody_saw_end_is_there_until_now_and_one_that_is_deleted_by_force_is_not() -> None:
    events = [
        bound(1, "kept", "n1"),
        bound(1, "gone", "n2"),
        event(2, "delete", "pods", "gone", {"gracePeriodSeconds": 0}),
    ]

    assert told(pod_intervals(events, end=at(9))) == [
        ("n1", "kept", STARTING, 1.0, 9.0),
        ("n2", "gone", STARTING, 1.0, 2.0),
    ]


def test_a_pod_does_not_outlive_its_node() -> None:
    events = [bound(1, "here", "n1"), bound(1, "there", "n2"), event(4, "delete", "nodes", "n1", None)]

    assert told(pod_intervals(events, end=at(9))) == [
        ("n1", "here", STARTING, 1.0, 4.0),
        ("n2", "there", STARTING, 1.0, 9.0),
    ]


def test_a_node_is_slurms_alone_then_closed_open_held_and_slurms_alone_again() -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    beat = {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "..."}]}}
    taint = {"spec": {"taints": [{"key": "converged.hpc/batch", "effect": "NoSchedule"}]}}
    events = [
        event(2, "create", "nodes", "n1", {"spec": {"taints": [{"key": "converged.hpc/converting"}]}}, 201),
        event(2.5, "patch", "nodes", "n1", {"spec": {"taints": None}}),
        event(3, "patch", "nodes/status", "n1", ready),
        event(4, "patch", "nodes", "n1", taint),
        event(5, "patch", "nodes/status", "n1", beat),
        event(6, "patch", "nodes", "n1", {"metadata": {"annotations": {"converged.hpc/held-by": "[]"}}}),
        event(7, "patch", "nodes", "n1", {"spec": {"taints": None}}, 409),
        event(8, "patch", "nodes", "n1", {"spec": {"taints": None}}),
        event(8.5, "patch", "nodes", "n1", {"spec": {"unschedulable": True}}),
        event(9, "delete", "nodes", "n1", None),
    ]

    assert told(node_intervals(events, ["n1"], begin=at(0), end=at(10))) == [
        ("n1", "n1", PLAIN, 0.0, 2.0),
        ("n1", "n1", CLOSED, 2.0, 3.0),
        ("n1", "n1", SHARED, 3.0, 4.0),
        ("n1", "n1", HELD, 4.0, 8.0),
        ("n1", "n1", SHARED, 8.0, 8.5),
        ("n1", "n1", CLOSED, 8.5, 9.0),
        ("n1", "n1", PLAIN, 9.0, 10.0),
    ]


STATES = st.lists(st.tuples(st.integers(0, 30).map(at), st.sampled_from([SHARED, HELD, CLOSED])), max_size=12)


@given(STATES)
def test_states_follow_each_other_without_holes_to_the_end(moments: list[tuple[datetime, str]]) -> None:
    made = chain("n1", "n1", moments, at(25))

    assert all(first.end == second.begin and first.what != second.what for first, second in pairwise(made))
    if made:
        assert (made[0].begin, made[-1].end) == (min(moment for moment, _what in moments), at(25))


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=12)


@given(SPANS)
def test_bars_of_one_lane_never_lie_on_each_other(spans: list[tuple[int, int]]) -> None:
    made = [Interval("n1", UP, f"p{number}", at(begin), at(begin + wide)) for number, (begin, wide) in enumerate(spans)]
    lane = lanes(made)

    for one in made:
        beside = [other for other in made if other != one and lane[other.who] == lane[one.who]]
        assert all(other.end <= one.begin or one.end <= other.begin for other in beside)


def handed_over() -> tuple[slurm_record.Job, list[Interval]]:
    """A job on two nodes, of which one had a pod: the pod leaves in time, and another comes when the node is open."""
    (job, *_others) = slurm_record.read_jobs(SLURMCTLD, SLURMD, zone="+00:00")
    made = slurm_record.job_intervals([job], end=at(20))
    for node, opened in (("n1", 6.0), ("n2", 6.5)):
        made += chain(node, node, [(at(0), SHARED), (at(2.1), HELD), (at(opened), SHARED)], at(20))
    made += chain("n1", "web-1", [(at(1), UP), (at(2.2), LEAVING)], at(2.9))
    return job, [*made, *chain("n1", "web-2", [(at(6.1), STARTING), (at(7), UP)], at(20))]


WORKERS_RUN = {
    # name (of one that is replaced: the same): node, and when it is bound, runs, is asked to leave, and has ended
    "driver-a": ("n3", 0.0, 0.5, None, 19.0),
    "worker-0 first": ("n1", 1.0, 1.5, 2.2, 2.6),
    "worker-0": ("n3", 2.7, 3.2, None, 18.0),
    "worker-1": ("n3", 1.0, 1.4, None, 17.0),
}


def pods_of(runs: dict[str, tuple[str, float, float, float | None, float]], *, failed: str = "") -> list[Pod]:
    made = []
    for name, (node, bound_at, runs_at, leaves_at, ended_at) in runs.items():
        moments = [(at(bound_at), STARTING), (at(runs_at), UP)]
        moments += [(at(leaves_at), LEAVING)] if leaves_at else []
        made.append(Pod(name.split()[0], node, moments, at(ended_at), leaves_at is None and name != failed))
    return made


def test_the_figures_of_a_driver_beside_a_job_say_who_left_and_who_came_back() -> None:
    job, _made = handed_over()
    found = handover.both_finished(job, pods_of(WORKERS_RUN), driver="driver", worker="worker", workers=2)
    assert [(one.what, one.value) for one in found] == [
        ("workers that had to leave, and were replaced on another node while the job ran", "1"),
        ("longest that one of them was away", "1.00 s"),
        ("job, driver and workers", "all succeeded"),
    ]


@pytest.mark.parametrize(
    ("runs", "failed", "says"),
    [
        ({"driver-a": None}, "", "no driver has succeeded that was still at work when job 3 began"),
        ({}, "driver-a", "no driver has succeeded"),
        ({"driver-a": ("n3", 0.0, 0.5, None, 2.5)}, "", "no driver has succeeded that was still at work"),
        ({"driver-a": ("n3", 2.5, 2.6, None, 19.0)}, "", "no driver was at work when job 3 got its nodes"),
        ({}, "worker-1", "workers that did not succeed: 1"),
        ({"worker-1": None}, "", "workers that did not succeed: 1"),
        # It comes back on a node of the job, or elsewhere but after the job, or it was never asked to leave.
        ({"worker-0": ("n1", 6.0, 6.5, None, 18.0)}, "", "worker 0 was not replaced on another node while job 3 ran"),
        ({"worker-0": ("n3", 6.0, 6.5, None, 18.0)}, "", "worker 0 was not replaced on another node while job 3 ran"),
        (
            {"worker-0 first": ("n1", 1.0, 1.5, None, 2.6)},
            "",
            "worker 0 was not replaced on another node while job 3 ran",
        ),
        ({"worker-0 first": None}, "", "no worker had to leave for job 3"),
    ],
)
def test_what_the_predecessors_promised_is_refused_where_the_records_do_not_show_it(
    runs: dict[str, Any], failed: str, says: str
) -> None:
    job, _made = handed_over()
    told = {name: run for name, run in {**WORKERS_RUN, **runs}.items() if run is not None}
    with pytest.raises(handover.RecordError, match=says):
        handover.both_finished(job, pods_of(told, failed=failed), driver="driver", worker="worker", workers=2)


def test_a_job_that_failed_or_was_killed_is_no_success() -> None:
    for log, says in (
        (SLURMCTLD.replace("WEXITSTATUS 0", "WEXITSTATUS 1"), "job 3 ended with status 1"),
        (
            SLURMCTLD.replace(
                "_job_complete: JobId=3 WEXITSTATUS 0", "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=3 uid 0"
            ),
            "job 3 ended with status unknown",
        ),
    ):
        (job, *_others) = slurm_record.read_jobs(log, SLURMD, zone="+00:00")
        with pytest.raises(handover.RecordError, match=says):
            handover.both_finished(job, pods_of(WORKERS_RUN), driver="driver", worker="worker", workers=2)


def test_a_pod_has_succeeded_when_its_kubelet_says_so_and_not_when_it_was_ended() -> None:
    events = [bound(1, name, "n1") for name in ("a", "b", "c")]
    events += [
        event(2, "patch", "pods/status", "a", {"status": {"phase": "Succeeded"}}),
        event(2, "patch", "pods/status", "b", {"status": {"phase": "Failed"}}),
        event(2, "patch", "pods/status", "c", status(terminated={"exitCode": 0})),
    ]
    assert [(pod.name, pod.succeeded) for pod in read_pods(events)] == [("a", True), ("b", False), ("c", True)]


def test_a_pod_that_replaces_another_of_its_name_is_another_pod() -> None:
    events = [
        bound(1, "worker-0", "n1"),
        event(2, "patch", "pods/status", "worker-0", status(running={})),
        event(3, "create", "pods/eviction", "worker-0", {}, 201),
        event(4, "patch", "pods/status", "worker-0", status(terminated={"exitCode": 143})),
        event(5, "delete", "pods", "worker-0", {"gracePeriodSeconds": 0}),
        bound(6, "worker-0", "n3"),
        event(7, "patch", "pods/status", "worker-0", status(running={})),
    ]
    first, second = read_pods(events)
    assert (first.node, first.gone, first.succeeded) == ("n1", at(4), False)
    assert (second.node, second.gone, second.moments[0]) == ("n3", None, (at(6), STARTING))


def test_a_driver_and_its_workers_have_a_colour_of_their_own() -> None:
    events = [bound(1, name, "n1") for name in ("web-7f-a", "worker-0")]
    events += [event(2, "patch", "pods/status", name, status(running={})) for name in ("web-7f-a", "worker-0")]
    made = pod_intervals(events, end=at(9), working=("driver", "worker"))
    assert [(one.who, one.what) for one in made if one.what != STARTING] == [("web-7f-a", UP), ("worker-0", WORKING)]


def test_the_figures_of_a_hand_over_come_from_the_records() -> None:
    job, made = handed_over()

    assert [(one.what, one.value) for one in handover.findings(job, made)] == [
        ("pods that had to leave", "1"),
        ("Slurm gives the job its nodes, until its first task", "1.00 s"),
        ("pods on its nodes while it ran", "0"),
        ("its end, until the last node is open for pods", "1.00 s"),
        ("its end, until a pod runs there again", "1.50 s"),
    ]


def test_a_pod_beside_a_job_is_seen_and_a_job_on_nodes_that_nobody_held_is_an_error() -> None:
    job, made = handed_over()
    late = [*made, *chain("n2", "late", [(at(4), STARTING)], at(4.5))]

    assert [one.who for one in handover.pods_beside(job, late)] == ["late"]
    with pytest.raises(handover.RecordError, match="job 3 began on nodes that nobody held for it"):
        handover.findings(job, [one for one in made if one.what != HELD])


def test_the_chart_has_a_named_row_for_everything_and_an_entry_in_the_legend_for_each_state() -> None:
    _job, made = handed_over()
    steps = [Interval("demo", chart.STEP, "Convert", at(0), at(20))]
    figure = chart.gantt(steps, made, title="Who", zero=ZERO, window=(at(1), at(9)))

    rows = ["demo", "n1 state", "n1 jobs", "n1 pods", "n2 state", "n2 jobs", "n2 pods"]
    assert list(figure.layout.yaxis.ticktext) == rows
    assert {trace.name for trace in figure.data} == {one.what for one in [*made, *steps]}
    assert sum(len(trace.x) for trace in figure.data) == len(made) + 1
    assert figure.layout.xaxis.title.text == "seconds since 15:00:00 UTC, 21 November 2026"
    assert list(figure.layout.xaxis.range) == [1.0, 9.0]


def test_the_time_axis_of_the_picture_leaves_out_the_set_up() -> None:
    steps = [
        Step("Bring a cluster up", "cluster up", "", at(-300), at(-1), is_setup=True),
        Step("Convert it", "convert", "", at(0), at(20)),
    ]
    earlier = Interval("n1", RUNNING, "1", at(-100), at(-90))
    figure = evidence.whole(steps, [earlier], nodes=3, end=at(25))

    assert list(figure.layout.xaxis.range) == [0.0, 25.0]
    (drawn,) = [trace for trace in figure.data if trace.name == chart.STEP]
    assert (list(drawn.base), list(drawn.x)) == ([0.0], [20.0])


def test_the_page_needs_no_network_and_shows_text_as_text() -> None:
    made = [Interval("n1", RUNNING, "3", at(1), at(2))]
    figure = chart.gantt([], made, title="Who", zero=ZERO)
    text = page.page([figure, figure], intro="2 < 3", findings=[("it took", "1.00 s")], steps=[("a & b", "1.0", "<i>")])

    assert "2 &lt; 3" in text
    assert "<td>a &amp; b</td>" in text
    assert "&lt;i&gt;" in text
    assert '<script src="' not in text
    assert text.count("Plotly.newPlot(") >= 2
