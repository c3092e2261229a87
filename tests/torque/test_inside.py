# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests ask the double within their own process, and the product asks it by its programs: both get the same answer."""

from __future__ import annotations

import typing as t

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
        ("pbsnodes", "-x"),
        ("pbsnodes", "tq-n9"),
        ("pbsnodes", "-N", "größe", "tq-n1"),
        ("qmgr", "-c", "print server"),
        ("qmgr", "-c", "set queue gone enabled = True"),
        ("qmgr", "-c", "nonsense"),
    ],
    ids=" ".join,
)
def test_a_question_has_the_answer_of_its_program(doubled: Cluster, command: tuple[str, ...]) -> None:
    program = Cluster(doubled.bin_dir, doubled.host_dir).call(*command)
    assert program != (0, "", "") or "-N" in command
    assert doubled.call(*command) == program
