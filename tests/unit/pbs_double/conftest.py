# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster for tests: the real one where OpenPBS is installed and may be started, otherwise the double."""

from __future__ import annotations

import typing as t

import pytest
from pbs_double import double, real
from pbs_double.cluster import Cluster


@pytest.fixture(scope="session")
def pbs(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("pbs")
    root = real.installation()
    if root is None:
        yield double.made(folder)
        return
    with real.started(root, folder) as cluster:
        yield cluster
