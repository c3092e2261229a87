# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host listed from its upper layer is listed as if every file had been read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e import listing
from e2e.upper_layer import Image, look, mounts_of


def plant(root: Path) -> None:
    """Make the tree of an image."""
    for folder in ("etc/site/deep", "etc/empty", "usr/bin", "var/lib/kubelet", "run", "home/ops"):
        (root / folder).mkdir(parents=True)
    for name in ("etc/hosts", "etc/site/a", "etc/site/b", "etc/site/deep/c", "usr/bin/tool", "run/pid", "home/ops/rc"):
        (root / name).write_text(name)
    (root / "etc/link").symlink_to("site/a")


def write(path: Path, text: str = "ours") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def replace_by_file(path: Path) -> None:
    shutil.rmtree(path)
    write(path)


def make_anew(path: Path) -> None:
    shutil.rmtree(path)
    write(path / "a", "another")
    write(path / "new/file")


def replace_by_directory(path: Path) -> None:
    path.unlink()
    write(path / "file")


def point_elsewhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("site/b")


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda root: None,
    "a file is new": lambda root: write(root / "opt/ours/file"),
    "a file has another text": lambda root: write(root / "etc/site/a"),
    "a file has another mode": lambda root: (root / "etc/site/a").chmod(0o600),
    "a file has another time": lambda root: os.utime(root / "etc/site/a", (1, 1)),
    "a directory has another mode": lambda root: (root / "etc/site").chmod(0o700),
    "a file is gone": lambda root: (root / "etc/site/deep/c").unlink(),
    "an empty directory is gone": lambda root: (root / "etc/empty").rmdir(),
    "a directory is gone with all in it": lambda root: shutil.rmtree(root / "etc/site"),
    "a directory is a file now": lambda root: replace_by_file(root / "etc/site"),
    "a directory was made anew": lambda root: make_anew(root / "etc/site"),
    "a file is a directory now": lambda root: replace_by_directory(root / "usr/bin/tool"),
    "a link leads elsewhere": lambda root: point_elsewhere(root / "etc/link"),
    "a link is a directory now": lambda root: replace_by_directory(root / "etc/link"),
    "what listings leave out": lambda root: (
        write(root / "run/pid"),
        write(root / "run/new"),
        write(root / "home/ops/x"),
    ),
}


def upper_layer(image: Path, host: Path, layer: Path) -> None:
    """Make what the kernel would keep: changed names, their directories, and a mark for each removed name."""
    layer.mkdir()
    names = {path.relative_to(root) for root in (image, host) for path in root.rglob("*")}
    for name in sorted(names):
        old, new, mark = image / name, host / name, layer / name
        if not os.path.lexists(new):
            if mark.parent.is_dir() or host.joinpath(name.parent).is_dir():
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
        elif not os.path.lexists(old) or listing.state_of(str(old), {}) != listing.state_of(str(new), {}):
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.mkdir(exist_ok=True) if new.is_dir() and not new.is_symlink() else mark.touch()


@pytest.mark.parametrize("case", CHANGES)
def test_a_host_is_listed_from_its_upper_layer_as_a_whole(tmp_path: Path, case: str) -> None:
    image, host, layer = (tmp_path / name for name in ("image", "host", "layer"))
    plant(image)
    shutil.copytree(image, host, symlinks=True)
    CHANGES[case](host)
    upper_layer(image, host, layer)
    base = Image.of(listing.files({}, root=str(image)))
    seen = look(str(host), str(layer), [], {})
    expected = listing.files({}, root=str(host))
    assert base.with_upper_layer(seen) == expected
    changed = bool(listing.difference(dict(base.states), expected))
    assert changed == (case not in ("nothing", "what listings leave out"))


def test_what_is_mounted_is_listed_and_hides_what_the_image_has_there(tmp_path: Path) -> None:
    image, host, layer = (tmp_path / name for name in ("image", "host", "layer"))
    plant(image)
    shutil.copytree(image, host, symlinks=True)
    make_anew(host / "etc/site")
    write(host / "etc/hosts", "of the bed")
    write(host / "var/lib/kubelet/config.yaml")
    layer.mkdir()
    base = Image.of(listing.files({}, root=str(image)))
    seen = look(str(host), str(layer), ["/etc/hosts", "/etc/site", "/var/lib/kubelet"], {})
    assert base.with_upper_layer(seen) == listing.files({}, root=str(host))


def test_only_outermost_mounts_count_that_listings_do_not_leave_out() -> None:
    points = (
        "/",
        "/etc/hosts",
        "/var/lib/kubelet",
        "/var/lib/kubelet/pods/1/token",
        "/proc",
        "/run/lock",
        "/srv/a\\040b",
    )
    lines = [f"{at} 1 0:{at} / {point} rw - tmpfs none rw" for at, point in enumerate(points)]
    assert mounts_of("\n".join(lines)) == ["/etc/hosts", "/srv/a b", "/var/lib/kubelet"]
