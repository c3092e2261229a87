# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that tests put between themselves and a cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from pbs_double.cluster import Answer, Cluster, until
from pbs_double.faults import Fault, Faulty


@pytest.fixture
def faulty(pbs: Cluster, tmp_path: Path) -> Faulty:
    return Faulty(pbs, tmp_path)


def jobs(pbs: Cluster) -> set[str]:
    return set(json.loads(pbs.call("qstat", "-f", "-F", "json").out).get("Jobs", {}))


def test_without_a_fault_nothing_is_changed(faulty: Faulty, pbs: Cluster) -> None:
    assert faulty.cluster.call("qmgr", "-c", "list hook nosuch") == pbs.call("qmgr", "-c", "list hook nosuch")


def test_a_program_that_fails_has_done_nothing(faulty: Faulty, pbs: Cluster) -> None:
    before = jobs(pbs)
    said = "Connection refused\nqsub: cannot connect to server pbs-srv (errno=15010)\n"
    faulty.set("qsub", Fault(status=162, said=said))
    assert faulty.cluster.call("qsub", "-h", "--", "/bin/true") == Answer(162, "", said)
    assert jobs(pbs) <= before


def test_a_program_whose_answer_is_lost_has_done_its_work(faulty: Faulty, pbs: Cluster) -> None:
    before = jobs(pbs)
    faulty.set("qsub", Fault(status=162, acts=True))
    assert faulty.cluster.call("qsub", "-h", "--", "/bin/true") == Answer(162, "", "")
    (name,) = jobs(pbs) - before
    faulty.heal("qsub")
    assert faulty.cluster.call("qdel", name).rc == 0
    until(lambda: name not in jobs(pbs))


def test_an_answer_that_is_cut_short_looks_well(faulty: Faulty) -> None:
    faulty.set("qstat", Fault(cut=20))
    answer = faulty.cluster.call("qstat", "-f", "-F", "json")
    assert (answer.rc, len(answer.out)) == (0, 20)
    with pytest.raises(ValueError, match="Unterminated|Expecting"):
        json.loads(answer.out)


def test_a_program_that_hangs_says_nothing(faulty: Faulty) -> None:
    faulty.set("qstat", Fault(hang=600))
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([str(faulty.cluster.bin_dir / "qstat")], capture_output=True, timeout=1, check=False)
