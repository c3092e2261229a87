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
from testbed import api, sysctls
from testbed.down import podman_of

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


def bed_with_a_running_pod() -> api.RunningBed:
    """Slurm, a cluster, and a node that runs a pod: everything that a bed can have on a machine."""
    bed = api.bring_up(NAME, "--nodes", "1")
    api.command_line("join", NAME, "n1", timeout=600)
    image = "--image=localhost/busybox:local"
    bed.kubectl("run", "sleeper", image, "--image-pull-policy=Never", "--", "busybox", "sleep", "600")
    bed.kubectl("wait", "--for=condition=Ready", "pod/sleeper", "--timeout=280s")
    return bed


def test_down_removes_all_that_up_and_a_kubelet_have_made() -> None:
    bed_with_a_running_pod()
    known = machine.ask("facts", NAME)
    assert len(known["containers"]) == 3
    running = leftovers(known)
    for what in ("slurmctld", "containerd-shim", "kube-apiserver"):
        assert any(line.startswith("process ") and what in line for line in running), what
    assert int(machine.ask("sysctls")["fs.inotify.max_user_instances"]) >= 8192
    assert NAME in machine.ask("holders")

    machine.ask("strand", known["subnet"])
    api.take_down(NAME)

    assert leftovers(known) == []
    assert NAME not in machine.ask("holders")


@pytest.mark.soak
def test_the_last_bed_puts_the_settings_of_the_machine_back() -> None:
    """On paper in every change: unit/testbed/test_sysctls.py. Other beds keep the settings, so they are waited for."""
    until(lambda: not machine.ask("holders"), "no other bed", seconds=3600)
    before = machine.ask("sysctls")
    bed_with_a_running_pod()
    assert machine.ask("sysctls") != before
    api.take_down(NAME)
    assert machine.ask("holders") == []
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
        pytest.param("keys, folders, network", 0.0, marks=pytest.mark.soak),
        ("keys, folders, network", 0.1),
        pytest.param("boot 3 containers", 0.0, marks=pytest.mark.soak),
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


# In every change the gates have beds beside each other, and unit/testbed/test_layout.py chooses their networks.
@pytest.mark.soak
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


# In every change jobs run on all three nodes of the demo's bed. What eight cost is measured by bench.bed_times, too.
@pytest.mark.soak
def test_eight_nodes_cost_less_than_a_minute_and_run_one_job_together() -> None:
    """Of processor time: what `up` has started here, and all that runs in the containers."""
    before = processor_seconds()
    bed = api.bring_up(NAME, *PLAIN, "--nodes", "8")
    inside = machine.ask("processor", NAME)
    print(f"{processor_seconds() - before:.1f} s outside, {inside:.1f} s inside")
    assert processor_seconds() - before + inside < 60
    assert len(set(bed.ssh("ctl", ["srun", "-N8", "hostname"]).out.split())) == 8
    # What containers take is seen: two seconds more in one of them.
    before_work = machine.ask("processor", NAME)
    bed.ssh("n8", ["python3", "-c", "import time\nwhile time.process_time() < 2: pass"])
    assert before_work + 2 <= machine.ask("processor", NAME) < before_work + 30


# In every change jobs run on the first and the last kind in test_spark and test_site_kinds.
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--slurm-conf", "shared"), marks=pytest.mark.soak, id="shared"),
        pytest.param(("--slurm-conf", "configless", "--slurmdbd"), id="configless-accounted"),
        pytest.param(("--debian", "13"), marks=pytest.mark.soak, id="debian13"),
    ],
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


def test_without_a_batch_system_there_are_only_nodes_and_they_can_be_booted_anew() -> None:
    bed = api.bring_up(NAME, *PLAIN, "--wlm", "none", "--nodes", "1")
    assert [host.name for host in bed.bed.hosts] == ["n1"]
    assert bed.ssh("n1", ["sudo", "systemctl", "is-system-running"]).out == "running\n"

    def booted() -> str:
        return bed.exec("n1", ["stat", "--format=%Z", "/proc/1"]).out

    podman, container, before = podman_of(bed.bed), bed.bed.host("n1").container, booted()
    podman.call("stop", "--time", "30", container, timeout=120)
    assert bed.exec("n1", ["true"], check=False).rc == 255
    podman.start(container)
    assert booted() != before
    until(lambda: bed.exec("n1", ["systemctl", "is-system-running"], check=False).out == "running\n", "it has booted")
    names = [f"/proc/sys/{name}" for name in sysctls.OF_NODES]
    assert bed.exec("n1", ["cat", *names]).out.split() == [*sysctls.OF_NODES.values()], "it has the machine's settings"


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
