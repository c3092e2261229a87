# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast pods of a queue that PBS backs get their node, once PBS has chosen it; on the double of PBS.

Gangs come one after the other first: from the moment at which the double allocates a gang's job to the answer to each
of its bindings. Then all of them wait when the daemon starts: pods bound a second, from the first job's submission to
the last binding. The daemon reads all jobs by one `qstat` at most once a second; how often it did is counted.

The double is a program in Python for each command, so its own time is in these figures, where the real PBS answers in
a tenth of it.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench._figures import load_average, table
from bench._placement_cases import NAMESPACE, Case
from bench._placement_cluster import Cluster, Follower, field, options
from bench._placement_contestants import ROLE, Ours, Running
from pbs_double import double, state
from pbs_double.cluster import HOSTS
from pbs_double.cluster import Cluster as Pbs
from testbed.api import RunningBed, find
from testbed.kube_api import ApiError

QUEUE: Final = "backed"
QUEUES: Final = "/apis/scheduling.converged.hpc/v1alpha1/queues"
CORES: Final = 100_000
# Marks: seconds from allocation to binding, pods a second, and reads a second.
MOST_SECONDS: Final = 1.2
LEAST_RATE: Final = 150.0
MOST_READS: Final = 1.0
BOUND_SECONDS: Final = 300.0
_READS: Final = re.compile(r'^placement_api_latency_seconds_count\{[^}]*request="qstat"[^}]*\} (\S+)$', re.MULTILINE)


class Site:
    """A cluster and a PBS with two hosts that have room for everything."""

    def __init__(self, cluster: Cluster, bed: RunningBed, pbs: Pbs, folder: Path, nodes: list[str]) -> None:
        self.cluster, self.pbs = cluster, pbs
        self._folder = folder
        for host, node in zip(HOSTS, nodes, strict=False):
            self._ask(f"set node {host} resources_available.ncpus = {CORES}")
            room = {"cpu": str(CORES), "memory": "100Ti", "pods": "8000"}
            cluster.api.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": room, "allocatable": room}})
            cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"converged.hpc/batch-node": host}}})
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

    def jobs(self) -> dict[str, state.Job]:
        """Jobs by the name of their gang."""
        with state.opened(self._folder) as known:
            return {job.name.partition("_")[2]: job for job in known.jobs.values()}

    def end(self) -> None:
        """No pod and no job is left."""
        self.cluster.clear()
        for name in [job.id for job in self.jobs().values()]:
            self.pbs.call("qdel", name)


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


def reads(running: Running) -> float:
    return sum(float(number) for number in _READS.findall(running.metrics()))


def paced(site: Site, bed: RunningBed, case: Case, pause: float) -> tuple[list[float], float]:
    """Seconds from the allocation of its job to each pod's binding, and reads a second."""
    gangs = case.pods // case.gang
    follower = site.cluster.follow()
    with site.daemon(bed).running() as running:
        time.sleep(3.0)
        before, begun = reads(running), time.monotonic()
        for number in range(gangs):
            create(site, case, range(number, number + 1))
            time.sleep(pause)
        wait(follower, case.pods, running)
        rate = (reads(running) - before) / (time.monotonic() - begun)
    started = {name: job.started for name, job in site.jobs().items()}
    site.end()
    found = []
    for bind in follower.binds:
        when = started[f"gang-{int(bind.name.rpartition('-')[2]) // case.gang}"]
        assert when is not None
        found.append(bind.answered.timestamp() - when)
    return found, rate


def sustained(site: Site, bed: RunningBed, case: Case) -> tuple[float, float]:
    """Pods bound a second where all wait from the beginning, and reads a second."""
    create(site, case, range(case.pods // case.gang))
    follower = site.cluster.follow()
    begun = time.monotonic()
    with site.daemon(bed).running() as running:
        wait(follower, case.pods, running)
        rate = reads(running) / (time.monotonic() - begun)
    first = min(job.submitted for job in site.jobs().values())
    last = max(bind.answered for bind in follower.binds).timestamp()
    site.end()
    return case.pods / (last - first), rate


def main() -> int:
    """Both, then the table; 1 where a mark is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser, ("placement",))
    parser.add_argument("--gang", type=int, default=8, help="pods of a gang (default: 8)")
    parser.add_argument("--gangs", type=int, default=40, help="gangs that come one after the other (default: 40)")
    parser.add_argument("--pods", type=int, default=2000, help="pods that wait from the beginning (default: 2000)")
    parser.add_argument("--pause", type=float, default=0.7, help="seconds between two gangs (default: 0.7)")
    parser.set_defaults(nodes=20)
    given = parser.parse_args()
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "localhost/none", "resources": {"requests": {"cpu": "1"}}}],
        "automountServiceAccountToken": False,
    }
    with field(given, ("placement",)) as ground, tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        bed = find(given.bed or "placement-bench")
        with double.started(Path(folder)) as pbs:
            site = Site(ground.cluster, bed, pbs, Path(folder), ground.nodes)
            seconds, first_reads = paced(site, bed, Case(given.gangs * given.gang, spec, given.gang), given.pause)
            pods = given.pods // given.gang * given.gang
            rate, more_reads = sustained(site, bed, Case(pods, spec, given.gang))
    late = statistics.quantiles(seconds, n=20)[-1]
    rows = [
        ["allocated to bound, p95", f"{late:.2f} s", f"{statistics.median(seconds):.2f} s median", "1.2 s at most"],
        ["bound a second", f"{rate:.0f}", f"{pods} pods in gangs of {given.gang}", "150 at least"],
        ["qstat a second", f"{max(first_reads, more_reads):.2f}", f"{NAMESPACE}: {len(seconds)} pods", "1 at most"],
    ]
    print(f"on the double of PBS, {load_average()}\n\n{table(['figure', 'reached', 'of', 'asked'], rows)}")
    return 0 if late <= MOST_SECONDS and rate >= LEAST_RATE and max(first_reads, more_reads) <= MOST_READS else 1


if __name__ == "__main__":
    sys.exit(main())
