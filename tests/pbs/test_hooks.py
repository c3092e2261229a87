# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hooks on execution hosts: what they see, when they run, and what comes of a hook that refuses, fails or hangs."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest
from pbs_double.cluster import HOSTS, until
from pbs_double.recorder import Recorder

BOTH = ("-l", "select=2:ncpus=1:mem=100mb", "-l", "place=scatter")
VALUES = {
    'pbs.size("1gb") + pbs.size("1mb")': "size 1025mb",
    'pbs.size("1gb") + pbs.size("100kb")': "size 1048676kb",
    'pbs.size("1gb") - pbs.size("1gb")': "size 0gb",
    'pbs.size("1025b") + pbs.size("1kb")': "size 3kb",
    'pbs.size("1mb") + 1': "size 1025kb",
    "pbs.size(1024)": "size 1024b",
    'pbs.size("1MB")': "size 1mb",
    'pbs.size("1024kb") == pbs.size("1mb")': "bool True",
    'pbs.size("1gb") == 1073741824': "bool True",
    'pbs.size("1mb") > 100': "bool True",
    'bool(pbs.size("0kb"))': "bool True",
    'pbs.size("1mb") - pbs.size("2mb")': "ArithmeticError: expression evaluates to negative _size value",
    'pbs.size("1mb") * 2': "TypeError: unsupported operand type(s) for *: 'size' and 'int'",
    '1 + pbs.size("1kb")': "TypeError: unsupported operand type(s) for +: 'int' and 'size'",
    'float(pbs.size("1mb"))': "TypeError: float() argument must be a string or a real number, not 'size'",
    'hash(pbs.size("1mb"))': "TypeError: unhashable type: 'size'",
    'pbs.size("1.5gb")': "TypeError: 1.5gb: bad value for _size",
    'pbs.size_to_kbytes(pbs.size("1gb"))': "int 1048576",
    'pbs.size_to_kbytes(pbs.size("1025"))': "int 2",
    'pbs.duration("00:01:00") + 1': "int 61",
    "event.user": 'EventIncompatibleError: "user" not found in self._param',
    "event.vnode_list_fail": 'EventIncompatibleError: "vnode_list_fail" not found in self._param',
    "event.job_list": 'EventIncompatibleError: "job_list" not found in self._param',
    "event.job.nosuch": "AttributeError: '_job' object has no attribute 'nosuch'",
    'event.job.Resource_List["nosuch"]': "AttributeError: 'pbs_resource' object has no attribute 'nosuch'",
    'event.job.Resource_List["vmem"]': None,
    'event.job.Resource_List["walltime"] + 0': "int 60",
    '"mem" in event.job.Resource_List': "bool True",
    "list(event.job.Resource_List)": "TypeError: attribute name must be string, not 'int'",
    'event.job.Resource_List.get("mem")': "AttributeError: 'pbs_resource' object has no attribute 'get'",
    'event.job.Variable_List["A"]': "str 007",
    "event.requestor": "str pbs_mom",
    "event.requestor_host": "str pbs-n1",
    "event.hook_type": "str site",
    "pbs.server().name": "str pbs-srv",
    "pbs.hook_config_filename == os.environ['PBS_HOOK_CONFIG_FILE']": "bool True",
    "os.getcwd() == os.path.dirname(pbs.hook_config_filename) + '/tmp'": "bool True",
    "__name__": "str builtins",
    '"__file__" in globals()': "bool False",
}


def test_begin_sees_the_whole_job_and_what_the_host_has(hook: Recorder) -> None:
    name = hook.submit(*BOTH, "-l", "walltime=60", "-N", "nm", "-A", "acc", "--", "/bin/sleep", "100")
    first, second = hook.record("begin@pbs-n1"), hook.record("begin@pbs-n2")
    of_chunk = {"ncpus": "pbs_int 1", "mem": "size 102400kb"}
    assert first["job"] == {
        "id": f"str {name}",
        "queue": "_queue workq",
        "server": "_server pbs-srv",
        "euser": "pbs_str root",
        "Job_Owner": "pbs_str root@pbs-srv",
        "Account_Name": "pbs_str acc",
        "project": "project _pbs_project_default",
        "Job_Name": "name nm",
        "run_count": "pbs_int 1",
        "run_version": "pbs_int 1",
        "comment": None,
        "exec_host": None,
        "exec_host2": "pbs_str pbs-n1:15002/0+pbs-n2:15002/0",
        "exec_vnode": "exec_vnode (pbs-n1:ncpus=1:mem=102400kb)+(pbs-n2:ncpus=1:mem=102400kb)",
        "job_state": "job_state 0",
        "substate": "pbs_int 0",
        "array_id": None,
        "array_index": None,
        "Resource_List": {
            "mem": "size 200mb",
            "ncpus": "pbs_int 2",
            "place": "place scatter",
            "walltime": "duration 00:01:00",
        },
        "schedselect": "select 2:ncpus=1:mem=100mb",
        "Exit_status": None,
        "chunks": [["pbs-n1", of_chunk], ["pbs-n2", of_chunk]],
        "primary": "str True",
    }
    assert second["job"] == {
        **first["job"],
        "job_state": "job_state 4",
        "substate": "pbs_int 41",
        "primary": "bool False",
    }
    unset = {"state": None, "comment": None}
    assert first["vnodes"] == {
        "pbs-n1": {
            **unset,
            "name": "str pbs-n1",
            "pcpus": "pbs_int 2",
            "resources_available": first["vnodes"]["pbs-n1"]["resources_available"],
            "resources_assigned": {**of_chunk, "host": "pbs_str pbs-n1"},
        },
        "pbs-n2": {
            **unset,
            "name": "str pbs-n2",
            "pcpus": None,
            "resources_available": {},
            "resources_assigned": {**of_chunk, "host": "pbs_str pbs-n2"},
        },
    }
    assert set(first["vnodes"]["pbs-n1"]["resources_available"]) == {"arch", "mem", "ncpus"}


def test_a_hook_gets_the_values_and_the_surroundings_of_pbs(hook: Recorder) -> None:
    hook.tell("probe", {}, evaluate=list(VALUES))
    hook.submit("-l", "select=1:mem=1mb", "-l", "walltime=60", "-v", "A=007", "--", "/bin/sleep", "100")
    seen = hook.record("begin@pbs-n1")
    assert seen["values"] == VALUES
    assert set(seen["environment"]) == {"PATH", "PBS_HOOK_CONFIG_FILE", "LC_CTYPE"}
    assert seen["environment"]["PATH"] == "/bin:/usr/bin"
    line = ";pbs_python;Hook;pbs_python;recorded begin\n"
    until(lambda: line in hook.pbs.on("pbs-n1", "cat $PBS_HOME/mom_logs/*").out)


def test_a_sub_job_knows_its_array(hook: Recorder) -> None:
    name = hook.submit("-J", "1-2", "--", "/bin/sleep", "100")
    seen = hook.record("begin@pbs-n1")["job"]
    assert (seen["id"], seen["array_id"], seen["array_index"]) == (
        f"str {name.replace('[]', '[1]')}",
        f"pbs_str {name}",
        "pbs_int 1",
    )


def test_a_normal_end_has_preterm_on_sisters_only(hook: Recorder) -> None:
    name = hook.submit(*BOTH, "--", "/bin/sleep", "3")
    until(lambda: hook.job(name)["job_state"] == "F" and len(hook.of(name)) == 5)
    seen = hook.of(name)
    assert seen[:3] == ["begin@pbs-n1", "begin@pbs-n2", "preterm@pbs-n2"]
    assert sorted(seen[3:]) == ["end@pbs-n1", "end@pbs-n2"]
    ends = {each["host"]: each["job"] for each in hook.seen() if each["event"] == "end"}
    assert [ends[host]["substate"] for host in HOSTS] == ["pbs_int 58", "pbs_int 50"]
    assert ends["pbs-n1"]["Exit_status"] == "pbs_int 0"


def test_a_deleted_job_has_preterm_everywhere(hook: Recorder) -> None:
    name = hook.submit(*BOTH, "--", "/bin/sleep", "100")
    hook.until_runs(name)
    assert hook.pbs.call("qdel", name).rc == 0  # only once: a second one may bring preterm again
    until(lambda: hook.job(name)["job_state"] == "F" and len(hook.of(name)) >= 6)
    seen = hook.of(name)
    assert seen[2:4] == ["preterm@pbs-n1", "preterm@pbs-n2"]
    assert sorted(seen[4:]) == ["end@pbs-n1", "end@pbs-n2"]


def test_qdel_answers_once_preterm_has_run_on_the_primary_host(hook: Recorder, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    hook.tell("probe", {"preterm@pbs-n1": f"wait {gate}"})
    name = hook.submit(*BOTH, "--", "/bin/sleep", "100")
    hook.until_runs(name)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(hook.pbs.call, "qdel", name)
        try:
            hook.record("preterm@pbs-n1")
            assert concurrent.futures.wait([answer], timeout=2).not_done
            assert hook.of(name)[2:] == ["preterm@pbs-n1"]
        finally:
            gate.touch()
        assert answer.result().rc == 0


@pytest.mark.parametrize("seconds", ["100", "5"], ids=["deleted", "ends by itself"])
def test_a_qdel_while_a_job_ends_runs_preterm_on_its_primary_host_alone(
    hook: Recorder, tmp_path: Path, seconds: str
) -> None:
    gate = tmp_path / "gate"
    hook.tell("probe", {"preterm@pbs-n2": f"wait {gate}"})
    name = hook.submit(*BOTH, "--", "/bin/sleep", seconds)
    try:
        hook.until_runs(name)
        deleted = ["preterm@pbs-n1"] if seconds == "100" else []
        assert not deleted or hook.pbs.call("qdel", name).rc == 0
        hook.record("preterm@pbs-n2")
        assert hook.pbs.call("qdel", name).rc == 0
    finally:
        gate.touch()
    until(lambda: hook.job(name)["job_state"] == "F" and len(hook.of(name)) >= 6 + len(deleted))
    seen = hook.of(name)
    assert seen[2:-2] == [*deleted, "preterm@pbs-n2", "preterm@pbs-n1"]
    assert sorted(seen[-2:]) == ["end@pbs-n1", "end@pbs-n2"]
    assert hook.job(name)["comment"].endswith(") and terminated by root@pbs-srv")
    assert hook.job(name)["substate"] == 91


def test_a_suspended_job_leaves_its_cores_and_comes_back(hook: Recorder) -> None:
    pbs = hook.pbs
    name = hook.submit(*BOTH, "--", "/bin/sleep", "200")
    hook.until_runs(name)
    assert pbs.call("qsig", "-s", "suspend", name).rc == 0
    until(lambda: (hook.job(name)["job_state"], hook.job(name)["substate"]) == ("S", 43))
    until(lambda: len(hook.of(name)) == 4)
    assert sorted(hook.of(name)[2:]) == ["postsuspend@pbs-n1", "postsuspend@pbs-n2"]
    assert "jobs" not in hook.node("pbs-n1")
    assert pbs.call("qsig", "-s", "resume", name).rc == 0
    until(lambda: (hook.job(name)["job_state"], hook.job(name)["substate"]) == ("R", 42))
    until(lambda: len(hook.of(name)) == 6)
    assert sorted(hook.of(name)[4:]) == ["preresume@pbs-n1", "preresume@pbs-n2"]
    assert pbs.call("qsig", "-s", "resume", name).rc == 168


def test_a_job_that_is_rerun_ends_and_begins_with_another_count(hook: Recorder) -> None:
    name = hook.submit(*BOTH, "--", "/bin/sleep", "200")
    hook.until_runs(name)
    assert hook.pbs.call("qrerun", name).rc == 0
    hook.until_runs(name, count=2)
    seen = hook.of(name)
    assert seen[2] == "preterm@pbs-n2"
    assert sorted(seen[3:5]) == ["end@pbs-n1", "end@pbs-n2"]
    assert seen[5:] == ["begin@pbs-n1", "begin@pbs-n2"]
    ended = next(each["job"] for each in hook.seen() if (each["event"], each["host"]) == ("end", "pbs-n1"))
    assert (ended["Exit_status"], ended["substate"], ended["run_count"]) == ("pbs_int -11", "pbs_int 53", "pbs_int 1")
