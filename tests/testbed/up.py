# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a bed up, or says that it is. That there is a bed is written down before anything is made (see `state`)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from testbed import (
    cgroups,
    controlplane,
    down,
    images,
    keys,
    layout,
    network,
    nodes,
    pbs,
    status,
    supplies,
    sysctls,
    torque,
)
from testbed.errors import BedError
from testbed.layout import Request
from testbed.logs import collect_logs
from testbed.parallel import in_parallel
from testbed.paths import cache_dir
from testbed.podman import Podman
from testbed.progress import say, step
from testbed.run import run
from testbed.state import Bed, BedStore, file_lock
from testbed.supplies import Supplies

BED_BYTES = 1024**3
ROOM_BYTES = 4 * 1024**2


def bring_up(request: Request, *, uid: int, wait: float, programs: Path | None = None) -> Bed:
    """A whole bed as requested; on a failure its logs are kept and everything else is removed.

    `programs` is a folder with Kubernetes programs to be used instead of building them.
    """
    layout.check(request)
    way = cgroups.choose(version=cgroups.host_version(), debian=request.debian)
    supplies.check_programs(way, vm=request.vm)
    store = BedStore(request.name)
    with store.lock():
        there = existing(store, request)
        if there is not None:
            return there
        images.check_space(cache_dir(), need=BED_BYTES)
        podman = Podman(way)
        podman.configure()
        made_of = supplies.fetch(request, podman, programs)
        bed = reserve(store, request, podman, uid=uid)
        try:
            make(bed, made_of, wait=wait)
        except BaseException as error:
            say(f"  !!  bed '{bed.name}' did not come up: {error or type(error).__name__}")
            if isinstance(error, Exception):
                keep_logs(bed)
            down.remove(store)
            raise
        whole = dataclasses.replace(bed, complete=True)
        store.save(whole)
    return whole


def keep_logs(bed: Bed) -> None:
    """Keep what the components say; where even that fails (a full disk), removing the bed is more important."""
    try:
        say(f"  !!  logs of all its components: {collect_logs(bed)}")
    except (OSError, BedError) as error:
        say(f"  !!  logs could not be kept: {error}")


def existing(store: BedStore, request: Request) -> Bed | None:
    """The bed if it is there, whole and as requested. Leftovers of a bed that is dead are removed."""
    bed = store.load()
    if bed is None:
        down.remove(store)
        return None
    running = [name for name, state in down.podman_of(bed).states(f"{bed.name}-").items() if state == "running"]
    if not bed.complete or not any(host.container in running for host in bed.hosts):
        say(f"  ..  bed '{bed.name}' was left half made or has died: starting again")
        down.remove(store)
        return None
    different = layout.differences(bed, request)
    if different:
        raise BedError(
            f"bed '{bed.name}' is up with {', '.join(different)}; "
            f"take it down first (testbed down {bed.name}) or choose another --name"
        )
    broken = status.faults(status.parts(bed))
    if broken:
        raise BedError(
            f"bed '{bed.name}' is up but not whole: {'; '.join(broken)}; repair it, or: testbed down {bed.name}"
        )
    say(f"  ok  bed '{bed.name}' is up already; nothing changed")
    return bed


def reserve(store: BedStore, request: Request, podman: Podman, *, uid: int) -> Bed:
    """Choose a free network and write the bed down, so that nobody else chooses the same."""
    with file_lock("subnets", timeout=300, what="the list of networks"):
        if podman.call("network", "exists", request.name, check=False).rc == 0:
            raise BedError(f"podman network '{request.name}' exists and is not ours; choose another --name")
        subnet = layout.choose_subnet(request.subnet, network.taken(podman))
        bed = layout.layout(request, subnet=subnet, way=podman.way, uid=uid)
        try:
            store.save(bed)
            # Before anything else is made: on a disk that fills up a moment later, its removal has this to work with.
            with down.room(bed.name).open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
        except OSError:
            down.remove_folder(bed.dir, last=store.path)
            raise
    return bed


def make(bed: Bed, made_of: Supplies, *, wait: float) -> None:
    """Everything between the record and a bed of use."""
    with step("keys, folders, network"):
        sysctls.hold(bed.name)
        if not bed.way.has_limits:
            make_namespace(bed)
        keys.make(bed)
        nodes.make_folders(bed, made_of.controller_image)
        podman = down.podman_of(bed)
        podman.network_create(bed.network, subnet=bed.subnet, gateway=bed.gateway)
    if made_of.binaries is not None:
        with step("certificates of the control plane"):
            controlplane.prepare_control_plane(bed, binaries=made_of.binaries)
    contained = [index for index, host in enumerate(bed.hosts) if not host.machine]
    with step(f"boot {len(contained)} containers"):
        in_parallel([boot_one(podman, bed, made_of, index) for index in contained])
    if made_of.disks is not None:
        machine_hosts = [host for host in bed.hosts if host.machine]
        with step(f"start {len(machine_hosts)} machines"):
            start = partial(
                nodes.power_on, bed, disks=made_of.disks, image=made_of.base, bridge=podman.bridge(bed.network)
            )
            in_parallel([partial(start, host) for host in machine_hosts])
    with step("wait for systemd and sshd"):
        in_parallel([partial(nodes.await_booted, bed, host) for host in bed.hosts])
    if made_of.binaries is not None:
        controlplane.finish_control_plane(bed, binaries=made_of.binaries)
    if bed.wlm == "slurm":
        if bed.slurmdbd:
            with step("accounting database"):
                nodes.start_accounting(podman, bed)
        with step("wait until Slurm calls every node idle"):
            nodes.await_slurm(podman, bed, timeout=wait)
    if bed.wlm == "pbs":
        with step("wait until PBS calls every node free"):
            pbs.introduce_nodes(podman, bed)
            pbs.await_free(podman, bed, timeout=wait)
    if bed.wlm == "torque":
        with step("wait until Torque calls every node free"):
            torque.await_free(podman, bed, timeout=wait)
    sysctls.note_changes()


def boot_one(podman: Podman, bed: Bed, made_of: Supplies, index: int) -> Callable[[], None]:
    """What boots one host of the bed."""
    host = bed.hosts[index]
    image = {"controller": made_of.controller_image, "node": made_of.node_image}.get(host.role, made_of.base)
    container = nodes.spec(bed, host, image=image, base=made_of.base, binaries=made_of.binaries)
    return partial(nodes.boot, podman, container, nodes.files(bed, host), image)


def make_namespace(bed: Bed) -> None:
    """A mount namespace where /sys/fs/cgroup is cgroup v2; the machine's own stays as it is."""
    path = down.namespace_path(bed.name)
    path.parent.mkdir()
    run(["mount", "--bind", str(path.parent), str(path.parent)], timeout=30)
    run(["mount", "--make-private", str(path.parent)], timeout=30)
    path.touch()
    root = str(cgroups.CGROUP_ROOT)
    run(["unshare", f"--mount={path}", "--propagation", "private", "umount", "--lazy", root], timeout=30)
    run(["nsenter", f"--mount={path}", "mount", "-t", "cgroup2", "cgroup2", root], timeout=30)
