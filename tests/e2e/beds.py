# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the beds of end-to-end tests come from, and who takes them down."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from testbed import api


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
        yield api.bring_up(name, *options)
    finally:
        if os.environ.get("CONVERGED_KEEP_BED") != "1":
            api.take_down(name)
