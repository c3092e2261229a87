# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command that runs in the test's own process answers as its program, which the product calls."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from torque_double import double
from torque_double.cluster import Cluster


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    """A double, also where there is a real Torque."""
    with double.started(tmp_path_factory.mktemp("double")) as cluster:
        assert cluster.call("qsub", "-h", "-N", "held", text="sleep 9\n", user="alice").rc == 0
        yield cluster


@pytest.mark.parametrize(
    "command",
    [
        ("qstat", "0", "nonsense"),
        ("qstat", "-x"),
        ("qstat", "-B", "elsewhere"),
        ("qstat", "--nonsense"),
        ("pbsnodes", "tq-n9"),
        ("pbsnodes", "-N", "größe", "tq-n1"),
        ("qmgr", "-c", "print server"),
        ("qmgr", "-c", "set queue gone enabled = True"),
        ("qmgr", "-c", "nonsense"),
    ],
    ids=" ".join,
)
def test_without_its_program_a_command_answers_as_with_it(doubled: Cluster, command: tuple[str, ...]) -> None:
    program = Cluster(doubled.bin_dir, doubled.host_dir).call(*command)
    without = Cluster(Path("/nowhere"), doubled.host_dir, doubled.inside).call(*command)
    assert program != (0, "", "") or "-N" in command
    assert without == program
