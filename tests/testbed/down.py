# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes what `up` wrote down that it would make, containers first, however far it came.

Where the record cannot be read, containers and networks are known by their label, mounts by the bed's folder.
"""

from __future__ import annotations

import dataclasses
import errno
import shutil
from functools import partial
from pathlib import Path

from testbed import sysctls
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.parallel import in_parallel
from testbed.paths import bed_dir
from testbed.podman import Podman
from testbed.progress import say, step
from testbed.run import run
from testbed.state import Bed, BedStore, Record, Thing, bed_names

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
    """Remove everything on record. The caller holds the lock."""
    room(store.name).unlink(missing_ok=True)
    try:
        record = store.load()
    except BedError as error:
        say(f"  !!  {error}")
        record = None
        with step(f"take bed '{store.name}' down by its labels"):
            remove_labelled(store.name)
    if record is not None:
        podman_of(record.bed).configure()
        with step(f"take bed '{store.name}' down"):
            containers = [thing for thing in record.things if thing.kind == "container"]
            others = [thing for thing in record.things if thing.kind != "container"]
            in_parallel([partial(remove_thing, record.bed, thing) for thing in containers])
            keep(store, dataclasses.replace(record, things=tuple(others)))
            while others:
                remove_thing(record.bed, others.pop())
                keep(store, dataclasses.replace(record, things=tuple(others)))
    if bed_names() in ([], [store.name]):
        release_storage()
    remove_folder(bed_dir(store.name), last=store.path)


def room(name: str) -> Path:
    """A file that holds some space of the disk, for removing a bed takes some: the engine writes its lists anew."""
    return bed_dir(name) / "room"


def keep(store: BedStore, record: Record) -> None:
    """Write down what is left. On a full disk the record goes on naming what is gone, which does no harm."""
    try:
        store.save(record)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def remove_labelled(name: str) -> None:
    """Everything of a bed that can be told without its record."""
    namespace = namespace_path(name)
    ways = [Podman(way) for way in Way if way.has_limits]
    for podman in [*ways, *([Podman(Way.PRIVATE_V2, namespace)] if namespace.exists() else [])]:
        if podman.storage_dir.exists():
            podman.configure()
            in_parallel([partial(podman.rm, container) for container in podman.labelled(name)])
            in_parallel([partial(podman.network_rm, network) for network in podman.networks(name)])
    sysctls.release(name)
    for path in reversed(mounted_below(bed_dir(name))):
        run(["umount", "--lazy", path], timeout=30)


def remove_thing(bed: Bed, thing: Thing) -> None:
    """Remove one thing; that it was never made is fine."""
    if thing.kind == "container":
        podman_of(bed).rm(thing.name)
    elif thing.kind == "network":
        podman_of(bed).network_rm(thing.name)
    elif thing.kind == "sysctls":
        sysctls.release(bed.name)
    elif thing.kind == "mount":
        if is_mounted(Path(thing.name)):
            run(["umount", "--lazy", thing.name], timeout=30)
    else:
        raise BedError(f"state of bed '{bed.name}': unknown kind of thing '{thing.kind}' ({thing.name})")


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
