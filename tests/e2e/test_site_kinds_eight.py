# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site of eight nodes with one slurm.conf that all of them mount: converted, although one
is lost on the way, taken by one job, and taken back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.handover import workload
from e2e.handover.sharing import Sharing
from e2e.playing import until
from e2e.whole_site import CONF, differences, look

pytestmark = pytest.mark.seconds(300)

BED = f"eight-{os.getpid()}"
RECORD = "/var/lib/converged/record"
COUNT = 8
NODES = {f"n{number}" for number in range(1, COUNT + 1)}
# In the second of three batches; a firewall between it and the administrator, which ends what is open, too.
LOST = "n3"
CLOSED = "INPUT --protocol tcp --dport 22 --jump REJECT --reject-with tcp-reset"
# A look at a host takes seconds: at the canary, one of those that follow together, and the last.
LOOKED_AT = {"n1", "n4", "n8"}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Plain nodes with Slurm 22.05, and a control plane."""
    with own_bed(request, BED, "--nodes", str(COUNT), "--slurm-conf", "shared") as bed:
        found = Sharing(bed, tmp_path_factory.mktemp("eight"))
        found.set("all", slurm_share_conf="shared")
        yield found


@pytest.fixture(scope="module", autouse=True)
def before(site: Sharing) -> Mapping[str, Mapping[str, object]]:
    return look(site, without=tuple(NODES - LOOKED_AT))


@pytest.fixture(scope="module", autouse=True)
def conf(site: Sharing) -> str:
    """slurm.conf, of which there is one."""
    return site.ctl(f"cat {CONF}")


def test_a_node_that_is_lost_behind_the_plan_costs_no_other_within_the_budget(site: Sharing) -> None:
    with site.started("site", converged_serial=[1, 4, 3], converged_max_fail_percentage=50) as run:
        assert run.stdout is not None
        assert any(line.startswith("PLAY [Convert the nodes") for line in run.stdout)
        site.node(LOST, f"iptables --insert {CLOSED}")
        said = run.stdout.read()
    assert run.returncode != 0, said
    assert f"fatal: [{LOST}]: UNREACHABLE!" in said, said
    assert set(site.objects("nodes")) == NODES - {LOST}, said
    site.srun("-N1", f"--nodelist={LOST}", "true")
    site.node(LOST, f"iptables --delete {CLOSED}")


def test_eight_nodes_are_converted_and_the_one_file_is_changed_once(site: Sharing, conf: str) -> None:
    site.play("site")
    assert set(site.objects("nodes")) == NODES
    changed = site.node("n8", f"cat {CONF}")
    assert changed.count("/etc/converged/slurm/prolog\n") == 1
    assert changed != conf
    # Only the host that has changed it can take that back.
    held = {host for host in (*site.controllers, *site.nodes) if site.node(host, f"grep -rlsF {CONF} {RECORD} || true")}
    assert held == set(site.controllers)


def test_a_job_on_all_of_them_finds_them_free_and_pods_return(site: Sharing) -> None:
    def everywhere() -> bool:
        return set(workload.ready(site, "web").values()) == NODES

    site.record_events()
    workload.apply(site, workload.one_on_each("web", COUNT))
    until(everywhere, "a pod on every node")
    with site.while_job(f"-N{COUNT}", command="sleep 4") as ended:
        assert site.tainted() == NODES
        job = ended()
    assert (job.nodes, job.pods()) == (NODES, set())
    for node in NODES:
        assert site.pods_started(node, since=job.began, until=job.ended) == set()
    site.free()
    until(everywhere, "pods return")


def test_all_of_it_goes_back_with_its_proof(site: Sharing, before: Mapping[str, Any], conf: str) -> None:
    said = site.play("restore")
    assert said.out.count("things are as they were") == COUNT + len(site.controllers)
    assert site.ctl(f"cat {CONF}") == conf
    site.stop_recording()
    assert differences(before, look(site, without=tuple(NODES - LOOKED_AT))) == {}
    site.srun(f"-N{COUNT}", "true")
