# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache of node images: built once, under a lock, whole or not at all, and checked before use."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from testbed import recipe, rootfs
from testbed.errors import BedError
from testbed.paths import images_dir
from testbed.podman import SLOW, Podman
from testbed.progress import say, step
from testbed.recipe import Recipe
from testbed.state import file_lock, write_synced

FREE_BYTES = 3 * 1024**3
ROOTFS = "rootfs.tar"
BUILDING = ".new-"
MANIFEST = "manifest.json"
KIND = "node image"
BUILD_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class CachedImage:
    """A folder that holds one image: the packed file system, and for nodes packages and container images."""

    key: str
    folder: Path

    @property
    def tag(self) -> str:
        """Its name in podman's storage."""
        return f"localhost/testbed:{self.key}"

    @property
    def debs(self) -> Path:
        return self.folder / "debs"

    @property
    def images(self) -> Path:
        return self.folder / "images"

    def account(self, user: str) -> tuple[int, int]:
        """Numeric user and group of a user in the image."""
        uid, gid = json.loads((self.folder / MANIFEST).read_text())["accounts"][user]
        return uid, gid


def cached(wanted: Recipe) -> CachedImage:
    """Where the image of a recipe lies once it is built."""
    return CachedImage(key=wanted.key, folder=images_dir() / wanted.key)


def ensure(wanted: Recipe, podman: Podman) -> CachedImage:
    """Return the image of a recipe, in the cache and in podman's storage; build and import it where it is not."""
    image = ensure_cached(wanted)
    with lock(wanted.key, KIND):
        if podman.call("image", "exists", image.tag, check=False).rc != 0:
            import_into(podman, image)
    return image


def lock(key: str, kind: str) -> AbstractContextManager[None]:
    """Return the lock of one image or disk: different ones are built side by side."""
    return file_lock(f"image-{key}", timeout=BUILD_SECONDS, what=f"{kind} {key}")


def ensure_cached(wanted: Recipe) -> CachedImage:
    """Return a sound copy in the cache."""
    base = None if wanted.base is None else ensure_cached(wanted.base)

    def make(work: Path) -> None:
        say(f"  ..  {KIND} {wanted.key}: built once, in a minute or two")
        build(wanted, base, work)

    in_cache(wanted.key, KIND, make)
    return cached(wanted)


def in_cache(key: str, kind: str, build: Callable[[Path], None], *, large: Collection[str] = (ROOTFS,)) -> Path:
    """Return a folder of the cache; build it where it is not there, or is damaged.

    `build` is given a folder to work in and fills the folder `result` there, manifest included. Of `large` files only
    the sizes are compared with the manifest.
    """
    folder, work = images_dir() / key, images_dir() / f"{BUILDING}{key}"
    with lock(key, kind):
        if work.exists():
            shutil.rmtree(work)
        if folder.exists():
            fault = damage(folder, large=large)
            if fault is None:
                return folder
            say(f"  !!  cached {kind} is damaged: {fault}; building it again")
            shutil.rmtree(folder)
        check_space(images_dir())
        (work / "result").mkdir(parents=True)
        try:
            build(work)
            (work / "result").rename(folder)
        finally:
            shutil.rmtree(work)
    return folder


def write_manifest(result: Path, **more: object) -> None:
    """Write down the files of a folder of the cache, by which `damage` knows it, beside what else is to be known."""
    files = sorted(path for path in result.rglob("*") if path.is_file())
    sums = {str(path.relative_to(result)): [path.stat().st_size, sha256(path)] for path in files}
    write_synced(result / MANIFEST, json.dumps({**more, "files": sums}, indent=1))


def build(wanted: Recipe, base: CachedImage | None, work: Path) -> None:
    """Make `work`/result, the folder of one image."""
    root, result = work / "root", work / "result"
    if base is None:
        with step(f"Debian {wanted.debian} ({wanted.suite}) with Slurm, by mmdebstrap"):
            rootfs.bootstrap(wanted, root)
        rootfs.configure(root)
        with step("packages for roles to install, pause and busybox images"), rootfs.online(root):
            rootfs.download(root, recipe.OFFERED_PACKAGES, result / "debs")
            rootfs.container_images(root, work, result / "images")
        rootfs.store_uncompressed(result / "debs", work / "package")
        rootfs.index_packages(result / "debs")
    else:
        rootfs.unpack(base.folder / ROOTFS, root)
        layer = recipe.LAYERS[wanted.layer]
        with step(layer.title), rootfs.online(root):
            rootfs.install(root, layer.packages)
        rootfs.disable_units(root, layer.units)
    debs = result / "debs" if base is None else base.debs
    with step("pack the image"):
        rootfs.know_local_packages(root, debs)
        rootfs.pack(root, result / ROOTFS)
    write_manifest(result, accounts=rootfs.accounts(root))


def damage(folder: Path, *, thorough: bool = False, large: Collection[str] = (ROOTFS,)) -> str | None:
    """What is wrong with a cached image, or None. Of `large` files the content is read only when `thorough`."""
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
    except (OSError, ValueError, KeyError) as error:
        return f"{folder / MANIFEST}: {error}"
    for name, (size, digest) in files.items():
        path = folder / name
        if not path.exists():
            return f"{path}: missing"
        if path.stat().st_size != size:
            return f"{path}: {path.stat().st_size} bytes, expected {size}"
        if (thorough or name not in large) and sha256(path) != digest:
            return f"{path}: its sha256 is not the one written down when it was built"
    return None


def import_into(podman: Podman, image: CachedImage) -> None:
    """Give podman the image. Its storage is where containers start from, so this is done once."""
    fault = damage(image.folder, thorough=True)
    if fault is not None:
        shutil.rmtree(image.folder)
        raise BedError(f"cached node image is damaged: {fault}; it is removed now, so run the same command again")
    changes = ("--change", "STOPSIGNAL SIGRTMIN+3", "--change", 'CMD ["/sbin/init"]')
    with step(f"import {image.key} into podman"):
        podman.call("import", "--quiet", *changes, str(image.folder / ROOTFS), image.tag, timeout=4 * SLOW)


def check_space(folder: Path, *, need: int = FREE_BYTES) -> None:
    """Refuse before a disk runs full, not in the middle."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < need:
        raise BedError(
            f"{folder}: {free / 1024**3:.1f} GiB free, {need / 1024**3:.0f} GiB needed; "
            "make room, or set CONVERGED_CACHE to a folder on a larger disk"
        )


def sha256(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
