# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Torque cluster for tests: the real one where Torque is installed and may be started, otherwise the double."""

from __future__ import annotations

import tempfile
import typing as t
from pathlib import Path

import pytest
from torque_double import double, real
from torque_double.cluster import Cluster
from torque_double.site import Site


def pytest_report_header() -> str:
    """Say which Torque the tests of this folder run on."""
    root = real.installation()
    return "torque: the double" if root is None else f"torque: the real one in {root}"


@pytest.fixture(scope="session")
def cluster() -> t.Iterator[Cluster]:
    """One for all tests. Users look into its folder, so it is not below pytest's own."""
    root = real.installation()
    with tempfile.TemporaryDirectory(prefix="torque-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with double.started(folder) if root is None else real.started(root, folder) as made:
            yield made


@pytest.fixture(scope="session")
def used_site(cluster: Cluster) -> t.Iterator[Site]:
    """The same as the last test left it."""
    found = Site(cluster)
    yield found
    found.remove()


@pytest.fixture
def site(used_site: Site) -> Site:
    """The same without jobs, and with no script but those that a test installs."""
    used_site.clear()
    return used_site
