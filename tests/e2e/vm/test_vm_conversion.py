# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that loses its power while it is converted: the next run goes on, and batch jobs run all the same."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from e2e.site_of import kill
from e2e.vm.site import MACHINE_SECONDS, NODE, MachineSite, machine_site

pytestmark = pytest.mark.soak

BED = f"vmconv-{os.getpid()}"
BATCH, CONVERTING = "converged.hpc/batch", "converged.hpc/converting"
MODULES = {"overlay", "br_netfilter"}
# A task of the play that converts the nodes, and the seconds that it has had when the power goes.
CUTS = [
    ("Put nodeshare on the node", 2.0),
    ("Put the container runtime on the node", 0.0),
    ("Put the container runtime on the node", 15.0),
    ("Join the node", 10.0),
    ("Label the nodes", 0.0),
]


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineSite]:
    """One plain machine with Slurm 22.05, a batch controller, and a control plane."""
    with machine_site(request, tmp_path_factory, BED) as found:
        yield found


def cut_at(site: MachineSite, task: str, seconds: float) -> None:
    """Run `site` until a task of the nodes has had so long, and cut the power there."""
    said: list[str] = []
    with site.started("site") as process:
        assert process.stdout is not None
        nodes = False
        for line in process.stdout:
            said.append(line)
            nodes = "Convert the nodes" in line if line.startswith("PLAY [") else nodes
            if nodes and line.startswith("TASK [") and task in line:
                break
        else:
            raise AssertionError(f"site never came to {task!a}:\n{''.join(said)}")
        time.sleep(seconds)
        site.cut_power()
        kill(process)


@pytest.mark.parametrize(("task", "seconds"), CUTS, ids=lambda value: str(value).replace(" ", "-"))
def test_a_conversion_that_loses_its_power_lets_no_pod_in_and_keeps_batch_jobs(
    site: MachineSite, task: str, seconds: float
) -> None:
    booted = site.boot_id()
    cut_at(site, task, seconds)
    assert site.give_power(booted) != booted
    taints = site.taints()
    assert [node for node in taints if not taints[node] & {BATCH, CONVERTING}] == []
    site.ctl(f"scontrol update nodename={NODE} state=resume", check=False)
    site.until("ctl", "sinfo -h -o %T | grep -qx idle", MACHINE_SECONDS)
    assert site.srun("-w", NODE, "hostname", timeout=MACHINE_SECONDS).out == f"{NODE}\n"


def test_the_next_run_goes_on_to_the_end_and_the_one_after_it_changes_nothing(site: MachineSite) -> None:
    site.play("site")
    site.free()
    assert site.modules() >= MODULES
    assert set(site.play("site").changed().values()) == {0}


def test_the_way_back_of_all_that_unloads_the_modules(site: MachineSite) -> None:
    site.play("restore")
    assert site.modules() & MODULES == set()
    assert site.objects("nodes") == {}
    assert site.srun("-w", NODE, "hostname", timeout=MACHINE_SECONDS).out == f"{NODE}\n"
