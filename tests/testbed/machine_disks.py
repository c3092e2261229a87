# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache of disks for virtual machines: built once, under a lock, whole or not at all, and checked before use."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed import images, machine_recipe, rootfs
from testbed.errors import BedError
from testbed.images import CachedImage
from testbed.machine_recipe import DiskRecipe
from testbed.progress import step
from testbed.run import run

DISK, KERNEL, INITRAMFS = "disk.img", "kernel", "initramfs"
SUPPLIES = "supplies.img"
# The programs that run on nodes; those of the control plane stay on its own host.
NODE_PROGRAMS = ("kubelet", "kubeadm", "kubectl")
BUILD_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class MachineDisks:
    """What machines boot from: a folder with disk, kernel and initramfs, and the disk that has their supplies."""

    folder: Path
    supplies: Path

    @property
    def root(self) -> Path:
        return self.folder / DISK

    @property
    def kernel(self) -> Path:
        return self.folder / KERNEL

    @property
    def initramfs(self) -> Path:
        return self.folder / INITRAMFS


def ensure(wanted: DiskRecipe, *, binaries: Path | None) -> MachineDisks:
    """Return the disks of a recipe; build them where they are not in the cache, or are damaged."""
    base = images.ensure_cached(wanted.base)
    folder = cached(wanted.key, lambda work: build_disk(wanted, base, work))
    programs = binaries.name if binaries is not None else "none"
    digest = hashlib.sha256(f"{base.key} {programs} {NODE_PROGRAMS}".encode()).hexdigest()
    supplies = cached(f"machine-supplies-{digest[:12]}", lambda work: build_supplies(base, binaries, work))
    return MachineDisks(folder, supplies / SUPPLIES)


def cached(key: str, build: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; `build` fills the folder `result` of the folder that it is given."""

    def make(work: Path) -> None:
        with step(f"disk {key}"):
            build(work)
        images.write_manifest(work / "result")

    return images.in_cache(key, "disk", make, large=(DISK, SUPPLIES))


def build_disk(wanted: DiskRecipe, base: CachedImage, work: Path) -> None:
    """Make disk, kernel and initramfs from a node image and Debian's packages."""
    root, result = work / "root", work / "result"
    rootfs.unpack(base.folder / images.ROOTFS, root)
    with rootfs.online(root):
        rootfs.install(root, wanted.packages)
        rootfs.download(root, (machine_recipe.KERNEL, machine_recipe.BUSYBOX), work / "packages")
    rootfs.know_local_packages(root, base.debs)
    version = take_kernel(work, root, result)
    run(["systemctl", f"--root={root}", "unmask", *machine_recipe.UNMASKED_UNITS], timeout=60)
    run(["systemctl", f"--root={root}", "enable", *machine_recipe.ENABLED_UNITS], timeout=60)
    rootfs.disable_units(root, machine_recipe.DISABLED_UNITS)
    for path, text in machine_recipe.FILES.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "opt/testbed").mkdir(parents=True, exist_ok=True)
    run(["dpkg-deb", "--extract", str(one(work, f"{machine_recipe.BUSYBOX}_*.deb")), str(work / "busybox")], timeout=60)
    folder = root / f"lib/modules/{version}/kernel/drivers"
    modules = {path.rpartition("/")[2]: (folder / f"{path}.ko").read_bytes() for path in machine_recipe.BOOT_MODULES}
    busybox = (work / "busybox/bin/busybox").read_bytes()
    (result / INITRAMFS).write_bytes(machine_recipe.initramfs(busybox, modules))
    if wanted.selinux:
        label(root)
    make_disk(root, result / DISK, size=machine_recipe.DISK_BYTES)


def label(root: Path) -> None:
    """Give all files the contexts of Debian's policy; the program names files by those of /proc."""
    script = 'mount -t proc proc "$1/proc" && exec chroot "$1" setfiles -F -e /proc "$2" /'
    argv = ["sh", "-c", script, "label", str(root), machine_recipe.SELINUX_CONTEXTS]
    run(rootfs.confined(argv), timeout=BUILD_SECONDS)


def take_kernel(work: Path, root: Path, result: Path) -> str:
    """Put the kernel into `result` and its modules into `root`; return its version.

    The package itself is not installed: it would bring tools that make an initramfs, and ours boots in a tenth of the
    time.
    """
    unpacked = work / "kernel"
    run(["dpkg-deb", "--extract", str(one(work, "linux-image-[0-9]*.deb")), str(unpacked)], timeout=120)
    version = next((unpacked / "lib/modules").iterdir()).name
    shutil.copyfile(unpacked / f"boot/vmlinuz-{version}", result / KERNEL)
    shutil.copytree(unpacked / "lib/modules" / version, root / "usr/lib/modules" / version, symlinks=True)
    # By which kubeadm judges the kernel.
    shutil.copyfile(unpacked / f"boot/config-{version}", root / f"boot/config-{version}")
    rootfs.in_root(root, ["depmod", version])
    return version


def one(work: Path, pattern: str) -> Path:
    """Return the downloaded package of that name."""
    found = sorted((work / "packages").glob(pattern))
    if not found:
        raise BedError(f"{work / 'packages'}: no {pattern} among the packages that apt has fetched")
    return found[0]


def build_supplies(base: CachedImage, binaries: Path | None, work: Path) -> None:
    """Make the disk that is mounted on /opt/testbed: packages and container images for roles, programs of nodes."""
    folder = work / "supplies"
    folder.mkdir()
    shutil.copytree(base.debs, folder / "debs")
    shutil.copytree(base.images, folder / "images")
    if binaries is not None:
        (folder / "bin").mkdir()
        for name in NODE_PROGRAMS:
            shutil.copy2(binaries / name, folder / "bin" / name)
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    make_disk(folder, work / "result" / SUPPLIES, size=used + used // 4 + 64 * 1024**2)


def make_disk(folder: Path, disk: Path, *, size: int) -> None:
    """Make a disk with a file system of type ext4 that holds a folder."""
    options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", str(folder)]
    run(["mkfs.ext4", *options, str(disk), f"{size // 1024}k"], timeout=BUILD_SECONDS)
