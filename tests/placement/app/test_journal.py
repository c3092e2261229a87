# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal is for people: it rotates, and a full disk costs lines and nothing else."""

import errno
import json
import os
from pathlib import Path

import pytest
from placement.app.telemetry.journal import Journal
from placement.model.messages.action import Bind

BIND = Bind(uid="u", namespace="team", name="pod", node="n1")


class Losses(list):
    """How many lines were lost each time, and why."""

    def __call__(self, lines: int, error: OSError) -> None:
        self.append((lines, error.errno))


@pytest.fixture
def losses() -> Losses:
    return Losses()


def test_every_action_is_a_line(tmp_path, losses):
    journal = Journal(tmp_path / "journal", most_bytes=10_000, files=2, lost=losses)
    journal.note((BIND, BIND))
    journal.close()
    lines = (tmp_path / "journal").read_text().splitlines()
    assert [json.loads(line)["node"] for line in lines] == ["n1", "n1"]


def test_it_rotates_by_size_and_keeps_so_many(tmp_path, losses):
    journal = Journal(tmp_path / "journal", most_bytes=200, files=3, lost=losses)
    for number in range(20):
        journal.write([f"{number:0150}"])
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "journal.1", "journal.2"]
    assert (tmp_path / "journal").read_text().strip().endswith("19")
    assert (tmp_path / "journal.1").read_text().strip().endswith("18")


def test_a_place_that_cannot_be_written_costs_lines_only(tmp_path, losses):
    journal = Journal(tmp_path / "missing" / "journal", most_bytes=200, files=3, lost=losses)
    journal.note((BIND,))
    assert losses == [(1, errno.ENOENT)]
    (tmp_path / "missing").mkdir()
    journal.note((BIND,))
    journal.close()
    assert losses == [(1, errno.ENOENT)]
    assert (tmp_path / "missing" / "journal").exists()


def test_a_disk_that_is_full_costs_lines_only_and_none_twice(tmp_path, losses):
    journal = Journal(tmp_path / "journal", most_bytes=1 << 20, files=3, lost=losses)
    (tmp_path / "journal").symlink_to("/dev/full")
    journal.note((BIND, BIND))
    journal.note((BIND,))
    assert losses == [(2, errno.ENOSPC), (1, errno.ENOSPC)]
    (tmp_path / "journal").unlink()
    journal.note((BIND,))
    journal.close()
    assert len((tmp_path / "journal").read_text().splitlines()) == 1
    assert len(losses) == 2


def test_a_folder_that_is_read_only_costs_lines_only(tmp_path, losses, monkeypatch):
    def refuse(*_arguments: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    journal = Journal(tmp_path / "journal", most_bytes=1 << 20, files=3, lost=losses)
    journal.note((BIND,))
    assert losses == [(1, errno.EROFS)]


def test_what_cannot_rotate_does_not_grow_past_its_limit(tmp_path, losses, monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    journal = Journal(tmp_path / "journal", most_bytes=200, files=3, lost=losses)
    for number in range(20):
        journal.write([f"{number:0150}"])
    assert losses == [(1, errno.EACCES)] * 19
    assert (tmp_path / "journal").stat().st_size <= 200
    monkeypatch.undo()
    journal.write(["at last"])
    journal.write(["again" * 30])
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "journal.1"]
