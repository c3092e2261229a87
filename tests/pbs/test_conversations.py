# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenPBS answers, word by word (test_conversations.yaml), and its JSON; another answer of a double is a fault."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

import pytest
import yaml
from pbs_double.cluster import Answer, Cluster, until

CASES = yaml.safe_load(Path(__file__).with_name("test_conversations.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_conversation(case: dict[str, t.Any], pbs: Cluster) -> None:
    said = [pbs.call(*step["argv"], text=step.get("text", "")) for step in case["calls"]]
    expected = [Answer(step.get("rc", 0), step.get("out", ""), step.get("err", "")) for step in case["calls"]]
    assert said == expected


def json_of(pbs: Cluster, program: str, *words: str) -> dict[str, t.Any]:
    answer = pbs.call(program, "-F", "json", *words)
    assert answer.rc == 0, answer.err
    found: dict[str, t.Any] = json.loads(answer.out)
    assert {"timestamp", "pbs_version", "pbs_server"} <= set(found)
    return found


def submitted(pbs: Cluster, *words: str) -> str:
    answer = pbs.call("qsub", "-o", "/dev/null", "-e", "/dev/null", *words)
    assert answer.rc == 0, answer.err
    return answer.out.strip()


def job(pbs: Cluster, name: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = json_of(pbs, "qstat", "-t", "-f").get("Jobs", {}).get(name, {})
    return found


def ended(pbs: Cluster, *names: str) -> None:
    pbs.call("qdel", *names)
    until(lambda: not set(names) & set(json_of(pbs, "qstat", "-t", "-f").get("Jobs", {})))


def test_without_jobs_their_key_is_absent(pbs: Cluster) -> None:
    assert "Jobs" not in json_of(pbs, "qstat", "-f")


def test_a_job_of_two_chunks_says_what_it_has_of_each_node(pbs: Cluster) -> None:
    words = ("-N", "0123", "-l", "select=2:ncpus=1:mem=100mb", "-l", "place=scatter", "-l", "walltime=60")
    name = submitted(pbs, *words, "-v", "A=007,B=[1],C=x y", "--", "/bin/sleep", "100")
    assert until(lambda: job(pbs, name).get("substate") == 42)
    found = job(pbs, name)
    assert found["exec_vnode"] == "(pbs-n1:ncpus=1:mem=102400kb)+(pbs-n2:ncpus=1:mem=102400kb)"
    assert found["exec_host"] == "pbs-n1/0+pbs-n2/0"
    assert found["comment"].startswith("Job run at ")
    assert found["comment"].endswith(found["exec_vnode"])
    assert found["Resource_List"] == {
        "mem": "200mb",
        "ncpus": 2,
        "nodect": 2,
        "place": "scatter",
        "select": "2:ncpus=1:mem=100mb",
        "walltime": "00:01:00",
    }
    # text that looks like JSON has become JSON, but for the name of the job
    assert (found["Job_Name"], found["run_count"], found["job_state"]) == ("0123", 1, "R")
    assert {key: found["Variable_List"][key] for key in "ABC"} == {"A": 7, "B": [1], "C": "x y"}
    assert time.strptime(found["qtime"], "%a %b %d %H:%M:%S %Y")
    node = json_of(pbs, "pbsnodes", "-av")["nodes"]["pbs-n1"]
    assert (node["state"], node["jobs"]) == ("free", [name])
    assert node["resources_assigned"] == {"mem": "102400kb", "ncpus": 1}
    ended(pbs, name)
    idle = json_of(pbs, "pbsnodes", "-av")["nodes"]["pbs-n1"]
    assert (idle["state"], idle["resources_assigned"], "jobs" in idle) == ("free", {}, False)


def test_a_sub_job_that_waits_shows_neither_its_array_nor_its_index(pbs: Cluster) -> None:
    name = submitted(pbs, "-N", "arr", "-J", "1-3", "-l", "select=1:ncpus=2", "--", "/bin/sleep", "100")
    parts = [name.replace("[]", f"[{index}]") for index in (1, 2, 3)]
    assert until(lambda: job(pbs, parts[1]).get("job_state") == "R" and job(pbs, name).get("job_state") == "B")
    parent, first, last = job(pbs, name), job(pbs, parts[0]), job(pbs, parts[2])
    assert (parent["substate"], parent["array"], "exec_vnode" in parent) == (70, "True", False)
    assert (parent["array_indices_submitted"], parent["array_indices_remaining"]) == ("1-3", 3)
    assert parent["array_state_count"] == "Queued:1 Running:2 Exiting:0 Expired:0"
    assert (first["array_id"], first["array_index"]) == (name, 1)
    assert (last["job_state"], "array_id" in last, "array_index" in last, "run_count" in last) == (
        "Q",
        False,
        False,
        False,
    )
    assert (last["comment"], last["stime"]) == (parent["comment"], parent["stime"])
    assert pbs.call("qstat").out.count("arr") == 1
    assert pbs.call("qstat", "-t").out.count("arr") == 4
    node = json_of(pbs, "pbsnodes", "-av")["nodes"]["pbs-n1"]
    assert (node["state"], node["jobs"]) == ("job-busy", [parts[0]])
    ended(pbs, name)


def test_a_job_that_cannot_run_says_why(pbs: Cluster) -> None:
    name = submitted(pbs, "-l", "select=1:ncpus=99", "--", "/bin/sleep", "100")
    comment = "Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 4 T: 4)"
    assert until(lambda: job(pbs, name).get("comment")) == comment
    found = job(pbs, name)
    assert (found["job_state"], found["substate"], "exec_vnode" in found) == ("Q", 10, False)
    ended(pbs, name)


def test_a_held_job_waits_without_a_comment(pbs: Cluster) -> None:
    name = submitted(pbs, "-h", "-l", "ncpus=2,mem=1gb", "--", "/bin/sleep", "100")
    found = job(pbs, name)
    assert (found["job_state"], found["substate"], found["Hold_Types"], "comment" in found) == ("H", 20, "u", False)
    assert sorted(found["Resource_List"]["select"].split(":")) == ["1", "mem=1gb", "ncpus=2"]
    assert found["Resource_List"]["place"] == "pack"
    ended(pbs, name)


def test_an_offline_node_takes_no_job_and_a_comment_is_read_as_json(pbs: Cluster) -> None:
    assert pbs.call("pbsnodes", "-o", "-C", "42", "pbs-n1", "pbs-n2") == Answer(0, "", "")
    node = json_of(pbs, "pbsnodes", "-av")["nodes"]["pbs-n2"]
    assert (node["state"], node["comment"]) == ("offline", 42)
    name = submitted(pbs, "--", "/bin/sleep", "0")
    assert until(lambda: job(pbs, name).get("comment", "")).startswith("Not Running: ")
    assert pbs.call("pbsnodes", "-r", "-C", "", "pbs-n1", "pbs-n2") == Answer(0, "", "")
    until(lambda: json_of(pbs, "pbsnodes", "-av")["nodes"]["pbs-n2"]["state"] == "free")
    ended(pbs, name)


def test_a_job_that_has_ended_is_there_only_with_a_history(pbs: Cluster) -> None:
    pbs.call("qmgr", "-c", "set server job_history_enable = True")
    name = submitted(pbs, "-N", "short", "--", "/bin/sleep", "100")
    until(lambda: job(pbs, name).get("substate") == 42)
    assert pbs.call("qdel", name) == Answer(0, "", "")
    until(lambda: pbs.call("qstat", name).rc == 35)
    said = f"qstat: {name} Job has finished, use -x or -H to obtain historical job information\n"
    assert pbs.call("qstat", name) == Answer(35, "", said)
    assert pbs.call("qdel", name) == Answer(35, "", f"qdel: Job has finished {name}\n")
    found = json_of(pbs, "qstat", "-x", "-f", name)["Jobs"][name]
    assert (found["job_state"], found["substate"]) == ("F", 91)
    assert found["comment"].endswith(" and terminated by root@pbs-srv")
    assert pbs.call("qdel", "-x", name) == Answer(0, "", "")
    pbs.call("qmgr", "-c", "unset server job_history_enable")


def test_without_a_history_not_even_a_job_that_runs_is_in_it(pbs: Cluster) -> None:
    name = submitted(pbs, "--", "/bin/sleep", "100")
    said = "qstat: PBS is not configured to maintain job history "
    assert pbs.call("qstat", "-x", name.partition(".")[0], "foo") == Answer(0, "", f"{said}{name}\n{said}foo\n")
    assert pbs.call("qstat", "-x") == Answer(0, "", f"{said}\n")
    assert "Jobs" not in json_of(pbs, "qstat", "-x", "-f", name)
    pbs.call("qdel", name)
    ended(pbs, name)
