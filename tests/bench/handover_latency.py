# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hand-over adds to a job, and how soon a node is back: on a cluster that converged.hpc.site has converted.

The same cluster has the same four script files all the time, and only what is in them changes from one job to the
next, so that a busy machine slows all of them alike. What happens after a job is read from the API server's audit log.
"""

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import _figures
from bench._beds import own_bed
from demo import workload
from demo.intervals import SHARED, UP
from demo.kube_record import node_intervals, pod_intervals
from e2e.playing import until
from e2e.site_of import ConvertedSite
from testbed import api
from testbed.controlplane import audit_log, kubeconfig
from testbed.kube_api import Api, Json
from testbed.kube_audit import read_audit

NODE = "n1"
PODS = 10
CONVERT_SECONDS = 1800.0
SETTINGS = "/etc/converged/nodeshare.json"
# Times one srun without the way into the host, when nothing of the job before is left.
TIMED = """
import subprocess, sys, time
while subprocess.run(["squeue", "-h"], stdout=subprocess.PIPE, timeout=60, check=True).stdout.strip():
    time.sleep(0.1)
begin = time.time()
subprocess.run(["srun", "-N1", "-w", sys.argv[1], "true"], timeout=120, check=True)
print(begin, time.time())
"""
CHOOSE = """
import json, sys
path, mode, linger = sys.argv[1], sys.argv[2], float(sys.argv[3])
settings = json.load(open(path))
settings.update(handover=mode, linger=linger)
json.dump(settings, open(path, "w"))
"""


@dataclass(frozen=True, slots=True)
class Way:
    """One state of the cluster in which a job is timed."""

    name: str
    scripts: str
    mode: str = "quiesce"
    pods: int = 0
    held: bool = False  # by a job before it
    asked: float | None = None  # seconds added at most


STEPS = "quiesce, node open, each step timed"
WAYS = (
    Way("no-op", "no-op"),
    Way("ours, inert", "inert"),
    Way("quiesce, node open", "ours", asked=0.15),
    Way(STEPS, "timed"),
    Way("quiesce, node held already", "ours", held=True, asked=0.15),
    Way("stop, services running", "ours", "stop", asked=1.0),
    Way("stop, services off already", "ours", "stop", held=True, asked=0.15),
    Way(f"quiesce, {PODS} pods of grace 0", "ours", pods=PODS, asked=3.0),
    Way(f"stop, {PODS} pods of grace 0", "ours", "stop", pods=PODS, asked=3.0),
)
BACK = {"quiesce": ("schedulable", 1.0), "stop": ("Ready and schedulable", 3.0)}
FIRST_POD = 6.0


class Bench:
    """A converted cluster, and one job after another."""

    def __init__(self, bed: api.RunningBed) -> None:
        self.bed = bed
        self.api = Api.from_kubeconfig(kubeconfig(bed.bed))
        self.times: dict[str, list[float]] = {}
        self.back: dict[str, list[float]] = {}
        self.steps: dict[str, list[float]] = {}

    def measure(self, way: Way, *, count: bool) -> None:
        """One job in this state; what came before it is over."""
        self.until_open()
        self.choose(way.mode, linger=600 if way.held else 0)
        for host in ("ctl", NODE):
            _figures.use(self.bed, host, way.scripts)
        if way.pods:
            self.bed.kubectl("scale", "deployment/pods", f"--replicas={way.pods}")
            until(lambda: self.running() == way.pods, "all pods run")
        if way.held:
            self.job()
            self.choose(way.mode, linger=0)
            # It waits for as long as was said when the job ended, and the end of the next would not start another.
            self.bed.exec(NODE, ["systemctl", "stop", "converged-nodeshare-return.service"])
        began, end = self.job()
        seconds = (end - began).total_seconds()
        renewed = self.renewed(end) if way.mode == "stop" and way.scripts == "ours" else end
        if way.pods:
            until(lambda: self.running() > 0, "a pod is back")
        self.until_open()
        if way.pods:
            self.bed.kubectl("scale", "deployment/pods", "--replicas=0")
            until(lambda: not self.pods(), "no pod is left")
        if count:
            self.times.setdefault(way.name, []).append(seconds)
            if way.scripts == "ours" and not way.held:
                self.record_return(way, end, renewed)
            if way.scripts == "timed":
                self.record_steps(began)

    def record_steps(self, began: datetime) -> None:
        """When each script of the job began and ended, in seconds after its `srun`."""
        for host, script in (("ctl", "prolog-slurmctld"), (NODE, "prolog")):
            _name, *times = _figures.last_times(self.bed, host, script)
            for step, when in zip(("begins", "ends"), times, strict=True):
                self.steps.setdefault(f"{script} {step}", []).append(float(when) - began.timestamp())

    def record_return(self, way: Way, end: datetime, renewed: datetime) -> None:
        """From the end of the job to the node's and the first pod's return, by the audit log."""
        events, now = list(read_audit(audit_log(self.bed.bed))), datetime.now(UTC)
        states = node_intervals(events, [NODE], begin=events[0].received, end=now)
        free = min(one.begin for one in states if one.what == SHARED and one.end > end and one.begin > end)
        free = max(free, renewed)
        what = BACK[way.mode][0]
        self.back.setdefault(f"{way.name}: {what}", []).append((free - end).total_seconds())
        ran = [one.begin for one in pod_intervals(events, end=now) if one.what == UP and one.begin > end]
        if way.pods:
            self.back.setdefault(f"{way.name}: first pod runs", []).append((min(ran) - end).total_seconds())

    def renewed(self, end: datetime) -> datetime:
        """When the kubelet said that it lives: a node whose kubelet was stopped for a moment still counts as Ready."""
        found = [end]

        def alive() -> bool:
            lease = self.api.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}")
            found[0] = datetime.fromisoformat(lease["spec"]["renewTime"])
            return found[0] > end

        until(alive, "the kubelet renews its lease")
        return found[0]

    def job(self) -> tuple[datetime, datetime]:
        began, end = self.bed.exec("ctl", ["python3", "-c", TIMED, NODE], timeout=240).out.split()
        return datetime.fromtimestamp(float(began), UTC), datetime.fromtimestamp(float(end), UTC)

    def choose(self, mode: str, *, linger: float) -> None:
        self.bed.exec(NODE, ["python3", "-c", CHOOSE, SETTINGS, mode, str(linger)])

    def pods(self) -> list[Json]:
        return self.api.items("/api/v1/namespaces/default/pods")

    def running(self) -> int:
        return sum(pod.get("status", {}).get("phase") == "Running" for pod in self.pods())

    def is_open(self) -> bool:
        node = self.api.get(f"/api/v1/nodes/{NODE}")
        held = node["metadata"].get("annotations", {}).get("converged.hpc/leases", "[]") not in ("", "[]")
        return not held and not node["spec"].get("taints")

    def until_open(self) -> None:
        until(self.is_open, f"{NODE} is open for pods")


def deployment() -> str:
    """Pods without grace, all on the node that is measured; none of them to begin with."""
    made = workload.deployment()
    made["metadata"]["name"], made["spec"]["replicas"] = "pods", 0
    spec = made["spec"]["template"]["spec"]
    spec |= {"terminationGracePeriodSeconds": 0, "nodeSelector": {"kubernetes.io/hostname": NODE}}
    del spec["topologySpreadConstraints"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": "10m"}}
    return json.dumps(made)


@contextmanager
def converted(given: str | None) -> Iterator[api.RunningBed]:
    """A bed of two nodes that converged.hpc.site has converted, or is given as one."""
    with own_bed(f"latency-{os.getpid()}", given=given) as bed:
        if not given:
            with tempfile.TemporaryDirectory() as folder:
                ConvertedSite(bed, Path(folder)).run("converged.hpc.site", timeout=CONVERT_SECONDS)
        yield bed


def report(bench: Bench) -> int:
    """Both tables; 1 when a mark is missed."""
    bounds = {way.name: way.asked for way in WAYS if way.asked and way.name in bench.times}
    text, late = _figures.added(bench.times, WAYS[0].name, bounds)
    rows = []
    for what, seconds in bench.back.items():
        asked = (
            FIRST_POD
            if what.endswith("first pod runs")
            else next(b for word, b in BACK.values() if what.endswith(f": {word}"))
        )
        median = statistics.median(seconds)
        rows.append([what, f"{median:.2f} s", f"{min(seconds):.2f} to {max(seconds):.2f} s", f"{asked:.0f} s"])
        if median > asked:
            late.append(what)
    print(f"{_figures.load_average()}\n\n`srun -N1 true`, {len(bench.times[WAYS[0].name])} rounds:\n\n{text}\n")
    print(f"From a job's end, without linger:\n\n{_figures.table(['what', 'median', 'range', 'asked'], rows)}")
    if bench.steps:
        steps = [
            [what, f"{1000 * statistics.median(at):.0f} ms", _figures.milliseconds(at)]
            for what, at in bench.steps.items()
        ]
        print(f"\nAfter `srun` was started:\n\n{_figures.table(['step', 'median', 'range'], steps)}")
    for what in late:
        print(f"slower than asked: {what}", file=sys.stderr)
    return 1 if late else 0


def main() -> int:
    names = [way.name for way in WAYS]
    parser = _figures.parser_of(__doc__, "--rounds 3", "--bed mine   # converted already; stays up")
    parser.add_argument("--rounds", type=_figures.count, default=7, help="jobs of each kind (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="WAY", choices=names, help=f"beside the first: {', '.join(names)}")
    parser.add_argument("--bed", help="a converted bed that is up, instead of one of its own")
    options = parser.parse_args()
    ways = [way for way in WAYS if not options.only or way in WAYS[:1] or way.name in options.only]
    with converted(options.bed) as bed:
        _figures.swap_scripts(bed, ("ctl", "n1", "n2"))
        bed.kubectl("apply", "--filename=-", input=deployment())
        bench = Bench(bed)
        for number in range(options.rounds + 1):
            for way in ways:
                bench.measure(way, count=number > 0)  # the first of each fills caches
        return report(bench)


if __name__ == "__main__":
    sys.exit(main())
