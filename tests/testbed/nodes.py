# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes and boots the containers of a bed, several at a time, and waits until they are of use."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from testbed import controlplane, keys, machines, pbs, reach, slurm, sysctls, torque
from testbed.archive import NodeFile, pack
from testbed.errors import BedError
from testbed.images import CachedImage
from testbed.machine_disks import MachineDisks
from testbed.podman import ContainerSpec, Podman, Volume
from testbed.recipe import ADMINISTRATOR
from testbed.state import Bed, Host

BOOT_SECONDS = 300.0
MACHINE_SECONDS = 900.0
POLL_SECONDS = 0.2
# What container runtimes and kubelets write: overlayfs cannot lie on the container's own overlayfs.
REAL_FOLDERS = ("containerd", "kubelet")
# Run at each boot before a kubelet starts: these settings have no namespace, so a kubelet would change them for the
# whole machine.
SETTINGS = "/usr/local/lib/testbed-settings"
SETTINGS_SCRIPT = """\
#!/bin/sh
set -eu
mkdir -p /run/settings
while read -r key value; do
    file=/run/settings/$(echo "$key" | tr / -)
    echo "$value" > "$file"
    mount --bind "$file" "/proc/sys/$key"
done <<END
{lines}END
"""
SETTINGS_UNIT = f"""\
[Unit]
Description=A file over each setting of the kernel that a kubelet changes and that has no namespace
DefaultDependencies=no
After=local-fs.target
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={SETTINGS}
"""


def make_folders(bed: Bed, image: CachedImage) -> None:
    """The folders of the machine that containers mount."""
    for host in bed.nodes:
        for name in REAL_FOLDERS:
            (bed.dir / "volumes" / host.name / name).mkdir(parents=True, mode=0o755)
    if bed.wlm == "slurm" and len(bed.controllers) > 1:
        state = bed.dir / "state-save"
        state.mkdir(mode=0o755)
        os.chown(state, *image.account("slurm"))
    if bed.wlm == "pbs":
        pbs.make_folders(bed)
    if bed.wlm == "torque":
        torque.make_folders(bed)
    if bed.wlm == "slurm" and bed.slurm_conf == "shared":
        shared = bed.dir / "shared-slurm"
        shared.mkdir()
        for name, text in {**slurm.slurm_conf(bed), **slurm.scripts()}.items():
            (shared / name).write_text(text)
            (shared / name).chmod(0o755 if name.endswith(".sh") else 0o644)


def spec(bed: Bed, host: Host, *, image: CachedImage, base: CachedImage, binaries: Path | None) -> ContainerSpec:
    """One container: the image it boots, its address and its folders."""
    volumes = [Volume(base.debs, "/opt/testbed/debs", read_only=True)]
    volumes.append(Volume(base.images, "/opt/testbed/images", read_only=True))
    if binaries is not None:
        volumes.append(Volume(binaries, "/opt/testbed/bin", read_only=True))
    if host.role == "node":
        volumes += [Volume(bed.dir / "volumes" / host.name / name, f"/var/lib/{name}") for name in REAL_FOLDERS]
    volumes += [*pbs.volumes(bed, host), *torque.volumes(bed, host)]
    if bed.wlm == "slurm" and host.role == "controller" and len(bed.controllers) > 1:
        volumes.append(Volume(bed.dir / "state-save", slurm.STATE_DIR))
    if host.role == "kube":
        volumes += controlplane.control_plane_volumes(bed)
    elif bed.wlm == "slurm" and bed.slurm_conf == "shared":
        volumes.append(Volume(bed.dir / "shared-slurm", slurm.CONF_DIR))
    return ContainerSpec(
        name=host.container,
        hostname=host.name,
        image=image.tag,
        network=bed.network,
        ip=host.ip,
        known_hosts=bed.known_hosts,
        volumes=tuple(volumes),
    )


def files(bed: Bed, host: Host) -> list[NodeFile]:
    """Everything that is put into a container before it boots."""
    key = keys.host_key(bed, host)
    home = f"/home/{ADMINISTRATOR}/.ssh"
    made = [
        NodeFile("/etc/ssh/ssh_host_ed25519_key", key.read_bytes(), mode=0o600),
        NodeFile("/etc/ssh/ssh_host_ed25519_key.pub", key.with_suffix(".pub").read_bytes()),
        NodeFile(home, mode=0o700, owner=ADMINISTRATOR),
        NodeFile(
            f"{home}/authorized_keys",
            keys.identity(bed).with_suffix(".pub").read_bytes(),
            mode=0o600,
            owner=ADMINISTRATOR,
        ),
    ]
    if host.role == "kube":
        made += controlplane.control_plane_files(bed)
    if host.role == "node" and not host.machine:
        made += own_settings()
    made += [*pbs.files(bed, host), *torque.files(bed, host)]
    return made + slurm.files(bed, host, munge_key=keys.munge_key(bed).read_bytes())


def own_settings() -> list[NodeFile]:
    """Return the unit that puts a file over each setting of the kernel that a kubelet changes."""
    lines = "".join(f"{key} {value}\n" for key, value in sysctls.OF_NODES.items())
    unit = "/etc/systemd/system/testbed-settings.service"
    return [
        NodeFile(SETTINGS, SETTINGS_SCRIPT.format(lines=lines), mode=0o755),
        NodeFile(unit, SETTINGS_UNIT),
        NodeFile("/etc/systemd/system/sysinit.target.wants/testbed-settings.service", target=unit),
    ]


def power_on(bed: Bed, host: Host, disks: MachineDisks, image: CachedImage, *, bridge: str) -> None:
    """Make a machine, fill it and start it."""
    machines.make(bed, host, disks, files(bed, host), image)
    machines.link(bed, host, bridge=bridge)
    machines.power_on(bed, host)


def boot(podman: Podman, container: ContainerSpec, content: Iterable[NodeFile], image: CachedImage) -> None:
    """Create, fill and start one container."""
    podman.create(container)
    podman.copy_in(container.name, pack(content, account=image.account, mtime=time.time()))
    podman.start(container.name)


def await_booted(bed: Bed, host: Host) -> None:
    """Wait until systemd has started everything, and sshd answers."""
    seconds = MACHINE_SECONDS if host.machine else BOOT_SECONDS
    deadline = time.monotonic() + seconds
    if host.machine:
        await_port(bed, host, 22, deadline=deadline)
    while True:
        done = reach.execute(bed, host, ["systemctl", "is-system-running", "--wait"], timeout=seconds, check=False)
        state = done.out.strip()
        if state == "running":
            break
        if state == "degraded":
            failed = reach.execute(bed, host, ["systemctl", "--failed", "--plain", "--no-legend"], timeout=30)
            units = " ".join(line.split()[0] for line in failed.out.splitlines())
            raise BedError(f"{host.container}: booted, but failed: {units}")
        if time.monotonic() > deadline:
            raise BedError(f"{host.container}: systemd is '{state or done.err.strip()}' after {seconds:g} s")
        time.sleep(POLL_SECONDS)
    await_port(bed, host, 22, deadline=deadline)


def await_port(bed: Bed, host: Host, port: int, *, deadline: float) -> None:
    """Wait until something accepts connections."""
    while True:
        try:
            socket.create_connection((host.ip, port), timeout=5).close()
        except OSError as error:
            if time.monotonic() > deadline:
                said = f"; its console ends: {machines.last_words(bed, host)}" if host.machine else ""
                raise BedError(f"{host.container}: no answer on {host.ip} port {port} ({error}){said}") from None
            time.sleep(POLL_SECONDS)
        else:
            return


def slurm_states(podman: Podman, bed: Bed) -> dict[str, str]:
    """Node → state as slurmctld says; raises where it does not answer."""
    controller = bed.host("ctl").container
    done = podman.exec(controller, ["sinfo", "--noheader", "--Node", "--format=%N %T"], timeout=30)
    return dict(line.split() for line in done.out.splitlines())


def await_slurm(podman: Podman, bed: Bed, *, timeout: float) -> None:
    """Wait until slurmctld calls every node idle."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            states = slurm_states(podman, bed)
            waiting = [f"{node} {state}" for node, state in states.items() if state != "idle"]
        except BedError as error:
            waiting = [str(error)]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise BedError(f"Slurm is not ready after {timeout:g} s: {', '.join(waiting)}")
        time.sleep(POLL_SECONDS)


def start_accounting(podman: Podman, bed: Bed) -> None:
    """Make the database, start slurmdbd, add an account for everybody, and only then start slurmctld."""
    host = bed.host("ctl")
    statements = (
        "create database slurm_acct_db; create user slurm@localhost identified via unix_socket; "
        "grant all on slurm_acct_db.* to slurm@localhost;"
    )
    podman.exec(host.container, ["mysql"], timeout=60, input=statements)
    podman.exec(host.container, ["systemctl", "enable", "--now", "slurmdbd"], timeout=60)
    await_port(bed, host, 6819, deadline=time.monotonic() + 60)
    cluster = slurm.cluster_name(bed)
    wanted = (("cluster", cluster), ("account", "research"), ("user", "ops,alice,bob", "account=research"))
    for words in wanted:
        podman.exec(host.container, ["sacctmgr", "--immediate", "add", *words], timeout=60)
    podman.exec(host.container, ["systemctl", "enable", "--now", "slurmctld"], timeout=60)
