# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the list of faults (tests/mutations) showed to be missing: each test here fails with a fault of that list."""

from __future__ import annotations

import hashlib
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._record.store import controller_copy as copying
from ansible_collections.converged.hpc.plugins.module_utils._record.store.lock import locked
from ansible_collections.converged.hpc.plugins.module_utils._record.store.store import Store
from unit.plugins.module_utils._record.fake_node import FakeNode, World
from unit.plugins.module_utils._record.site_node import RECORD, call, restore, world_in_a_folder


@pytest.fixture
def world() -> t.Iterator[World]:
    with world_in_a_folder() as made:
        yield made


def test_a_service_that_the_site_has_stopped_since_is_not_started_on_the_way_back(world: World) -> None:
    """The role asks for nothing that would have it stopped or started: it only wants it as it is."""
    call(world, FakeNode(world), {"role": "main", "units": [{"name": "site.service", "state": None, "enabled": True}]})
    world.running.discard("site.service")
    report = restore(FakeNode(world))
    assert "site.service" not in world.running
    assert report.site == ["unit site.service: does not run, and the site stopped it"]


BLOB = f"blobs/{hashlib.sha256(b'y').hexdigest()}"


@pytest.mark.parametrize("file", ["journal", BLOB, "baseline/000001"])
def test_a_copy_that_is_broken_off_is_no_copy_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """The writing of one part fails: on a controller whose disk is full, or that is killed."""
    copy = copying.LocalCopy(str(tmp_path / "copy"))
    replace = os.replace

    def full(source: str, target: str) -> None:
        if target.endswith(file):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    parts = {"format": b"1 identity\n", "journal": b"x", BLOB: b"y", "baseline/000001": b"z"}
    with pytest.raises(OSError, match="No space left"):
        copy.merge("identity", parts, stamp="now")
    assert copy.identity() == ""


def test_on_the_way_back_systemd_reads_its_unit_files_before_a_service_is_started_again(world: World) -> None:
    unit = {"path": "/etc/systemd/system/site.service", "text": "[Service]\nExecStart=/bin/ours\n"}
    asked = {"role": "main", "files": [unit], "units": [{"name": "site.service", "state": "started"}]}
    call(world, FakeNode(world), asked)
    world.log.clear()
    restore(FakeNode(world))
    acts = [line for line in world.log if line.startswith(("systemctl daemon-reload", "systemctl restart"))]
    assert acts == ["systemctl daemon-reload", "systemctl restart -- site.service"]


class Overtaken(FakeNode):
    """Between the opening of the lock and its taking, the run that held it ends the record and removes the lock."""

    opened = 0

    def open_lock(self, path: str) -> int:
        fd = super().open_lock(path)
        self.opened += 1
        if self.opened == 1:
            os.unlink(self.at(path))
        return fd


def test_a_lock_that_its_holder_has_removed_is_no_lock(world: World) -> None:
    host = Overtaken(world)
    with locked(host, Store(host, RECORD), holder="test", wait=0):
        assert host.opened == 2
        assert "test, process" in world.text(f"{RECORD}/lock")
