# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What our scripts add to `srun -N1 true`: `sh tests/bootstrap/enter.sh exec python tests/bench/prolog_latency.py`.

The same cluster has the same four script files all the time, and only what is in them changes from one job to the
next, so that a busy machine slows all of them alike: no-op shell scripts, our scripts while they are inert, and our
scripts at work on nodes without pods and without kubelet, with a controller that answers at once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from testbed.api import TESTS, RunningBed, bring_up, find, take_down
from testbed.inventory import inventory

FILES = TESTS.parent / "roles/slurm_share/files"
SCRIPTS = {
    "Prolog": "prolog",
    "Epilog": "epilog",
    "PrologSlurmctld": "prolog-slurmctld",
    "EpilogSlurmctld": "epilog-slurmctld",
}
FOLDER = "/opt/bench"
HOSTS = ("ctl", "n1", "n2")
WAYS = ("no-op", "inert", "at work")
PLAY = """
- hosts: converged_nodes
  become: true
  gather_facts: false
  roles: [converged.hpc.node_share]
"""
# Like `nodeshare controller`, but for the work.
CONTROLLER = """
import os, socket, shutil
os.makedirs("/run/converged", exist_ok=True)
path = "/run/converged/controller.sock"
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
shutil.chown(path, "root", "slurm")
os.chmod(path, 0o660)
listener.listen(128)
while True:
    link, _name = listener.accept()
    with link:
        link.makefile("rb").readline()
        link.sendall(b'{"ok": true, "seconds": 0.0}\\n')
"""
# Times one srun without the way into the host, when nothing of the job before is left.
TIMED = """
import subprocess, time
while subprocess.run(["squeue", "-h"], stdout=subprocess.PIPE, timeout=60, check=True).stdout.strip():
    time.sleep(0.1)
begin = time.monotonic()
subprocess.run(["srun", "-N1", "true"], timeout=60, check=True)
print(time.monotonic() - begin)
"""


def prepare(bed: RunningBed) -> None:
    """nodeshare on the nodes, a controller, all sets of scripts, and slurm.conf that names a link to one of them."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "hosts.yml").write_text(json.dumps(inventory(bed.bed)), encoding="utf-8")
        (Path(folder) / "play.yml").write_text(PLAY, encoding="utf-8")
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        words = ["-i", "hosts.yml", "play.yml", "-e", f"converged_record_copy_dir={folder}/record"]
        subprocess.run([program, *words], cwd=folder, timeout=300, check=True, stdout=subprocess.DEVNULL)
    for host in HOSTS:
        for way in WAYS:
            for name in SCRIPTS.values():
                put(bed, host, f"{FOLDER}/{way}/{name}", text(way, name))
        put(bed, host, f"{FOLDER}/hand_over.py", (FILES / "hand_over.py").read_text(encoding="utf-8"))
        bed.exec(host, ["sed", "-i", "-E", r"/^(Pro|Epi)log/d", "/etc/slurm/slurm.conf"])
        lines = [f"{key}={FOLDER}/now/{name}" for key, name in SCRIPTS.items()] + ["PrologFlags=Alloc,DeferBatch"]
        bed.exec(host, ["tee", "-a", "/etc/slurm/slurm.conf"], input="\n".join([*lines, ""]))
    use(bed, WAYS[0])
    bed.exec("ctl", ["systemd-run", "--unit=bench-controller", "/usr/bin/python3", "-c", CONTROLLER])
    bed.exec("ctl", ["scontrol", "reconfigure"])


def text(way: str, name: str) -> str:
    """One script as the role would fill it in; the flag is a file that is there, or one that is not."""
    if way == "no-op":
        return "#!/bin/sh\nexit 0\n"
    script = (
        (FILES / name)
        .read_text(encoding="utf-8")
        .replace("/etc/converged/slurm/hand_over.py", f"{FOLDER}/hand_over.py")
    )
    return script.replace("=/etc/converged/enabled", "=/etc/hostname" if way == "at work" else "=/nonexistent")


def put(bed: RunningBed, host: str, path: str, content: str) -> None:
    words = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod 755 "$1"'
    bed.exec(host, ["sh", "-c", words, "put", path], input=content)


def use(bed: RunningBed, way: str) -> None:
    for host in HOSTS:
        bed.exec(host, ["ln", "-sfn", f"{FOLDER}/{way}", f"{FOLDER}/now"])


def served(bed: RunningBed) -> int:
    """Jobs that nodeshare has begun and ended: each leaves a mark."""
    words = "ls /var/lib/converged/nodeshare | grep -c 'ended$'"
    return sum(int(bed.exec(node, ["sh", "-c", words], check=False).out or 0) for node in HOSTS[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    name = f"latency-{os.getpid()}"
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    try:
        bring_up(name, "--nodes", "2", "--no-kube")
        bed = find(name)
        prepare(bed)
        for number in range(rounds + 1):
            for way in WAYS:
                use(bed, way)
                seconds = float(bed.exec("ctl", ["python3", "-c", TIMED], timeout=180).out)
                if number:  # the first of each fills caches
                    times[way].append(seconds)
        if served(bed) <= rounds:
            raise SystemExit(
                f"only {served(bed)} of {rounds + 1} jobs were told to nodeshare: its figure means nothing"
            )
    finally:
        take_down(name)
    base = statistics.median(times["no-op"])
    print("| scripts | median of `srun -N1 true` | added | range |\n|---|---|---|---|")
    for way, seconds in times.items():
        median = statistics.median(seconds)
        spread = f"{min(seconds) * 1000:.0f} to {max(seconds) * 1000:.0f} ms"
        print(f"| {way} | {median * 1000:.0f} ms | {(median - base) * 1000:.0f} ms | {spread} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
