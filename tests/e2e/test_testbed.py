# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bed that all end-to-end tests share, seen as its users see it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml
from e2e import playing
from testbed import api
from testbed.api import RunningBed
from testbed.down import podman_of
from testbed.run import run

# On cgroup v1 and v2 alike: as much memory as the job may use, and twice as much.
EATER = "import sys; eaten = bytearray(int(sys.argv[1]) << 20); print(len(eaten) >> 20)"


@pytest.fixture(autouse=True, scope="module")
def whole(bed: RunningBed) -> None:
    """Another file's tests may have just restarted what these ask."""
    await_whole(bed)


def test_one_job_runs_on_all_nodes_as_an_ordinary_user(bed: RunningBed) -> None:
    done = bed.ssh("ctl", ["sudo", "-u", "alice", "srun", "-N2", "--chdir=/tmp", "sh", "-c", "hostname; id -un"])
    assert sorted(done.out.split()) == ["alice", "alice", "n1", "n2"]


def test_the_prolog_and_epilog_of_the_site_log_each_job(bed: RunningBed) -> None:
    job = bed.ssh("ctl", ["srun", "-w", "n1", "sh", "-c", "echo $SLURM_JOB_ID"]).out.strip()
    bed.ssh("ctl", ["sudo", "scontrol", "wait_job", job], check=False)
    prolog = bed.ssh("n1", ["cat", "/var/log/slurm/prolog.log"]).out
    assert f" prolog job={job} user=ops node=n1\n" in prolog


def test_a_job_that_takes_more_memory_than_it_asked_for_is_killed(bed: RunningBed) -> None:
    allowed = bed.ssh("ctl", ["srun", "--mem=200", "python3", "-c", EATER, "100"])
    assert allowed.out == "100\n"
    killed = bed.ssh("ctl", ["srun", "--mem=100", "python3", "-c", EATER, "400"], check=False)
    assert killed.rc != 0
    assert killed.out == ""


def test_several_jobs_fit_on_a_node(bed: RunningBed) -> None:
    start = "for i in 1 2 3 4; do sbatch --job-name=fits --output=/dev/null --mem=100 --wrap='sleep 60'; done"
    bed.ssh("ctl", ["sh", "-c", start])
    try:
        wait = "until test $(squeue -h -n fits -t R | wc -l) = 4; do sleep 0.1; done"
        assert bed.ssh("ctl", ["timeout", "280", "sh", "-c", wait], check=False).rc == 0
    finally:
        bed.ssh("ctl", ["scancel", "--name=fits"])


def test_the_administrator_logs_in_with_a_checked_host_key_and_becomes_root(bed: RunningBed) -> None:
    assert bed.ssh("n1", ["sudo", "-n", "id", "-u"]).out == "0\n"
    assert bed.ssh("kube", ["hostname"]).out == "kube\n"
    keys = (bed.bed.dir / "ssh" / "known_hosts").read_text()
    assert all(f"{host.name},{host.ip} ssh-ed25519 " in keys for host in bed.bed.hosts)


def test_ansible_reaches_every_host_by_the_inventory(bed: RunningBed, tmp_path: Path) -> None:
    site = playing.Site(bed, tmp_path)
    site.hosts = yaml.safe_load(api.command_line("inventory", bed.bed.name).out)
    root = {"ansible.builtin.command": "id -u", "register": "who", "failed_when": "who.stdout != '0'"}
    done = site.run([playing.play("all", root)])
    assert done.changed() == {host.name: 1 for host in bed.bed.hosts}


def test_exec_passes_input_output_and_exit_status(bed: RunningBed) -> None:
    argv = ["sh", "-c", "cat; echo err >&2; exit 7"]
    done = api.command_line("exec", bed.bed.name, "n1", "--", *argv, input="hi\n", check=False)
    assert (done.rc, done.out, done.err) == (7, "hi\n", "err\n")
    missing = api.command_line("exec", bed.bed.name, "n9", "--", "true", check=False)
    assert missing.rc == 1
    assert missing.err == f"testbed: bed '{bed.bed.name}' has no host 'n9'; it has ctl kube n1 n2\n"


# What a command finds: its user, its host, with which limits and rights, and in which namespaces.
PLACE = """
env | grep -v ^_= | sort; pwd; id; umask; ulimit -a
grep -E '^(Cap|Seccomp|NoNewPrivs|Groups)' /proc/self/status
for one in mnt uts ipc net pid cgroup user; do readlink /proc/self/ns/$one; done
"""


def test_a_command_finds_what_one_of_podmans_finds(bed: RunningBed) -> None:
    ours = bed.exec("n1", ["sh", "-c", PLACE])
    container = bed.bed.host("n1").container
    assert ours.out == podman_of(bed.bed).call("exec", container, "sh", "-c", PLACE).out
    assert "container=podman\n" in ours.out


def test_status_shows_every_part(bed: RunningBed) -> None:
    done = api.command_line("status", bed.bed.name, "--json")
    found = json.loads(done.out)[bed.bed.name]
    names = {(part["kind"], part["name"]) for part in found["parts"]}
    assert {("container", host.container) for host in bed.bed.hosts} <= names
    assert {("slurmctld", "ctl"), ("slurm node", "n1"), ("slurm node", "n2"), ("API server", "kube")} <= names
    assert all(part["good"] for part in found["parts"])


def test_status_asks_the_parts_themselves(bed: RunningBed) -> None:
    update = ["sudo", "scontrol", "update", "nodename=n2"]
    bed.ssh("ctl", [*update, "state=drain", "reason=test"])
    try:
        done = api.command_line("status", bed.bed.name, check=False)
    finally:
        bed.ssh("ctl", [*update, "state=resume"])
        await_whole(bed)
    assert done.rc == 1
    assert [line.split() for line in done.out.splitlines() if "!!" in line] == [
        ["!!", "slurm", "node", "n2", "drained"]
    ]


def test_up_changes_nothing_on_a_bed_that_is_up_and_refuses_another_shape(bed: RunningBed) -> None:
    record = bed.bed.dir / "state.json"
    before = record.read_text()
    again = api.command_line("up", "--name", bed.bed.name)
    assert f"bed '{bed.bed.name}' is up already; nothing changed" in again.err
    other = api.command_line("up", "--name", bed.bed.name, "--nodes", "5", check=False)
    assert other.rc == 1
    assert "is up with nodes 2 (asked for 5); take it down first" in other.err
    assert record.read_text() == before


def test_supplies_that_are_there_are_not_made_again(bed: RunningBed) -> None:
    done = api.command_line("supplies", "--for", "demo")
    assert re.search(r"ok +supplies for demo: 7 programs, 1 images", done.err)
    assert len(done.err.splitlines()) == 2
    assert done.out == ""


def test_logs_of_every_component_land_in_one_folder(bed: RunningBed) -> None:
    folder = Path(api.command_line("logs", bed.bed.name).out.strip())
    try:
        assert {host.name for host in bed.bed.hosts} <= {path.name for path in folder.iterdir()}
        assert "slurmd" in (folder / "n1" / "journal.txt").read_text()
        assert (folder / "ctl" / "slurm" / "slurmctld.log").read_text()
        assert "kube-apiserver" in (folder / "kube" / "journal.txt").read_text()
        assert (folder / "kube" / "audit.log").stat().st_size
    finally:
        run([*([] if os.geteuid() == 0 else ["sudo", "-n"]), "rm", "-r", str(folder)], timeout=30)


@pytest.mark.parametrize("program", ["containerd", "runc"])
def test_the_container_runtime_installs_without_a_network(bed: RunningBed, program: str) -> None:
    offline = ["unshare", "--net", "apt-get", "install", "--dry-run", "--no-install-recommends", program]
    assert bed.exec("n1", offline).rc == 0
    [source] = bed.exec("n1", ["sh", "-c", "cat /etc/apt/sources.list.d/testbed.list"]).out.splitlines()
    assert source == "deb [trusted=yes] file:/opt/testbed/debs ./"


def await_whole(bed: RunningBed) -> None:
    """slurmctld asks a resumed node for a sign of life before it trusts it again."""
    playing.until(lambda: api.command_line("status", bed.bed.name, check=False).rc == 0, "all of the bed is well")
