# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are virtual machines: QEMU by software emulation, so that any host will do, and a kernel of their own.

A machine is an overlay on a disk of the cache, a seed with the files by which it differs from others, and a tap on the
bridge of its bed's network. Its emulator is a process that can be killed, which is a power cut, and started again.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from testbed.archive import NodeFile, pack
from testbed.errors import BedError
from testbed.images import CachedImage
from testbed.machine_disks import MachineDisks
from testbed.machine_recipe import kernel_line
from testbed.paths import bed_dir, cache_dir
from testbed.run import run
from testbed.state import Bed, Host

EMULATOR = "qemu-system-x86_64"
PROGRAMS = {EMULATOR: "qemu-system-x86", "qemu-img": "qemu-utils", "mkfs.ext4": "e2fsprogs"}
CPUS, NUMA_NODES, MEMORY_MB = 4, 2, 3072
PROC = Path("/proc")
# Longer than a machine takes that has stood still.
END_SECONDS = 180.0


def folder(bed: str, host: str) -> Path:
    """What one machine has on the disk: overlay, seed, console and the number of its process."""
    return bed_dir(bed) / "machines" / host


def console(bed: Bed, host: Host) -> Path:
    """What the kernel of a machine has said since its first boot."""
    return folder(bed.name, host.name) / "console.txt"


def tap(bed: str, host: str) -> str:
    """The name of a machine's network link on this host; beds of two caches may have the same names."""
    return f"vm{zlib.crc32(f'{cache_dir()} {bed} {host}'.encode()):08x}"


def tap_alias(bed: str) -> str:
    """The mark by which the links of a bed are found again."""
    return f"converged.bed {cache_dir()} {bed}"


def address(host: Host) -> str:
    """A hardware address of its own for each address on the network."""
    return "52:54:" + ":".join(f"{int(part):02x}" for part in host.ip.split("."))


def emulator(bed: Bed, host: Host, disks: MachineDisks) -> list[str]:
    """The command line of a machine's emulator. Pure.

    Never hardware acceleration: guests hang on hosts that are guests themselves, and where they do not, tests would
    show other things than here.
    """
    own = folder(bed.name, host.name)
    per_node, memory = CPUS // NUMA_NODES, MEMORY_MB // NUMA_NODES
    numa: list[str] = []
    for node in range(NUMA_NODES):
        numa += ["-object", f"memory-backend-ram,id=memory{node},size={memory}M"]
        first = node * per_node
        numa += ["-numa", f"node,nodeid={node},cpus={first}-{first + per_node - 1},memdev=memory{node}"]
    drives: list[str] = []
    for path, options in (
        (own / "overlay.qcow2", "format=qcow2,cache=writeback"),
        (disks.supplies, "format=raw,readonly=on"),
        (own / "seed.tar", "format=raw,readonly=on"),
    ):
        drives += ["-drive", f"file={str(path).replace(',', ',,')},if=virtio,{options}"]
    log = f"file,id=console,path={str(console(bed, host)).replace(',', ',,')},append=on"
    return [
        *(EMULATOR, "-name", host.container, "-nodefaults", "-no-user-config", "-display", "none"),
        *("-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-smp", f"{CPUS},sockets={NUMA_NODES},cores={per_node},threads=1", "-m", f"{MEMORY_MB}M", *numa),
        *("-kernel", str(disks.kernel), "-initrd", str(disks.initramfs)),
        *("-append", kernel_line(bed.security)),
        *drives,
        *("-netdev", f"tap,id=net,ifname={tap(bed.name, host.name)},script=no,downscript=no"),
        *("-device", f"virtio-net-pci,netdev=net,mac={address(host)},romfile="),
        *("-device", "virtio-rng-pci"),
        *("-chardev", log, "-serial", "chardev:console"),
        *("-pidfile", str(own / "pid"), "-daemonize"),
    ]


def seed(bed: Bed, host: Host) -> list[NodeFile]:
    """The files of a machine that podman gives to a container: names, addresses, the way in."""
    prefix = bed.subnet.rpartition("/")[2]
    hosts = "".join(f"{ip} {name}\n" for name, ip in bed.known_hosts)
    network = f"[Match]\nName=eth0\n\n[Network]\nAddress={host.ip}/{prefix}\nGateway={bed.gateway}\n"
    network += "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    return [
        NodeFile("/etc/hostname", f"{host.name}\n"),
        NodeFile("/etc/hosts", f"127.0.0.1 localhost\n{hosts}"),
        NodeFile("/etc/systemd/network/10-testbed.network", network),
    ]


def make(bed: Bed, host: Host, disks: MachineDisks, content: Iterable[NodeFile], image: CachedImage) -> None:
    """Make a machine's disks; it is off."""
    own = folder(bed.name, host.name)
    own.mkdir(parents=True)
    # root's way in: commands of the bed's come by ssh, as there is no other.
    key = (bed.dir / "ssh" / "id_ed25519.pub").read_bytes()
    files = [*content, *seed(bed, host), NodeFile("/root/.ssh", mode=0o700)]
    files.append(NodeFile("/root/.ssh/authorized_keys", key, mode=0o600))
    (own / "seed.tar").write_bytes(pack(files, account=image.account, mtime=time.time()))
    (own / "seed.tar").chmod(0o600)
    backing = ("-b", str(disks.root), "-F", "raw")
    run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(own / "overlay.qcow2")], timeout=60)
    (own / "disks.json").write_text(json.dumps([str(disks.folder), str(disks.supplies)]))


def disks_of(bed: Bed, host: Host) -> MachineDisks:
    """The disks that a machine was made with."""
    path = folder(bed.name, host.name) / "disks.json"
    try:
        root, supplies = json.loads(path.read_text())
    except FileNotFoundError:
        raise BedError(f"{path}: not found; {host.container} was never made: take bed '{bed.name}' down") from None
    return MachineDisks(Path(root), Path(supplies))


def link(bed: Bed, host: Host, *, bridge: str) -> None:
    """Make the tap of a machine, on the bridge of its bed's containers."""
    name = tap(bed.name, host.name)
    run(["ip", "tuntap", "add", "dev", name, "mode", "tap"], timeout=30)
    run(["ip", "link", "set", "dev", name, "alias", tap_alias(bed.name)], timeout=30)
    run(["ip", "link", "set", "dev", name, "master", bridge, "up"], timeout=30)


def power_on(bed: Bed, host: Host) -> None:
    """Start the emulator of a machine that is off."""
    if pid_of(bed.name, host.name) is not None:
        raise BedError(f"{host.container}: its emulator runs already")
    argv = emulator(bed, host, disks_of(bed, host))
    # The emulator must not hold our lock for as long as it lives, so it inherits nothing.
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise BedError(f"{host.container}: {EMULATOR}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")


def power_cut(bed: str, host: str) -> None:
    """Kill the emulator of a machine: what the guest had not written through is lost. One that is off stays off."""
    hang_up(bed, host)
    pid = pid_of(bed, host)
    if pid is None:
        return
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        # Its command line is gone long before the last of its files: the next emulator would find them locked.
        if not select.select([process], [], [], END_SECONDS)[0]:
            raise BedError(f"{bed}-{host}: its emulator, process {pid}, has not ended {END_SECONDS:g} s after a kill")
    finally:
        os.close(process)


def hang_up(bed: str, host: str) -> None:
    """End the connection that commands share: the machine behind it does not answer any more."""
    socket = control_socket(bed, host)
    if socket.exists():
        run(["ssh", "-F", "/dev/null", "-S", str(socket), "-O", "exit", host], timeout=30, check=False)
        socket.unlink(missing_ok=True)


def pid_of(bed: str, host: str) -> int | None:
    """The process that emulates a machine, or None. It is known by its command line, which names its pid file."""
    mark = os.fsencode(folder(bed, host) / "pid")
    for process in PROC.glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "cmdline").read_bytes().split(b"\0"):
                return int(process.name)
    return None


def states(bed: Bed) -> dict[str, str]:
    """Name of a machine → running or off."""
    hosts = [host for host in bed.hosts if host.machine]
    return {host.container: "running" if pid_of(bed.name, host.name) else "off" for host in hosts}


def remove_all(bed: str) -> None:
    """End all machines of a bed and remove their links and disks, however far `up` came."""
    places = bed_dir(bed) / "machines"
    for place in sorted(places.iterdir()) if places.exists() else ():
        power_cut(bed, place.name)
    for name in taps(bed):
        run(["ip", "link", "delete", "dev", name], timeout=30)
    if places.exists():
        shutil.rmtree(places)


def taps(bed: str) -> list[str]:
    """The links that a bed's machines have on this host."""
    listed = json.loads(run(["ip", "-json", "link"], timeout=30).out or "[]")
    return [one["ifname"] for one in listed if one.get("ifalias") == tap_alias(bed)]


def control_socket(bed: str, host: str) -> Path:
    """Where commands of one process after the other share a connection: a new one costs the guest a second."""
    return folder(bed, host) / "ssh"


def last_words(bed: Bed, host: Host, *, lines: int = 5) -> str:
    """The end of a machine's console, for a message."""
    try:
        said: Sequence[str] = console(bed, host).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        said = ()
    return " / ".join(line.strip() for line in said[-lines:]) or "(nothing)"
