# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scripts Torque runs for a job, where, as which user, with what, and what follows from their ends."""

from __future__ import annotations

import pytest
from torque_double.cluster import HOSTS, until
from torque_double.site import ROOT_NAMES, USER_NAMES, Site

TWO_HOSTS = ("-l", "nodes=2:ppn=1")


def install_all(site: Site) -> None:
    for name in (*ROOT_NAMES, *USER_NAMES):
        site.install(name)


def test_sisters_run_their_own_files_before_the_first_host_and_clean_up_before_it(site: Site) -> None:
    install_all(site)
    job = site.submit("true", *TWO_HOSTS)
    site.until_state(job, "C")
    first, sister = [part.partition("/")[0] for part in site.job(job)["exec_host"].split("+")]
    site.until_ran(
        job,
        f"prologue.parallel@{sister}",
        f"prologue.user.parallel@{sister}",
        f"prologue@{first}",
        f"prologue.user@{first}",
        f"epilogue.user.parallel@{sister}",
        f"epilogue.parallel@{sister}",
        f"epilogue.user@{first}",
        f"epilogue@{first}",
    )


def test_a_prologue_gets_eight_arguments_an_epilogue_eleven(site: Site) -> None:
    install_all(site)
    limits = "nodes=2:ppn=2,walltime=00:01:00"
    job = site.submit("exit 7", "-N", "a&<b", "-A", "acct", "-l", limits)
    done = site.until_state(job, "C")
    assert done["Job_Name"] == "a&<b"
    found = {each.name: each for each in site.ran(job)}
    resources = f"{limits},neednodes=2:ppn=2"
    script = f"/mom_priv/jobs/{job}.SC"
    for name in ("prologue", "prologue.parallel"):
        *words, path = found[name].arguments
        assert words == [job, "alice", "alice", "a&<b", resources, "batch", "acct"]
        assert path.endswith(script)
    ends = {name: found[name].arguments for name in ("epilogue", "epilogue.parallel")}
    for words in ends.values():
        assert len(words) == 11
        assert (words[:4], words[5]) == ([job, "alice", "alice", "a&<b"], resources)
        assert (words[7:9], words[10].endswith(script)) == (["batch", "acct"], True)
    assert int(ends["epilogue"][4]) > 0
    assert (ends["epilogue"][9], ends["epilogue.parallel"][4], ends["epilogue.parallel"][9]) == ("7", "0", "0")


def test_scripts_run_as_root_in_the_folder_of_the_mom_or_as_the_user_in_his_home(site: Site) -> None:
    install_all(site)
    job = site.submit("true", *TWO_HOSTS)
    site.until_state(job, "C")
    for each in site.ran(job):
        if each.name in ROOT_NAMES:
            assert (each.uid, each.folder.endswith("/mom_priv")) == (0, True), each
        else:
            assert (each.uid, each.folder) == (61101, "/"), each


def test_the_environment_names_the_job_nowhere_and_the_list_of_hosts_only_on_the_first(site: Site) -> None:
    install_all(site)
    job = site.submit("true", *TWO_HOSTS, "-v", "SECRET=1")
    site.until_state(job, "C")
    found = {each.name: each.environment for each in site.ran(job)}
    common = {"PATH", "LANG", "PBS_MSHOST", "PBS_NODENUM", "PBS_NP", "PBS_NUM_NODES", "PBS_NUM_PPN"}
    common |= {"PBS_RESOURCE_NODES", "PBS_O_WORKDIR"}
    made_by_the_shell = {"PWD", "SHLVL", "_", "OLDPWD"}
    assert set(found["prologue"]) - made_by_the_shell == common | {"PBS_NODEFILE"}
    assert set(found["prologue.parallel"]) - made_by_the_shell == common
    assert (found["prologue"]["PBS_NODENUM"], found["prologue.parallel"]["PBS_NODENUM"]) == ("0", "1")
    assert found["prologue"]["PBS_MSHOST"] == found["prologue.parallel"]["PBS_MSHOST"]


def test_the_output_of_a_sisters_epilogue_goes_nowhere_and_may_be_closed(site: Site) -> None:
    install_all(site)
    job = site.submit("true", *TWO_HOSTS)
    site.until_state(job, "C")
    found = {each.name: each.descriptors for each in site.ran(job)}
    assert found["prologue.parallel"]["1"] == "/dev/null"
    for name in ("epilogue.parallel", "epilogue.user.parallel"):
        said = {found[name].get(number, "closed") for number in "12"}
        assert all(each in ("closed", "/dev/null") or each.startswith("pipe:") for each in said), found[name]


@pytest.mark.parametrize("action", ["exit 0", "kill -9 $$"], ids=["success", "death by a signal"])
def test_a_prologue_that_is_killed_counts_as_one_that_succeeded(site: Site, action: str) -> None:
    site.install("prologue", action)
    job = site.submit("exit 3")
    assert site.until_state(job, "C")["exit_status"] == "3"


def test_a_prologue_that_ends_with_1_ends_the_job(site: Site) -> None:
    site.install("prologue", "exit 1")
    site.install("epilogue")
    job = site.submit("true")
    assert site.until_state(job, "C")["exit_status"] == "-2"
    assert [each.partition("@")[0] for each in site.order(job)] == ["prologue", "epilogue"]
    assert site.states() == dict.fromkeys(HOSTS, "free")


def test_a_prologue_that_ends_with_more_is_tried_again_and_again_without_a_hold(site: Site) -> None:
    site.install("prologue", "exit 2")
    job = site.submit("true")
    until(lambda: len(site.ran(job)) >= 3)
    assert site.job(job)["job_state"] in "QR"
    assert site.states() == dict.fromkeys(HOSTS, "free")


def test_a_sisters_prologue_that_fails_requeues_the_job_and_takes_its_node_down(site: Site) -> None:
    site.install("prologue.parallel", "exec >/dev/null 2>&1; exit 1", hosts=HOSTS[:1])
    site.install("prologue")
    site.install("epilogue")
    site.install("epilogue.parallel")
    job = site.submit("true", *TWO_HOSTS)
    until(lambda: site.states()[HOSTS[0]] == "down")
    note = site.nodes()[HOSTS[0]]["note"]
    assert "ERROR: prolog/epilog failed" in note
    assert "exit: 1" in note
    assert site.states()[HOSTS[1]] == "free"
    # the first host's epilogue has run though its prologue never did, and the sister's never did
    until(lambda: {each.partition("@")[0] for each in site.order(job)} == {"prologue.parallel", "epilogue"})
    # the server hears of the job's end only after the epilogue has written its line
    site.until_state(job, "Q")
    site.cluster.call("pbsnodes", "-c", HOSTS[0])
    assert site.states()[HOSTS[0]] == "down"
    site.on(HOSTS[0], "rm $PBS_HOME/mom_priv/prologue.parallel; momctl -q clearmsg")
    until(lambda: site.states()[HOSTS[0]] == "free")
    until(lambda: "note" not in site.nodes()[HOSTS[0]])
    assert site.until_state(job, "C")["exit_status"] == "0"


def test_a_sisters_epilogue_that_fails_takes_its_node_down_and_leaves_the_job_alone(site: Site) -> None:
    site.install("epilogue.parallel", "exit 1")
    job = site.submit("exit 4", *TWO_HOSTS)
    assert site.until_state(job, "C")["exit_status"] == "4"
    until(lambda: list(site.states().values()).count("down") == 1)


def test_an_epilogue_of_the_first_host_is_ignored_whatever_it_says(site: Site) -> None:
    site.install("epilogue", "exit 3")
    job = site.submit("exit 4")
    assert site.until_state(job, "C")["exit_status"] == "4"
    assert site.states() == dict.fromkeys(HOSTS, "free")


def test_a_job_is_shown_as_running_until_its_last_epilogue_has_ended(site: Site) -> None:
    site.install("epilogue", "until [ -e /tmp/torque-go-on ]; do sleep 0.1; done; rm /tmp/torque-go-on")
    job = site.submit("true")
    until(lambda: site.order(job))
    found = site.job(job)
    assert (found["job_state"], found["substate"]) == ("R", "42")
    assert job in site.nodes()[HOSTS[0]]["jobs"]
    site.on(HOSTS[0], "touch /tmp/torque-go-on")
    site.until_state(job, "C")


@pytest.mark.parametrize(("user_file", "ran"), [("prologue.user", "prologue.user"), ("prologue.none", "prologue")])
def test_a_jobtype_swaps_the_script_where_such_a_file_is_there(site: Site, user_file: str, ran: str) -> None:
    site.install("prologue")
    site.install("prologue.user")
    job = site.submit("true", "-T", user_file.partition(".")[2])
    site.until_state(job, "C")
    first = site.ran(job)[0]
    assert (first.name, first.uid) == (ran, 0)


def test_the_jobtype_parallel_runs_the_sisters_script_on_the_first_host(site: Site) -> None:
    site.install("prologue")
    site.install("prologue.parallel")
    job = site.submit("true", "-T", "parallel")
    site.until_state(job, "C")
    assert [(each.name, each.environment["PBS_NODENUM"]) for each in site.ran(job)] == [("prologue.parallel", "0")]


def test_a_script_that_others_may_write_is_a_failure(site: Site) -> None:
    site.install("prologue", mode=0o775)
    job = site.submit("true")
    until(lambda: int(site.job(job).get("start_count", 0)) >= 2)
    assert site.ran(job) == []


def test_the_time_limit_is_ten_seconds_shorter_than_it_says(site: Site) -> None:
    try:
        site.configure("$prologalarm 11")
        until(lambda: set(site.states().values()) == {"free"})
        site.install("prologue", "sleep 60")
        job = site.submit("true")
        until(lambda: len(site.ran(job)) >= 2)
        assert site.job(job)["job_state"] in "QR"
    finally:
        site.configure()
