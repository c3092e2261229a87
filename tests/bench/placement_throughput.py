# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many pods a second get their node through a real API server: the bare loop, our daemon and kube-scheduler.

Every contestant finds the same pods waiting on the same nodes. The clock is the API server's audit log: from the first
Binding received to the last one answered; the last Event is reported beside it. Runs are interleaved, so that what
disturbs the machine disturbs all; figures are medians with their spread, and ratios of medians.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from bench._placement_cases import CASES, GROUPS, NAMESPACE, Case
from bench._placement_contestants import BINDING, READER, Contestant, KubeScheduler, Ours
from testbed.api import RunningBed, bring_up, command_line, find, take_down
from testbed.controlplane import audit_log, kube_dir
from testbed.kube_api import Api, ApiError, read_kubeconfig, tls_context
from testbed.kube_audit import parse_event

EXAMPLES: Final = """\
examples:
  python -m bench.placement_throughput                                    all cases, five times, on a bed of its own
  python -m bench.placement_throughput --case plain --repeats 3 --json /tmp/plain.json
  python -m bench.placement_throughput --bed mine --share 0.2 --repeats 1 a short look, on a bed that is up
"""
BED: Final = "placement-bench"
CREATORS: Final = 16
BOUND_SECONDS: Final = 900.0
QUIET_SECONDS: Final = 30.0
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NO_CHECK: Final = "?fieldValidation=Ignore"


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    case: str
    contestant: str
    pods: int
    rate: float
    # Seconds from the last Binding to the last Event, and Events that came.
    event_lag: float
    events: int
    cpu_seconds: float
    peak_mib: float


class Bench:
    """The cluster, and what is done with it before, in and after a run."""

    def __init__(self, bed: RunningBed) -> None:
        self._log = audit_log(bed.bed)
        self._credentials = read_kubeconfig(kube_dir(bed.bed) / "super-admin.conf")
        self._context = tls_context(self._credentials)
        self.api = self._connect()
        wanted: tuple[tuple[str, dict[str, object]], ...] = (
            ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            (f"{RBAC}/clusterroles", READER),
            (f"{RBAC}/clusterrolebindings", BINDING),
        )
        for path, body in wanted:
            self._ensure(path, body)
        self.api.wait_for(
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default", lambda _found: True, timeout=30, what="account"
        )

    def _connect(self) -> Api:
        return Api(self._credentials, context=self._context, timeout=300)

    def _ensure(self, path: str, body: dict[str, object]) -> None:
        try:
            self.api.create(path, body)
        except ApiError as error:
            if error.status != 409:
                raise

    def offer(self, case: Case, scheduler: str) -> None:
        """Creates groups, then pods, over several connections."""
        for group in case.groups():
            self.api.create(GROUPS + NO_CHECK, group)

        def create(first: int) -> None:
            api = self._connect()
            for index in range(first, case.pods, CREATORS):
                api.send("POST", PODS + NO_CHECK, json.dumps(case.pod(index, scheduler)).encode())
            api.close()

        with ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(create, range(CREATORS)))

    def clear(self) -> None:
        """Deletes pods at once (nobody runs them), groups and Events."""
        self.api.send("DELETE", PODS, b'{"gracePeriodSeconds": 0}')
        for path in (GROUPS, f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"):
            self.api.send("DELETE", path, None)
        deadline = time.monotonic() + BOUND_SECONDS
        while self.api.items(f"{PODS}?limit=1") or self.api.items(f"{GROUPS}?limit=1"):
            if time.monotonic() > deadline:
                raise SystemExit("pods or groups of the last run do not go away")
            time.sleep(0.2)

    def run(self, name: str, case: Case, contestant: Contestant) -> Result:
        """One run: the pods wait, the contestant comes, binds, and goes."""
        self.offer(case, contestant.scheduler_name)
        start = self._log.stat().st_size
        with contestant.running() as running:
            binds, events = self._follow(start, case.pods, running.ended)
            cpu, peak = running.usage()
        self.clear()
        first, last = min(received for received, _answered in binds), max(answered for _received, answered in binds)
        lag = (max(events) - last).total_seconds() if events else float("nan")
        rate = len(binds) / (last - first).total_seconds()
        return Result(name, contestant.name, case.pods, rate, lag, len(events), cpu, peak)

    def _follow(
        self, start: int, pods: int, ended: Callable[[], bool]
    ) -> tuple[list[tuple[datetime, datetime]], list[datetime]]:
        """Reads the log as it grows, until every pod is bound and has its Event."""
        binds: list[tuple[datetime, datetime]] = []
        events: list[datetime] = []
        begun = heard = time.monotonic()
        rest = b""
        with self._log.open("rb") as stream:
            stream.seek(start)
            while len(binds) < pods or len(events) < pods:
                piece = stream.read()
                *lines, rest = (rest + piece).split(b"\n")
                # Parsing costs CPU that the contestants need: most lines are passed over by their text.
                for line in lines:
                    if b'"create"' not in line or (b'"binding"' not in line and b'"events"' not in line):
                        continue
                    event = parse_event(line.decode())
                    if event.namespace == NAMESPACE and event.code == 201:
                        heard = time.monotonic()
                        if event.resource == "pods/binding":
                            binds.append((event.received, event.answered))
                        elif event.resource == "events":
                            events.append(event.answered)
                now = time.monotonic()
                if len(binds) >= pods and now - heard > QUIET_SECONDS:
                    break
                if now - heard > QUIET_SECONDS and (now - begun > BOUND_SECONDS or ended()):
                    raise SystemExit(f"{len(binds)} of {pods} pods bound after {now - begun:.0f} s")
                time.sleep(0.5)
        return binds, events


def table(results: Sequence[Result]) -> str:
    """Medians, spreads and ratios, one line for each case and contestant."""
    head = ("case", "contestant", "pods", "pods/s (spread)", "of bare", "x kube-scheduler", "Events", "CPU s", "MiB")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for case in dict.fromkeys(result.case for result in results):
        of_case = [result for result in results if result.case == case]
        medians = {
            name: statistics.median(result.rate for result in of_case if result.contestant == name)
            for name in dict.fromkeys(result.contestant for result in of_case)
        }
        for name, median in medians.items():
            own = [result for result in of_case if result.contestant == name]
            rates = [result.rate for result in own]
            bare = f"{median / medians['bare']:.0%}" if "bare" in medians else "-"
            kube = f"{median / medians['kube-scheduler']:.1f}" if "kube-scheduler" in medians else "-"
            lag, cpu, peak = (
                statistics.median(getattr(result, key) for result in own)
                for key in ("event_lag", "cpu_seconds", "peak_mib")
            )
            reached = f"{median:.0f} ({min(rates):.0f}-{max(rates):.0f})"
            cells = (case, name, str(own[0].pods), reached, bare, kube, f"+{lag:.1f} s", f"{cpu:.1f}", f"{peak:.0f}")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """All runs, then the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bed", help="a bed that is up; it keeps its nodes for load (default: one of our own)")
    parser.add_argument("--nodes", type=int, default=5000, help="nodes, where there are none yet (default: 5000)")
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="may be given several times (default: all)"
    )
    parser.add_argument("--contestant", action="append", choices=["bare", "placement", "kube-scheduler"])
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="runs of each (default: 5)")
    parser.add_argument("--share", type=float, default=1.0, metavar="X", help="share of each case's pods (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there")
    options = parser.parse_args()
    bed = find(options.bed) if options.bed else bring_up(BED, "--nodes", "1", "--wlm", "none")
    try:
        return measure(bed, options)
    finally:
        if not options.bed:
            take_down(BED)


def measure(bed: RunningBed, options: argparse.Namespace) -> int:
    """On a bed that is up; its own kube-scheduler rests meanwhile."""
    bench = Bench(bed)
    if not bench.api.items("/api/v1/nodes?labelSelector=converged.hpc/load&limit=1"):
        command_line("load", bed.bed.name, "--nodes", str(options.nodes), timeout=600)
    results: list[Result] = []
    bed.exec("kube", ["systemctl", "stop", "kube-scheduler.service"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            makers: dict[str, Callable[[], Contestant]] = {
                "bare": lambda: Ours(bed, Path(folder), bare=True),
                "placement": lambda: Ours(bed, Path(folder), bare=False),
                "kube-scheduler": lambda: KubeScheduler(bed),
            }
            contestants = [makers[name]() for name in options.contestant or makers]
            bench.clear()
            for name in options.case or CASES:
                case = CASES[name](options.share)
                for _unused in range(options.repeats):
                    for contestant in contestants:
                        results.append(bench.run(name, case, contestant))
                        print(
                            f"  {name}: {contestant.name}: {results[-1].rate:.0f} pods/s", file=sys.stderr, flush=True
                        )
    finally:
        bed.exec("kube", ["systemctl", "start", "kube-scheduler.service"])
    if options.json:
        options.json.write_text(json.dumps([{key: getattr(r, key) for key in Result.__slots__} for r in results]))
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
