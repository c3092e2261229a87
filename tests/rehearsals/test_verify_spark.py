# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`verify` with a user's Spark application: which file it takes, and what it says before anything is started."""

from __future__ import annotations

from pathlib import Path

from rehearsals.conftest import ROOT, Rehearsal

EXAMPLE = (ROOT / "docs/examples/spark/job.yml").read_text(encoding="utf-8")
SITE_IMAGE = EXAMPLE.replace("registry.example/spark:CHANGE-ME", "registry.site.org/spark:4.3.0")


def test_a_file_is_looked_for_where_the_command_is_typed(rehearsal: Rehearsal, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/job.yml").write_text(EXAMPLE, encoding="utf-8")
    done = rehearsal.playbook("verify", converged_verify_spark="mine/job.yml")
    assert "refuse [spark] job.yml: Job numbers: container driver has the image of the example" in done.said
    assert {call.module for call in done.calls} == {"share_inventory"}


def test_a_file_that_is_not_there_is_refused_in_one_line(rehearsal: Rehearsal, tmp_path: Path) -> None:
    done = rehearsal.playbook("verify", converged_verify_spark="job.yml")
    assert f"refuse [spark] {tmp_path}/job.yml: there is no such file. Nothing was started" in done.said
    assert {call.module for call in done.calls} == {"share_inventory"}


def test_warnings_come_before_the_api_is_asked(rehearsal: Rehearsal, tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(SITE_IMAGE, encoding="utf-8")
    done = rehearsal.playbook("verify", converged_verify_spark="job.yml", node_share_deadline=20)
    assert not done.passed
    assert "warn [spark] node_share_deadline is 20 s on n1" in done.said
