# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long `nodeshare begin` and `end` take on a node with many leases, in share mode `placeholder`.

`sh tests/bootstrap/enter.sh exec python tests/bench/placeholder_leases.py [--leases N]`. Whole calls as a hook makes
them, each a process. Leases, manifests and the jobs' cpusets are files on disk; the API answers over TLS with thirty
pods, and admits at once: no kubelet has so many pods, so what one takes is not in these figures.
"""

import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import _figures

LEASES = 1000
ROUNDS = 20
PODS = 30
BOUND_SECONDS = 0.2
TESTS = Path(__file__).resolve().parents[1]
PAYLOAD = TESTS.parent / "roles/node_share/files"
LAUNCHER = """
import sys
sys.path.insert(0, sys.argv[1])
sys.pycache_prefix = sys.argv[2] + "/pycache"
from nodeshare.host import real_host
from nodeshare.model import answer
from nodeshare.run.cli import main

def run(argv, seconds):
    real_host.run_command(("true",), seconds)  # as long as a question to systemd
    return answer.Answer(0, "active\\nactive\\n", "")

top = sys.argv[2]
make_world = lambda settings: real_host.RealHost(settings, proc="/proc", cgroup=top + "/cgroup", run=run)
sys.exit(main(["--settings", top + "/nodeshare.json", *sys.argv[3:]], make_world=make_world))
"""


class Node:
    """A node's files below a folder, and the API that it asks."""

    def __init__(self, top: Path) -> None:
        sys.path[:0] = [str(TESTS / "payloads"), str(PAYLOAD)]
        calls: Any = importlib.import_module("test_placing_calls")
        certificates = importlib.import_module("api_server").Certificates(str(top))
        self.top = top
        self.api = calls.WithKubelet(certificates)
        self.api.directory = str(top / "manifests")
        self.api.node["status"] = {"allocatable": {"cpu": "4096", "memory": "8Ti", "pods": "8000"}}
        for number in range(PODS):
            self.api.add_pod(f"pod-{number}")
            requests = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
            self.api.pods["default", f"pod-{number}"]["spec"].update(containers=[requests])
        settings = {
            "node": "n1",
            "mode": "placeholder",
            "run_dir": str(top / "run"),
            "state_dir": str(top / "disk"),
            "manifests": str(top / "manifests"),
            "api": {"server": self.api.url, "ca_file": certificates.ca}
            | dict.fromkeys(("cert_file", "key_file"), certificates.client),
        }
        (top / "manifests").mkdir(mode=0o700)
        (top / "nodeshare.json").write_text(json.dumps(settings), encoding="utf-8")
        self.cpuset("", f"0-{LEASES + ROUNDS}")
        for group in ("kubepods", *(f"kubepods/pod{number}" for number in range(PODS))):
            self.cpuset(group, f"0-{LEASES + ROUNDS}")

    def cpuset(self, group: str, cpus: str) -> None:
        path = self.top / "cgroup/cpuset" / group / "cpuset.cpus"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{cpus}\n", encoding="utf-8")

    def call(self, verb: str, job: int, *words: str) -> tuple[float, float]:
        """Seconds by the clock, and of the processor."""
        begin, used = time.monotonic(), processor_seconds()
        launcher = [sys.executable, "-IS", "-c", LAUNCHER, str(PAYLOAD), str(self.top)]
        argv = [*launcher, verb, "--wlm=pbs", f"--job={job}.srv", "--run=1", *words]
        done = subprocess.run(argv, timeout=120, capture_output=True, check=True, text=True)
        assert verb == "end" or "outcome=accept" in done.stderr, done.stderr
        return time.monotonic() - begin, processor_seconds() - used

    def begin(self, job: int) -> tuple[float, float]:
        self.cpuset(f"pbs_jobs.service/jobid/{job}.srv", str(job))
        return self.call("begin", job, "--cpus=1", "--mem=1gb")

    def fill(self, count: int) -> None:
        """The leases of one job after another, without the calls; a repair places what is missing."""
        self.begin(0)
        (lease,) = (self.top / "run").glob("*.lease")
        for number in range(1, count):
            self.cpuset(f"pbs_jobs.service/jobid/{number}.srv", str(number))
            lease.with_name(lease.name.replace("pbs.0=", f"pbs.{number}=")).write_bytes(lease.read_bytes())
        self.begin(count)
        placed = len(list((self.top / "manifests").iterdir()))
        assert placed == count + 1, f"{placed} placeholders for {count + 1} leases"


def processor_seconds() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = _figures.parser_of(__doc__, "--leases 1000")
    parser.add_argument("--leases", type=_figures.count, default=LEASES, help="(%(default)s)")
    rows, late = [], False
    most = parser.parse_args().leases
    for count in (1, most):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            node = Node(Path(folder))
            node.fill(count)
            jobs = range(count + 1, count + 1 + ROUNDS)
            times = {"begin": [node.begin(job) for job in jobs], "end": [node.call("end", job) for job in jobs]}
            node.api.close()
        for verb, both in times.items():
            clock, processor = zip(*both, strict=True)
            median = statistics.median(clock)
            late = late or median > BOUND_SECONDS
            used = f"{1000 * statistics.median(processor):.0f} ms"
            rows.append([str(count), verb, f"{1000 * median:.0f} ms", _figures.milliseconds(clock), used])
    print(_figures.table(["leases", "call", "median", "range", "of the processor"], rows))
    print(f"\nasked: at most {1000 * BOUND_SECONDS:.0f} ms; {ROUNDS} calls each, {_figures.load_average()}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
