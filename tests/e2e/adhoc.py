# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One module on one host of a bed, as an administrator would try it, and its result as data."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed import api
from testbed.inventory import inventory
from testbed.run import run


def module(
    bed: api.RunningBed, host: str, name: str, options: Mapping[str, Any], *, check: bool = False
) -> dict[str, Any]:
    """What `converged.hpc.NAME` returns, run as root."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = Path(folder) / "hosts.yml"
        hosts.write_text(json.dumps(inventory(bed.bed)), encoding="utf-8")
        ansible = str(Path(sys.executable).with_name("ansible"))
        argv = [ansible, host, "--inventory", str(hosts), "--become", "--module-name", f"converged.hpc.{name}"]
        argv += [*(["--args", json.dumps(options)] if options else []), *(["--check"] if check else [])]
        said = run(argv, timeout=120, check=False)
    _errors, arrow, body = f"\n{said.out}".rpartition(f"\n{host} | ")
    assert arrow, said
    result: dict[str, Any] = json.loads(body.partition(" => ")[2])
    result["failed"] = body.startswith("FAILED")
    return result
