# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command that runs in the test's own process answers as its program, which the product calls."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from pbs_double import double
from pbs_double.cluster import Answer, Cluster


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    """A double, also where there is a real PBS."""
    with double.started(tmp_path_factory.mktemp("double")) as cluster:
        assert cluster.call("qsub", "-h", "-N", "held", "--", "/bin/sleep", "9").rc == 0
        yield cluster


def told(cluster: Cluster, command: tuple[str, ...]) -> Answer:
    """Return an answer without the second in which it was given."""
    answer = cluster.call(*command)
    return answer._replace(out=re.sub(r'"timestamp":\s*\d+', '"timestamp":', answer.out))


@pytest.mark.parametrize(
    "command",
    [
        ("qstat", "0.pbs-srv", "nonsense"),
        ("qstat", "-Q", "nowhere"),
        ("qstat", "-f", "-F", "dsv", "0"),
        ("pbsnodes", "-v", "pbs-n1", "pbs-n9"),
        ("pbsnodes", "-C", "bläst", "pbs-n1"),
        ("qmgr", "-c", "print server"),
        ("qmgr", "-c", "list node pbs-n1"),
        ("qmgr", "-c", "set server nonsense = 1"),
        ("qmgr", "-c", "export hook gone application/x-python default"),
    ],
    ids=" ".join,
)
def test_without_its_program_a_command_answers_as_with_it(doubled: Cluster, command: tuple[str, ...]) -> None:
    program = told(Cluster(doubled.bin_dir, doubled.host_dir), command)
    without = told(Cluster(Path("/nowhere"), doubled.host_dir, doubled.inside), command)
    assert program != (0, "", "") or "-C" in command
    assert without == program
