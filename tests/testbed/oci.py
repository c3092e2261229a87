# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images without a builder: a docker-archive holding one static program.

Nodes have no registry to pull from, and these two images are all that pods of the test bed run.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Tree = Mapping[str, tuple[int, bytes]]


def tarball(tree: Tree, *, links: Mapping[str, str] | None = None) -> bytes:
    """A reproducible tar of `path: (mode, content)`, all owned by root."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, (mode, content) in sorted(tree.items()):
            entry = tarfile.TarInfo(path)
            entry.mode, entry.size = mode, len(content)
            tar.addfile(entry, io.BytesIO(content))
        for path, target in sorted((links or {}).items()):
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            tar.addfile(entry)
    return buffer.getvalue()


def docker_archive(*, name: str, layer: bytes, entrypoint: Sequence[str], architecture: str) -> bytes:
    """One image with one layer, as `ctr images import` and `podman load` read it."""
    digest = hashlib.sha256(layer).hexdigest()
    config = image_config(digest, {"Entrypoint": list(entrypoint), "Env": ["PATH=/bin"]}, architecture=architecture)
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    return tarball(
        {
            config_name: (0o644, config),
            f"{digest}/layer.tar": (0o644, layer),
            "manifest.json": (0o644, json.dumps(manifest).encode()),
        }
    )


def write_archive(target: Path, *, name: str, layer: Path, config: Mapping[str, Any], architecture: str) -> None:
    """Write the archive of an image whose one layer is a file, which may be larger than memory; `config` as in OCI."""
    with layer.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    described = image_config(digest, config, architecture=architecture)
    config_name = hashlib.sha256(described).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(target, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, content in ((config_name, described), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(path)
            entry.mode, entry.size = 0o644, len(content)
            tar.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo(f"{digest}/layer.tar")
        entry.mode, entry.size = 0o644, layer.stat().st_size
        with layer.open("rb") as stream:
            tar.addfile(entry, stream)


def image_config(layer: str, config: Mapping[str, Any], *, architecture: str) -> bytes:
    """Return the configuration of an image with one layer, of which `layer` is the digest."""
    return json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
            "history": [{"created_by": "testbed"}],
        }
    ).encode()


def pause_image(catatonit: bytes, *, architecture: str) -> bytes:
    """The image of pod sandboxes: catatonit's pause mode waits, reaps, and ends on SIGTERM."""
    layer = tarball({"pause": (0o755, catatonit)})
    return docker_archive(
        name="localhost/pause:local", layer=layer, entrypoint=["/pause", "-P"], architecture=architecture
    )


def busybox_image(busybox: bytes, *, architecture: str) -> bytes:
    """The image of test pods: a shell and the usual commands."""
    commands = (
        "sh",
        "sleep",
        "cat",
        "echo",
        "ls",
        "id",
        "env",
        "hostname",
        "dd",
        "wget",
        "nc",
        "true",
        "false",
        "tail",
    )
    layer = tarball({"bin/busybox": (0o755, busybox)}, links={f"bin/{command}": "busybox" for command in commands})
    return docker_archive(name="localhost/busybox:local", layer=layer, entrypoint=[], architecture=architecture)
