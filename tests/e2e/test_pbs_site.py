# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PBS cluster that is converted and taken back by the playbooks, beside jobs that run meanwhile.

Every test takes the next step. The bed's PBS is the double; its hooks run on the nodes, and kubelets and pods are real.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.handover.sharing import Sharing
from e2e.playing import until
from e2e.site_of import IMAGE
from e2e.whole_site import batch_system, differences, look

pytestmark = pytest.mark.seconds(150)

BED = f"pbs-{os.getpid()}"
NODES = {"n1", "n2"}
HOOKS_ON_NODE = "/var/spool/pbs/mom_priv/hooks"
SITE_HOOK = "import pbs\npbs.event().accept()\n"


class PbsSite(Sharing):
    """A site with a hook and a queue of its own, which nobody may touch."""

    def qsub(self, *words: str) -> str:
        """The id of a job that runs by itself."""
        return self.bed.exec("ctl", ["qsub", *words, "--", "/bin/sleep", "900"]).out.strip()

    def job_state(self, job: str) -> str:
        answer = json.loads(self.ctl(f"qstat -x -f -F json {job}", check=False))
        return str(answer.get("Jobs", {}).get(job, {}).get("job_state", ""))

    def leases_of(self, node: str) -> set[str]:
        shown = json.loads(self.node(node, "nodeshare show --json"))
        return {f"{one['wlm']}/{one['job']}/{one['run']}" for one in shown["leases"]}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PbsSite]:
    """Two plain nodes with a MoM, a server, and a control plane."""
    with own_bed(request, BED, "--wlm", "pbs") as bed:
        found = PbsSite(bed, tmp_path_factory.mktemp("pbs"))
        found.set("all", pbs_share_queue="pods", pbs_share_queue_users=["placement"], pbs_share_period=5)
        found.ctl("qmgr -c 'create hook site' && qmgr -c 'set hook site event = execjob_begin'")
        found.ctl("qmgr -c 'import hook site application/x-python default -'", input=SITE_HOOK)
        found.ctl("qmgr -c 'create queue long' && qmgr -c 'set queue long queue_type = execution'")
        yield found


@pytest.fixture(scope="module")
def before(site: PbsSite) -> Mapping[str, Mapping[str, object]]:
    return look(site)


def test_a_plan_touches_nothing_and_a_conversion_takes_running_jobs_into_account(
    site: PbsSite, before: Mapping[str, Any]
) -> None:
    planned = site.play("site", "--check", "--diff")
    assert "hook converged" in planned.out
    assert batch_system(site) == before["batch"]

    job = site.qsub("-l", "select=1:ncpus=1:host=n1")
    until(lambda: site.job_state(job) == "R", "the job runs")
    site.play("site")
    assert site.job_state(job) == "R"
    assert site.leases_of("n1") == {f"pbs/{job}/1"}
    assert site.leases_of("n2") == set()
    assert set(site.objects("nodes")) == NODES
    site.ctl(f"qdel {job}")
    again = site.play("site")
    assert set(again.changed().values()) == {0}, again.out
    said = site.play("status").out
    assert "; PBS free; Kubernetes Ready" in said, said
    words = ["runuser", "-u", "alice", "--", "qsub", "-q", "pods", "--", "/bin/true"]
    assert "Unauthorized Request" in site.bed.exec("ctl", words, check=False).err


def test_the_sharing_is_proved_with_real_pods_and_a_job_on_both_nodes(site: PbsSite) -> None:
    pod = {"converged_verify_image": IMAGE, "converged_verify_command": ["sleep", "100000"]}
    said = site.play("verify", converged_verify_nodes=sorted(NODES), **pod)
    assert "proved" in said.out
    assert json.loads(site.ctl("qstat -f -F json")).get("Jobs", {}) == {}


def test_the_way_back_leaves_pbs_and_its_nodes_as_they_were(site: PbsSite, before: Mapping[str, Any]) -> None:
    said = site.play("restore")
    assert said.out.count("things are as they were") == len(NODES) + 1
    assert differences(before, look(site)) == {}
    for node in NODES:
        until(
            lambda node=node: "converged" not in site.node(node, f"ls {HOOKS_ON_NODE}"), f"{node} has no hook of ours"
        )
        assert site.node(node, f"cat {HOOKS_ON_NODE}/site.PY") == SITE_HOOK
    job = site.qsub("-l", "select=2:ncpus=1", "-l", "place=scatter")
    until(lambda: site.job_state(job) == "R", "jobs start as before")
    site.ctl(f"qdel {job}")
