# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `node_state` costs when nothing changes: 8 nodes, 60 files each, over ssh with sudo.

`make bench`, or `sh tests/bootstrap/enter.sh exec python tests/bench/node_state_times.py`. The bound is 1 s of wall
time per node; the figure is the median of some rounds of the whole play, by the number of nodes.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from bench import _figures
from bench._beds import own_bed
from testbed.api import command_line

NAME = f"bench-{os.getpid()}"
NODES = 8
FILES = 60
BOUND = 1.0  # seconds per node
PLAY_SECONDS = 600


def write_play(folder: Path, bed: str) -> None:
    """One role with as many files as the next issue's largest, a unit and a setting."""
    (folder / "hosts.yml").write_text(command_line("inventory", bed).out)
    files = [{"path": f"/srv/bench/file-{at}", "content": f"file {at}\n" * 200} for at in range(FILES)]
    arguments = {
        "role": "bench",
        "record_copy_dir": str(folder / "copies"),
        "directories": [{"path": "/srv/bench"}],
        "files": files,
        "sysctls": [{"name": "net.ipv4.ip_nonlocal_bind", "value": "1"}],
        "units": [{"name": "systemd-journald", "state": "started"}],
    }
    task = {"name": "Change", "converged.hpc.node_state": arguments}
    play = {"hosts": "converged_nodes", "gather_facts": False, "become": True, "tasks": [task]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))


def play(folder: Path) -> tuple[float, str]:
    """Seconds, and what Ansible said at the end."""
    begin = time.monotonic()
    env = dict(os.environ, ANSIBLE_PIPELINING="1", ANSIBLE_FORKS=str(NODES), ANSIBLE_NOCOLOR="1")
    argv = ["ansible-playbook", "-i", "hosts.yml", "play.yml"]
    done = subprocess.run(argv, cwd=folder, env=env, timeout=PLAY_SECONDS, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.monotonic() - begin, done.stdout


def main() -> None:
    """Prints the table; exit status 1 when the bound is missed."""
    parser = _figures.parser_of(__doc__, "--rounds 9")
    parser.add_argument("--rounds", type=_figures.count, default=5, help="runs without changes (default: %(default)s)")
    parser.add_argument("--bed", help="a bed that is up, with 8 nodes; it stays up")
    options = parser.parse_args()
    shape = ("--nodes", str(NODES), "--wlm", "none", "--no-kube")
    with own_bed(NAME, *shape, given=options.bed) as bed, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_play(folder, bed.bed.name)
        first, _ = play(folder)
        rounds = [play(folder) for _ in range(options.rounds)]
    if any("changed=1" in text for _, text in rounds):
        sys.exit("a run without changes changed something")
    seconds = sorted(seconds / NODES for seconds, _ in rounds)
    median = statistics.median(seconds)
    print(_figures.load_average())
    print(f"{NODES} nodes, {FILES} files each, first run: {first / NODES:.2f} s per node")
    print(f"no change: {median:.2f} s per node (bound {BOUND:.2f}), {seconds[0]:.2f} to {seconds[-1]:.2f}")
    sys.exit(median > BOUND)


if __name__ == "__main__":
    main()
