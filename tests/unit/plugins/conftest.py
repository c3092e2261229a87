# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that follow a written conversation, for whatever calls a command.

Real executables stand in a folder of their own; each takes the next line of the conversation, refuses any other call,
and answers what is written there. So a case shows which commands are given, with which words, in which order.
"""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest

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
if "text" in want and sys.stdin.read() != want["text"]:
    sys.exit(f"call {{number + 1}} was given another text than {{want['text']!r}}")
if got != want["argv"] or env != want.get("env", {{}}):
    sys.exit(f"call {{number + 1}} is {{got}} with {{env}}: expected {{want['argv']}} with {{want.get('env', {{}})}}")
sys.stdout.write(want.get("out", ""))
sys.stderr.write(want.get("err", ""))
sys.exit(want.get("rc", 0))
"""


class Programs:
    """A folder of programs; each call of `expect` begins a new conversation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("scontrol", "squeue", "qmgr", "qstat", "pbsnodes"):
            (folder / name).write_text(_PROGRAM.format(python=sys.executable))
            (folder / name).chmod(0o755)

    def expect(self, calls: list[dict[str, t.Any]]) -> None:
        (self.folder / "calls.json").write_text(json.dumps(calls))
        (self.folder / "taken").write_text("0")

    def taken(self) -> int:
        """How many calls were made."""
        return int((self.folder / "taken").read_text())


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")
