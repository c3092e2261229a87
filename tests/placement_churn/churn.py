# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run: pods come and go under faults, and every look at the cluster is checked."""

import json
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, local
from typing import Any, Final

from bench._placement_contestants import parsed
from e2e.placement.cluster import KUBE_BATCH
from e2e.playing import until
from prometheus_client.parser import text_string_to_metric_families
from testbed.kube_api import Api, ApiError

from placement_churn import checks
from placement_churn.load import DEMAND, TIGHT, Draw, Job
from placement_churn.plan import REST_SECONDS, Fault, Round
from placement_churn.reading import node_of, pod_of
from placement_churn.site import HALF_GANG_SECONDS, NAMESPACE, NODES, SCHEDULER, Faults, Site

CONNECTIONS: Final = 8
PATIENCE: Final = 2.0 * HALF_GANG_SECONDS
_CREATE: Final = "?fieldValidation=Ignore"
# A term begins to be judged when the process knows as much as it will know: 32,768 deleted objects, some 30 a second.
_WARM_UP_SECONDS: Final = 1200.0
_LEAST_JUDGED_SECONDS: Final = 1680.0
JUDGED: Final = "terms judged by their memory"


@dataclass(slots=True)
class Live:
    """A job that is there, or about to be."""

    job: Job
    ends: float
    # When it was last created; while that is under way, never yet.
    tried: float = math.inf
    seen: bool = False


@dataclass(slots=True)
class Ending:
    """A job that is being deleted."""

    job: Job
    group_gone: bool = False


@dataclass(frozen=True, slots=True)
class Term:
    """The time in which a process leads, or stands by. One that begins to lead needs more memory from then on."""

    pid: int
    number: int = 0
    leads: bool = False

    def __str__(self) -> str:
        return f"process {self.pid}, {'leader' if self.leads else 'standby'}"

    def next(self, leads: bool | None) -> "Term":
        """Return the term that goes on or begins where the process says this of itself; None: it does not answer."""
        return self if leads in (None, self.leads) else Term(self.pid, self.number + 1, bool(leads))


@dataclass(slots=True)
class Result:
    """What a run has come to."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[checks.Violation] = field(default_factory=list)
    # Of each term: seconds since the start of the run, and MiB.
    memory: dict[Term, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    ended: list[int] = field(default_factory=list)


class Workers:
    """A few threads; what goes wrong in one of them ends the run."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(CONNECTIONS)
        self._futures: list[Future[None]] = []

    def submit(self, work: Callable[..., None], *given: object) -> None:
        """Have a thread do this."""
        self._futures.append(self._pool.submit(work, *given))

    def reap(self) -> None:
        """Raise the error of work that has ended with one, and forget the rest that has ended."""
        under_way = []
        for future in self._futures:
            if future.done():
                future.result()
            else:
                under_way.append(future)
        self._futures = under_way

    def close(self) -> None:
        """Wait for all work."""
        self._pool.shutdown()


class Churn:
    """Create, delete, look and check."""

    def __init__(self, site: Site, seed: int, rate: float, look_seconds: float) -> None:
        self._site = site
        self._rate = rate
        self._look_seconds = look_seconds
        self._draw = Draw(seed)
        self._mine = local()
        self._workers = Workers()
        self._counting = Lock()
        self._live: dict[str, Live] = {}
        self._ending: dict[str, Ending] = {}
        self._jobs_due = 0.0
        self._known: set[str] = set()
        self._bound: set[str] = set()
        self._waiting = 0
        self._checker = checks.Checker(PATIENCE)
        self._begun = time.monotonic()
        self._said = -1
        self._terms: dict[int, Term] = {}
        self.result = Result()
        cores = sum(32 for pool in site.pools.values() if pool == TIGHT)
        self._demand = DEMAND * cores

    def run(self, rounds: list[Round]) -> Result:
        """Play all rounds."""
        with ExitStack() as stack:
            stack.callback(self._workers.close)
            ended = [stack.enter_context(daemon.kept()) for daemon in self._site.daemons]
            until(lambda: any(daemon.leads() for daemon in self._site.daemons), "one daemon leads")
            for one in rounds:
                self._storm(one)
                self._rest()
            self.result.ended = [status for statuses in ended for status in statuses]
        self._workers.reap()
        for status, number in self._site.evictions().items():
            self._count(f"evictions answered by {status}", number)
        self._judge_memory()
        return self.result

    def _storm(self, one: Round) -> None:
        self._checker.quiet_since = None
        end = time.monotonic() + one.storm
        with self._faults(one) as lanes:
            next_look = time.monotonic()
            # A fault that took longer than it was drawn for moves those after it, and the end of the storm.
            while (now := time.monotonic()) < end or not all(lane.done() for lane in lanes):
                self._come_and_go(now)
                if now >= next_look:
                    self._look()
                    next_look = time.monotonic() + self._look_seconds
                time.sleep(max(0.0, 1.0 - (time.monotonic() - now)))

    @contextmanager
    def _faults(self, one: Round) -> Iterator[list[Future[None]]]:
        """Run the faults of each lane beside each other; what goes wrong with one of them ends the run."""
        begun, over = time.monotonic(), Event()

        def play(lane: tuple[Fault, ...]) -> None:
            faults = Faults(self._site)
            for fault in lane:
                over.wait(max(0.0, begun + fault.at - time.monotonic()))
                if over.is_set():
                    return
                faults.run(fault, over)
                with self._counting:
                    self.result.faults[fault.kind.value] += 1

        with ThreadPoolExecutor(len(one.lanes)) as lanes:
            played = [lanes.submit(play, lane) for lane in one.lanes]
            try:
                yield played
            finally:
                over.set()
        for lane in played:
            lane.result()

    def _rest(self) -> None:
        """Let nothing happen, and see that everything comes to rest."""
        self._checker.quiet_since = time.monotonic()
        end = time.monotonic() + REST_SECONDS
        answered = 0
        while time.monotonic() < end:
            answered += self._look()
            time.sleep(self._look_seconds)
        if not answered:
            self._violated([checks.Violation("not seen", "rest", "no look at the cluster had an answer")])
        self._settled()

    def _settled(self) -> None:
        """Ask the leader what it has under way; one that is late gets a second time."""
        wrong: list[str] = []
        for _attempt in range(6):
            seen = self._look()
            leading = [daemon for daemon in self._site.daemons if daemon.leads()]
            if not seen:
                wrong = ["the API server did not say how many pods wait"]
            elif len(leading) != 1:
                wrong = [f"{len(leading)} daemons lead"]
            else:
                wrong = checks.unsettled(figures(leading[0].page("/metrics")), self._waiting)
            if not wrong:
                return
            time.sleep(5)
        self._violated([checks.Violation("not at rest", "leader", "; ".join(wrong))])

    def _come_and_go(self, now: float) -> None:
        """Create the jobs of this second, and end those that have lived."""
        for name in [name for name, live in self._live.items() if live.ends <= now]:
            ending = self._ending[name] = Ending(self._live.pop(name).job)
            self._count("jobs ended")
            self._workers.submit(self._delete, ending)
        self._jobs_due += self._rate
        while self._jobs_due >= 1:
            self._jobs_due -= 1
            self._begin(self._draw.wide(), now)
        asked = sum(live.job.cpu * live.job.pods for live in self._live.values() if live.job.pool == TIGHT)
        for _new in range(20):
            if asked >= self._demand:
                break
            job = self._draw.tight()
            asked += job.cpu * job.pods
            self._begin(job, now)

    def _begin(self, job: Job, now: float) -> None:
        live = self._live[job.name] = Live(job, now + job.lives)
        self._count("jobs begun")
        self._workers.submit(self._create, live)

    def _api(self) -> Api:
        if not hasattr(self._mine, "api"):
            self._mine.api = self._site.connect()
        found: Api = self._mine.api
        return found

    def _create(self, live: Live, names: list[str] | None = None) -> None:
        """Create the group and these pods, or all; what the API server does not do now is tried at the next look."""
        live.tried = math.inf
        try:
            self._send_job(live, names)
        finally:
            live.tried = time.monotonic()

    def _send_job(self, live: Live, names: list[str] | None) -> None:
        job, path = live.job, self._site.team.path
        if job.is_gang and not live.seen:
            body = {"apiVersion": KUBE_BATCH, "kind": "PodGroup", "metadata": {"name": job.name}, "spec": job.group()}
            if not self._sent("POST", self._site.team.group_path(KUBE_BATCH), body):
                return
        for name in names or job.names():
            if self._sent("POST", f"{path}/pods{_CREATE}", job.pod(name, NAMESPACE, SCHEDULER)):
                self._count("created")

    def _delete(self, ending: Ending) -> None:
        """Delete the pods of a job at once, and its group."""
        for name in ending.job.names():
            self._delete_pod(name)
        if ending.job.is_gang and not ending.group_gone:
            path = f"{self._site.team.group_path(KUBE_BATCH)}/{ending.job.name}"
            ending.group_gone = self._sent("DELETE", path, None)

    def _delete_pod(self, name: str) -> None:
        self._sent("DELETE", f"{self._site.team.path}/pods/{name}", {"gracePeriodSeconds": 0})

    def _sent(self, method: str, path: str, body: dict[str, Any] | None) -> bool:
        """Send a request, and return whether it is done; what is not done is sent again after a look."""
        try:
            self._api().send(method, path, None if body is None else json.dumps(body).encode())
        except ApiError as error:
            if error.status not in (0, 403, 404, 409, 429) and error.status < 500:
                self._count(f"unexpected answer {error.status}")
            return error.status == (404 if method == "DELETE" else 409)
        return True

    def _count(self, what: str, number: int = 1) -> None:
        with self._counting:
            self.result.counts[what] += number

    def _look(self) -> bool:
        """List nodes and pods, check them, make up for members that are missing; return whether there was an answer."""
        self._workers.reap()
        asked = time.monotonic()
        try:
            nodes = [node_of(item) for item in self._site.api.items(NODES)]
            pods = [pod_of(item) for item in self._site.api.items(f"{self._site.team.path}/pods")]
        except ApiError:
            self._count("looks without an answer")
            return False
        self._count("looks")
        gangs = {name: live.job.least for name, live in self._live.items() if live.job.is_gang}
        self._violated(self._checker.look(asked, nodes, pods, gangs))
        there = {pod.name for pod in pods}
        self._bound |= {pod.uid for pod in pods if pod.node}
        self._waiting = sum(1 for pod in pods if not pod.node and not pod.ended)
        gone = self._known - {pod.uid for pod in pods}
        self._count("gone", len(gone))
        self._known = {pod.uid for pod in pods}
        self.result.counts["bound"] = len(self._bound)
        self._repair(asked, there)
        self._sample(asked)
        minute = int((asked - self._begun) // 60)
        if minute != self._said:
            self._said = minute
            self._say(asked, len(pods))
        return True

    def _repair(self, asked: float, there: set[str]) -> None:
        """Create lost members of gangs as a controller of jobs does; a single pod does not come back."""
        for name, live in list(self._live.items()):
            missing = [one for one in live.job.names() if one not in there]
            if not missing:
                live.seen = True
            elif live.tried < asked:
                if live.seen and not live.job.is_gang:
                    del self._live[name]
                    self._count("singles evicted or lost")
                else:
                    if live.seen:
                        self._count("members made again", len(missing))
                    self._workers.submit(self._create, live, missing)
        for name, ending in list(self._ending.items()):
            if there.intersection(ending.job.names()) or (ending.job.is_gang and not ending.group_gone):
                self._workers.submit(self._delete, ending)
            else:
                del self._ending[name]
        # A request to create that was on its way when its job ended.
        for pod in there:
            if pod.rpartition("-")[0] not in self._live.keys() | self._ending.keys():
                self._workers.submit(self._delete_pod, pod)

    def _sample(self, now: float) -> None:
        for daemon in self._site.daemons:
            process = daemon.process
            if process is not None and process.poll() is None:
                folder = Path(f"/proc/{process.pid}")
                # A process that has just ended has no files there, or none that name its memory.
                with suppress(OSError, IndexError, KeyError):
                    stat = (folder / "stat").read_text()
                    used = parsed(stat, (folder / "status").read_text())
                    term = self._terms.get(process.pid, Term(process.pid))
                    # One that is frozen would keep the question until the time limit.
                    leads = None if frozen(stat) else daemon.status().get("leader")
                    term = self._terms[process.pid] = term.next(leads)
                    self.result.memory[term].append((now - self._begun, used.resident_mib))

    def _judge_memory(self) -> None:
        for term, samples in self.result.memory.items():
            lasted = samples[-1][0] - samples[0][0]
            figures = judged(samples)
            medians = checks.growth(figures)
            if lasted < _LEAST_JUDGED_SECONDS or medians is None:
                continue
            self._count(JUDGED)
            if checks.has_grown(figures):
                first, last = medians
                text = f"grew from {first:.0f} to {last:.0f} MiB in {lasted:.0f} s"
                self._violated([checks.Violation("leak", str(term), text)])

    def _violated(self, found: list[checks.Violation]) -> None:
        for one in found:
            self.result.violations.append(one)
            at = time.monotonic() - self._begun
            print(f"VIOLATION at {at:.0f} s: {one.kind}: {one.subject}: {one.text}", flush=True)

    def _say(self, now: float, pods: int) -> None:
        counts = self.result.counts
        faults = ", ".join(f"{name} {number}" for name, number in sorted(self.result.faults.items())) or "none"
        memory = ", ".join(f"{samples[-1][1]:.0f}" for samples in self._memory_now())
        print(
            f"{(now - self._begun) / 60:.0f} min: pods created {counts['created']}, bound {counts['bound']},"
            f" gone {counts['gone']}, there {pods}, waiting {self._waiting}; faults: {faults};"
            f" violations {len(self.result.violations)}; memory {memory} MiB; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )

    def _memory_now(self) -> list[list[tuple[float, float]]]:
        pids = [daemon.process.pid for daemon in self._site.daemons if daemon.process]
        return [self.result.memory[self._terms[pid]] for pid in pids if pid in self._terms]


def frozen(stat: str) -> bool:
    """Return whether a process is stopped by a signal; `stat` is the file of this name in its folder of /proc."""
    return stat.rpartition(")")[2].split()[0] == "T"


def judged(samples: list[tuple[float, float]]) -> list[float]:
    """Return the samples of a term after its warm-up."""
    return [mib for at, mib in samples if at - samples[0][0] >= _WARM_UP_SECONDS]


def figures(page: str) -> dict[str, float]:
    """Return the daemon's metrics by name, the sum over their labels, without the prefix.

    A metric with labels has no sample before something has happened, and counts as 0 then.
    """
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(page):
        if not family.name.startswith("placement_"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name.removeprefix("placement_")] += 0
        for sample in family.samples:
            found[sample.name.removeprefix("placement_")] += sample.value
    return dict(found)
