# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How soon a job shows at the API, in share mode `placeholder` on a real kubelet: from its lease to its mirror pod.

`sh tests/bootstrap/enter.sh exec python tests/bench/placeholder_kubelet.py [--jobs N]`. A bed of one node, made by the
roles; no batch system: a job is its cgroup and a call of `nodeshare`. The lease's time is that of its file, the pod's
that of the API server's answer to the kubelet; both are of one clock.
"""

import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from bench import _figures
from bench._beds import own_bed
from e2e.placeholder_site import ROLES, Site
from testbed.controlplane import audit_log
from testbed.kube_audit import read_audit

JOBS = 20
BOUND_SECONDS = 0.5
LEASES = "/run/converged/nodeshare"


def lives(site: Site, jobs: int) -> tuple[list[float], list[float]]:
    """One job after the other. Per job: from the lease to the pod at the API, and what `begin` took in all."""
    shown, begins = [], []
    for number in range(jobs + 1):
        job = f"{number}.srv"
        line = site.job(job, "--cpus=1", "--mem=64MiB", cores="1")
        took = re.search(r'outcome=accept .*reason="1 held by placeholders" seconds=([\d.]+)', line)
        if took is None:
            raise SystemExit(f"the job did not get its place: {line}")
        leased = float(site.ask("n1", "sh", "-c", f"stat --format=%.6Y {LEASES}/*.lease"))
        made = [
            event.answered.timestamp()
            for event in read_audit(audit_log(site.bed.bed), verb="create", resource="pods")
            if event.code == 201 and event.name.startswith(f"lease-pbs-{number}-srv-")
        ]
        site.end(job)
        if number:  # the first fills caches
            shown.append(made[-1] - leased)
            begins.append(float(took.group(1)))
    return shown, begins


def main() -> int:
    parser = _figures.parser_of(__doc__, "--jobs 50")
    parser.add_argument("--jobs", type=_figures.count, default=JOBS, help="(%(default)s)")
    jobs = parser.parse_args().jobs
    options = ("--wlm", "none", "--nodes", "1")
    with tempfile.TemporaryDirectory() as folder, own_bed(f"mirror-{os.getpid()}", *options) as bed:
        site = Site(bed, Path(folder))
        site.play(*ROLES)
        shown, begins = lives(site, jobs)
    rows = []
    for what, seconds, asked in (("lease to mirror pod", shown, BOUND_SECONDS), ("begin, whole", begins, None)):
        median = f"{1000 * statistics.median(seconds):.0f} ms"
        rows.append([what, median, _figures.milliseconds(seconds), f"{1000 * asked:.0f} ms" if asked else ""])
    print(_figures.table(["what", "median", "range", "asked"], rows))
    print(f"\n{jobs} jobs, {_figures.load_average()}")
    return 1 if statistics.median(shown) > BOUND_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
