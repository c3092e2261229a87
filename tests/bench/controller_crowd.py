# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How `nodeshare controller` does with 100,000 running elements of an array, and with a slow webhook for evictions.

`sh tests/bootstrap/enter.sh exec python tests/bench/controller_crowd.py [--elements N] [--webhook SECONDS]`. The
service is a process of its own with its real socket. The API, over TLS, and Slurm's programs are those of the tests. It
needs no bed.
"""

import importlib
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import _figures
from bench.controller_scale import PAYLOAD, Service
from e2e.playing import until

NODES = 1000
ELEMENTS = 100_000
WEBHOOK = 5.0
DEADLINE = 45.0  # node_share_controller_deadline, by default
LARGEST_TAINT = 5.0
LARGEST_MEMORY = 1 << 30
LISTS = 3
TESTS = Path(__file__).resolve().parents[1]


def fake_api(folder: Path, webhook: float) -> Any:
    """Nodes with a pod each, as the tests have them; an eviction takes its time, and nothing else does."""
    sys.path[:0] = [str(TESTS / "payloads"), str(PAYLOAD)]
    module: Any = importlib.import_module("controller_api")

    def answer(server: Any, handler: Any) -> Any:
        if handler.path.endswith("/eviction"):
            time.sleep(webhook)
        return module.ClusterServer.answer(server, handler)

    certificates = importlib.import_module("api_server").Certificates(str(folder))
    slow_server: Any = type("SlowServer", (module.ClusterServer,), {"answer": answer})
    api = slow_server(certificates, names=[f"n{number}" for number in range(NODES)])
    for number in range(NODES - 1):
        api.put_pod(f"p{number}", f"n{number}")
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url, "certificate-authority": certificates.ca}}],
        "users": [{"name": "u", "user": dict.fromkeys(("client-certificate", "client-key"), certificates.client)}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config), encoding="utf-8")
    return api


def tainted(api: Any) -> int:
    with api.lock:
        specs = [node["spec"] for node in api.nodes.values()]
    return sum(any(taint["key"] == _figures.TAINT for taint in spec.get("taints", ())) for spec in specs)


def status(service: Service, name: str) -> int:
    """Return a line of the process's status, which is in kB, as bytes."""
    text = Path(f"/proc/{service.process.pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(name + ":"))


def crowd(folder: Path, api: Any, elements: int) -> bool:
    """Measure lists of a service that finds so many elements running, none of which was handed over."""
    jobs = "".join(f"{number}^0^RUNNING^n{number % NODES}^\n" for number in range(1, elements + 1))
    (folder / "jobs").write_text(jobs, encoding="ascii")
    service = Service(folder, folder / "kubeconfig", period=1, squeue=f"echo >> {folder}/lists; cat {folder}/jobs")
    try:
        begin = time.monotonic()
        until(lambda: tainted(api) == NODES, "all nodes are tainted")
        took, writes = time.monotonic() - begin, len(api.writes())
        before, cpu = lists(folder), service.cpu()
        until(lambda: lists(folder) >= before + 2 * LISTS, "it has listed all jobs again")  # ends are asked for, too
        each = (service.cpu() - cpu) / LISTS
        memory, log = status(service, "VmHWM"), (folder / "log").stat().st_size
        more = len(api.writes()) - writes
    finally:
        service.stop()
    print(f"{elements} elements on {NODES} nodes: all tainted {took:.1f} s after the start of the service")
    print(f"each look at all jobs: {each:.1f} s CPU, {more} writes in {LISTS} looks, {log} bytes of log")
    print(f"memory: {memory / 2**20:.0f} MiB at most")
    return not more and memory <= LARGEST_MEMORY


def lists(folder: Path) -> int:
    path = folder / "lists"
    return path.stat().st_size if path.exists() else 0


def slow(folder: Path, api: Any, webhook: float) -> bool:
    """Measure a job of all nodes but one, whose pods are slow to evict, and a job of one node beside it."""
    service = Service(folder, folder / "kubeconfig", period=600, deadline=DEADLINE)
    try:
        until(lambda: bool(api.watchers), "the service has listed the nodes")
        begin = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(service.ask, "prolog", 1, f"n[0-{NODES - 2}]")
            until(lambda: tainted(api) >= NODES - 1, "the large job's nodes are tainted")
            large = time.monotonic() - begin
            small = time.monotonic()
            service.ask("prolog", 2, f"n{NODES - 1}")
            small = time.monotonic() - small
            answer = job.result()
            seconds = time.monotonic() - begin
        memory = status(service, "VmHWM")
    finally:
        service.stop()
    left = len(api.pods)
    print(f"webhook of {webhook:g} s: {NODES - 1} nodes tainted {large:.2f} s after the job was handed over")
    print(f"another job's node meanwhile: {small:.2f} s")
    print(f"the large job is answered after {seconds:.1f} s (deadline {DEADLINE:g} s): {answer['reason'] or 'ok'}")
    print(
        f"{NODES - 1 - left} pods are evicted by then, the nodes see to {left}; memory {memory / 2**20:.0f} MiB at most"
    )
    return max(large, small) <= LARGEST_TAINT and seconds <= DEADLINE + 2 * webhook and left < NODES - 1


def main() -> int:
    parser = _figures.parser_of(__doc__, "--elements 200000 --webhook 10")
    parser.add_argument(
        "--elements", type=_figures.count, default=ELEMENTS, help="that run at once (default: %(default)s)"
    )
    parser.add_argument(
        "--webhook", type=_figures.pause, default=WEBHOOK, help="seconds of an eviction (default: %(default)s)"
    )
    options = parser.parse_args()
    good = []
    for measure, value in ((crowd, options.elements), (slow, options.webhook)):
        with tempfile.TemporaryDirectory() as name:
            api = fake_api(Path(name), options.webhook)
            try:
                good.append(measure(Path(name), api, value))
            finally:
                api.close()
    print(_figures.load_average())
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
