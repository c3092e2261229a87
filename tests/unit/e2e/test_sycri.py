# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The build of Singularity-CRI: in the time of its gate, and again with another tool chain."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e import sycri
from gates import catalogue
from testbed.kube_go import Go


def test_the_gate_that_builds_singularity_cri_has_the_time_for_it() -> None:
    (gate,) = [one for one in catalogue.gates() if one.name == "molecule-singularity-cri"]
    assert gate.limit >= 2 * sycri.BUILD_SECONDS + 300


def test_another_version_of_go_builds_the_programs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVERGED_CACHE", str(tmp_path))
    built: list[str] = []

    def build(argv: list[str], **_options: object) -> None:
        built.append(argv[0])
        Path(argv[argv.index("-o") + 1]).touch()

    monkeypatch.setattr(sycri, "run", build)
    folders = []
    for version in ("go1.26.1", "go1.26.1", "go1.26.2"):
        go = Go(program=Path("/go"), version=version, arch="amd64")
        monkeypatch.setattr(sycri, "find_go", lambda go=go, **_where: go)
        folders.append(sycri.programs())

    assert folders[0] == folders[1] != folders[2]
    assert len(built) == 4, "two programs for each version"
    assert {path.name for path in folders[2].iterdir()} == {"sycri", "ask", "singularity"}
