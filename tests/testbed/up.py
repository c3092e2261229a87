# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a bed up, or says that it is. Everything made is written down first (see `state`)."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from testbed import binaries, cgroups, controlplane, down, images, keys, layout, network, nodes, pbs, status, sysctls
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.images import CachedImage
from testbed.layout import Request
from testbed.logs import collect_logs
from testbed.parallel import in_parallel
from testbed.paths import cache_dir
from testbed.podman import Podman
from testbed.progress import say, step
from testbed.recipe import ACCOUNTING, OPENPBS, Recipe
from testbed.run import run
from testbed.state import Bed, BedStore, Record, Thing, file_lock

BED_BYTES = 1024**3
ROOM_BYTES = 4 * 1024**2
# Program → the package that has it. The engine's helpers are found by the engine itself.
PROGRAMS = {
    "podman": "podman",
    "netavark": "netavark",
    "debootstrap": "debootstrap",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "setpriv": "util-linux",
    "dpkg-deb": "dpkg",
}
RUNTIMES = {Way.V1: "runc", Way.V2: "crun", Way.PRIVATE_V2: "crun"}
HELPER_FOLDERS = "/usr/lib/podman:/usr/libexec/podman:/usr/local/lib/podman:/usr/local/libexec/podman"


@dataclasses.dataclass(frozen=True, slots=True)
class Supplies:
    """What a bed is made of, from the caches."""

    base: CachedImage
    controller_image: CachedImage
    node_image: CachedImage
    binaries: Path | None


def bring_up(request: Request, *, uid: int, wait: float, programs: Path | None = None) -> Bed:
    """A whole bed as requested; on a failure its logs are kept and everything else is removed.

    `programs` is a folder with Kubernetes programs to be used instead of building them.
    """
    layout.check(request)
    way = cgroups.choose(version=cgroups.host_version(), debian=request.debian)
    check_programs(way)
    store = BedStore(request.name)
    with store.lock():
        there = existing(store, request)
        if there is not None:
            return there
        images.check_space(cache_dir(), need=BED_BYTES)
        podman = Podman(way)
        podman.configure()
        supplies = fetch_supplies(request, podman, programs)
        bed = reserve(store, request, podman, uid=uid)
        try:
            make(store, bed, supplies, wait=wait)
        except BaseException as error:
            say(f"  !!  bed '{bed.name}' did not come up: {error or type(error).__name__}")
            if isinstance(error, Exception):
                keep_logs(bed)
            down.remove(store)
            raise
        whole = dataclasses.replace(bed, complete=True)
        store.save(dataclasses.replace(store.existing(), bed=whole))
    return whole


def keep_logs(bed: Bed) -> None:
    """Keep what the components say; where even that fails (a full disk), removing the bed is more important."""
    try:
        say(f"  !!  logs of all its components: {collect_logs(bed)}")
    except (OSError, BedError) as error:
        say(f"  !!  logs could not be kept: {error}")


def check_programs(way: Way) -> None:
    """Say which package is missing before anything is made."""
    runtime = RUNTIMES[way]
    for program, package in {**PROGRAMS, runtime: runtime}.items():
        if shutil.which(program) is None and shutil.which(program, path=HELPER_FOLDERS) is None:
            raise BedError(f"{program}: not found on this machine; type: apt-get install {package}")


def existing(store: BedStore, request: Request) -> Bed | None:
    """The bed if it is there, whole and as requested. Leftovers of a bed that is dead are removed."""
    record = store.load()
    if record is None:
        down.remove(store)
        return None
    bed = record.bed
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


def fetch_supplies(request: Request, podman: Podman, given: Path | None) -> Supplies:
    """Binaries and images; built where the caches have none."""
    programs = binaries.build_binaries(given=given) if request.kube else None
    base = images.ensure(Recipe(request.debian), podman)
    controller_image = node_image = base
    if request.slurmdbd:
        controller_image = images.ensure(Recipe(request.debian, ACCOUNTING), podman)
    if request.pbs_exec:
        controller_image = node_image = images.ensure(Recipe(request.debian, OPENPBS), podman)
    return Supplies(base=base, controller_image=controller_image, node_image=node_image, binaries=programs)


def reserve(store: BedStore, request: Request, podman: Podman, *, uid: int) -> Bed:
    """Choose a free network and write the bed down, so that nobody else chooses the same."""
    with file_lock("subnets", timeout=300, what="the list of networks"):
        if podman.call("network", "exists", request.name, check=False).rc == 0:
            raise BedError(f"podman network '{request.name}' exists and is not ours; choose another --name")
        subnet = layout.choose_subnet(request.subnet, network.taken(podman))
        bed = layout.layout(request, subnet=subnet, way=podman.way, uid=uid)
        try:
            store.save(Record(bed=bed))
        except OSError:
            down.remove_folder(bed.dir, last=store.path)
            raise
    return bed


def make(store: BedStore, bed: Bed, supplies: Supplies, *, wait: float) -> None:
    """Everything between the record and a bed of use."""
    with step("keys, folders, network"):
        with down.room(bed.name).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
        store.record("sysctls", bed.name)
        sysctls.hold(bed.name)
        if not bed.way.has_limits:
            make_namespace(store, bed)
        keys.make(bed)
        nodes.make_folders(bed, supplies.controller_image)
        store.record("network", bed.network)
        podman = down.podman_of(bed)
        podman.network_create(bed.network, subnet=bed.subnet, gateway=bed.gateway)
    if supplies.binaries is not None:
        with step("certificates of the control plane"):
            controlplane.prepare_control_plane(bed, binaries=supplies.binaries)
    with step(f"boot {len(bed.hosts)} containers"):
        store.save(with_containers(store.existing(), bed))
        in_parallel([boot_one(podman, bed, supplies, index) for index in range(len(bed.hosts))])
    with step("wait for systemd and sshd"):
        in_parallel([partial(nodes.await_booted, podman, host) for host in bed.hosts])
    if supplies.binaries is not None:
        controlplane.finish_control_plane(bed, binaries=supplies.binaries)
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
    sysctls.note_changes()


def with_containers(record: Record, bed: Bed) -> Record:
    """All containers on record at once: they are made several at a time."""
    for host in bed.hosts:
        record = record.with_thing(Thing("container", host.container))
    return record


def boot_one(podman: Podman, bed: Bed, supplies: Supplies, index: int) -> Callable[[], None]:
    """What boots one host of the bed."""
    host = bed.hosts[index]
    image = {"controller": supplies.controller_image, "node": supplies.node_image}.get(host.role, supplies.base)
    container = nodes.spec(bed, host, image=image, base=supplies.base, binaries=supplies.binaries)
    return partial(nodes.boot, podman, container, nodes.files(bed, host), image)


def make_namespace(store: BedStore, bed: Bed) -> None:
    """A mount namespace where /sys/fs/cgroup is cgroup v2; the machine's own stays as it is."""
    path = down.namespace_path(bed.name)
    path.parent.mkdir()
    store.record("mount", str(path.parent))
    run(["mount", "--bind", str(path.parent), str(path.parent)], timeout=30)
    run(["mount", "--make-private", str(path.parent)], timeout=30)
    path.touch()
    store.record("mount", str(path))
    root = str(cgroups.CGROUP_ROOT)
    run(["unshare", f"--mount={path}", "--propagation", "private", "umount", "--lazy", root], timeout=30)
    run(["nsenter", f"--mount={path}", "mount", "-t", "cgroup2", "cgroup2", root], timeout=30)
