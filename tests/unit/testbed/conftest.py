# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the unit tests of the test bed share: a cache folder of their own, and beds that exist on paper."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from testbed import layout
from testbed.cgroups import Way
from testbed.state import Bed


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of a test lands in the real cache."""
    monkeypatch.setenv("CONVERGED_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def paper_bed(cache: Path) -> Callable[..., Bed]:
    """Builds the layout of a bed from what differs from the defaults."""

    def build(*, way: Way = Way.V1, **request: Any) -> Bed:
        wanted = layout.Request(**request)
        return layout.layout(wanted, subnet=IPv4Network("10.89.7.0/24"), way=way, uid=1000)

    return build
