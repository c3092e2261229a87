# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One real bed for all end-to-end tests of a run."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed import api

# One for each checkout: the runs of two must not share a bed, and a bed that was kept must be found again.
BED = f"e2e-{zlib.crc32(bytes(Path(__file__))):08x}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bed", metavar="NAME", help="use this bed, which is up, and leave it up")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "no_other_bed: what the first and the last bed of a machine do; runs first")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the first and the last bed come first: what those do does not show beside another."""
    items.sort(key=lambda item: item.get_closest_marker("no_other_bed") is None)


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[api.RunningBed]:
    """Two plain nodes with Slurm, and a Kubernetes control plane; CONVERGED_KEEP_BED=1 leaves it up."""
    name = request.config.getoption("--bed")
    if name:
        yield api.find(name)
        return
    yield api.bring_up(BED)
    if os.environ.get("CONVERGED_KEEP_BED") != "1":
        api.take_down(BED)
