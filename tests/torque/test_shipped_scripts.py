# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that the role installs, run by Torque itself: what nodeshare is told, and what Torque is told of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from torque.shipped import FREE, KILLED, NAMES, REQUEUE, Shipped
from torque_double.cluster import HOSTS, until
from torque_double.site import Site


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A folder that the hosts of a cluster see too."""
    return tmp_path


def hosts_of(site: Site, job: str) -> list[str]:
    return [part.partition("/")[0] for part in site.job(job)["exec_host"].split("+")]


def test_each_host_of_a_job_begins_behind_the_sites_script_and_ends_behind_it(site: Site, top: Path) -> None:
    shipped = Shipped(site, top)
    shipped.site_has(*NAMES)
    job = site.submit("true", "-l", "nodes=2:ppn=1")
    site.until_state(job, "C")
    first, sister = hosts_of(site, job)
    words = f"--wlm=torque --job={job} --run=1"
    limit = "--limit=57"
    until(lambda: len(shipped.told()) >= 8)
    assert shipped.told() == [
        f"{sister} site prologue.parallel",
        f"{sister} nodeshare begin {words} {limit} --exclusive",
        f"{first} site prologue",
        f"{first} nodeshare begin {words} {limit} --cpus=1",
        f"{sister} site epilogue.parallel",
        f"{sister} nodeshare end {words}",
        f"{first} site epilogue",
        f"{first} nodeshare end {words}",
    ]


def test_hosts_that_the_request_names_have_the_jobs_exact_size_there(site: Site, top: Path) -> None:
    """Of memory for the whole job each host has what it has of the slots."""
    shipped = Shipped(site, top)
    request = f"nodes={HOSTS[1]}:ppn=3+{HOSTS[0]}:ppn=1,mem=400mb"
    job = site.submit("true", "-l", request)
    site.until_state(job, "C")
    assert hosts_of(site, job) == [HOSTS[1], HOSTS[0]]
    words = f"--wlm=torque --job={job} --run=1"
    until(lambda: len(shipped.told()) >= 4)
    assert shipped.told()[:2] == [
        f"{HOSTS[0]} nodeshare begin {words} --limit=57 --cpus=1 --mem={100 << 20}",
        f"{HOSTS[1]} nodeshare begin {words} --limit=57 --cpus=3 --mem={300 << 20}",
    ]


def test_what_a_user_writes_reaches_no_command_line(site: Site, top: Path) -> None:
    shipped = Shipped(site, top)
    hostile = f"X=$(touch {top}/hacked) '\"\n`touch {top}/hacked`"
    job = site.submit("true", "-N", "a$(id)`id`", "-v", hostile, "-A", "; id #")
    site.until_state(job, "C")
    (first,) = hosts_of(site, job)
    words = f"--wlm=torque --job={job} --run=1"
    until(lambda: len(shipped.told()) >= 2)
    assert shipped.told() == [
        f"{first} nodeshare begin {words} --limit=57 --cpus=1",
        f"{first} nodeshare end {words}",
    ]
    assert not (top / "hacked").exists()


def test_a_prologue_of_the_site_that_ends_a_job_ends_it_and_nodeshare_hears_nothing_of_its_begin(
    site: Site, top: Path
) -> None:
    shipped = Shipped(site, top)
    shipped.site_has("prologue", status=1)
    job = site.submit("true")
    site.until_state(job, "C")
    assert [line for line in shipped.told() if " begin " in line] == []
    assert shipped.told()[0].endswith("site prologue")


def test_a_sister_whose_nodeshare_hangs_holds_its_mom_no_longer_than_the_settings_say(site: Site, top: Path) -> None:
    """A MoM answers nothing while a script of a sister runs. The job starts all the same, and ends."""
    shipped = Shipped(site, top, timeout_seconds=4)
    for path in top.glob("*/nodeshare"):
        hangs = 'case "$*" in *--exclusive) sleep 600 ;; esac'
        path.write_text(path.read_text(encoding="utf-8").replace('exit "$how"', hangs), encoding="utf-8")
    job = site.submit("true", "-l", "nodes=2:ppn=1")
    assert site.until_state(job, "C")["exit_status"] == "0"
    until(lambda: len(shipped.told()) >= 4)
    assert sorted(line.split()[2] for line in shipped.told()) == ["begin", "begin", "end", "end"]
    until(lambda: set(site.states().values()) == {"free"})


def test_a_look_at_leases_leaves_what_a_script_may_read_at_that_moment(site: Site, tmp_path: Path) -> None:
    """A begin that found the boot id empty made no lease, and the job ran without one."""
    shipped = Shipped(site, tmp_path, real=True)
    shipped.leases(HOSTS[0])
    boot_id = tmp_path / HOSTS[0] / "proc/sys/kernel/random/boot_id"
    before = boot_id.stat().st_mtime_ns
    shipped.leases(HOSTS[0])
    assert boot_id.stat().st_mtime_ns == before


def test_the_real_nodeshare_has_a_lease_on_each_host_for_as_long_as_the_job_is_there(site: Site, top: Path) -> None:
    shipped = Shipped(site, top, real=True)
    first = site.submit("sleep 600", "-l", "nodes=2:ppn=1")
    second = site.submit("sleep 600", "-l", f"nodes={HOSTS[1]}:ppn=1")
    shipped.until_leases(HOSTS[0], f"{first} of 1")
    shipped.until_leases(HOSTS[1], f"{first} of 1", f"{second} of 1")
    assert site.cluster.call("qdel", first, user="alice").rc == 0
    shipped.until_leases(HOSTS[0])
    shipped.until_leases(HOSTS[1], f"{second} of 1")
    assert site.cluster.call("qrerun", second).rc == 0
    shipped.until_leases(HOSTS[1], f"{second} of 2")
    assert site.cluster.call("qdel", second, user="alice").rc == 0
    shipped.until_leases(HOSTS[1])


@pytest.mark.parametrize("how", ["9", KILLED])
def test_a_job_starts_all_the_same_where_nodeshare_fails_by_accident(site: Site, top: Path, how: str) -> None:
    shipped = Shipped(site, top)
    shipped.nodeshare_ends(how)
    job = site.submit("true")
    done = site.until_state(job, "C")
    assert (done["exit_status"], done["start_count"]) == ("0", "1")
    assert len([line for line in shipped.told() if " begin " in line]) == 1


@pytest.mark.parametrize(("how", "on_failure"), [(REQUEUE, "accept"), (KILLED, "requeue")])
def test_a_job_that_is_refused_is_tried_again_until_the_node_is_free(
    site: Site, top: Path, how: str, on_failure: str
) -> None:
    """Torque itself tries at once and without end; the script waits before it says no."""
    shipped = Shipped(site, top, on_failure=on_failure)
    shipped.nodeshare_ends(how)
    job = site.submit("true")
    until(lambda: len([line for line in shipped.told() if " begin " in line]) >= 2)
    shipped.nodeshare_ends(FREE)
    done = site.until_state(job, "C")
    assert done["exit_status"] == "0"
    kinds = " ".join(line.split()[2] for line in shipped.told())
    # The script undoes a begin that it refuses; Torque runs the epilogue behind it too.
    assert re.fullmatch("(begin end( end)? ?)+", kinds), shipped.told()


def test_a_sister_that_refuses_is_undone_there_and_its_job_waits(site: Site, top: Path) -> None:
    """Torque takes the node of such a sister down until its message is cleared."""
    shipped = Shipped(site, top, on_failure="requeue")
    job = site.submit("true", "-h", "-l", "nodes=2:ppn=1")
    for path in top.glob("*/nodeshare"):
        # Torque tells a sister no list of hosts, so only there a begin is for the whole host.
        refuses = 'case "$*" in *--exclusive) exit 75 ;; esac'
        path.write_text(path.read_text(encoding="utf-8").replace('exit "$how"', refuses), encoding="utf-8")
    site.cluster.call("qrls", job)
    until(lambda: any(" end " in line for line in shipped.told()))
    sister = shipped.told()[0].split()[0]
    assert [line.split()[:3] for line in shipped.told()[:2]] == [
        [sister, "nodeshare", "begin"],
        [sister, "nodeshare", "end"],
    ]
    site.cluster.call("qdel", job)


def test_a_job_type_that_a_user_chose_makes_no_host_a_sister(site: Site, top: Path) -> None:
    shipped = Shipped(site, top)
    shipped.site_has(*NAMES)
    job = site.submit("true", "-T", "parallel")
    site.until_state(job, "C")
    (first,) = hosts_of(site, job)
    words = f"--wlm=torque --job={job} --run=1"
    until(lambda: len(shipped.told()) >= 4)
    assert shipped.told() == [
        f"{first} site prologue",
        f"{first} nodeshare begin {words} --limit=57 --cpus=1",
        f"{first} site epilogue",
        f"{first} nodeshare end {words}",
    ]


def test_nodeshare_has_less_time_than_torque_gives_the_script(site: Site, top: Path) -> None:
    """`$prologalarm 40` is 30 s in Torque; five of them are kept as a margin, and three to undo."""
    try:
        site.configure("$prologalarm 40")
        until(lambda: set(site.states().values()) == {"free"})
        shipped = Shipped(site, top)
        job = site.submit("true")
        site.until_state(job, "C")
        (limit,) = [word for word in shipped.told()[0].split() if word.startswith("--limit=")]
        assert limit in ("--limit=21", "--limit=22")
    finally:
        site.configure()


def test_a_job_that_is_deleted_ends_its_lease(site: Site, top: Path) -> None:
    shipped = Shipped(site, top)
    job = site.submit("sleep 600")
    until(lambda: site.job(job).get("job_state") == "R" and shipped.told())
    assert site.cluster.call("qdel", job, user="alice").rc == 0
    site.until_state(job, "C")
    until(lambda: len(shipped.told()) >= 2)
    assert shipped.told()[-1].endswith(f"nodeshare end --wlm=torque --job={job} --run=1")
