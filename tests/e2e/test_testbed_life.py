# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Beds come, go, are killed half-way and live side by side, and the machine is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2e import machine
from e2e.playing import processor_seconds, until
from testbed import api

pytestmark = pytest.mark.seconds(45)

# Another run, of this checkout or another, may be at the same tests.
NAME, OTHER = f"life-{os.getpid()}", f"other-{os.getpid()}"
PLAIN = ("--no-kube",)


@pytest.fixture(autouse=True)
def gone() -> Iterator[None]:
    """Whatever a test does, its beds do not outlive it."""
    yield
    for name in (NAME, OTHER):
        api.command_line("down", name, timeout=300, check=False)


def leftovers(known: dict[str, object]) -> list[str]:
    found: list[str] = machine.ask("leftovers", known=known)
    return found


@pytest.mark.no_other_bed
def test_down_removes_all_that_up_made_and_puts_sysctls_back() -> None:
    before = machine.ask("sysctls")
    api.bring_up(NAME, *PLAIN)
    known = machine.ask("facts", NAME)
    assert len(known["containers"]) == 3
    assert any(line.startswith("process ") for line in leftovers(known))
    assert int(machine.ask("sysctls")["fs.inotify.max_user_instances"]) >= 8192

    api.take_down(NAME)

    assert leftovers(known) == []
    assert machine.ask("sysctls") == before


@pytest.mark.no_other_bed
def test_down_removes_a_cluster_with_a_joined_node_and_a_running_pod() -> None:
    before = machine.ask("sysctls")
    bed = api.bring_up(NAME, "--nodes", "1", "--wlm", "none")
    api.command_line("join", NAME, "n1", timeout=600)
    image = "--image=localhost/busybox:local"
    bed.kubectl("run", "sleeper", image, "--image-pull-policy=Never", "--", "busybox", "sleep", "600")
    bed.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=280s")
    known = machine.ask("facts", NAME)
    running = leftovers(known)
    assert any("containerd-shim" in line for line in running)
    assert any("kube-apiserver" in line for line in running)

    api.take_down(NAME)

    assert leftovers(known) == []
    assert machine.ask("sysctls") == before


def test_a_node_begins_with_slurm_and_nothing_of_kubernetes() -> None:
    bed = api.bring_up(NAME, *PLAIN)
    programs = "kubelet kubeadm kubectl containerd runc ctr crictl"
    assert bed.exec("n1", ["sh", "-c", f"command -v {programs}"], check=False).out == ""
    installed = bed.exec("n1", ["dpkg-query", "--show", "--showformat", "${Package}\n"]).out.split()
    assert {"slurmd", "munge"} <= set(installed)
    assert not {"containerd", "runc", "containernetworking-plugins"} & set(installed)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("keys, folders, network", 0.0),
        ("keys, folders, network", 0.1),
        ("boot 3 containers", 0.0),
        ("boot 3 containers", 0.3),
        ("wait for systemd", 0.0),
    ],
)
def test_down_removes_what_a_killed_up_has_made(line: str, seconds: float) -> None:
    kill_up_at(line, seconds=seconds)
    known = machine.ask("facts", NAME)
    api.command_line("down", NAME, timeout=300)
    assert leftovers(known) == []


def test_an_up_that_is_asked_to_stop_removes_what_it_has_made() -> None:
    stopped = kill_up_at("boot 3 containers", seconds=0.2, number=signal.SIGTERM)
    assert stopped.returncode == 130
    assert leftovers(machine.ask("facts", NAME)) == []


def test_up_after_a_killed_up_removes_the_leftovers_and_starts_again() -> None:
    kill_up_at("boot 3 containers", seconds=0.2)
    known = machine.ask("facts", NAME)
    bed = api.bring_up(NAME, *PLAIN)
    assert sorted(bed.ssh("ctl", ["srun", "-N2", "hostname"]).out.split()) == ["n1", "n2"]
    assert not [line for line in leftovers(known) if any(identity in line for identity in known["ids"])]


def test_two_beds_come_up_at_the_same_time_and_one_goes_without_the_other() -> None:
    with ThreadPoolExecutor() as pool:
        one, two = pool.map(lambda name: api.bring_up(name, *PLAIN, "--nodes", "1"), (NAME, OTHER))
    assert one.bed.subnet != two.bed.subnet
    known = machine.ask("facts", one.bed.name)
    api.take_down(one.bed.name)
    assert leftovers(known) == []
    assert two.ssh("ctl", ["srun", "hostname"]).out == "n1\n"
    taken = api.command_line("up", "--name", NAME, *PLAIN, "--subnet", two.bed.subnet, check=False)
    assert (taken.rc, taken.out) == (1, "")
    assert f"--subnet {two.bed.subnet}: taken" in taken.err


@pytest.mark.no_other_bed
def test_eight_nodes_cost_less_than_a_minute_and_run_one_job_together() -> None:
    before = processor_seconds()
    bed = api.bring_up(NAME, *PLAIN, "--nodes", "8")
    assert processor_seconds() - before < 60
    assert len(set(bed.ssh("ctl", ["srun", "-N8", "hostname"]).out.split())) == 8


@pytest.mark.parametrize(
    "options",
    [
        ("--slurm-conf", "shared"),
        ("--slurm-conf", "configless", "--slurmdbd"),
        ("--debian", "13"),
    ],
    ids=["shared", "configless-accounted", "debian13"],
)
def test_slurm_runs_jobs_in_every_way_a_site_may_have_it(options: tuple[str, ...]) -> None:
    bed = api.bring_up(NAME, *PLAIN, *options)
    assert sorted(bed.ssh("ctl", ["srun", "-N2", "hostname"]).out.split()) == ["n1", "n2"]
    if "--slurmdbd" in options:
        await_line(
            bed, ["sacct", "--noheader", "--parsable2", "--allocations", "--format=JobName,State"], "hostname|COMPLETED"
        )
    if "configless" in options:
        assert bed.exec("n1", ["test", "-e", "/etc/slurm/slurm.conf"], check=False).rc == 1


def test_without_a_batch_system_there_are_only_nodes() -> None:
    bed = api.bring_up(NAME, *PLAIN, "--wlm", "none", "--nodes", "1")
    assert [host.name for host in bed.bed.hosts] == ["n1"]
    assert bed.ssh("n1", ["sudo", "systemctl", "is-system-running"]).out == "running\n"


def kill_up_at(line: str, *, seconds: float, number: int = signal.SIGKILL) -> subprocess.Popen[str]:
    """Start `up` and end it some time after it has announced a step."""
    command = [sys.executable, "-m", "testbed", "up", "--name", NAME, *PLAIN]
    environment = {**os.environ, "PYTHONPATH": str(api.TESTS), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as up:
        assert up.stderr is not None
        for said in up.stderr:
            if line in said:
                break
        else:
            pytest.fail(f"up never said {line!r}")
        time.sleep(seconds)
        machine.ask("signal", NAME, str(int(number)))
        up.stderr.read()
    assert up.returncode != 0
    return up


def await_line(bed: api.RunningBed, argv: list[str], wanted: str) -> None:
    """Wait for a line of output; the database hears of a job's end a little later."""
    until(lambda: wanted in bed.ssh("ctl", argv).out.splitlines(), f"{argv[0]} says {wanted!r}")
