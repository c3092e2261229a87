# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of several nodes with one slurm.conf that all of them mount: converted, taken by one job, and taken back. Of
four nodes and of eight, and one is lost on the way. In every change three nodes have one slurm.conf in test_spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e import workload
from e2e.beds import own_bed
from e2e.handover.sharing import UNTIL_TOLD, Sharing
from e2e.playing import until
from e2e.whole_site import CONF, differences, look

BED = f"shared-{os.getpid()}"
RECORD = "/var/lib/converged/record"
LOST = "n3"  # in the second of three batches

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module", params=[4, 8], ids=lambda count: f"{count} nodes")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Plain nodes with Slurm 22.05, and a control plane."""
    with own_bed(request, BED, "--nodes", str(request.param), "--slurm-conf", "shared") as bed:
        found = Sharing(bed, tmp_path_factory.mktemp("shared"))
        found.set("all", slurm_share_conf="shared")
        yield found


def glance(site: Sharing) -> Mapping[str, Mapping[str, object]]:
    """A look at a host takes seconds: at the canary, one of those that follow together, and the last."""
    return look(site, without=tuple(set(site.nodes) - {"n1", "n2", site.nodes[-1]}))


@pytest.fixture(scope="module", autouse=True)
def before(site: Sharing) -> Mapping[str, Mapping[str, object]]:
    return glance(site)


@pytest.fixture(scope="module", autouse=True)
def conf(site: Sharing) -> str:
    """slurm.conf, of which there is one."""
    return site.ctl(f"cat {CONF}")


# In every change test_conversion.py: the batch goes on, the next batch is converted, and the run fails.
def test_a_node_that_is_lost_behind_the_plan_costs_no_other_within_the_budget(site: Sharing) -> None:
    with site.started("site", converged_serial=[1, len(site.nodes) - 2, 1], converged_max_fail_percentage=50) as run:
        assert run.stdout is not None
        assert any(line.startswith("PLAY [Convert the nodes") for line in run.stdout)
        site.close(LOST, "input", 22)  # a firewall between it and the administrator, which ends what is open, too
        said = run.stdout.read()
    assert run.returncode != 0, said
    assert f"fatal: [{LOST}]: UNREACHABLE!" in said, said
    assert set(site.objects("nodes")) == {*site.nodes} - {LOST}, said
    site.srun("-N1", f"--nodelist={LOST}", "true")
    site.open(LOST)


def test_all_nodes_are_converted_and_the_one_file_is_changed_once(site: Sharing, conf: str) -> None:
    site.play("site")
    assert set(site.objects("nodes")) == {*site.nodes}
    changed = site.node(site.nodes[-1], f"cat {CONF}")
    assert changed.count("/etc/converged/slurm/prolog\n") == 1
    assert changed != conf
    # Only the host that has changed it can take that back.
    held = {host for host in (*site.controllers, *site.nodes) if site.node(host, f"grep -rlsF {CONF} {RECORD} || true")}
    assert held == set(site.controllers)


def test_a_job_on_all_of_them_finds_them_free_and_pods_return(site: Sharing) -> None:
    nodes = set(site.nodes)

    def everywhere() -> bool:
        return set(workload.ready(site, "web").values()) == nodes

    site.record_events()
    workload.apply(site, workload.one_on_each("web", len(nodes)))
    until(everywhere, "a pod on every node")
    with site.while_job(f"-N{len(nodes)}", command=UNTIL_TOLD) as ended:
        assert site.tainted() == nodes
        job = site.tell_to_end(ended)
    assert (job.nodes, job.pods()) == (nodes, set())
    for node in nodes:
        assert site.pods_started(node, since=job.began, until=job.ended) == set()
    site.free()
    site.pods_return("web", len(nodes))
    assert everywhere()


def test_all_of_it_goes_back_with_its_proof(site: Sharing, before: Mapping[str, Any], conf: str) -> None:
    said = site.play("restore")
    assert said.out.count("things are as they were") == len(site.nodes) + len(site.controllers)
    assert site.ctl(f"cat {CONF}") == conf
    site.stop_recording()
    assert differences(before, glance(site)) == {}
    site.srun(f"-N{len(site.nodes)}", "true")
