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
from ansible_collections.converged.hpc.plugins.module_utils._kube.node.join import KUBELET_MAKES
from e2e import listing
from e2e.upper_layer import Image, look, mounts_of
from testbed import sysctls


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


AUTOMOUNT = """\
20 1 0:20 / / rw shared:1 - overlay overlay rw
21 20 0:21 / /proc rw - proc proc rw
22 21 0:22 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw,fd=28,direct
23 20 0:23 / /net/site\\040a rw - autofs /etc/auto.site rw,indirect
24 23 0:24 /a /net/site\\040a/x rw - nfs server:/a rw
25 20 0:25 / /srv rw - ext4 /dev/sdb1 rw
"""


def test_nothing_looks_into_an_automount(tmp_path: Path) -> None:
    """Nor into what another process mounted there. The control is the same walk that is not told of it."""
    assert listing.automounts_of(AUTOMOUNT) == {"/proc/sys/fs/binfmt_misc", "/net/site a"}
    assert mounts_of(AUTOMOUNT) == ["/net/site a/x", "/srv"]
    host, layer = tmp_path / "host", tmp_path / "layer"
    write(host / "srv/auto/inside")
    write(host / "srv/file")
    layer.mkdir()
    told = look(str(host), str(layer), ["/srv"], {}, {"/srv/auto"}).states
    assert set(told) == {"/srv", "/srv/file"}
    assert "/srv/auto/inside" in look(str(host), str(layer), ["/srv"], {}).states


def test_mounts_are_listed_one_over_the_other_with_type_and_source() -> None:
    more = "30 25 0:25 /kubelet /srv rw shared:7 - ext4 /dev/sdb1 rw\n31 20 0:31 / /run/user/0 rw - tmpfs tmpfs rw\n"
    found = listing.mounts(AUTOMOUNT + more)
    assert found["mount /srv"] == [["/", "ext4", "/dev/sdb1"], ["/kubelet", "ext4", "/dev/sdb1"]]
    assert found["mount /proc/sys/fs/binfmt_misc"] == [["/", "autofs", "systemd-1"]]
    assert "mount /run/user/0" not in found
    triggered = "40 22 0:40 / /proc/sys/fs/binfmt_misc rw - binfmt_misc binfmt_misc rw\n"
    assert set(listing.difference(found, listing.mounts(AUTOMOUNT + more + triggered))) == {
        "mount /proc/sys/fs/binfmt_misc"
    }


PROGRAMS = {
    "dpkg-query": "#!/bin/sh\nprintf 'ii  base 1.0\\nrc  gone 2.0\\n'\n",
    "rpm": "#!/bin/sh\nprintf 'installed base.x86_64 1.0-1.el9\\ninstalled base.i686 1.0-1.el9\\n'\n",
}


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        ("dpkg-query", {"package base": ["ii", "1.0"], "package gone": ["rc", "2.0"]}),
        (
            "rpm",
            {
                "package base.x86_64": ["installed", "1.0-1.el9"],
                "package base.i686": ["installed", "1.0-1.el9"],
            },
        ),
    ],
)
def test_packages_are_listed_in_every_state_by_dpkg_or_rpm_with_what_is_kept_of_them(
    program: str, wanted: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / program
    write(tool, PROGRAMS[program])
    tool.chmod(0o755)
    write(tmp_path / "info/gone.list")
    monkeypatch.setenv("PATH", str(tool.parent))
    monkeypatch.setattr(listing, "OF_PACKAGES", (str(tmp_path / "info"),))
    kept = {f"of packages {tmp_path}/info/gone.list": "is there"}
    assert listing.packages() == {**wanted, **kept}


def test_what_nodes_of_a_bed_have_for_themselves_is_what_kubelets_set_and_listings_read() -> None:
    """None of a node's own settings is what a kubelet wants: only so does a test see it changed and put back."""
    assert set(sysctls.OF_NODES) == set(sysctls.KUBELETS) == set(listing.SYSCTLS_OF_KUBELETS)
    assert [name for name, value in sysctls.OF_NODES.items() if value == sysctls.KUBELETS[name]] == []
    made = {item.name: item.value for item in KUBELET_MAKES if item.kind == "sysctl"}
    assert made == {name.replace("/", "."): value for name, value in sysctls.KUBELETS.items()}
