# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the double of Torque's MoM makes of a script that is taken away while it looks at it."""

import os
from pathlib import Path
from typing import Any

import pytest
from torque_double import pelog
from torque_double.state import Job


@pytest.mark.parametrize("moment", ["stat", "start"])
def test_a_script_that_is_removed_before_it_runs_is_no_script_and_ends_no_mom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    (tmp_path / "mom_priv").mkdir()
    script = tmp_path / "mom_priv/prologue.parallel"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    job = Job(1, "x", "root", "batch", {}, "true\n", [], 0.0, slots=[("n1", [0])])
    place = pelog.Place(tmp_path, 1, pelog.Settings())
    assert pelog.run("prologue.parallel", job, place)[0] == 3
    seen = os.stat

    def removed_behind(path: Any, **more: Any) -> os.stat_result:
        found = seen(path, **more)
        if str(path) == str(script):
            script.unlink()
        return found

    monkeypatch.setattr("torque_double.pelog.os.path.exists", lambda _path: True)
    if moment == "start":
        monkeypatch.setattr("torque_double.pelog.os.stat", removed_behind)
    else:
        script.unlink()
    assert pelog.run("prologue.parallel", job, place) == (0, "")
    assert not script.exists()
