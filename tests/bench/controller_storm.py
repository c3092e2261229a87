# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a storm of tasks costs the host of a real slurmctld: our two scripts beside no-op shell scripts in their place.

Slurm is told that its two nodes have many cores, so that its controller is what the storm loads; the nodes run no
script of ours. They are held all the time by one job, as in the middle of a storm. Each round is one array.
"""

import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from bench import _figures
from bench._beds import own_bed
from e2e.playing import Site, play, until
from testbed import api
from testbed.controlplane import audit_log, kubeconfig
from testbed.kube_api import Api
from testbed.kube_audit import read_audit

FILES = api.TESTS.parent / "roles/slurm_share/files"
CORES = 64
LARGEST_CPU = 0.040
LARGEST_FALL = 0.10
CONVERTED = {"node-restriction.kubernetes.io/converged-share-mode": "handover"}
WAYS = ("no-op", "ours")
EVENTS = ("prolog", "epilog")
# Seconds of the array, from its submission to its last task's end.
STORM = """
import subprocess, sys, time
begin = time.monotonic()
words = ["--job-name=storm", "--mem=1", "--output=/dev/null", "--array=1-" + sys.argv[1], "--wrap", "true"]
subprocess.run(["sbatch", *words], timeout=60, check=True, stdout=subprocess.PIPE)
while subprocess.run(["squeue", "-h", "-n", "storm"], stdout=subprocess.PIPE, timeout=60, check=True).stdout.strip():
    time.sleep(0.1)
print(time.monotonic() - begin)
"""
# Processor time: of slurmctld's children that have ended, which are the scripts, and all of our service's.
CPU = """
import glob, os
total = 0
for path in glob.glob("/proc/[0-9]*/stat"):
    try:
        name, _end, words = open(path).read().partition("(")[2].rpartition(")")
        line = open(path.replace("stat", "cmdline")).read()
    except OSError:
        continue
    numbers = list(map(int, words.split()[11:15]))
    if name in ("slurmctld", "slurmscriptd"):
        total += sum(numbers[2:])
    elif "nodeshare" in line and "controller" in line:
        total += sum(numbers)
print(total / os.sysconf("SC_CLK_TCK"))
"""


def prepare(site: Site) -> None:
    """A controller that is known to a real API, two Node objects without kubelets, and a Slurm with many cores."""
    bed, nodes = site.bed, sorted(site.hosts["all"]["children"]["converged_nodes"]["hosts"])
    for node in nodes:
        body = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": node, "labels": CONVERTED}}
        Api.from_kubeconfig(kubeconfig(bed.bed)).create("/api/v1/nodes", body)
    identity = kubeconfig(bed.bed).read_text(encoding="utf-8")
    words = "mkdir -p /etc/converged; umask 077; cat > /etc/converged/controller.kubeconfig"
    bed.exec("ctl", ["sh", "-c", words], input=identity)
    site.run([play("converged_controllers", "node_share/controller")])
    for name in ("prolog-slurmctld", "epilog-slurmctld"):
        text = (FILES / name).read_text(encoding="utf-8").replace("=/etc/converged/slurm/", f"={_figures.FOLDER}/")
        _figures.put(bed, "ctl", f"{_figures.FOLDER}/no-op/{name}", _figures.NO_OP)
        _figures.put(
            bed, "ctl", f"{_figures.FOLDER}/ours/{name}", text.replace("=/etc/converged/enabled", "=/etc/hostname")
        )
    _figures.put(bed, "ctl", f"{_figures.FOLDER}/hand_over.py", (FILES / "hand_over.py").read_text(encoding="utf-8"))
    _figures.use(bed, "ctl", "ours")  # for the job that holds the nodes
    keys = [f"{event.capitalize()}Slurmctld={_figures.FOLDER}/now/{event}-slurmctld" for event in EVENTS]
    keys += ["PrologFlags=Alloc,DeferBatch", "TaskPlugin=task/none", "ProctrackType=proctrack/linuxproc"]
    for host in ("ctl", *nodes):
        old = r"/^(Pro|Epi)log/d; /^(TaskPlugin|ProctrackType)=/d"
        bed.exec(host, ["sed", "-i", "-E", old, "/etc/slurm/slurm.conf"])
        bed.exec(host, ["tee", "-a", "/etc/slurm/slurm.conf"], input="\n".join([*keys, ""]))
        bed.exec(host, ["sed", "-i", "-E", f"s/CPUs=[0-9]+ /CPUs={CORES} /", "/etc/slurm/nodes.conf"])
    bed.exec("ctl", ["systemctl", "restart", "slurmctld"])
    for node in nodes:
        bed.exec(node, ["systemctl", "restart", "slurmd"])
    hold = (
        "until scontrol ping | grep -q UP; do sleep 0.2; done; sbatch -N2 -n2 --mem=1 -o /dev/null --wrap 'sleep 7200'"
    )
    bed.exec("ctl", ["sh", "-c", hold])
    held = "until squeue -h -t R -o %i | grep -q .; do sleep 0.2; done"
    bed.exec("ctl", ["timeout", "60", "sh", "-c", held])


def storm(bed: api.RunningBed, way: str, tasks: int) -> tuple[float, float]:
    """Tasks a second, and processor seconds of scripts and service for each task."""
    _figures.use(bed, "ctl", way)
    before, told = processor(bed), handed_over(bed)
    seconds = float(bed.exec("ctl", ["python3", "-c", STORM, str(tasks)], timeout=900).out)
    # The last Epilog runs behind its job, and the service hears of it by a note.
    until(lambda: bed.exec("ctl", ["pgrep", "-f", f"{_figures.FOLDER}/now/"], check=False).rc == 1, "scripts end")
    if way == "ours":
        until(lambda: handed_over(bed) == told + 2 * tasks, f"{tasks} tasks are handed over, twice each")
    return tasks / seconds, (processor(bed) - before) / tasks


def processor(bed: api.RunningBed) -> float:
    return float(bed.exec("ctl", ["python3", "-c", CPU]).out)


def handed_over(bed: api.RunningBed) -> int:
    """Lines of the service about jobs that begin or end."""
    said = bed.exec("ctl", ["journalctl", "-u", "converged-controller", "-o", "cat"]).out
    return len(re.findall("event=(?:prolog|epilog) ", said))


def written(bed: api.RunningBed) -> list[str]:
    """Patches of Node objects by the service, which has the administrator's identity here."""
    made = read_audit(audit_log(bed.bed), verb="patch", resource="nodes")
    return [f"{event.name}: {event.body}" for event in made if event.user == "kubernetes-admin"]


def main() -> int:
    parser = _figures.parser_of(__doc__, "--tasks 1000 --rounds 5")
    parser.add_argument("--tasks", type=_figures.count, default=300, help="of each array (default: %(default)s)")
    parser.add_argument("--rounds", type=_figures.count, default=3, help="arrays of each kind (default: %(default)s)")
    options = parser.parse_args()
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    costs: dict[str, list[float]] = {way: [] for way in WAYS}
    with own_bed(f"storm-{os.getpid()}") as bed:
        with tempfile.TemporaryDirectory() as folder:
            prepare(Site(bed, Path(folder)))
        nodes = Api.from_kubeconfig(kubeconfig(bed.bed))
        until(lambda: _figures.tainted(nodes) == 2, "both nodes are held")
        writes = written(bed)
        for _round in range(options.rounds):
            for way in WAYS:
                rate, cost = storm(bed, way, options.tasks)
                rates[way].append(rate)
                costs[way].append(cost)
        writes = written(bed)[len(writes) :]
    return report(rates, costs, writes)


def report(rates: dict[str, list[float]], costs: dict[str, list[float]], writes: list[str]) -> int:
    rows = []
    for way in WAYS:
        rate, cost = statistics.median(rates[way]), statistics.median(costs[way])
        spread = f"{min(rates[way]):.1f} to {max(rates[way]):.1f}"
        rows.append([way, f"{rate:.1f}", spread, f"{1000 * cost:.1f} ms", _figures.milliseconds(costs[way])])
    head = ["scripts", "tasks/s", "range", "CPU of scripts and service for each task", "range"]
    fall = 1 - statistics.median(rates["ours"]) / statistics.median(rates["no-op"])
    cost = statistics.median(costs["ours"])
    print(f"{_figures.load_average()}\n\n{_figures.table(head, rows)}\n")
    print(f"task rate: {-100 * fall:+.0f} % (asked: -{100 * LARGEST_FALL:.0f} % at most); {len(writes)} API writes")
    print("\n".join(writes))
    return int(fall > LARGEST_FALL or cost > LARGEST_CPU or bool(writes))


if __name__ == "__main__":
    sys.exit(main())
