# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node with a kernel of its own has on top of a node image, as data: the digest of this data names its disk.

Such a node is a virtual machine of four processors on two NUMA nodes with cgroup v2 alone, whatever the host has.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from testbed import recipe
from testbed.recipe import Recipe

# Raised when the way a disk is built changes what is on it.
FORMAT = 2
# The only release that was tried; its kernel has its modules uncompressed.
DEBIAN = 12
# Of node images too, which are built for the host's own processor.
ARCHITECTURE = "amd64"
KERNEL = "linux-image-cloud-amd64"
BUSYBOX = "busybox-static"
PACKAGES = ("udev", "apparmor")
SELINUX_PACKAGES = ("selinux-policy-default", "policycoreutils", "selinux-utils")
SELINUX_CONTEXTS = "/etc/selinux/default/contexts/files/file_contexts"
DISK_BYTES = 8 * 1024**3

# A machine has hardware, and its settings are its own. What else a node image leaves out stays out.
UNMASKED_UNITS = tuple(
    unit
    for unit in recipe.MASKED_UNITS
    if unit.startswith(("systemd-udevd", "systemd-sysctl", "systemd-modules-load", "systemd-remount-fs"))
)
ENABLED_UNITS = ("systemd-networkd.service",)
# Profiles that no service of ours has; containerd loads its own.
DISABLED_UNITS = ("apparmor.service",)
FILES = {
    "/etc/fstab": "".join(
        f"/dev/{disk} {place} ext4 {option},x-systemd.device-timeout=900 0 0\n"
        for disk, place, option in (("vda", "/", "errors=remount-ro"), ("vdb", "/opt/testbed", "ro"))
    ),
    "/etc/selinux/config": "SELINUX=permissive\nSELINUXTYPE=default\n",
}

# In the order in which they need each other; ext4 is part of the kernel.
BOOT_MODULES = (
    *("virtio/virtio_ring", "virtio/virtio", "virtio/virtio_pci_legacy_dev", "virtio/virtio_pci_modern_dev"),
    *("virtio/virtio_pci", "block/virtio_blk"),
)
SEED, SEEDED = "/dev/vdc", "var/lib/testbed-seeded"
# The seed is a tar archive on a disk of its own: the files by which one machine differs from another.
INIT = f"""\
#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t devtmpfs dev /dev
for module in {" ".join(path.rpartition("/")[2] for path in BOOT_MODULES)}
do $busybox insmod /modules/$module.ko
done
$busybox mount -t ext4 -o rw,noinit_itable /dev/vda /root || exec $busybox poweroff -f
if [ ! -e /root/{SEEDED} ]
then $busybox tar -x -f {SEED} -C /root && $busybox touch /root/{SEEDED} && $busybox sync
fi
$busybox mount --move /dev /root/dev
exec $busybox switch_root /root /sbin/init
"""
# panic: a kernel that fails resets its machine at once, and the console tells why.
# systemd waits longer than its 90 s: an emulated processor on a busy host may get a tenth of a real one.
KERNEL_LINE = (
    "root=/dev/vda rw console=ttyS0 panic=-1 systemd.show_status=0 net.ifnames=0 systemd.default_timeout_start_sec=900"
)
# What udev would load for devices that no test asks for, each at a second of an emulated processor.
UNWANTED_MODULES = (
    *("aesni_intel", "ata_generic", "ata_piix", "crc32_pclmul", "crc32c_intel", "crct10dif_pclmul", "evdev"),
    *("ghash_clmulni_intel", "kvm_amd", "kvm_intel", "powernow_k8", "serio_raw", "sha256_ssse3", "sha512_ssse3"),
)
SECURITY = {"": "apparmor=1 security=apparmor", "selinux": "security=selinux selinux=1 enforcing=0"}
Tree = Mapping[str, tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class DiskRecipe:
    """The disk of a machine: a node image, a kernel, and with `selinux` Debian's policy, which only notes denials."""

    selinux: bool = False

    @property
    def base(self) -> Recipe:
        """The image that the disk is made from."""
        return Recipe(DEBIAN)

    @property
    def packages(self) -> tuple[str, ...]:
        """What is installed on top of the base."""
        return (*PACKAGES, *(SELINUX_PACKAGES if self.selinux else ()))

    @property
    def key(self) -> str:
        """The name of the disk in the cache: readable, and different whenever the contents would be."""
        contents = [FORMAT, self.base.digest(), KERNEL, BUSYBOX, self.packages, DISK_BYTES, UNMASKED_UNITS]
        contents += [ENABLED_UNITS, DISABLED_UNITS, FILES, BOOT_MODULES, INIT]
        digest = hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()
        return f"debian{DEBIAN}-machine{'-selinux' if self.selinux else ''}-{digest[:12]}"


def kernel_line(security: str) -> str:
    """What the kernel of a machine is told at each boot."""
    return f"{KERNEL_LINE} modprobe.blacklist={','.join(UNWANTED_MODULES)} {SECURITY[security]}"


def initramfs(busybox: bytes, modules: Mapping[str, bytes]) -> bytes:
    """The file system that the kernel starts from: a shell, the modules of its disks, and INIT. Reproducible."""
    tree: dict[str, tuple[int, bytes]] = dict.fromkeys(("bin", "dev", "modules", "root"), (0o040755, b""))
    tree["bin/busybox"] = (0o100755, busybox)
    tree["init"] = (0o100755, INIT.encode())
    tree |= {f"modules/{name}.ko": (0o100644, content) for name, content in modules.items()}
    return gzip.compress(cpio(tree), mtime=0)


def cpio(tree: Tree) -> bytes:
    """An archive in cpio's format `newc`, the one that the kernel reads, of `path: (mode, content)`."""
    entries = [*((path, mode, content) for path, (mode, content) in sorted(tree.items())), ("TRAILER!!!", 0, b"")]
    archive = bytearray()
    for number, (path, mode, content) in enumerate(entries, start=1):
        name = path.encode() + b"\0"
        # Magic, inode, mode, owner, group, links, time, size, four device numbers, length of the name, no checksum.
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        for part in (b"070701" + b"".join(b"%08x" % field for field in fields) + name, content):
            archive += part + b"\0" * (-len(part) % 4)
    return bytes(archive)
