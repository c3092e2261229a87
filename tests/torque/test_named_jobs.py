# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that names its jobs by an alias: its jobs have leases as all others do, and a lost end is found."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._torque.client import Torque
from nodeshare.batch import torque as batch_torque
from nodeshare.model.actions import GONE, LIVE
from nodeshare.model.answer import Answer
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease
from torque.shipped import Shipped
from torque_double.cluster import HOSTS, SERVER, until
from torque_double.site import Site

ALIAS = "big_one"
HIDE = "display_job_server_suffix = False"
LONG = "a" * 60
Named = t.Callable[..., None]


@pytest.fixture
def named(site: Site) -> t.Iterator[Named]:
    """Set how the server names jobs; none is left when it is set back, as it finds none by another name."""

    def name(*attributes: str) -> None:
        for attribute in attributes:
            answer = site.cluster.call("qmgr", "-c", f"set server {attribute}")
            assert answer.rc == 0, answer

    yield name
    site.clear()
    for attribute in ("job_suffix_alias", "display_job_server_suffix"):
        site.cluster.call("qmgr", "-c", f"unset server {attribute}")


def asked(site: Site, top: Path, *names: str) -> list[str]:
    """Ask as a repair on the first host does; return the answers by name."""
    (top / "server_name").write_text(f"{SERVER}\n", encoding="ascii")
    leases = tuple(Lease(JobKey("torque", name, 1), "boot", 0.0) for name in names)

    def run(argv: tuple[str, ...]) -> Answer:
        return Answer(*site.cluster.call(argv[0], *argv[1:]))

    found = batch_torque.ask(leases, qstat="qstat", run=run, home=str(top), here=HOSTS[0])
    return [found.get(str(lease.key), "") for lease in leases]


@pytest.mark.parametrize(
    ("attributes", "suffix"),
    [
        ([f"job_suffix_alias = {ALIAS}"], f".{SERVER}.{ALIAS}"),
        ([f"job_suffix_alias = {ALIAS}", HIDE], f".{ALIAS}"),
        ([HIDE], ""),
    ],
)
def test_a_job_of_any_name_has_its_lease_and_is_gone_when_it_is_over(
    site: Site, tmp_path: Path, named: Named, attributes: list[str], suffix: str
) -> None:
    named(*attributes)
    shipped = Shipped(site, tmp_path, real=True)
    job = site.submit("sleep 600", "-l", f"nodes={HOSTS[0]}")
    assert job.partition(".")[2] == suffix[1:]
    shipped.until_leases(HOSTS[0], f"{job} of 1")
    site.until_state(job, "R")
    (listed,) = [one for one in Torque(bin_dir=str(site.cluster.bin_dir)).jobs() if one.state == "R"]
    assert listed.id == job
    over, other = f"999999{suffix}", f"999999{suffix}.other"
    assert asked(site, tmp_path, job, over, other) == [LIVE, GONE, ""]
    assert site.cluster.call("qdel", job, user="alice").rc == 0
    shipped.until_leases(HOSTS[0])


def test_a_name_that_torque_cuts_is_found_among_the_moms_files(site: Site, named: Named) -> None:
    named(f"job_suffix_alias = {LONG}")
    job = site.submit("sleep 600", "-l", f"nodes={HOSTS[0]}")
    site.until_state(job, "R")
    cut = job[: batch_torque.LONGEST_FILE]
    assert len(cut) < len(job)
    until(lambda: site.on(HOSTS[0], f"test -e $PBS_HOME/mom_priv/jobs/{cut}.JB").rc == 0)


def test_a_job_that_was_named_before_the_server_took_an_alias_is_not_gone(
    site: Site, tmp_path: Path, named: Named
) -> None:
    """Torque finds it by no name then, and says that it knows none."""
    job = site.submit("sleep 600", "-l", f"nodes={HOSTS[0]}")
    site.until_state(job, "R")
    named(f"job_suffix_alias = {ALIAS}")
    assert site.cluster.call("qstat", "-x", job).rc == batch_torque.UNKNOWN_JOB
    assert asked(site, tmp_path, job) == [""]
    assert site.cluster.call("qmgr", "-c", "unset server job_suffix_alias").rc == 0
    assert asked(site, tmp_path, job) == [LIVE]
