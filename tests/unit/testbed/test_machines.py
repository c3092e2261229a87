# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are virtual machines: the emulator's command line, the recipe of their disk, and what `down` finds."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed import layout, machine_recipe, machines, reach, slurm, status, supplies
from testbed.archive import NodeFile
from testbed.cgroups import Way
from testbed.errors import BedError, UsageError
from testbed.images import CachedImage
from testbed.layout import Request
from testbed.machine_disks import MachineDisks
from testbed.machine_recipe import DiskRecipe
from testbed.run import Completed
from testbed.state import Bed

Beds = Callable[..., Bed]
DISKS = MachineDisks(Path("/cache/disk"), Path("/cache/supplies.img"))


def options(bed: Bed) -> list[tuple[str, str]]:
    """The emulator's options, each with its value."""
    words = machines.emulator(bed, bed.host("n1"), DISKS)[1:]
    pairs: list[tuple[str, str]] = []
    for word in words:
        if word.startswith("-"):
            pairs.append((word, ""))
        else:
            pairs[-1] = (pairs[-1][0], word)
    return pairs


def test_the_emulator_needs_no_hardware_for_it_and_has_nothing_but_what_is_said(paper_bed: Beds) -> None:
    said = options(paper_bed(vm=True))
    assert ("-accel", "tcg,thread=multi") in said
    assert ("-cpu", "max") in said
    assert not [value for _name, value in said if "kvm" in value.replace("kvm_amd", "").replace("kvm_intel", "")]
    assert {("-nodefaults", ""), ("-no-user-config", ""), ("-daemonize", "")} <= set(said)


def test_a_machine_has_four_processors_and_its_memory_on_two_numa_nodes(paper_bed: Beds) -> None:
    said = options(paper_bed(vm=True))
    assert [value for name, value in said if name == "-numa"] == [
        "node,nodeid=0,cpus=0-1,memdev=memory0",
        "node,nodeid=1,cpus=2-3,memdev=memory1",
    ]
    sizes = [re.search(r"size=(\d+)M", value) for name, value in said if name == "-object"]
    assert sum(int(size[1]) for size in sizes if size) == machines.MEMORY_MB
    assert ("-m", f"{machines.MEMORY_MB}M") in said
    assert ("-smp", "4,sockets=2,cores=2,threads=1") in said


def test_only_the_overlay_of_a_machine_is_written_and_its_network_is_a_tap_without_scripts(paper_bed: Beds) -> None:
    bed = paper_bed(name="one", vm=True)
    said = options(bed)
    drives = [value for name, value in said if name == "-drive"]
    assert [drive.partition(",")[0] for drive in drives if "readonly=on" not in drive] == [
        f"file={bed.dir}/machines/n1/overlay.qcow2"
    ]
    assert [value for name, value in said if name == "-netdev"] == [
        f"tap,id=net,ifname={machines.tap('one', 'n1')},script=no,downscript=no"
    ]
    # Longer names of links are refused by the kernel.
    assert len(machines.tap("a" * 20, "n64")) <= 15


def test_a_comma_in_the_path_of_the_cache_is_no_option(
    paper_bed: Beds, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bed = paper_bed(vm=True)
    monkeypatch.setenv("CONVERGED_CACHE", str(tmp_path / "a,readonly=on"))
    overlay = next(value for name, value in options(bed) if name == "-drive")
    assert "/a,,readonly=on/" in overlay


def test_machines_differ_in_address_link_and_folder(paper_bed: Beds, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = paper_bed(vm=True, nodes=4)
    assert len({machines.address(host) for host in bed.nodes}) == 4
    here = {machines.tap(name, host) for name in ("bed", "bed2") for host in ("n1", "n2")}
    assert len(here) == 4
    monkeypatch.setenv("CONVERGED_CACHE", "/another")
    assert machines.tap("bed", "n1") not in here, "beds of two caches may have the same names"


def test_a_machine_is_told_its_name_its_address_and_everybody_elses(paper_bed: Beds) -> None:
    bed = paper_bed(vm=True, nodes=2)
    texts = {file.path: str(file.content) for file in machines.seed(bed, bed.host("n2"))}
    assert texts["/etc/hostname"] == "n2\n"
    assert "Address=10.89.7.12/24\n" in texts["/etc/systemd/network/10-testbed.network"]
    assert "Gateway=10.89.7.1\n" in texts["/etc/systemd/network/10-testbed.network"]
    for host in bed.hosts:
        assert f"{host.ip} {host.name}\n" in texts["/etc/hosts"]


def test_with_vm_nodes_are_machines_and_all_other_hosts_are_containers(paper_bed: Beds) -> None:
    bed = paper_bed(vm=True, nodes=2)
    assert {host.name: host.machine for host in bed.hosts} == {"ctl": False, "kube": False, "n1": True, "n2": True}
    assert not any(host.machine for host in paper_bed().hosts)
    assert bed == Bed.from_json(json.loads(json.dumps(bed.to_json())))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(vm=True, debian=13), "--vm needs --debian 12, found --debian 13"),
        (
            Request(vm=True, slurm_conf="shared"),
            "--vm needs --slurm-conf local or configless, found --slurm-conf shared",
        ),
        (
            Request(vm=True, wlm="none", kube=False),
            "--vm needs --kube, or --wlm slurm or pbs: machines join the network of the bed's containers",
        ),
        (
            Request(vm=True, wlm="torque"),
            "--vm needs --wlm slurm, pbs or none, found --wlm torque: hosts of its double share this machine's folders",
        ),
        (Request(vm=True, nodes=5), "--nodes 5: with --vm give a number from 1 to 4"),
        (Request(security="selinux"), "--security selinux needs --vm: containers have the kernel of this machine"),
        (Request(vm=True, security="smack"), "--security smack: unknown; give one of selinux"),
    ],
)
def test_what_machines_cannot_be_given_is_refused_by_name_and_value(request_: Request, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        layout.check(request_)
    assert str(refused.value) == message


def test_a_bed_of_containers_is_not_taken_for_one_of_machines(paper_bed: Beds) -> None:
    assert layout.differences(paper_bed(), Request(vm=True)) == ["vm False (asked for True)"]
    assert layout.differences(paper_bed(vm=True), Request(vm=True, security="selinux")) == [
        "security none (asked for selinux)"
    ]


@pytest.mark.parametrize("missing", sorted(machines.PROGRAMS))
def test_a_missing_emulator_is_one_line_that_says_how_to_install_it(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def which(program: str, path: str | None = None) -> str | None:
        return None if program == missing else f"/usr/bin/{program}"

    monkeypatch.setattr(supplies.shutil, "which", which)
    supplies.check_programs(Way.V2)
    with pytest.raises(BedError) as refused:
        supplies.check_programs(Way.V2, vm=True)
    assert str(refused.value) == (
        f"{missing}: not found on this machine; type: apt-get install {machines.PROGRAMS[missing]}"
    )


def test_slurm_is_told_the_processors_and_the_cgroups_of_the_machine_and_not_of_its_host(paper_bed: Beds) -> None:
    conf = slurm.slurm_conf(paper_bed(way=Way.V1, vm=True))
    assert "CPUs=4 Sockets=2 CoresPerSocket=2 ThreadsPerCore=1 " in conf["nodes.conf"]
    assert conf["cgroup.conf"] == "CgroupPlugin=cgroup/v2\nConstrainCores=yes\nConstrainRAMSpace=yes\n"
    assert "DEFAULT CPUs=2 RealMemory" in slurm.slurm_conf(paper_bed())["nodes.conf"]


def test_the_disk_has_another_name_whenever_its_contents_would_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {DiskRecipe().key, DiskRecipe(selinux=True).key}
    for name, value in (
        ("INIT", "#!/bin/busybox sh\n"),
        ("PACKAGES", ("udev",)),
        ("FILES", {}),
        ("BOOT_MODULES", ()),
        ("DISABLED_UNITS", ()),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(machine_recipe, name, value)
            keys.add(DiskRecipe().key)
    assert len(keys) == 7
    assert DiskRecipe().key == DiskRecipe().key


def test_what_is_only_told_at_boot_is_no_part_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    before = DiskRecipe().key
    monkeypatch.setattr(machine_recipe, "KERNEL_LINE", "quiet")
    assert DiskRecipe().key == before


def test_selinux_is_permissive_and_a_choice_of_its_own() -> None:
    assert "enforcing=0" in machine_recipe.kernel_line("selinux")
    assert "selinux" not in machine_recipe.kernel_line("")
    assert "selinux-policy-default" in DiskRecipe(selinux=True).packages
    assert "selinux-policy-default" not in DiskRecipe().packages


def test_the_kernel_reads_the_archive_that_it_starts_from(tmp_path: Path) -> None:
    modules = {path.rpartition("/")[2]: path.encode() for path in machine_recipe.BOOT_MODULES}
    packed = machine_recipe.initramfs(b"\x7fELF odd", modules)
    assert packed == machine_recipe.initramfs(b"\x7fELF odd", modules), "reproducible"
    argv = ["busybox", "cpio", "-i", "-d"]
    subprocess.run(argv, input=gzip.decompress(packed), cwd=tmp_path, check=True, timeout=60, capture_output=True)
    assert (tmp_path / "bin/busybox").read_bytes() == b"\x7fELF odd"
    assert os.access(tmp_path / "init", os.X_OK)
    assert (tmp_path / "init").read_text() == machine_recipe.INIT
    assert {path.stem: path.read_bytes() for path in (tmp_path / "modules").iterdir()} == modules
    assert (tmp_path / "root").is_dir()


def test_the_first_program_of_a_machine_is_a_shell_script_that_can_be_read(tmp_path: Path) -> None:
    script = tmp_path / "init"
    script.write_text(machine_recipe.INIT)
    subprocess.run(["sh", "-n", str(script)], check=True, timeout=60)
    for path in machine_recipe.BOOT_MODULES:
        assert path.rpartition("/")[2] in machine_recipe.INIT


@pytest.fixture
def process(paper_bed: Beds, tmp_path: Path) -> tuple[Bed, subprocess.Popen[bytes]]:
    """A bed of which one machine runs: a process that bears the emulator's words."""
    bed = paper_bed(vm=True)
    own = machines.folder(bed.name, "n1")
    own.mkdir(parents=True)
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()", "-pidfile", str(own / "pid")]
    running = subprocess.Popen(argv, stdin=subprocess.PIPE)
    # The kernel closes the pipe by which Popen knows of the exec before it has the new command line.
    ends = time.monotonic() + 60
    while not Path(f"/proc/{running.pid}/cmdline").read_bytes():
        assert time.monotonic() < ends, "the process has no command line"
        time.sleep(0.01)
    return bed, running


def test_the_process_of_a_machine_is_found_and_killed_by_its_command_line_alone(
    process: tuple[Bed, subprocess.Popen[bytes]],
) -> None:
    bed, running = process
    with running:
        assert machines.pid_of(bed.name, "n1") == running.pid
        assert machines.pid_of(bed.name, "n2") is None
        assert machines.pid_of(f"{bed.name}2", "n1") is None
        assert machines.states(bed) == {"bed-n1": "running", "bed-n2": "off"}
        with pytest.raises(BedError, match="its emulator runs already"):
            machines.power_on(bed, bed.host("n1"))
        assert running.stdin is not None
        # A number in the pid file is not believed: it may be another process by now.
        (machines.folder(bed.name, "n1") / "pid").write_text(str(os.getpid()))
        machines.power_cut(bed.name, "n1")
    assert running.returncode == -9
    machines.power_cut(bed.name, "n1")
    assert machines.states(bed)["bed-n1"] == "off"


def test_all_machines_of_a_bed_go_with_their_links_and_disks_and_no_other_beds_do(
    process: tuple[Bed, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, running = process
    other = machines.folder("bed2", "n1")
    other.mkdir(parents=True)
    links = [
        {"ifname": "vm1", "ifalias": machines.tap_alias(bed.name)},
        {"ifname": "vm2", "ifalias": machines.tap_alias("bed2")},
        {"ifname": "eth0"},
    ]
    asked: list[list[str]] = []

    def answer(argv: list[str], **_named: object) -> Completed:
        asked.append(argv)
        return Completed(0, json.dumps(links) if argv == ["ip", "-json", "link"] else "", "")

    monkeypatch.setattr(machines, "run", answer)
    with running:
        machines.remove_all(bed.name)
    assert running.returncode == -9
    assert asked[-1] == ["ip", "link", "delete", "dev", "vm1"]
    assert len(asked) == 2
    assert not machines.folder(bed.name, "n1").parent.exists()
    assert other.exists()
    machines.remove_all("never-made")


def test_status_names_machines_apart_from_containers(
    process: tuple[Bed, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed, running = process

    class Engine:
        def states(self, prefix: str) -> dict[str, str]:
            return {f"{prefix}{name}": "running" for name in ("ctl", "kube")}

    monkeypatch.setattr(status, "podman_of", lambda _bed: Engine())
    with running:
        found = status.parts(dataclasses.replace(bed, wlm="none", kube=False))
        machines.power_cut(bed.name, "n1")
    assert [(part.kind, part.name, part.state) for part in found] == [
        ("container", "bed-ctl", "running"),
        ("container", "bed-kube", "running"),
        ("machine", "bed-n1", "running"),
        ("machine", "bed-n2", "off"),
    ]
    assert status.faults(found) == ["machine bed-n2 is off"]


def test_a_machine_gets_its_files_and_the_key_of_its_bed_on_a_disk_that_only_root_reads(
    paper_bed: Beds, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = paper_bed(vm=True, nodes=1)
    (bed.dir / "ssh").mkdir(parents=True)
    (bed.dir / "ssh" / "id_ed25519.pub").write_text("ssh-ed25519 KEY\n")
    made: list[list[str]] = []
    monkeypatch.setattr(machines, "run", lambda argv, **_named: made.append(argv))
    image = CachedImage("key", bed.dir / "image")
    (bed.dir / "image").mkdir()
    (bed.dir / "image" / "manifest.json").write_text('{"accounts": {"root": [0, 0]}}')
    machines.make(bed, bed.host("n1"), DISKS, [NodeFile("/etc/own", "text")], image)
    own = machines.folder(bed.name, "n1")
    assert (own / "seed.tar").stat().st_mode & 0o777 == 0o600
    listed = subprocess.run(["tar", "-tvf", str(own / "seed.tar")], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^-rw------- root/root|^-rw------- 0/0", listed, re.MULTILINE)
    assert {"etc/own", "etc/hostname", "root/.ssh/authorized_keys"} <= set(listed.split())
    assert made == [
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(DISKS.root), "-F", "raw", str(own / "overlay.qcow2")]
    ]
    assert machines.disks_of(bed, bed.host("n1")) == DISKS


def test_commands_on_a_machine_go_over_ssh_as_root_in_one_word(paper_bed: Beds) -> None:
    bed = paper_bed(vm=True)
    argv = reach.remote(bed, bed.host("n1"), ["sh", "-c", "echo 'a b' > /x"])
    assert argv[0] == "ssh"
    assert argv[-2] == "root@10.89.7.11"
    assert argv[-1] == """sh -c 'echo '"'"'a b'"'"' > /x'"""
