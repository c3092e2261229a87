# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cri_bridge costs: time added to a call, memory, and processor time while the pods of a node are at rest.

The runtime is a stand-in in a process of its own. For the pods at rest it works as Singularity-CRI does: a query about
state costs it so much processor time for each sandbox and container (30 ms were measured there), and the kubelet's
questions come at the kubelet's pace.

Other work on the machine delays a call with the bridge more often than one without, as the bridge has to get a
processor too. So besides the median there is what the quickest tenth of the calls adds, and the bridge's own processor
time.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from bench import _figures
from cri_bridge.wire.methods import SERVED
from cri_kit.definitions import V1ALPHA2, message_class
from cri_kit.fields import full
from cri_kit.runtime import OPTIONS, Running, Runtime, bridge, free_port

ADDED, MEMORY, REST = 0.001, 40.0, 0.1
BLOCKS = 10  # turns of calls with the bridge and without
SETTLE_SECONDS = 300.0
PATHS = {method.name: path for path, method in SERVED.items()}
CALLED = {method.name: method.called for method in SERVED.values()}
TIMED = ("Status", "CreateContainer", "ExecSync")
STATES = {"ListPodSandbox": 0, "ListContainers": 1}  # SANDBOX_READY, CONTAINER_RUNNING
# The kubelet's questions at rest: every so many seconds, method, and whether it asks for what runs only. The state of
# pods for its event generator and its housekeeping, the runtime's own state, statistics, images.
PACE = (
    (1.0, "ListPodSandbox", False),
    (1.0, "ListContainers", False),
    (2.0, "ListPodSandbox", True),
    (2.0, "ListContainers", True),
    (5.0, "Status", False),
    (10.0, "ListContainerStats", False),
    (10.0, "ImageFsInfo", False),
    (30.0, "ListImages", False),
    (60.0, "Version", False),
)


def burn(seconds: float) -> None:
    """Use the processor so long."""
    limit = time.thread_time() + seconds
    while time.thread_time() < limit:
        pass


def stand_in(path: str, pids: list[int], cost: float, ready: Any) -> None:
    """Be a runtime with a sandbox and a container for each pair of processes, until SIGTERM."""
    runtime = Runtime(Path(path))
    half = len(pids) // 2
    states = {
        "PodSandbox": (STATES["ListPodSandbox"], pids[:half]),
        "Container": (STATES["ListContainers"], pids[half:]),
    }

    def listed(kind: str, request: str, field: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
            state, numbers = states[kind]
            burn(cost * len(numbers))
            made = message_class(V1ALPHA2, f"{request}Response")()
            for number in numbers:
                getattr(made, field).add(id=str(number), state=state)
            return bytes(made.SerializeToString())

        return answer

    def status(kind: str, field: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
            burn(cost)
            name = getattr(message_class(V1ALPHA2, f"{kind}StatusRequest").FromString(data), field)
            made = message_class(V1ALPHA2, f"{kind}StatusResponse")()
            made.status.id, made.status.state = name, states[kind][0]
            made.info["pid"] = name
            return bytes(made.SerializeToString())

        return answer

    runtime.answers["ListPodSandbox"] = listed("PodSandbox", "ListPodSandbox", "items")
    runtime.answers["ListContainers"] = listed("Container", "ListContainers", "containers")
    runtime.answers["PodSandboxStatus"] = status("PodSandbox", "pod_sandbox_id")
    runtime.answers["ContainerStatus"] = status("Container", "container_id")
    runtime.start()
    ready.set()
    signal.pause()


@contextlib.contextmanager
def started(folder: Path, pids: list[int], cost: float) -> Iterator[tuple[str, int]]:
    """Start the stand-in; yield its address and the number of its process."""
    path = str(folder / "runtime.sock")
    # A process that has used grpc cannot fork.
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=stand_in, args=(path, pids, cost, ready), daemon=True)
    process.start()
    if not ready.wait(60) or process.pid is None:
        raise RuntimeError("the stand-in of the runtime does not start")
    try:
        yield f"unix://{path}", process.pid
    finally:
        process.terminate()
        process.join(60)


@contextlib.contextmanager
def sleepers(number: int) -> Iterator[list[int]]:
    """Start processes that sleep, as those of pods; yield their numbers."""
    made = [subprocess.Popen(["sleep", "infinity"]) for _ in range(number)]
    try:
        yield [each.pid for each in made]
    finally:
        for each in made:
            each.kill()
            each.wait()


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its ended children."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return sum(int(word) for word in words[11:15]) / os.sysconf("SC_CLK_TCK")


def resident(pid: int, what: str) -> float:
    """Return megabytes of a process: Rss or Pss."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1000
    raise ValueError(f"smaps_rollup of {pid} has no {what}")


def watched(port: int) -> int:
    """Return how many processes of pods the bridge says that it watches."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        found = re.search(r"^cri_bridge_watched_processes (\d+)", answer.read().decode(), re.MULTILINE)
    if found is None:
        raise ValueError("the bridge's metrics lack cri_bridge_watched_processes")
    return int(found[1])


def timed(call: Any, request: bytes, times: int) -> list[float]:
    """Return the seconds of calls, one after the other."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        call(request, timeout=60)
        found.append(time.perf_counter() - begin)
    return found


def latency(calls: int, folder: Path) -> tuple[list[list[str]], bool, list[float]]:
    """Measure calls with and without the bridge, in turns; return rows, whether one misses its bound, and memory."""
    direct: dict[str, list[float]] = {name: [] for name in TIMED}
    through: dict[str, list[float]] = {name: [] for name in TIMED}
    used: dict[str, list[float]] = {name: [] for name in TIMED}
    requests = {name: full("v1", f"{name}Request").SerializeToString() for name in TIMED}
    with started(folder, [], 0) as (address, _), bridge(folder, address) as running:
        straight = grpc.insecure_channel(address, options=OPTIONS)
        for _ in range(BLOCKS):
            for name, request in requests.items():
                direct[name] += timed(straight.unary_unary(CALLED[name]), request, -(-calls // BLOCKS))
                before = processor_seconds(running.process.pid)
                through[name] += timed(running.channel.unary_unary(PATHS[name]), request, -(-calls // BLOCKS))
                used[name].append(processor_seconds(running.process.pid) - before)
        memory = [resident(running.process.pid, "Rss"), resident(running.process.pid, "Pss")]
        straight.close()
    rows, late = [], False
    for name, request in requests.items():
        here, there = statistics.median(direct[name]), statistics.median(through[name])
        quick = [statistics.quantiles(times[name], n=10)[0] for times in (direct, through)]
        slowest = statistics.quantiles(through[name], n=100)[98] - here
        own = sum(used[name]) / len(through[name])
        shown = (here, there, there - here, quick[1] - quick[0], slowest, own, ADDED)
        rows.append([f"{name}, {len(request)} bytes", *(f"{1000 * each:.2f} ms" for each in shown)])
        late = late or there - here > ADDED
    return rows, late, memory


def at_rest(folder: Path, pods: int, cost: float, seconds: float, *options: str) -> tuple[float, float, int]:
    """Ask as the kubelet does; return the cores that bridge and runtime use, and how many calls there were."""
    with (
        sleepers(2 * pods) as pids,
        started(folder, pids, cost) as (address, number),
        bridge(folder, address, "--metrics", f"127.0.0.1:{(port := free_port())}", *options) as running,
    ):
        # Before the measurement: the kubelet knows the pods, and a bridge with a cache their processes.
        limit = time.monotonic() + SETTLE_SECONDS
        while watched(port) < len(pids) and "--cache-seconds" not in options:
            if time.monotonic() > limit:
                sys.exit(f"the bridge watches {watched(port)} of {len(pids)} processes after {SETTLE_SECONDS:.0f} s")
            for name in ("ListPodSandbox", "ListContainers"):
                running.call(PATHS[name])
            time.sleep(1)
        begin = time.monotonic()
        used = [processor_seconds(pid) for pid in (running.process.pid, number)]
        calls = asked(running, begin, seconds)
        took = time.monotonic() - begin
        after = [processor_seconds(pid) for pid in (running.process.pid, number)]
    return (after[0] - used[0]) / took, (after[1] - used[1]) / took, calls


def running_only(name: str) -> bytes:
    """Return the kubelet's question for ready sandboxes or for containers that run."""
    request = message_class("v1", f"{name}Request")()
    request.filter.state.state = STATES[name]
    return bytes(request.SerializeToString())


def asked(running: Running, begin: float, seconds: float) -> int:
    """Put the kubelet's questions at its pace; return their number. A late one is put at once, and none twice."""
    due = {(every, name, only): begin + every for every, name, only in PACE}
    calls = 0
    while time.monotonic() < begin + seconds:
        key = min(due, key=lambda each: due[each])
        time.sleep(max(0.0, due[key] - time.monotonic()))
        every, name, only = key
        running.call(PATHS[name], running_only(name) if only else b"")
        due[key] = max(due[key] + every, time.monotonic())
        calls += 1
    return calls


def main() -> None:
    """Print the tables; exit status 1 when a bound is missed."""
    parser = _figures.parser_of(__doc__, "--calls 5000", "--pods 20 --seconds 300")
    parser.add_argument("--calls", type=_figures.count, default=1000, help="of each method (default: %(default)s)")
    parser.add_argument("--pods", type=_figures.count, default=20, help="at rest (default: %(default)s)")
    parser.add_argument("--seconds", type=_figures.count, default=130, help="of rest (default: %(default)s)")
    parser.add_argument(
        "--query", type=_figures.part, default=0.03, help="processor seconds of one query (default: %(default)s)"
    )
    options: argparse.Namespace = parser.parse_args()
    print(_figures.load_average())
    with tempfile.TemporaryDirectory() as name:
        rows, missed, memory = latency(options.calls, Path(name))
    head = ["call", "direct", "through", "added", "added, quickest tenth", "added, p99", "bridge's processor", "asked"]
    print(_figures.table(head, rows))
    rest = []
    for title, words in (("without cache", ("--cache-seconds", "0")), ("with cache", ())):
        with tempfile.TemporaryDirectory() as name:
            own, behind, calls = at_rest(Path(name), options.pods, options.query, options.seconds, *words)
        bound = REST if not words else None
        missed = missed or (bound is not None and own + behind > bound)
        cells = [f"{own:.3f}", f"{behind:.3f}", f"{own + behind:.3f}", f"{bound}" if bound else ""]
        rest.append([f"{options.pods} pods at rest, {title}, {calls} calls", *cells])
    print(_figures.table(["cores", "bridge", "runtime", "both", "asked"], rest))
    print(
        _figures.table(
            ["memory", "Rss", "Pss", "asked"], [["", *(f"{each:.1f} MB" for each in memory), f"{MEMORY} MB"]]
        )
    )
    missed = missed or memory[0] > MEMORY
    sys.exit(missed)


if __name__ == "__main__":
    main()
