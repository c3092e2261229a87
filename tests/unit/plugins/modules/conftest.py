# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module against a written conversation with the programs it calls.

Real executables stand in a folder of their own for the programs; each takes the next line of the conversation, refuses
any other call, and answers what is written there. So a case shows which commands a module gives, in which order.
"""

from __future__ import annotations

import json
import sys
import types
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

Case = t.Dict[str, t.Any]
Converse = t.Callable[[types.ModuleType, Case], t.Dict[str, t.Any]]

_PROGRAM = """\
#!{python} -I
import json, os, sys
from pathlib import Path
here = Path(__file__).parent
calls = json.loads((here / "calls.json").read_text())
taken = here / "taken"
number = int(taken.read_text())
taken.write_text(str(number + 1))
got = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
want = calls[number] if number < len(calls) else {{"argv": ["no further call"]}}
env = {{name: os.environ.get(name) for name in want.get("env", {{}})}}
if got != want["argv"] or env != want.get("env", {{}}):
    sys.exit(f"call {{number + 1}} is {{got}} with {{env}}: expected {{want['argv']}} with {{want.get('env', {{}})}}")
sys.stdout.write(want.get("out", ""))
sys.stderr.write(want.get("err", ""))
sys.exit(want.get("rc", 0))
"""


@pytest.fixture
def converse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Converse:
    """Runs a module for one case and returns its result; every call of the case must have been made."""

    def run(module: types.ModuleType, case: Case) -> dict[str, t.Any]:
        bin_dir = tmp_path / "bin"
        bin_dir.mkdir(exist_ok=True)
        (bin_dir / "calls.json").write_text(json.dumps(case["calls"]))
        (bin_dir / "taken").write_text("0")
        for name in ("scontrol", "squeue"):
            program = bin_dir / name
            program.write_text(_PROGRAM.format(python=sys.executable))
            program.chmod(0o755)
        options = {"bin_dir": str(bin_dir), "_ansible_check_mode": case.get("check_mode", False), "_ansible_diff": True}
        with patch_module_args({**options, **case["input"]}), pytest.raises(SystemExit):
            module.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        assert int((bin_dir / "taken").read_text()) == len(case["calls"]), result
        result.pop("invocation", None)
        if result.get("failed"):
            # The path of the program and its words stand before what the program said.
            result["msg"] = result["msg"].rpartition(": exit status ")[2]
        return result

    return run
