# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults and jobs are drawn by a seed, the API's lists are read, and a run that proves nothing fails."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from placement_churn import churn, cli
from placement_churn.checks import Node, Size, Violation
from placement_churn.load import TIGHT, WIDE, Draw
from placement_churn.plan import DAEMON, REST_SECONDS, SITE, Kind, Round, plan
from placement_churn.reading import POOL, mebi, milli, node_of, pod_of
from placement_churn.site import pools

pytestmark = pytest.mark.prose
SEEDS = range(20)


def test_a_seed_gives_the_same_faults_again_and_another_gives_others() -> None:
    assert plan(7, 3600) == plan(7, 3600)
    assert plan(7, 3600) != plan(8, 3600)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_hour_has_every_kind_of_fault_and_ten_rests(seed: int) -> None:
    rounds = plan(seed, 3600)

    assert len(rounds) == 10
    assert sum(one.storm + REST_SECONDS for one in rounds) == pytest.approx(3600)
    assert {fault.kind for one in rounds for lane in one.lanes for fault in lane} == set(Kind)


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_of_a_lane_follow_each_other_and_end_with_the_storm(seed: int) -> None:
    for one in plan(seed, 3600):
        for lane in filter(None, one.lanes):
            assert lane[-1].at + lane[-1].seconds <= one.storm
            assert all(first.at + first.seconds < second.at for first, second in pairwise(lane))


@pytest.mark.parametrize("seed", SEEDS)
def test_daemons_live_on_in_the_middle_half_of_a_long_run(seed: int) -> None:
    calm = [not one.lanes[0] for one in plan(seed, 3600)]

    assert calm == [False] * 2 + [True] * 5 + [False] * 3
    assert {fault.kind for fault in plan(seed, 600)[0].lanes[0]} <= set(DAEMON)


def test_a_run_without_time_for_a_rest_is_refused() -> None:
    assert len(plan(1, 180)) == 1
    with pytest.raises(ValueError, match="179 s are too short"):
        plan(1, 179)


def test_kinds_of_both_lanes_are_all_there_are() -> None:
    assert {*DAEMON, *SITE} == set(Kind)


def test_jobs_are_drawn_by_the_seed_and_all_kinds_of_them_come() -> None:
    first, second = Draw(3), Draw(3)
    jobs = [first.tight() if number % 2 else first.wide() for number in range(400)]

    assert jobs == [second.tight() if number % 2 else second.wide() for number in range(400)]
    assert {job.pool for job in jobs} == {TIGHT, WIDE}
    assert any(job.urgent and job.is_gang for job in jobs)
    assert any(job.least < job.pods for job in jobs)
    assert all(1 <= job.least <= job.pods for job in jobs)


def test_a_pod_is_read_as_it_was_made() -> None:
    job = next(job for job in iter(Draw(1).wide, None) if job.is_gang)
    made = job.pod(job.names()[0], "space", "scheduler")
    made["metadata"]["uid"] = "u"

    found = pod_of(made)

    assert (found.name, found.gang, found.pool) == (f"{job.name}-0", job.name, WIDE)
    assert found.size == Size(1000 * job.cpu, 1024 * job.cpu)
    assert (found.node, found.nominated, found.ended, found.leaving) == ("", "", False, False)


def node(**more: Any) -> dict[str, Any]:
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    status = {"allocatable": room, "conditions": [{"type": "Ready", "status": more.pop("ready", "True")}]}
    return {"metadata": {"name": "n", "labels": {POOL: TIGHT}}, "spec": more, "status": status}


def test_a_node_is_open_unless_something_closes_it() -> None:
    assert node_of(node()) == Node("n", Size(32000, 131072, 110), TIGHT)
    assert not node_of(node(unschedulable=True)).open
    assert not node_of(node(taints=[{"key": "k", "effect": "NoSchedule"}])).open
    assert not node_of(node(ready="False")).open


def test_amounts_are_read() -> None:
    assert (milli("500m"), milli("2"), mebi("2Gi"), mebi("2048Ki")) == (500, 2000, 2048, 2)


def test_a_small_part_of_the_nodes_is_without_room() -> None:
    assert list(pools([str(number) for number in range(20)]).values()).count(TIGHT) == 4
    assert list(pools([str(number) for number in range(5000)]).values()).count(TIGHT) == 100


def test_metrics_are_summed_over_their_labels() -> None:
    page = '# HELP x\nplacement_drift{what="a"} 1\nplacement_drift{what="b"} 2\nplacement_leader 1\n'

    assert churn.figures(page) == {"drift": 3, "leader": 1}


def test_a_metric_that_has_no_line_yet_is_nought_and_one_that_is_not_there_is_missing() -> None:
    page = "# TYPE placement_graph_drift_total counter\n# TYPE other counter\n"

    assert churn.figures(page) == {"graph_drift_total": 0}


def test_an_error_of_a_worker_ends_the_run() -> None:
    workers, done = churn.Workers(), list[int]()
    workers.submit(done.append, 1)
    workers.submit([].remove, 1)
    workers.close()

    with pytest.raises(ValueError, match="not in list"):
        workers.reap()
    assert done == [1]


def test_a_long_run_in_which_no_memory_was_judged_fails(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = plan(1, 3600)
    found = result(rounds)

    assert cli.verdict(found, rounds) == 1
    assert "no term was long enough" in capsys.readouterr().err
    found.counts[churn.JUDGED] = 1
    assert cli.verdict(found, rounds) == 0


def test_a_term_is_judged_after_its_warm_up() -> None:
    assert churn.judged([(100, 50), (1299, 60), (1300, 70), (1400, 71)]) == [70, 71]


def test_a_process_that_begins_to_lead_is_judged_apart_from_its_time_as_standby() -> None:
    standby = churn.Term(7)

    assert standby.next(leads=False) == standby
    assert standby.next(leads=None) == standby
    leader = standby.next(leads=True)
    assert leader != standby
    assert leader.next(leads=None) == leader
    assert leader.next(leads=False) not in (standby, leader)
    assert (str(standby), str(leader)) == ("process 7, standby", "process 7, leader")


@pytest.mark.parametrize(("stat", "expected"), [("7 (a) T b) T 1 2", True), ("7 (T) S 1 2", False)])
def test_a_frozen_process_is_known_by_its_state(stat: str, *, expected: bool) -> None:
    assert churn.frozen(stat) is expected


def result(rounds: list[Round]) -> churn.Result:
    found = churn.Result()
    found.counts.update({"created": 1, "bound": 1, "gone": 1, "looks": 1})
    found.faults.update(fault.kind.value for one in rounds for lane in one.lanes for fault in lane)
    return found


def test_a_run_is_good_if_all_faults_came_and_nothing_was_violated() -> None:
    rounds = plan(1, 180)

    assert cli.verdict(result(rounds), rounds) == 0


def test_a_violation_fails_the_run() -> None:
    rounds = plan(1, 180)
    bad = result(rounds)
    bad.violations.append(Violation("leak", "process 1", "grew"))

    assert cli.verdict(bad, rounds) == 1
    assert "violations: 1" in cli.told(bad)


def test_a_run_in_which_a_fault_did_not_come_or_nothing_was_bound_fails(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = plan(1, 180)
    lacking, idle = result(rounds), result(rounds)
    lacking.faults.popitem()
    idle.counts["bound"] = 0

    assert cli.verdict(lacking, rounds) == 1
    assert "never came" in capsys.readouterr().err
    assert cli.verdict(idle, rounds) == 1
    assert "nothing was: bound" in capsys.readouterr().err


def test_the_seed_of_the_command_line_goes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEED", "9")
    assert cli.chosen_seed(3) == 3
    assert cli.chosen_seed(None) == 9
    monkeypatch.delenv("SEED")
    assert cli.chosen_seed(None) != cli.chosen_seed(None)
