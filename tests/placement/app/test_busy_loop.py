# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop and the scheduler together, with threads that bring news and ask questions all the time."""

import queue
import threading
import time
from dataclasses import replace

from placement.app.loop.loop import Loop
from placement.app.telemetry.metrics import Metrics
from placement.core.scheduler import Decision, Scheduler
from placement.model.messages.action import Bind
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.pod import Phase, Pod
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, near, node, pairs, pod
from placement_kit.builders import queue as queue_of
from placement_kit.kube_batch import policy

NODES = 30
GANGS = 12
SIZE = 20


class Watched(Scheduler):
    """Counts slices that end in the middle of something."""

    pieces = 0

    def decide(self, now, expired, *, hurry=False) -> Decision:
        decision = super().decide(now, expired, hurry=hurry)
        self.pieces += self.under_way
        return decision


class Cluster:
    """An API that binds in a thread of its own, and whose answers may have to wait for room in the inbox."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.loop = Loop(
            scheduler,
            carrier=self,
            metrics=Metrics(),
            may_decide=lambda: True,
            decided=lambda _actions: None,
            binders=1,
            # Most slices end in the middle of something.
            slice_seconds=0.0003,
        )
        self.pods: dict[str, Pod] = {}
        # In the order in which they were decided, as one slice decided them.
        self.decided: list[list[str]] = []
        self._work: queue.Queue[Bind] = queue.Queue()
        self._version = 100
        self._lock = threading.Lock()
        self.binding = 0

    def carry(self, actions) -> None:
        binds = [action for action in actions if isinstance(action, Bind)]
        if binds:
            self.decided.append([action.uid for action in binds])
        with self._lock:
            self.binding += len(binds)
        for bind in binds:
            self._work.put(bind)

    def see(self, *items) -> None:
        """They come or change."""
        with self._lock:
            self._version += 1
            items = [replace(item, version=self._version) for item in items]
        self.pods.update((item.uid, item) for item in items if isinstance(item, Pod))
        self.loop.put([Upserted(item) for item in items])

    def bind_all(self, stop: threading.Event) -> None:
        """The body of a thread."""
        while not stop.is_set():
            try:
                bind = self._work.get(timeout=0.05)
            except queue.Empty:
                continue
            self.see(replace(self.pods[bind.uid], node=bind.node, phase=Phase.RUNNING))
            with self._lock:
                self.binding -= 1


def test_news_and_questions_without_end_neither_stop_gangs_nor_see_a_part_of_one() -> None:
    scheduler = Watched(load(policy("allocate, backfill, preempt"), "test"), scheduler_name="placement")
    cluster, stop, ended = Cluster(scheduler), threading.Event(), threading.Event()
    loop, parts, errors = cluster.loop, list[int](), list[Exception]()

    def guarded(body, *arguments) -> threading.Thread:
        def run() -> None:
            try:
                body(*arguments)
            except Exception as error:  # noqa: BLE001 -- the test looks at it
                errors.append(error)
                stop.set()

        return threading.Thread(target=run)

    def disturb() -> None:
        """Foreign pods come and go, and a queue changes."""
        number = 0
        while not stop.is_set():
            number += 1
            other = pod(f"other{number}", node=f"n{number % NODES}", request=(), phase=Phase.RUNNING)
            cluster.see(other)
            loop.put([Deleted(Pod, other.uid, 10**9)])
            if number % 20 == 0:
                cluster.see(queue_of("default", weight=1 + number % 7))

    def ask() -> None:
        while not stop.is_set():
            (report,) = loop.ask(scheduler.queues, timeout=300)
            parts.append(dict(report.allocated).get("cpu", 0))
            loop.ask_in_steps(scheduler.explain("team", "g0-0"), timeout=300)

    names, room = [f"n{index}" for index in range(NODES)], amounts(cpu="16", pods="90")
    hosts = [node(name, labels=(("host", name),), allocatable=room) for name in names]
    cluster.see(queue_of("default"), *hosts)
    for which in range(GANGS):
        more = {"labels": pairs(app=f"g{which}"), "anti_affinity": (near("host", app=f"g{which}"),)}
        members = [mine(f"g{which}-{index}", group=f"g{which}", **more) for index in range(SIZE)]
        cluster.see(gang(f"g{which}", SIZE), *members)
    threads = [guarded(loop.run, stop), guarded(cluster.bind_all, ended), guarded(disturb), guarded(ask), guarded(ask)]
    for thread in threads:
        thread.start()
    give_up = time.monotonic() + 300
    while sum(map(len, cluster.decided)) < GANGS * SIZE and not errors and time.monotonic() < give_up:
        time.sleep(0.01)
    stop.set()
    # Who brings something when the loop has ended is not kept.
    for thread in (*threads[:1], *threads[2:]):
        thread.join(300)
    ended.set()
    threads[1].join(300)
    assert not any(thread.is_alive() for thread in threads)
    assert not [error for error in errors if "about to end" not in str(error)]
    assert sorted(uid for some in cluster.decided for uid in some) == sorted(
        f"uid-g{which}-{index}" for which in range(GANGS) for index in range(SIZE)
    )
    assert scheduler.pieces > GANGS
    # A gang is bound in one go, and nobody was told of a part of it.
    assert all(len(some) % SIZE == 0 for some in cluster.decided)
    assert {part % (SIZE * 1000) for part in parts} == {0}
