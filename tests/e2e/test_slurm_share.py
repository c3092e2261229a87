# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role slurm_share on real clusters: Slurm 22.05, which takes one script of each kind, and 24.11, which takes more."""

from __future__ import annotations

import os
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e import job_times, playing
from e2e.playing import until
from testbed import api, keys
from testbed.recipe import ADMINISTRATOR

# In every change molecule (share) converts twice, has a job and takes back, all hosts compared. The payloads' tests
# have scripts with and without their flag, test_site_life jobs that run while a site is converted.
pytestmark = pytest.mark.soak

CONF = "/etc/slurm/slurm.conf"
PROGRAM = "/opt/told"
HOSTS = ("ctl", "n1", "n2")
NODES = ("n1", "n2")
LOGS = "/var/log/slurm"
GO = "/run/e2e-slurm-share-go"
# A task that lasts until it is told to end, and says when it began and ended.
TASK = f"echo began $(date +%s.%N); until test -e {GO}; do sleep 0.2; done; echo ended $(date +%s.%N)"
# In place of nodeshare: writes behind the line of the site's own script, and keeps a lease as nodeshare does.
TOLD = r"""#!/usr/bin/python3 -IS
import os, sys
event, job, run = sys.argv[1], sys.argv[4][len("--job="):], sys.argv[5][len("--run="):]
lease = f"/run/converged/nodeshare/slurm.{job}.r{run}.lease"
os.makedirs(os.path.dirname(lease), exist_ok=True)
open(lease, "w") if event == "begin" else os.path.exists(lease) and os.remove(lease)
with open({"begin": "/var/log/slurm/prolog.log", "end": "/var/log/slurm/epilog.log"}[event], "a") as log:
    print("ours", event, f"job={job}", f"run={run}", file=log)
"""


class Site(playing.Site):
    """A cluster whose administrator calls the role's steps from playbooks of his own."""

    def __init__(self, bed: api.RunningBed, folder: Path) -> None:
        super().__init__(bed, folder)
        self.set("all", slurm_share_program=PROGRAM, slurm_share_wait=5)

    def play(self, *steps: str, options: tuple[str, ...] = (), check: bool = True, **variables: Any) -> playing.Said:
        roles = [f"slurm_share/{step}" for step in steps]
        plays = [playing.play("converged_controllers:converged_nodes", *roles)]
        return self.run(plays, *options, check=check, **variables)

    def files(self) -> dict[str, str]:
        words = (
            "cat /etc/slurm/*.conf; find /etc/converged /etc/slurm -printf '%M %u %g %s %p\\n' 2>/dev/null | sort; true"
        )
        return {host: self.node(host, words) for host in HOSTS}

    def running(self) -> list[str]:
        shown = self.ctl("scontrol show config").splitlines()
        return [line for line in shown if "prolog" in line.lower() or "epilog" in line.lower()]

    def jobs(self, states: str) -> int:
        return len(self.ctl(f"squeue -h -t {states}").splitlines())

    def log(self, node: str, which: str) -> list[str]:
        return self.node(node, f"cat {LOGS}/{which}.log").splitlines()

    def quiet(self) -> None:
        """Wait until every job has left its nodes, and Slurm calls them idle."""
        super().quiet()
        self.until("ctl", "sinfo -h -o %T | grep -qx idle")


@contextmanager
def during_a_job(site: Site) -> Iterator[None]:
    """Run a job around what is done within; fail unless both of its tasks run all the while."""
    login, log = keys.ssh_command(site.bed.bed, site.bed.bed.host("ctl"), user=ADMINISTRATOR), site.folder / "job"

    def said() -> list[tuple[str, float]]:
        return job_times.read(log.read_text(encoding="utf-8"))

    words = [*login, f"srun -N2 --unbuffered sh -c '{TASK}'"]
    with log.open("w", encoding="utf-8") as stream, subprocess.Popen(words, stdout=stream) as running:
        try:
            until(lambda: len(said()) >= 2, "both tasks run")
            since = time.time()
            yield
            over = time.time()
            assert site.jobs("R") == 1, "Slurm has lost no job"
        finally:
            for node in NODES:
                site.ask(node, "touch", GO)
        assert running.wait(300) == 0
    assert job_times.when(said(), since=since, until=over) == job_times.DURING


def changes(said: playing.Said) -> int:
    return sum(said.changed().values())


@pytest.fixture(scope="module")
def newer() -> Iterator[api.RunningBed]:
    """A bed with Slurm 24.11; CONVERGED_KEEP_BED=1 leaves it up."""
    name = f"s13-{zlib.crc32(bytes(Path(__file__))):08x}"
    yield api.bring_up(name, "--nodes", "2", "--no-kube", "--debian", "13")
    if os.environ.get("CONVERGED_KEEP_BED") != "1":
        api.take_down(name)


@pytest.fixture(params=["22.05", "24.11"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """However a test ends, the next one begins with a cluster without us."""
    found = Site(request.getfixturevalue("bed" if request.param == "22.05" else "newer"), tmp_path)
    for node in NODES:
        found.node(node, f"cat > {PROGRAM}; chmod 755 {PROGRAM}", input=TOLD)
        found.node(node, f"rm -f {GO}; touch {LOGS}/prolog.log; sed -i /^ours/d {LOGS}/*log")
    found.srun("-N2", "true")
    found.quiet()
    yield found
    found.play("restore", check=False)
    for node in NODES:
        found.ask(node, "rm", "-rf", GO, PROGRAM, "/run/converged/nodeshare")


def test_a_cluster_is_converted_step_by_step_and_taken_back(site: Site) -> None:
    before, ran = site.files(), site.running()
    planned = site.play("main", options=("--check", "--diff"))
    assert changes(planned) > 0
    assert "+Prolog=/etc/converged/slurm/prolog" in planned.out
    assert site.files() == before

    with during_a_job(site):
        site.play("stubs")
        assert site.running() == ran
        site.play("stubs", "configure")
        assert "/etc/converged/slurm/prolog" in " ".join(site.running())
    site.quiet()
    site.srun("-N2", "true")
    site.quiet()
    assert not any(line.startswith("ours") for node in NODES for line in site.log(node, "prolog"))

    site.play("enable", options=("--limit", "ctl,n1"))
    site.srun("-N2", "true")
    site.quiet()
    for which, event in (("prolog", "begin"), ("epilog", "end")):
        own, ours = site.log("n1", which)[-2:]
        assert f" {which} job=" in own
        assert ours.startswith(f"ours {event} job=")
        assert ours.endswith("run=0")
        assert not any(line.startswith("ours") for line in site.log("n2", which))

    site.play("main")
    assert changes(site.play("main")) == 0
    assert changes(site.play("main", options=("--check",))) == 0
    site.srun("-N2", "true")
    site.quiet()
    assert site.log("n2", "prolog")[-1].startswith("ours begin")

    site.play("restore")
    assert (site.files(), site.running()) == (before, ran)
    assert changes(site.play("restore")) == 0
    site.srun("-N2", "true")
