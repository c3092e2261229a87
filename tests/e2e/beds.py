# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the beds of end-to-end tests come from, and who takes them down."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gates import file_sets
from testbed import api

# Where a node keeps the byte code of the modules of nodeshare that it has loaded since its boot.
BYTE_CODE = "/run/converged/pycache"
MODULE = re.compile(r"/lib/[^/]+/nodeshare/(.+)\.cpython-\d+\.pyc")


@contextmanager
def own_bed(request: pytest.FixtureRequest, name: str, *options: str) -> Iterator[api.RunningBed]:
    """A bed of that name, made by `testbed up` with these options; `--bed` names one that is up and stays up.

    CONVERGED_KEEP_BED=1 leaves ours up, too.
    """
    given = request.config.getoption("--bed")
    if given:
        yield api.find(given)
        return
    try:
        bed = api.bring_up(name, *options)
        yield bed
        for host in bed.bed.nodes:
            unread = unread_modules(bed, host.name)
            assert not unread, f"{host.name} has loaded {unread}: a change of these files does not run the tests again"
    finally:
        if os.environ.get("CONVERGED_KEEP_BED") != "1":
            api.take_down(name)


def unread_modules(bed: api.RunningBed, host: str) -> list[str]:
    """Return the files of nodeshare that a node has loaded, and that the scope of these tests does not read."""
    known, gate = file_sets.load(), os.environ.get("CONVERGED_SCOPE")
    scope = next((scope for scope in known.scopes if scope.name == gate), None)
    if scope is None:  # a developer runs the tests
        return []
    found = bed.exec(host, ["find", BYTE_CODE, "-name", "*.pyc"], check=False).out
    paths = [Path(f"roles/node_share/files/nodeshare/{name}.py") for name in MODULE.findall(found)]
    read = {*known.inputs(scope.reads, paths)}
    return sorted(str(path) for path in paths if path not in read)
