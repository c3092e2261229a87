# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes all of a bed, however far `up` came and whether or not its record can be read.

What there is of a bed is found on the machine: containers by their names in a storage that only beds have, the network
by its label, mounts by the bed's folder. The folder goes last, so that a `down` that was killed can be repeated.
"""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

from testbed import machines, network, sysctls
from testbed.cgroups import Way
from testbed.parallel import in_parallel
from testbed.paths import bed_dir
from testbed.podman import Podman
from testbed.progress import step
from testbed.run import run
from testbed.state import Bed, BedStore, bed_names

# A killed `up` leaves commands that are still making things; they end within a few seconds.
LOCK_SECONDS = 300.0


def podman_of(bed: Bed) -> Podman:
    """Podman as this bed's containers need it."""
    namespace = namespace_path(bed.name) if bed.way.has_limits is False else None
    return Podman(bed.way, namespace if namespace is not None and namespace.exists() else None)


def namespace_path(name: str) -> Path:
    """Where the private mount namespace of a bed is held."""
    return bed_dir(name) / "namespace" / "mnt"


def take_down(name: str) -> bool:
    """Remove a bed; false where there was none."""
    store = BedStore(name)
    if not bed_dir(name).exists():
        return False
    with store.lock(timeout=LOCK_SECONDS):
        remove(store)
    return True


def remove(store: BedStore) -> None:
    """Remove everything of a bed. The caller holds the lock."""
    name, folder = store.name, bed_dir(store.name)
    if not folder.exists():
        return
    room(name).unlink(missing_ok=True)
    with step(f"take bed '{name}' down"):
        # Before the containers: the last of these takes the bridge away, unless a link of ours is on it.
        machines.remove_all(name)
        for podman in engines(name):
            podman.configure()
            in_parallel([partial(podman.rm, container) for container in containers(podman, name)])
            for found in podman.networks(name):
                # Before it goes: from then on another bed may take its subnet.
                network.clear(podman.bridge(found), podman.subnet(found))
                podman.network_rm(found)
        sysctls.release(name)
        for path in reversed(mounted_below(folder)):
            run(["umount", "--lazy", path], timeout=30)
    if bed_names() in ([], [name]):
        release_storage()
    remove_folder(folder, last=store.path)


def engines(name: str) -> list[Podman]:
    """Return podman in every way in which a bed of that name may have containers."""
    namespace = namespace_path(name)
    private = [Podman(Way.PRIVATE_V2, namespace)] if is_mounted(namespace) else []
    return [podman for podman in (*(Podman(way) for way in Way if way.has_limits), *private) if podman.has_storage()]


def containers(podman: Podman, name: str) -> list[str]:
    """Return the containers of a bed, half-made ones too, and none of a bed whose name begins alike."""
    host = re.compile(rf"{re.escape(name)}-(kube|ctl\d*|n\d+)")
    return [container for container in podman.all_names(f"{name}-") if host.fullmatch(container)]


def room(name: str) -> Path:
    """A file that holds some space of the disk, for removing a bed takes some: the engine writes its lists anew."""
    return bed_dir(name) / "room"


def release_storage() -> None:
    """Undo the mount that podman puts over its own storage and leaves; with it the cache could not be removed."""
    for way in Way:
        mounted = Podman(way).storage_dir / "overlay"
        if is_mounted(mounted):
            # Busy is fine: somebody is using the storage right now.
            run(["umount", str(mounted)], timeout=30, check=False)


def is_mounted(path: Path) -> bool:
    """Whether something is mounted there; os.path.ismount overlooks folders that are mounted on themselves."""
    return str(path) in mounts()


def mounted_below(folder: Path) -> list[str]:
    """What is mounted in a folder, in the order in which it was mounted."""
    return [path for path in mounts() if path.startswith(f"{folder}/")]


def mounts() -> list[str]:
    """Where something is mounted. The field is escaped, but our own paths have nothing to escape."""
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def remove_folder(folder: Path, *, last: Path) -> None:
    """Remove a folder with `last` as its last file, so that a crash between leaves a bed that is still on record."""
    if not folder.exists():
        return
    for path in folder.iterdir():
        if path == last:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    last.unlink(missing_ok=True)
    folder.rmdir()
