# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module against a written conversation with the programs it calls."""

from __future__ import annotations

import json
import types
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

Case = t.Dict[str, t.Any]
Converse = t.Callable[[types.ModuleType, Case], t.Dict[str, t.Any]]


@pytest.fixture
def converse(programs: t.Any, capsys: pytest.CaptureFixture[str]) -> Converse:
    """Runs a module for one case and returns its result; every call of the case must have been made."""

    def run(module: types.ModuleType, case: Case) -> dict[str, t.Any]:
        programs.expect(case["calls"])
        options = {
            "bin_dir": str(programs.folder),
            "_ansible_check_mode": case.get("check_mode", False),
            "_ansible_diff": True,
        }
        with patch_module_args({**options, **case["input"]}), pytest.raises(SystemExit):
            module.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        assert programs.taken() == len(case["calls"]), result
        result.pop("invocation", None)
        assert result.pop("bin_dir", str(programs.folder)) == str(programs.folder)
        result.pop("home", None)  # of this machine
        if result.get("failed"):
            # The path of the program and its words stand before what the program said.
            result["msg"] = result["msg"].rpartition(": exit status ")[2]
        return result

    return run
