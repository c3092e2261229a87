# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster whose nodes are handed over as a whole, and then have jobs beside pods: the way from one share mode to
the other, under a job. All else of PBS is in test_pbs_site.py. Every test takes the next step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.pbs_site import BESIDE_PODS, NODES, PROOF, PbsSite
from e2e.playing import until
from e2e.whole_site import differences, look

pytestmark = pytest.mark.soak

BED = f"pbs-whole-{os.getpid()}"


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PbsSite]:
    """Two plain nodes with a MoM, a server, and a control plane."""
    with own_bed(request, BED, "--wlm", "pbs") as bed:
        found = PbsSite(bed, tmp_path_factory.mktemp("pbs"))
        found.prepare()
        yield found


@pytest.fixture(scope="module")
def before(site: PbsSite) -> Mapping[str, Mapping[str, object]]:
    return look(site)


@pytest.mark.usefixtures("before")
def test_a_conversion_takes_a_job_into_account_that_has_one_node(site: PbsSite) -> None:
    job = site.qsub("-l", "select=1:ncpus=1:host=n1")
    until(lambda: site.job_state(job) == "R", "the job runs")
    site.play("site")
    assert site.job_state(job) == "R"
    assert site.leases_of("n1") == {f"pbs/{job}/1"}
    assert site.leases_of("n2") == set()
    assert set(site.objects("nodes")) == NODES
    site.ctl(f"qdel {job}")


def test_the_sharing_is_proved_with_real_pods_and_a_job_on_both_nodes(site: PbsSite) -> None:
    said = site.play("verify", converged_verify_nodes=sorted(NODES), **PROOF)
    assert "none of these pods ran beside it" in said.out
    assert "proved" in said.out
    assert site.jobs() == {}


def test_a_second_run_has_jobs_beside_pods_and_knows_what_one_has_that_runs_already(site: PbsSite) -> None:
    site.play("restore", "--limit", "n2")
    job = site.qsub("-l", "select=2:ncpus=1:mem=64mb", "-l", "place=scatter")
    until(lambda: site.leases_of("n1") == {f"pbs/{job}/1"}, "a node that it holds, and one of PBS alone")
    site.set("all", **BESIDE_PODS)
    site.play("site")
    assert site.job_state(job) == "R"
    site.stands_beside_pods(job, {"cpu": "1", "memory": str(64 << 20)})
    site.end(job)


def test_the_way_back_leaves_pbs_and_its_nodes_as_they_were(site: PbsSite, before: Mapping[str, Any]) -> None:
    site.play("restore")
    assert differences(before, look(site)) == {}
