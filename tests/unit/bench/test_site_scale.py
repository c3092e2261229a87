# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of Ansible's side answers for every module that the playbooks call."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench/site_scale.py"


# Each node is asked once by `status`, and eight times by `site`; the rest is asked for all nodes at once.
@pytest.mark.parametrize(("run", "calls"), [("status", 2 + 3), ("preflight", 2 + 3), ("all", 2 * 8 + 21)])
def test_a_site_on_which_nothing_is_to_be_done_is_run_through(run: str, calls: int) -> None:
    argv = [sys.executable, str(BENCH), "--nodes", "2", "--only", run]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = re.findall(r"^\| [^|]{6,} \| \d+ \| \d+ \| (\d+) \|$", done.stdout, re.MULTILINE)
    assert int(row) == calls
