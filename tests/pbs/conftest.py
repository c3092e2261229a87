# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster for tests: the real one where OpenPBS is installed and may be started, otherwise the double."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

import pytest
from pbs_double import double, real
from pbs_double.cluster import Cluster
from pbs_double.recorder import Recorder


@contextlib.contextmanager
def started(folder: Path) -> t.Iterator[Cluster]:
    """A new one."""
    root = real.installation()
    with double.started(folder) if root is None else real.started(root, folder) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pbs(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("pbs")) as cluster:
        yield cluster


@pytest.fixture
def strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Cluster]:
    """One of its own, which never gets away with the use of memory that it has freed."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.perturb=255")
    with started(tmp_path) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def history(pbs: Cluster) -> t.Iterator[Cluster]:
    """The same, where jobs that have ended stay to be seen."""
    pbs.call("qmgr", "-c", "set server job_history_enable = True")
    yield pbs
    pbs.call("qmgr", "-c", "unset server job_history_enable")


@pytest.fixture(scope="module")
def probe(history: Cluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Recorder]:
    """A hook `probe` for every event, which records."""
    program = Path(__file__).with_name("recording_hook.py")
    recorder = Recorder(history, tmp_path_factory.mktemp("probe"), program)
    recorder.install("probe", 20)
    yield recorder
    recorder.remove("probe")


@pytest.fixture
def hook(probe: Recorder) -> t.Iterator[Recorder]:
    """The same, which has seen nothing and accepts all; there are no jobs."""
    probe.tell("probe", {})
    yield probe
    probe.end_jobs()
