# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes of a hook that refuses, fails or hangs, and of a MoM that is killed."""

from __future__ import annotations

from pathlib import Path

from pbs_double.cluster import until
from pbs_double.recorder import Recorder

BOTH = ("-l", "select=2:ncpus=1", "-l", "place=scatter")
OFFLINE = "offlined by hook 'probe' due to hook error"


def give_back(hook: Recorder, host: str) -> None:
    assert hook.pbs.call("pbsnodes", "-r", "-C", "", host).rc == 0


def kill_mom(hook: Recorder, host: str) -> None:
    assert hook.pbs.on(host, "kill -9 $(cat $PBS_HOME/mom_priv/mom.lock)").rc == 0
    until(lambda: "down" in hook.node(host)["state"].split(","))


def start_mom(hook: Recorder, host: str) -> None:
    assert hook.pbs.on(host, "pbs_mom").rc == 0
    until(lambda: "down" not in hook.node(host)["state"].split(","))


def test_a_job_that_is_refused_is_tried_again_and_held_in_the_end(hook: Recorder) -> None:
    hook.tell("probe", {"begin@pbs-n1": "reject no, thank you"})
    name = hook.submit("--", "/bin/sleep", "100")
    until(lambda: hook.job(name)["job_state"] == "H")
    found = hook.job(name)
    assert (found["substate"], found["Hold_Types"], found["run_count"]) == (20, "s", 21)
    assert found["comment"] == "job held, too many failed attempts to run"
    assert hook.of(name) == ["begin@pbs-n1"] * 21
    log = hook.pbs.on("pbs-n1", "cat $PBS_HOME/mom_logs/*").out
    assert f";pbs_mom;Job;{name};no, thank you\n" in log
    hook.tell("probe", {})
    assert hook.pbs.call("qrls", "-h", "s", name).rc == 0
    until(lambda: hook.job(name)["job_state"] == "R")


def test_a_refusal_on_a_sister_aborts_and_ends_the_job_on_the_primary(hook: Recorder) -> None:
    hook.tell("probe", {"begin@pbs-n2": "reject"})
    name = hook.submit(*BOTH, "--", "/bin/sleep", "100")
    until(lambda: len(hook.of(name)) >= 5)
    assert hook.of(name)[:5] == ["begin@pbs-n1", "begin@pbs-n2", "abort@pbs-n1", "end@pbs-n1", "begin@pbs-n1"]
    ended = next(each["job"] for each in hook.seen() if each["event"] == "end")
    assert (ended["Exit_status"], ended["run_count"]) == ("pbs_int -3", "pbs_int 1")
    hook.tell("probe", {})


def test_a_refusal_that_wants_it_deletes_the_job(hook: Recorder) -> None:
    hook.tell("probe", {"begin@pbs-n1": "delete"})
    name = hook.submit("--", "/bin/sleep", "100")
    until(lambda: hook.job(name)["job_state"] == "F")
    found = hook.job(name)
    assert (found["substate"], found["Exit_status"]) == (93, -19)


def test_a_refusal_that_wants_it_queues_the_job_again(hook: Recorder) -> None:
    hook.tell("probe", {"begin@pbs-n1": "rerun"})
    name = hook.submit("--", "/bin/sleep", "100")
    until(lambda: len(hook.of(name)) >= 3)
    assert set(hook.of(name)) == {"begin@pbs-n1"}
    hook.tell("probe", {})
    until(lambda: hook.job(name)["job_state"] == "R")


def test_hooks_run_in_their_order_until_one_refuses(hook: Recorder) -> None:
    hook.install("early", 10)
    hook.tell("early", {"begin@pbs-n1": "reject"})
    name = hook.submit("--", "/bin/sleep", "100")
    until(lambda: len(hook.of(name)) >= 2)
    assert {each["hook"] for each in hook.seen()} == {"early"}
    hook.remove("early")
    until(lambda: hook.job(name)["job_state"] == "R")


def test_a_hook_that_fails_takes_its_host_offline_until_the_mom_starts_again(hook: Recorder) -> None:
    hook.tell("probe", {"begin@pbs-n1": "raise broken"})
    name = hook.submit("--", "/bin/sleep", "200")
    until(lambda: hook.job(name).get("exec_vnode") == "(pbs-n2:ncpus=1)")
    node = hook.node("pbs-n1")
    assert (node["state"], node["comment"]) == ("offline", OFFLINE)
    log = hook.pbs.on("pbs-n1", "cat $PBS_HOME/mom_logs/*").out
    assert ";Hook;probe;execjob_begin hook 'probe' encountered an exception, request rejected\n" in log
    hook.tell("probe", {})
    kill_mom(hook, "pbs-n1")
    start_mom(hook, "pbs-n1")
    until(lambda: hook.node("pbs-n1")["state"] == "free" and "comment" not in hook.node("pbs-n1"))
    own = [each for each in hook.seen() if each["host"] == "pbs-n1" and each["event"] in ("startup", "periodic")]
    assert own[0]["event"] == "startup"
    vnode = own[0]["vnodes"]["pbs-n1"]
    assert (vnode["pcpus"], set(vnode["resources_available"]), vnode["resources_assigned"]) == (
        None,
        {"mem", "ncpus"},
        {},
    )


def test_a_hook_that_hangs_meets_its_alarm(hook: Recorder) -> None:
    hook.set_alarm("probe", 5)
    hook.tell("probe", {"begin@pbs-n1": "wait /nowhere"})
    name = hook.submit("--", "/bin/sleep", "200")
    hook.record("begin@pbs-n1")
    found = hook.job(name)
    assert (found["job_state"], found["substate"]) == ("R", 41)
    assert found["comment"].startswith("Job was sent for execution at ")
    until(lambda: hook.job(name).get("exec_vnode") == "(pbs-n2:ncpus=1)")
    assert hook.node("pbs-n1")["comment"] == OFFLINE
    log = hook.pbs.on("pbs-n1", "cat $PBS_HOME/mom_logs/*").out
    assert ";catch_hook_alarm;alarm call received, interrupting hook execution.\n" in log
    hook.set_alarm("probe", 300)
    give_back(hook, "pbs-n1")


def test_a_slow_end_stops_no_other_job(hook: Recorder, tmp_path: Path) -> None:
    done = tmp_path / "done"
    hook.tell("probe", {"end@pbs-n1": f"wait {done}"})
    first = hook.submit("-l", "select=1:host=pbs-n1", "--", "/bin/sleep", "0")
    hook.record("end@pbs-n1")
    second = hook.submit("-l", "select=1:host=pbs-n1", "--", "/bin/sleep", "100")
    until(lambda: hook.of(second) == ["begin@pbs-n1"])
    assert hook.job(first)["job_state"] == "E"
    done.touch()
    until(lambda: hook.job(first)["job_state"] == "F")


def test_a_job_whose_mom_was_killed_cannot_be_stopped_and_starts_again(hook: Recorder) -> None:
    pbs = hook.pbs
    name = hook.submit("-l", "select=1:host=pbs-n2", "--", "/bin/sleep", "200")
    hook.until_runs(name)
    kill_mom(hook, "pbs-n2")
    assert hook.node("pbs-n2")["comment"] == "node down: communication closed"
    assert (hook.job(name)["job_state"], hook.job(name)["substate"]) == ("R", 42)
    refused = {program: pbs.call(*words, name) for program, *words in _STOPS}
    assert {answer.rc for answer in refused.values()} == {222}
    assert refused["qdel"].err == f"qdel: Server could not connect to MOM {name}\n"
    start_mom(hook, "pbs-n2")
    hook.until_runs(name, count=2)
    assert hook.of(name) == ["begin@pbs-n2", "end@pbs-n2", "begin@pbs-n2"]


def test_force_takes_a_job_from_a_mom_that_is_dead(hook: Recorder) -> None:
    name = hook.submit("-l", "select=1:host=pbs-n2", "--", "/bin/sleep", "200")
    hook.until_runs(name)
    kill_mom(hook, "pbs-n2")
    assert hook.pbs.call("qdel", "-W", "force", name).rc == 0
    assert (hook.job(name)["job_state"], hook.job(name)["substate"]) == ("F", 91)
    start_mom(hook, "pbs-n2")
    until(lambda: hook.of(name) == ["begin@pbs-n2", "end@pbs-n2"])


_STOPS = [("qdel", "qdel"), ("qrerun", "qrerun"), ("qsig", "qsig", "-s", "suspend")]
