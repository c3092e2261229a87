# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache of node images, and the container images without a builder."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from testbed import images, oci, recipe
from testbed.archive import NodeFile, enabled, pack
from testbed.errors import BedError
from testbed.paths import images_dir
from testbed.recipe import Recipe


def cached_image(folder: Path) -> Path:
    """A sound cached image in miniature."""
    for name, content in (("rootfs.tar", "root"), ("debs/a.deb", "deb")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    files = {name: [len(text), hashlib.sha256(text.encode()).hexdigest()] for name, text in CONTENTS.items()}
    (folder / "manifest.json").write_text(json.dumps({"accounts": {"munge": [101, 102]}, "files": files}))
    return folder


CONTENTS = {"rootfs.tar": "root", "debs/a.deb": "deb"}


def test_a_sound_image_is_sound(tmp_path: Path) -> None:
    folder = cached_image(tmp_path / "i")
    assert images.damage(folder, thorough=True) is None
    assert images.CachedImage("i", folder).account("munge") == (101, 102)


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "manifest.json"),
        (lambda folder: (folder / "debs/a.deb").unlink(), "debs/a.deb: missing"),
        (lambda folder: (folder / "debs/a.deb").write_text("DEB"), "debs/a.deb: its sha256"),
        (lambda folder: (folder / "rootfs.tar").write_text("roo"), "rootfs.tar: 3 bytes, expected 4"),
        (lambda folder: shutil.rmtree(folder / "debs"), "debs/a.deb: missing"),
    ],
)
def test_damage_to_a_cached_image_is_found_and_named(
    tmp_path: Path, harm: Callable[[Path], object], message: str
) -> None:
    folder = cached_image(tmp_path / "i")
    harm(folder)
    assert message in (images.damage(folder) or "")


def test_the_packed_file_system_is_read_whole_before_it_is_imported(tmp_path: Path) -> None:
    folder = cached_image(tmp_path / "i")
    (folder / "rootfs.tar").write_text("ROOT")
    assert images.damage(folder) is None
    assert "rootfs.tar: its sha256" in (images.damage(folder, thorough=True) or "")


@pytest.mark.usefixtures("cache")
def test_what_is_in_the_cache_is_built_once_whole_or_not_at_all_and_again_when_it_is_damaged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(images, "check_space", lambda folder: folder.mkdir(parents=True, exist_ok=True))
    built: list[str] = []

    def build(work: Path, *, fails: bool = False) -> None:
        built.append("x")
        (work / "result/debs").mkdir()
        (work / "result/rootfs.tar").write_text("root")
        (work / "result/debs/a.deb").write_text("deb")
        if fails:
            raise BedError("no network")
        images.write_manifest(work / "result", accounts={"munge": [101, 102]})

    with pytest.raises(BedError, match="no network"):
        images.in_cache("k", "disk", lambda work: build(work, fails=True))
    assert list(images_dir().iterdir()) == [], "nothing is left of a build that failed"
    folder = images.in_cache("k", "disk", build)
    assert images.damage(folder, thorough=True) is None
    assert images.CachedImage("k", folder).account("munge") == (101, 102)
    assert images.in_cache("k", "disk", build) == folder
    assert len(built) == 2
    (images_dir() / ".new-k").mkdir()  # as a build leaves it that was killed
    (folder / "debs/a.deb").write_text("DEB")
    assert images.in_cache("k", "disk", build) == folder
    assert len(built) == 3
    assert [path.name for path in images_dir().iterdir()] == ["k"]


def test_a_disk_too_small_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(BedError, match="GiB free, 1048576 GiB needed; make room, or set CONVERGED_CACHE"):
        images.check_space(tmp_path, need=2**50)


def test_the_name_of_an_image_follows_its_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {Recipe(12).key, Recipe(13).key, *(Recipe(12, layer).key for layer in recipe.LAYERS)}
    assert len(keys) == 2 + len(recipe.LAYERS)
    program = "from testbed.recipe import Recipe; print(Recipe(12).key)"
    for seed in ("1", "2"):  # by which Python orders sets: another process must find the image that this one built
        environ = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == Recipe(12).key
    monkeypatch.setattr(recipe, "PACKAGES", (*recipe.PACKAGES, "one-more"))
    assert Recipe(12).key not in keys
    assert Recipe(12, recipe.ACCOUNTING).key not in keys


def test_nothing_of_kubernetes_is_in_the_recipe_of_a_node() -> None:
    assert not {*recipe.OFFERED_PACKAGES, "kubelet", "cri-tools", "docker.io"} & {*recipe.PACKAGES}


def test_an_archive_without_a_builder_is_a_whole_image() -> None:
    archive = oci.pause_image(b"program", architecture="amd64")
    assert archive == oci.pause_image(b"program", architecture="amd64")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = {name: tar.extractfile(name) for name in tar.getnames()}
        contents = {name: file.read() for name, file in members.items() if file}
    [manifest] = json.loads(contents["manifest.json"])
    config = json.loads(contents[manifest["Config"]])
    [layer] = manifest["Layers"]
    assert manifest["RepoTags"] == ["localhost/pause:local"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(contents[layer]).hexdigest()}"]
    assert manifest["Config"] == f"{hashlib.sha256(contents[manifest['Config']]).hexdigest()}.json"
    assert config["config"]["Entrypoint"] == ["/pause", "-P"]
    with tarfile.open(fileobj=io.BytesIO(contents[layer])) as tar:
        assert [(entry.name, entry.mode) for entry in tar] == [("pause", 0o755)]


def test_files_for_a_node_keep_owner_mode_and_kind() -> None:
    files = [
        NodeFile("/etc/munge/munge.key", b"k", mode=0o400, owner="munge"),
        NodeFile("/var/lib/slurm", owner="slurm", mode=0o755),
        enabled("munge.service"),
    ]
    accounts = {"munge": (101, 102), "slurm": (64030, 64030), "root": (0, 0)}
    with tarfile.open(fileobj=io.BytesIO(pack(files, account=accounts.__getitem__, mtime=7))) as tar:
        key, folder, link = tar.getmembers()
        content = tar.extractfile(key)
        assert content is not None
        assert content.read() == b"k"
    assert (key.name, key.mode, key.uid, key.gid, key.mtime) == ("etc/munge/munge.key", 0o400, 101, 102, 7)
    assert (folder.isdir(), folder.uid) == (True, 64030)
    assert (link.issym(), link.linkname) == (True, "/lib/systemd/system/munge.service")
