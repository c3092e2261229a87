# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal is for people: it rotates, and a full disk costs lines and nothing else."""

import json

from placement.app.journal import Journal
from placement.model.action import Bind

BIND = Bind(uid="u", namespace="team", name="pod", node="n1")


def test_every_action_is_a_line(tmp_path):
    journal = Journal(tmp_path / "journal", most_bytes=10_000, files=2)
    journal.note((BIND, BIND))
    journal.close()
    lines = (tmp_path / "journal").read_text().splitlines()
    assert [json.loads(line)["node"] for line in lines] == ["n1", "n1"]


def test_it_rotates_by_size_and_keeps_so_many(tmp_path):
    journal = Journal(tmp_path / "journal", most_bytes=200, files=3)
    for number in range(20):
        journal.write([f"{number:0150}"])
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "journal.1", "journal.2"]
    assert (tmp_path / "journal").read_text().strip().endswith("19")
    assert (tmp_path / "journal.1").read_text().strip().endswith("18")


def test_a_place_that_cannot_be_written_costs_lines_only(tmp_path):
    journal = Journal(tmp_path / "missing" / "journal", most_bytes=200, files=3)
    journal.note((BIND,))
    assert journal.lost == 1
    (tmp_path / "missing").mkdir()
    journal.note((BIND,))
    journal.close()
    assert journal.lost == 1
    assert (tmp_path / "missing" / "journal").exists()
