# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example that ships: a site tests its own playbook, with our roles in it, by molecule and without the test bed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gates.artifact import build
from testbed import cgroups, images
from testbed.podman import OWN_SYSTEMD_HIERARCHY, Podman
from testbed.recipe import DEFAULT_DEBIAN, Recipe
from testbed.run import run
from testbed.state import file_lock

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SECONDS = 900.0
IMAGE = "localhost/testbed-example"
FILES = {"CONF": "containers.conf", "STORAGE_CONF": "storage.conf"}
STEPS = ("create", "converge", "idempotence", "verify", "side_effect", "destroy")


@pytest.fixture
def engine() -> Iterator[Podman]:
    """An engine that has the image of a node with Slurm, for one user at a time as the container's name is fixed."""
    podman = Podman(cgroups.choose(version=cgroups.host_version(), debian=DEFAULT_DEBIAN))
    with file_lock("example-site", timeout=1800, what="the container of the example"):
        podman.configure()
        image = images.ensure(Recipe(DEFAULT_DEBIAN), podman)
        start = ["/bin/sh", "-c", OWN_SYSTEMD_HIERARCHY] if podman.way is cgroups.Way.V1 else ["/sbin/init"]
        text = f"FROM {image.tag}\nCMD {json.dumps(start)}\n"
        podman.call("build", "--quiet", "--tag", IMAGE, "--file", "-", input=text, timeout=120)
        try:
            yield podman
        finally:
            podman.rm("molecule-node01")
            podman.call("rmi", "--force", IMAGE, timeout=120, check=False)


def test_a_site_tests_its_own_playbook_with_our_roles_from_the_built_tarball(engine: Podman, tmp_path: Path) -> None:
    tarball = build(CHECKOUT, tmp_path / "built")
    environ = {
        **{f"CONTAINERS_{name}": str(engine.config_dir / file) for name, file in FILES.items()},
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"),
        "SITE_IMAGE": IMAGE,
        "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path / "molecule"),
        "NO_COLOR": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    install = [
        str(BIN / "ansible-galaxy"),
        "collection",
        "install",
        "--offline",
        "-p",
        str(tmp_path / "collections"),
        str(tarball),
    ]
    run(install, timeout=300, env=environ)
    shipped = tmp_path / "collections/ansible_collections/converged/hpc/docs/examples/site"
    shutil.copytree(shipped, tmp_path / "site")

    argv = ["env", "-C", str(tmp_path / "site"), str(BIN / "molecule"), "test"]
    done = run(argv, timeout=SECONDS, env=environ, check=False)

    said = done.out + done.err
    assert done.rc == 0, said[-20000:]
    for step in STEPS:
        assert f"{step}: Executed: Successful" in said, said[-20000:]
    assert "no hosts matched" not in said
    assert str(CHECKOUT / "roles") not in said
