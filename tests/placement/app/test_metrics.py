# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`/metrics`: kube-batch's figures count what kube-batch's counted."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from placement.app.loop.loop import Loop
from placement.app.process import gauges
from placement.app.telemetry.metrics import Metrics
from placement.core.scheduler import Scheduler
from placement.model.messages.event import Upserted
from placement.model.objects.pod import Phase
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node
from placement_kit.kube_batch import policy


class Daemon:
    """The loop over a real scheduler, whose actions are noted and not carried out."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.scheduler = Scheduler(load(policy(), "test"), scheduler_name="placement", timed=self.metrics.timed)
        self.carried: list[object] = []
        self.binding = self.writing = 0
        self.loop = Loop(
            self.scheduler,
            carrier=self,
            metrics=self.metrics,
            may_decide=lambda: True,
            decided=lambda _actions: None,
            binders=8,
            slice_seconds=0.05,
        )
        leadership = SimpleNamespace(may_write=lambda: True)
        self.reflectors: list[SimpleNamespace] = []
        parts = SimpleNamespace(
            metrics=self.metrics,
            loop=self.loop,
            carrier=self,
            leadership=leadership,
            announcer=[],
            reflectors=self.reflectors,
            topology=SimpleNamespace(drifts={}),
        )
        gauges.add_gauges(parts)

    def carry(self, actions) -> None:
        self.carried += actions

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self.loop.run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def see(self, *items) -> None:
        self.loop.put([Upserted(item) for item in items])

    def figures(self) -> dict[str, float]:
        found = re.findall(r"^placement_(\S+) (\S+)$", self.metrics.text(), re.MULTILINE)
        return {name: float(value) for name, value in found}

    def until(self, name: str, value: float) -> dict[str, float]:
        """The figures, once one of them is so."""
        end = time.monotonic() + 300
        while (found := self.figures()).get(name) != value:
            assert time.monotonic() < end, (name, {key: found[key] for key in found if "bucket" not in key})
            time.sleep(0.01)
        return found


def test_cycles_and_actions_are_timed_and_pods_from_their_creation_on() -> None:
    daemon = Daemon()
    born = int(time.time()) - 100
    daemon.see(node("n1"), mine("a", created=datetime.fromtimestamp(born, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")))
    with daemon.running():
        figures = daemon.until('schedule_attempts_total{result="scheduled"}', 1)
        figures = daemon.until("e2e_scheduling_latency_milliseconds_count", 1)
    for action in ("reclaim", "allocate", "backfill", "preempt"):
        assert figures[f'action_scheduling_latency_microseconds_count{{action="{action}"}}'] >= 1
    spent = sum(value for name, value in figures.items() if name.startswith("action_") and "_sum" in name)
    assert spent <= figures["e2e_scheduling_latency_milliseconds_sum"] * 1000
    assert 99e6 <= figures["task_scheduling_latency_microseconds_sum"] <= (time.time() - born) * 1e6


def test_jobs_that_lack_nodes_are_counted_and_named_and_those_that_lack_pods_are_not() -> None:
    daemon = Daemon()
    daemon.see(node("n1", allocatable=amounts(cpu="2", memory="8Gi", pods="10")), gang("wide", 3), gang("few", 2))
    daemon.see(*(mine(f"wide{index}", group="wide") for index in range(3)), mine("few0", group="few"))
    daemon.see(mine("large", request=amounts(cpu="9")))
    with daemon.running():
        figures = daemon.until("unschedule_job_count", 2)
        assert figures['unschedule_task_count{job_id="team/wide"}'] == 3
        assert figures['unschedule_task_count{job_id="team/large"}'] == 1
        assert not any("team/few" in name for name in figures)
        daemon.see(node("n2"))
        figures = daemon.until("unschedule_job_count", 1)
        assert 'unschedule_task_count{job_id="team/wide"}' not in figures


def test_victims_are_those_of_the_last_time_and_attempts_those_that_room_was_made_for() -> None:
    daemon = Daemon()
    daemon.see(node("n1"), *(mine(f"low{index}", node="n1", phase=Phase.RUNNING) for index in range(4)))
    daemon.see(mine("high", priority=10, request=amounts(cpu="2")))
    with daemon.running():
        figures = daemon.until("total_preemption_attempts", 1)
        assert figures["pod_preemption_victims"] == 2
        daemon.see(mine("higher", priority=20))
        # It takes over some of the room that is being left, and one more leaves for the other.
        figures = daemon.until("total_preemption_attempts", 3)
    assert figures["pod_preemption_victims"] == 1
    assert figures['evictions_total{reason="Preempted"}'] == 3


def test_lists_since_the_start_are_a_counter() -> None:
    daemon = Daemon()
    health = SimpleNamespace(absent=False, heard=time.monotonic(), relists=3)
    daemon.reflectors.append(SimpleNamespace(source=SimpleNamespace(name="pods"), health=health))
    with daemon.running():
        assert "# TYPE placement_watch_relists_total counter" in daemon.metrics.text().splitlines()
        assert daemon.figures()['watch_relists_total{source="pods"}'] == 3


def test_where_the_loop_does_not_answer_its_figures_are_missing_and_all_others_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gauges, "_ASK_SECONDS", 0.05)
    daemon = Daemon()
    silent = {*daemon.figures()}
    with daemon.running():
        missing = {name.partition("{")[0] for name in {*daemon.until("events_total", 0)} - silent}
    assert missing >= {"queue_pending_pods", "unschedule_job_count"}
    assert {"leader", "inbox_batches", "overfull_nodes"} <= silent


@pytest.mark.parametrize("value", [1, 1234567, 2**40])
def test_figures_keep_all_of_their_digits(value: int) -> None:
    daemon = Daemon()
    daemon.metrics.applied.inc(value)
    with daemon.running():
        assert daemon.figures()["events_total"] == value


def test_a_value_with_quotes_and_newlines_stays_one_line() -> None:
    daemon = Daemon()
    daemon.metrics.gauge("x", "text", lambda: {(("queue", 'a"b\nc'),): 1.0})
    with daemon.running():
        assert 'placement_x{queue="a\\"b\\nc"} 1.0' in daemon.metrics.text().splitlines()
