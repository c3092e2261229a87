# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast pods of a queue that PBS backs get their node, once PBS has chosen it.

On the double of PBS and, where it is installed, on the real one. Gangs come one after the other first: from the moment
at which PBS allocates a gang's job, by its own record, to the answer to each of its bindings. Then all of them wait
when the daemon starts: pods bound a second, from the first binding to the last. The daemon reads all jobs by one
`qstat` at most once a second; how often it did is counted.

The double is a program in Python for each command, so most of the time of its second figure is its own: the mark is the
real one's, and is not judged where that is not installed.
"""

import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench._figures import count, load_average, parser_of, pause, table
from bench._placement_cases import Case
from bench._placement_cluster import Cluster, Follower, field, keep, options
from bench._placement_contestants import ROLE, Ours, Running
from pbs_double import double, real, state
from pbs_double.cluster import HOSTS, SERVER
from pbs_double.cluster import Cluster as Pbs
from testbed.api import RunningBed, find
from testbed.kube_api import ApiError

QUEUE: Final = "backed"
REAL: Final = "real PBS"
QUEUES: Final = "/apis/scheduling.converged.hpc/v1alpha1/queues"
CORES: Final = 100_000
# Marks: seconds from allocation to binding, pods a second, and reads a second.
MOST_SECONDS: Final = 1.2
LEAST_RATE: Final = 150.0
MOST_READS: Final = 1.0
BOUND_SECONDS: Final = 300.0
_RUN: Final = re.compile(r"^([\d/]+ [\d:.]+);0008;[^;]*;Job;([^;]+);Job Run at request of ", re.MULTILINE)
_READS: Final = re.compile(r'^placement_api_latency_seconds_count\{[^}]*request="qstat"[^}]*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Batch:
    """A PBS: how it is made, and what it has on record of when each job was allocated."""

    name: str
    started: Callable[[Path], AbstractContextManager[Pbs]]
    allocations: Callable[[Pbs, Path], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one PBS: seconds from allocation to binding, pods bound a second, and the most reads a second."""

    batch: str
    seconds: list[float]
    rate: float
    reads: float


def known_to_the_double(_pbs: Pbs, folder: Path) -> dict[str, float]:
    with state.opened(folder) as known:
        return {key: job.started for key, job in known.jobs.items() if job.started is not None}


def logged_by_the_server(pbs: Pbs, _folder: Path) -> dict[str, float]:
    """Its log is in local time, to the microsecond."""
    log = pbs.on(SERVER, "cat $PBS_HOME/server_logs/*").out
    return {job: datetime.strptime(when, "%m/%d/%Y %H:%M:%S.%f").timestamp() for when, job in _RUN.findall(log)}


class Site:
    """A cluster and a PBS with two hosts that have room for everything."""

    def __init__(
        self, cluster: Cluster, bed: RunningBed, batch: Batch, pbs: Pbs, folder: Path, nodes: list[str]
    ) -> None:
        self.cluster, self.pbs = cluster, pbs
        self._batch, self._folder = batch, folder
        for host, node in zip(HOSTS, nodes, strict=False):
            self._ask(f"set node {host} resources_available.ncpus = {CORES}")
            room = {"cpu": str(CORES), "memory": "100Ti", "pods": "8000"}
            cluster.api.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": room, "allocatable": room}})
            cluster.api.patch(
                f"/api/v1/nodes/{node}",
                {"metadata": {"labels": {"node-restriction.kubernetes.io/converged-batch-node": host}}},
            )
        self._ask("create queue pods")
        for setting in ("queue_type = Execution", "enabled = True", "started = True"):
            self._ask(f"set queue pods {setting}")
        crds = (ROLE / "crds/crds.yml").read_text(encoding="utf-8")
        bed.kubectl("apply", "-f", "-", input=crds)
        body = {"apiVersion": "scheduling.converged.hpc/v1alpha1", "kind": "Queue", "metadata": {"name": QUEUE}}
        try:
            cluster.api.create(QUEUES, {**body, "spec": {"backedBy": "pbs"}})
        except ApiError as error:
            if error.status != 409:
                raise

    def _ask(self, command: str) -> None:
        if self.pbs.call("qmgr", "-c", command).rc != 0:
            raise SystemExit(f"qmgr -c '{command}' failed")

    def daemon(self, bed: RunningBed) -> Ours:
        """Ours, with this PBS."""
        return Ours(bed, self._folder, bare=False, pbs_bin_dir=str(self.pbs.bin_dir), pbs_linger_seconds=0)

    def started(self) -> dict[str, float]:
        """When PBS has allocated each job, by the name of the gang."""
        when = self._batch.allocations(self.pbs, self._folder)
        return {job["Job_Name"]: when[key] for key, job in self._jobs().items()}

    def end(self) -> None:
        """No pod and no job is left."""
        self.cluster.clear()
        self.pbs.call("qdel", *self._jobs())

    def _jobs(self) -> dict[str, Any]:
        answer = json.loads(self.pbs.call("qstat", "-f", "-F", "json").out, strict=False)
        found: dict[str, Any] = answer.get("Jobs", {})
        return found


def create(site: Site, case: Case, numbers: range) -> None:
    """Gangs of these numbers, in the backed queue."""
    groups = list(case.groups())
    pods = [case.pod(index, Ours.scheduler_name) for number in numbers for index in members(case, number)]
    for pod in pods:
        pod["metadata"]["annotations"] = {"scheduling.converged.hpc/queue": QUEUE}
    site.cluster.create_all(pods, [groups[number] for number in numbers])


def members(case: Case, number: int) -> range:
    return range(number * case.gang, (number + 1) * case.gang)


def wait(follower: Follower, pods: int, running: Running) -> None:
    begun = time.monotonic()
    while len(follower.binds) < pods:
        follower.read()
        if running.ended() or time.monotonic() - begun > BOUND_SECONDS:
            raise SystemExit(f"{len(follower.binds)} of {pods} pods bound after {time.monotonic() - begun:.0f} s")
        time.sleep(0.2)


def wait_for_reads(running: Running) -> None:
    """Until the daemon has read all jobs once, which is when it may submit."""
    begun = time.monotonic()
    while time.monotonic() - begun < BOUND_SECONDS:
        with contextlib.suppress(OSError):
            if read_count(running) > 0:
                return
        time.sleep(0.2)
    raise SystemExit("the daemon reads no jobs")


def read_count(running: Running) -> float:
    return sum(float(number) for number in _READS.findall(running.metrics()))


def paced(site: Site, bed: RunningBed, case: Case, pause: float) -> tuple[list[float], float]:
    """Seconds from the allocation of its job to each pod's binding, and reads a second."""
    gangs = case.pods // case.gang
    follower = site.cluster.follow()
    with site.daemon(bed).running() as running:
        wait_for_reads(running)
        before, begun = read_count(running), time.monotonic()
        for number in range(gangs):
            create(site, case, range(number, number + 1))
            time.sleep(pause)
        wait(follower, case.pods, running)
        rate = (read_count(running) - before) / (time.monotonic() - begun)
    started = site.started()
    site.end()
    gang_by_pod = {bind.name: f"gang-{int(bind.name.rpartition('-')[2]) // case.gang}" for bind in follower.binds}
    return [bind.answered.timestamp() - started[gang_by_pod[bind.name]] for bind in follower.binds], rate


def sustained(site: Site, bed: RunningBed, case: Case) -> tuple[float, float]:
    """Pods bound a second where all wait from the beginning, and reads a second."""
    create(site, case, range(case.pods // case.gang))
    follower = site.cluster.follow()
    begun = time.monotonic()
    with site.daemon(bed).running() as running:
        wait(follower, case.pods, running)
        rate = read_count(running) / (time.monotonic() - begun)
    first, last = min(bind.received for bind in follower.binds), max(bind.answered for bind in follower.binds)
    site.end()
    return case.pods / (last - first).total_seconds(), rate


def measure(batch: Batch, bed: RunningBed, cluster: Cluster, nodes: list[str], given: argparse.Namespace) -> Figures:
    """Both figures of one PBS."""
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "localhost/none", "resources": {"requests": {"cpu": "1"}}}],
        "automountServiceAccountToken": False,
    }
    with tempfile.TemporaryDirectory() as folder, batch.started(Path(folder)) as pbs:
        site = Site(cluster, bed, batch, pbs, Path(folder), nodes)
        seconds, often = paced(site, bed, Case(given.gangs * given.gang, spec, given.gang), given.pause)
        rate, at_most = sustained(site, bed, Case(max(1, given.pods // given.gang) * given.gang, spec, given.gang))
    return Figures(batch.name, seconds, rate, max(often, at_most))


def report(found: list[Figures], *, gang: int, judged: str) -> bool:
    """The table, and whether every mark is met that can be judged: pods a second of `judged` alone."""
    rows, met = [], True
    for one in found:
        late = statistics.quantiles(one.seconds, n=20)[-1]
        median = f"{statistics.median(one.seconds):.2f} s median"
        asked = f"{LEAST_RATE:.0f} at least" if one.batch == judged else "not judged"
        rows += [
            [f"allocated to bound, p95, {one.batch}", f"{late:.2f} s", median, f"{MOST_SECONDS} s at most"],
            [f"bound a second, {one.batch}", f"{one.rate:.0f}", f"gangs of {gang}", asked],
            [f"qstat a second, {one.batch}", f"{one.reads:.2f}", "the more of both", f"{MOST_READS:.0f} at most"],
        ]
        met = met and late <= MOST_SECONDS and one.reads <= MOST_READS
        met = met and (one.batch != judged or one.rate >= LEAST_RATE)
    print(f"{load_average()}\n\n{table(['figure', 'reached', 'of', 'asked'], rows)}")
    if judged not in {one.batch for one in found}:
        print(
            f"\nNot judged: {LEAST_RATE:.0f} pods bound a second, which is a mark of the {judged}; it is not installed."
        )
    return met


def main() -> int:
    """All of them, then the table; 1 where a mark is missed."""
    parser = parser_of(__doc__, "--gangs 10 --pods 500")
    options(parser, ("placement",))
    parser.add_argument("--gang", type=count, default=8, help="pods of a gang (default: 8)")
    parser.add_argument("--gangs", type=count, default=40, help="gangs that come one after the other (default: 40)")
    parser.add_argument("--pods", type=count, default=2000, help="pods that wait from the beginning (default: 2000)")
    parser.add_argument("--pause", type=pause, default=0.7, help="seconds between two gangs (default: 0.7)")
    parser.set_defaults(nodes=20)
    given = parser.parse_args()
    batches = [Batch("double", double.started, known_to_the_double)]
    root = real.installation()
    if root is not None:
        batches.append(Batch(REAL, partial(real.started, root), logged_by_the_server))
    with field(given, ("placement",)) as ground:
        bed = find(given.bed or "placement-bench")
        found = [measure(batch, bed, ground.cluster, ground.nodes, given) for batch in batches]
    keep(given, [asdict(one) for one in found])
    return 0 if report(found, gang=given.gang, judged=REAL) else 1


if __name__ == "__main__":
    sys.exit(main())
