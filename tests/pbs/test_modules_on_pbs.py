# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules on a PBS cluster: each finds, after it has run, that there is nothing left to do."""

from __future__ import annotations

import json
import subprocess
import time
import types
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.converged.hpc.plugins.modules import pbs_hook, pbs_info, pbs_node, pbs_queue, pbs_server
from pbs_double.cluster import Cluster, until

Call = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def call(pbs: Cluster, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a module and returns its result."""

    def run(module: types.ModuleType, *, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        values = {"bin_dir": str(pbs.bin_dir), "_ansible_check_mode": check, "_ansible_diff": True, **options}
        with patch_module_args(values), pytest.raises(SystemExit):
            module.main()
        result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        assert not result.get("failed"), result
        return result

    return run


def changes(call: Call, module: types.ModuleType, **options: t.Any) -> list[bool]:
    """In check mode, for real, in check mode again, for real again."""
    return [call(module, check=check, **options)["changed"] for check in (True, False, True, False)]


ONCE = [True, True, False, False]

PROGRAM = "import pbs\r\n# ä \t\npbs.event().accept()"
# Says that the server itself has run it.
TELLING = "import pbs\nif pbs.event().type == pbs.HOOK_EVENT_PERIODIC:\n    open({!r}, 'a').write('.')\n"


def test_a_hook_comes_changes_and_goes(call: Call) -> None:
    attributes = {
        "event": ["execjob_end", "execjob_begin", "execjob_launch", "exechost_startup", "exechost_periodic"],
        "freq": 90,
        "order": 200,
        "alarm": 60,
        "fail_action": "offline_vnodes",
        "enabled": True,
    }
    wish = {"name": "converged", "content": PROGRAM, "config": '{"a":\r\n 1}', "attributes": attributes}
    assert changes(call, pbs_hook, **wish) == ONCE
    assert changes(call, pbs_hook, **{**wish, "content": PROGRAM + "\n", "attributes": {"enabled": False}}) == ONCE
    found = {hook["name"]: hook["attributes"] for hook in call(pbs_info, gather=["hooks"])["hooks"]}
    assert (found["converged"]["enabled"], found["converged"]["freq"], found["converged"]["order"]) == (
        "false",
        "90",
        "200",
    )
    assert changes(call, pbs_hook, name="converged", state="absent") == ONCE


def test_a_server_runs_no_hook_that_is_for_hosts_nor_hangs_after_it_is_gone(
    call: Call, strict: Cluster, tmp_path: Path
) -> None:
    ran, control = tmp_path / "ran", tmp_path / "control"
    attributes = {"event": ["execjob_begin", "exechost_periodic"], "freq": 3, "enabled": True}
    wish = {"name": "timed", "bin_dir": str(strict.bin_dir)}
    call(pbs_hook, **wish, content=TELLING.format(str(ran)), attributes=attributes)
    # One of the same frequency that the server does run: by its second run, the other would have had its first.
    (tmp_path / "control.py").write_text(TELLING.format(str(control)), encoding="utf-8")
    for command in (
        "create hook control",
        "set hook control event = periodic",
        f"import hook control application/x-python default {tmp_path}/control.py",
        "set hook control freq = 3",
    ):
        assert strict.call("qmgr", "-c", command).rc == 0

    def runs() -> int:
        return len(control.read_text(encoding="utf-8")) if control.exists() else 0

    until(lambda: runs() >= 2)
    assert not ran.exists()
    assert strict.call("qmgr", "-c", "set hook timed freq = 1").rc == 0  # as an administrator, or an earlier version
    call(pbs_hook, **wish, state="absent")
    before = runs()
    until(lambda: runs() >= before + 2)
    # where it hangs it fills its log meanwhile: not for two minutes
    subprocess.run([strict.bin_dir / "qstat", "-B"], timeout=100, check=True)


def test_a_queue_comes_changes_and_goes(call: Call) -> None:
    attributes = {
        "queue_type": "execution",
        "acl_user_enable": True,
        "acl_users": ["b", "a"],
        "resources_max.mem": "2gb",
        "resources_max.walltime": 3600,
        "enabled": True,
        "started": True,
    }
    assert changes(call, pbs_queue, name="pods", attributes=attributes) == ONCE
    fewer = {"acl_users": ["c"], "resources_max.mem": None, "resources_max.walltime": "01:00:00", "started": False}
    assert changes(call, pbs_queue, name="pods", attributes=fewer) == ONCE
    queues = {queue["name"]: queue["attributes"] for queue in call(pbs_info, gather=["queues"])["queues"]}
    assert queues["pods"] == {
        "queue_type": ["Execution"],
        "acl_user_enable": ["True"],
        "acl_users": ["c"],
        "resources_max.walltime": ["01:00:00"],
        "enabled": ["True"],
        "started": ["False"],
    }
    assert changes(call, pbs_queue, name="pods", state="absent") == ONCE


@pytest.mark.parametrize("comment", ["= it's; $(x) # a = b, c", 'a "b", c'])
def test_a_server_keeps_what_it_is_given(call: Call, comment: str) -> None:
    before = call(pbs_info, gather=["server"])
    assert before["server"]["name"] == "pbs-srv"
    wish = {"comment": comment, "acl_users": ["b@*", "a"], "job_history_enable": True}
    assert changes(call, pbs_server, attributes=wish) == ONCE
    assert call(pbs_info, gather=["server"])["settings"]["comment"] == [comment]
    assert changes(call, pbs_server, attributes=dict.fromkeys(wish)) == ONCE
    assert call(pbs_info, gather=["server"])["settings"] == before["settings"]


def test_nodes_go_offline_and_come_back_as_they_were(call: Call, pbs: Cluster) -> None:
    pbs.call("pbsnodes", "-C", "slow (fan)", "pbs-n2")
    names = {"names": ["pbs-n1", "pbs-n2"]}
    assert changes(call, pbs_node, **names, state="drained", reason="why \"it\" 'is'") == ONCE
    nodes = {node["name"]: node for node in call(pbs_info, gather=["nodes"])["nodes"]}
    assert nodes["pbs-n2"]["states"] == ["offline"]
    assert nodes["pbs-n2"]["comment"] == "converged.hpc: why \"it\" 'is' (before: slow (fan))"
    assert changes(call, pbs_node, **names, state="restored") == ONCE
    nodes = {node["name"]: node for node in call(pbs_info, gather=["nodes"])["nodes"]}
    assert [nodes[name]["comment"] for name in names["names"]] == ["", "slow (fan)"]
    pbs.call("pbsnodes", "-C", "", "pbs-n2")


def test_jobs_are_read_with_their_chunks(call: Call, pbs: Cluster) -> None:
    words = ("-o", "/dev/null", "-e", "/dev/null", "-l", "select=2:ncpus=1:mem=100mb", "-l", "place=scatter")
    name = pbs.call("qsub", *words, "--", "/bin/sleep", "100").out.strip()
    array = pbs.call("qsub", "-J", "1-2", "-h", "--", "/bin/sleep", "100").out.strip()

    def jobs() -> dict[str, t.Any] | None:
        found = {job["id"]: job for job in call(pbs_info, gather=["jobs"])["jobs"]}
        # A job that was only just sent for execution has its chunks and no start time.
        return found if found[name]["started"] else None

    found = until(jobs)
    assert (found[name]["state"], found[name]["run"], found[name]["user"]) == ("R", 1, "root")
    share = {"ncpus": 1, "mem": 104857600}
    assert found[name]["chunks"] == [{"vnode": "pbs-n1", "resources": share}, {"vnode": "pbs-n2", "resources": share}]
    assert found[name]["submitted"] <= found[name]["started"] <= time.time()
    part = found[array.replace("[]", "[2]")]
    assert (part["array_id"], part["array_index"], part["started"]) == (array, 2, None)
    pbs.call("qdel", name, array)
