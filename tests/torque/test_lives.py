# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of jobs: deleted, run again, suspended, and as daemons and hosts go away under them."""

from __future__ import annotations

from torque_double.cluster import HOSTS, until
from torque_double.site import Site

FOREVER = "sleep 600"


def running(site: Site, *words: str) -> str:
    job = site.submit(FOREVER, *words)
    until(lambda: int(site.job(job).get("session_id", 0)))
    return job


def test_a_job_that_is_deleted_gets_its_precancel_and_its_epilogues(site: Site) -> None:
    for name in ("epilogue", "epilogue.precancel"):
        site.install(name)
    job = running(site)
    assert site.cluster.call("qdel", job, user="alice").rc == 0
    assert site.until_state(job, "C")["exit_status"] == "271"
    assert [each.partition("@")[0] for each in site.order(job)] == ["epilogue.precancel", "epilogue"]


def test_a_job_that_is_purged_is_gone_at_once(site: Site) -> None:
    job = running(site)
    assert site.cluster.call("qdel", "-p", job, user="alice").rc == 159
    assert site.cluster.call("qdel", "-p", job).rc == 0
    assert site.job(job) == {}
    assert "jobs" not in site.nodes()[HOSTS[0]]


def test_a_job_that_is_run_again_has_its_scripts_twice(site: Site) -> None:
    site.install("prologue")
    site.install("epilogue")
    job = running(site)
    assert site.cluster.call("qrerun", job, user="alice").rc == 159
    assert site.cluster.call("qrerun", job).rc == 0
    until(lambda: len(site.order(job)) >= 3)
    names = [each.partition("@")[0] for each in site.order(job)]
    assert names == ["prologue", "epilogue", "prologue"]
    assert site.job(job)["start_count"] == "2"


def test_a_suspended_job_has_given_its_slots_away(site: Site) -> None:
    job = running(site, "-l", "nodes=1:ppn=4")
    assert site.cluster.call("qsig", "-s", "suspend", job, user="alice").rc == 159
    assert site.cluster.call("qsig", "-s", "suspend", job).rc == 0
    found = site.until_state(job, "S")
    assert found["exec_host"] == f"{HOSTS[0]}/0-3"
    until(lambda: "jobs" not in site.nodes()[HOSTS[0]])
    assert site.cluster.call("qsig", "-s", "resume", job).rc == 0
    site.until_state(job, "R")


def test_a_job_outlives_its_mom_and_then_has_succeeded_whatever_it_did(site: Site) -> None:
    site.install("epilogue")
    job = site.submit("sleep 3; exit 5")
    until(lambda: int(site.job(job).get("session_id", 0)))
    site.restart(HOSTS[0])
    assert site.until_state(job, "C")["exit_status"] == "0"
    assert [each.partition("@")[0] for each in site.order(job)] == ["epilogue"]


def test_a_deletion_is_lost_or_refused_while_its_mom_is_dead(site: Site) -> None:
    job = running(site)
    site.kill(HOSTS[0])
    assert site.states()[HOSTS[0]] == "free"
    # Torque 6.1.3 was seen to lose it in silence and to say that it could not connect; so nothing may depend on either.
    assert site.cluster.call("qdel", job, user="alice").rc in {0, 224}
    site.restart(HOSTS[0]) if site.on(HOSTS[0], "pbs_mom").rc else None
    assert site.job(job)["job_state"] == "R"
    # The server calls the node down for a while where it has asked the dead MoM, and deletes no job there meanwhile.
    until(lambda: site.cluster.call("qdel", job, user="alice").rc == 0)
    site.until_state(job, "C")


def test_a_mom_that_ends_jobs_at_its_start_has_them_queued_again(site: Site) -> None:
    site.install("epilogue")
    job = running(site)
    site.restart(HOSTS[0], how="-r")
    until(lambda: site.job(job).get("start_count") == "2" and site.job(job).get("session_id"))
    # The session may still be that of the first start, whose epilogue has not run then.
    until(lambda: [each.partition("@")[0] for each in site.order(job)] == ["epilogue"])


def test_the_first_hosts_epilogue_runs_whether_or_not_a_sister_that_was_started_anew_runs_its_own(site: Site) -> None:
    site.install("epilogue.parallel")
    site.install("epilogue")
    job = running(site, "-l", "nodes=2")
    first, sister = [part.partition("/")[0] for part in site.job(job)["exec_host"].split("+")]
    site.restart(sister)
    assert site.cluster.call("qdel", job, user="alice").rc == 0
    site.until_state(job, "C")
    # Torque 6.1.3 was seen to run the sister's epilogue and to leave it out; so nothing may depend on either.
    assert [each for each in site.order(job) if each != f"epilogue.parallel@{sister}"] == [f"epilogue@{first}"]


def test_a_server_that_comes_back_has_all_jobs(site: Site) -> None:
    job = running(site)
    before = site.job(job)
    assert site.cluster.call("qterm", "-t", "quick").rc == 0
    until(lambda: site.cluster.call("qstat").rc == 111)
    assert (site.cluster.call("pbsnodes", "-x").rc, site.cluster.call("qmgr", "-c", "list server").rc) == (1, 3)
    site.cluster.call("pbs_server")
    until(lambda: site.cluster.call("qstat").rc == 0)
    after = site.job(job)
    for key in ("job_state", "session_id", "start_count", "exec_host", "start_time"):
        assert after[key] == before[key], key
