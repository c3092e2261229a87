# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order a conversion goes about a site, and what it leaves when it breaks off."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._slurm.ours import FILES
from ansible_collections.converged.hpc.plugins.plugin_utils._planned import KEPT
from rehearsals.conftest import ROOT, USUAL, Rehearsal, Stage, seen

READING = {"share_inventory", "slurm_info", "kube_info", "share_node_info", "share_verdict", "share_lock", "slurp"}
ADOPTION = ["/usr/local/sbin/nodeshare", "adopt", "--wlm", "slurm", "7/0"]
DRAIN = {"slurm_share_drain_delay": 1, "converged_drain_timeout": "9s"}
NODES = ("n1", "n2")
BACK = "End the drain of the conversion"


@pytest.fixture(scope="module")
def converted(rehearsals: Any) -> Any:
    """A conversion of two nodes. The job of n2 cannot be recorded at first, and ends while the node is drained."""
    rehearsal = rehearsals()
    refused = {"failed": True, "rc": 1, "msg": "no lease", "stderr": ""}
    rehearsal.answer(refused, times=1, module="command", host="n2", args={"argv": ADOPTION})
    busy = {"changed": True, "busy": ["7"]}
    rehearsal.answer(busy, times=2, module="slurm_node", args={"names": ["n2"], "state": "drained"})
    done = rehearsal.playbook("site", **DRAIN, converged_after_canary="go_on")
    assert done.passed, done.said
    return done


def named(done: Any, host: str, name: str) -> list[int]:
    """Return where in what was done for a host a task of this name comes."""
    calls = [call for call in done.calls if call.host == host and not call.check]
    return [at for at, call in enumerate(calls) if call.name == name]


@pytest.mark.parametrize("host", NODES)
def test_pods_come_last_when_the_scripts_act_and_every_job_is_taken_into_account(converted: Any, host: str) -> None:
    (put,) = named(converted, host, "Put nodeshare on the node")
    before, again = named(converted, host, "Ask Slurm what runs")
    (joined,) = named(converted, host, "Join the node")
    (acting,) = named(converted, host, "Let the scripts on this host act")
    (pods,) = named(converted, host, "Let pods onto the nodes")
    (jobs,) = named(converted, host, "End the drain of the conversion")
    assert put < before < joined < acting < again < jobs < pods, converted.done(host)


def test_the_jobs_that_run_are_recorded_before_there_is_a_kubelet_and_again_before_pods_come(converted: Any) -> None:
    first, second = named(converted, "n2", "Have leases for the jobs that run here already")
    (joined,) = named(converted, "n2", "Join the node")
    (pods,) = named(converted, "n2", "Let pods onto the nodes")
    assert first < joined < second < pods
    assert not named(converted, "n1", "Have leases for the jobs that run here already"), "no job runs there"


def test_a_node_whose_jobs_cannot_be_recorded_is_drained_until_the_last_has_ended(converted: Any) -> None:
    drained = named(converted, "n2", "Have the jobs of this host run out")
    (runtime,) = named(converted, "n2", "Put the container runtime on the node")
    assert len(drained) == 3, "it is asked until none is left"
    assert max(drained) < runtime
    assert not named(converted, "n1", "Have the jobs of this host run out")


def test_a_node_with_jobs_joins_with_their_taint_and_keeps_it_when_pods_may_come(converted: Any) -> None:
    joined = {call.host: call.args["taints"] for call in converted.calls if call.module == "kube_join"}
    keys = {host: [taint["key"] for taint in taints] for host, taints in joined.items()}
    assert keys == {
        "n1": ["converged.hpc/converting"],
        "n2": ["converged.hpc/converting", "converged.hpc/batch"],
    }
    admitted = [call.args for call in converted.calls if call.name == "Let pods onto the nodes" and not call.check]
    assert [(list(args["nodes"]), args["no_taints"]) for args in admitted] == [
        (["n1"], ["converged.hpc/converting"]),
        (["n2"], ["converged.hpc/converting"]),
    ]


def test_nothing_is_changed_before_all_of_the_site_has_been_planned(converted: Any) -> None:
    begun = next(at for at, call in enumerate(converted.calls) if call.module == "k8s" and not call.check)
    assert {call.module for call in converted.calls[: begun - 1] if not call.check} <= READING
    assert converted.calls[begun - 1].name == "Ask where the cluster is and by what it is known"
    planned = {(call.host, str(call)) for call in converted.calls[:begun] if call.check}
    for what in ("node_state node_share", "node_state node_runtime", "node_state node_kubelet", "kube_join"):
        assert {("n1", what), ("n2", what)} <= planned


def test_the_runtime_brings_its_kernel_modules_and_what_they_let_be_set(converted: Any) -> None:
    wanted = [call.args for call in converted.calls if str(call) == "node_state node_runtime" and call.host == "n1"]
    assert {tuple(args["kernel_modules"]) for args in wanted} == {("overlay", "br_netfilter")}
    assert all("net.bridge.bridge-nf-call-iptables" in {one["name"] for one in args["sysctls"]} for args in wanted)


def test_every_host_has_the_scripts_before_slurm_conf_names_them(converted: Any) -> None:
    done = [call for call in converted.calls if not call.check]
    scripts = [at for at, call in enumerate(done) if call.name == "Put the scripts on the host, inert"]
    settings = [at for at, call in enumerate(done) if call.module == "slurm_conf"]
    assert {done[at].host for at in scripts} == {"ctl", *NODES}
    assert max(scripts) < min(settings)
    assert done[max(settings)].host == "ctl", "the controller, which is told to follow, comes last"


def test_the_site_is_locked_from_the_first_change_to_the_last(converted: Any) -> None:
    writing = [call for call in converted.calls if not call.check and call.module not in READING - {"share_lock"}]
    assert [str(writing[0]), str(writing[-1])] == ["share_lock", "share_lock absent"]
    assert sum(call.module == "share_lock" for call in writing) == 2


def joined(done: Any) -> list[str]:
    """Return the hosts that were joined to the cluster, in order."""
    return [call.host for call in done.calls if call.module == "kube_join" and not call.check]


def test_a_site_on_which_no_node_is_converted_yet_stops_behind_the_first(rehearsal: Any) -> None:
    done = rehearsal.playbook("site", converged_serial=["100%"])
    assert done.passed, done.said
    assert joined(done) == ["n1"]
    assert set(done.done("n2")) <= {"share_node_info", "node_state slurm_share", "slurm_conf"}
    said = " ".join(done.said.split())
    assert "n1 is the first node of this site that is converted; waiting are: n2" in said
    assert "run converged.hpc.site again, which converts the rest of converged_shared" in said
    assert str(done.calls[-1]) == "share_lock absent"


def test_where_a_node_was_converted_before_the_run_goes_on_to_all_others(rehearsal: Any) -> None:
    rehearsal.answer(seen(enabled=True), module="share_node_info", host="n1")
    rehearsal.answer({"changed": False, "ours": True}, module="kube_join", host="n1")
    done = rehearsal.playbook("site", converged_serial=[1, 1])
    assert done.passed, done.said
    assert joined(done) == ["n1", "n2"], "both have something to do"
    assert "waiting are" not in done.said


def prepared(rehearsal: Any) -> dict[str, Any]:
    """Have Slurm call our scripts already; return what a run is told of it."""
    called = {key: [f"/etc/converged/slurm/{name}"] for key, name in FILES.items()}
    rehearsal.answer({**USUAL["slurm_info"], "config": called, "jobs": []}, module="slurm_info")
    return {"slurm_share_site_scripts": dict.fromkeys(FILES, "")}


def unchanged(rehearsal: Any) -> dict[str, str]:
    """Have nothing to do on a site; return what a run is told of it."""
    given = prepared(rehearsal)
    rehearsal.answer(seen(record=["node_kubelet"], enabled=True), module="share_node_info")
    for module in ("node_state", "kubelet_config", "kube_join", "kube_client_config", "k8s"):
        rehearsal.answer({**USUAL[module], "changed": False}, module=module)
    rehearsal.answer({**USUAL["slurm_conf"], "changed": False}, module="slurm_conf")
    rehearsal.answer({**USUAL["kube_node"], "changed": False, "labelled": {}}, module="kube_node")
    rehearsal.answer({**USUAL["kube_bootstrap_token"], "changed": False, "missing": []}, module="kube_bootstrap_token")
    return given


def test_a_run_where_nothing_is_to_be_done_costs_thirteen_results_a_node(rehearsal: Any) -> None:
    done = rehearsal.playbook("site", **unchanged(rehearsal))
    assert done.passed, done.said
    lines = re.findall(r"^(n[12]) +: (.*)$", done.said, re.MULTILINE)
    counts = {host: {word: int(number) for word, number in re.findall(r"(\w+)=(\d+)", said)} for host, said in lines}
    # What is asked once for all nodes is counted for the first one.
    assert (sum(counts["n2"].values()), sum(counts["n1"].values())) == (13, 13 + 7)
    assert [str(call) for call in done.calls if call.host == "n2"] == [
        *("share_node_info", "node_state slurm_share", "slurm_conf", "node_state node_share"),
        *("node_state node_runtime", "node_state node_kubelet", "kube_join", "kubelet_config"),
    ]
    # An earlier run may have been killed when it had only this left to do.
    (back,) = [call for call in done.calls if call.name == BACK]
    assert (back.host, back.args["names"], back.args["reason"]) == ("ctl", ["n1", "n2"], "conversion")


def test_a_plan_shows_which_nodes_it_would_give_back(rehearsal: Any) -> None:
    done = rehearsal.playbook("site", "--check", **unchanged(rehearsal))
    assert done.passed, done.said
    assert [call.args["names"] for call in done.calls if call.name == BACK and call.check] == [["n1", "n2"]]


@pytest.mark.parametrize("answers", [True, False])
def test_nodes_that_are_done_are_given_back_before_another_is_converted(rehearsal: Any, answers: bool) -> None:
    given = unchanged(rehearsal)
    rehearsal.answer({**USUAL["node_state"], "changed": True}, module="node_state", host="n2")
    if not answers:
        rehearsal.answer({"failed": True, "msg": "slurmctld is not there"}, name=BACK, host="ctl")
    done = rehearsal.playbook("site", **given)
    assert done.passed == answers, done.said
    back = [(call.host, call.args["names"]) for call in done.calls if call.name == BACK and not call.check]
    assert back == [("ctl", ["n1"]), *([("n2", ["n2"])] if answers else [])]
    assert ("node_state node_share" in done.done("n2")) == answers
    said = "n1 may still be drained by an earlier run, and no node was converted by this one: slurmctld is not there."
    assert (said in " ".join(done.said.split())) != answers


def test_a_run_for_one_node_goes_to_the_controllers_and_to_that_node_alone(rehearsal: Any) -> None:
    done = rehearsal.playbook("site", converged_convert="n2", **prepared(rehearsal))
    assert done.passed, done.said
    assert {call.host for call in done.calls} - {"n1"} == {"ctl", "n2"}
    assert [str(call) for call in done.calls if call.host == "n1"] == ["share_inventory"]
    assert joined(done) == ["n2"]


def test_a_node_that_could_not_be_read_is_left_alone_and_named_when_all_else_is_done(rehearsal: Any) -> None:
    rehearsal.answer({"changed": False, "left_out": ["n1"]}, module="share_verdict")
    done = rehearsal.playbook("site", **prepared(rehearsal))
    assert not done.passed
    assert "not reached, and left as they are: n1. All else is done" in " ".join(done.said.split())
    assert set(done.done("n1")) <= {"share_inventory", "share_node_info"}
    assert joined(done) == ["n2"]
    assert str(done.calls[-1]) == "share_lock absent"


@pytest.fixture(scope="module")
def broken_off(rehearsals: Any) -> Any:
    """A conversion of which the canary cannot join."""
    rehearsal = rehearsals()
    rehearsal.answer({"failed": True, "msg": "no route to the API"}, module="kube_join", host="n1")
    play = rehearsal.stage.play("site", "Convert the nodes")
    return rehearsal.play([{**play, "hosts": "converged_nodes"}], __share_preflight_host=seen())


def test_a_join_that_fails_leaves_no_token_and_gives_the_node_back(broken_off: Any) -> None:
    (joined,) = named(broken_off, "n1", "Join the node")
    (deleted,) = named(broken_off, "n1", "Delete the token")
    (jobs,) = named(broken_off, "n1", "End the drain of the conversion")
    assert joined < deleted < jobs
    assert not named(broken_off, "n1", "Let pods onto the nodes")
    assert "n1 is not converted: Join the node: no route to the API" in " ".join(broken_off.said.split())


def test_behind_a_canary_that_failed_no_node_is_touched(broken_off: Any) -> None:
    assert not broken_off.passed
    assert broken_off.done("n2") == []


@pytest.mark.parametrize(("record", "taken_back"), [([], True), (["drain_access"], False)])
def test_an_identity_that_is_refused_is_taken_back_unless_it_was_there_before(
    rehearsal: Any, record: list[str], taken_back: bool
) -> None:
    rehearsal.answer({"failed": True, "msg": "denied"}, name="Have the requests signed")
    play = rehearsal.stage.play("site", "Give the batch controllers an identity")
    found = {"__share_preflight_host": {"found": {"record": record}}, "__drain_access_rights": {"changed": True}}
    done = rehearsal.play([play], **found)
    assert not done.passed
    assert "neither Slurm nor any node was touched: See that the requests are signed: denied" in " ".join(
        done.said.split()
    )
    assert ("node_state restored drain_access" in done.done("ctl")) == taken_back, done.done("ctl")


@pytest.mark.parametrize(
    ("system", "module"), [("slurm", "slurm_node"), ("pbs", "pbs_node"), ("torque", "torque_node")]
)
def test_a_drain_is_over_when_no_job_is_left_and_the_batch_system_has_said_so(
    rehearsal: Any, system: str, module: str
) -> None:
    rehearsal.answer({"changed": False, "busy": []}, module=module, args={"state": "drained"})
    rehearsal.answer({"changed": False, "busy": ["n1"]}, times=1, module=module)
    rehearsal.answer({"failed": True, "msg": "does not answer"}, times=1, module=module)
    given = {f"{system}_share_drain_delay": 1, f"{system}_share_drain_timeout": 9}
    done = rehearsal.role(f"{system}_share", "drain", hosts="n1", **given)
    assert done.passed, done.said
    assert [call.module for call in done.calls] == [module] * 3


# The plan of the way back of a real site is in soak, in e2e/test_first_canary.py.
@pytest.mark.parametrize(("playbook", "role"), [("site", "node_share"), ("restore", "slurm_share_enable")])
def test_a_plan_ends_with_each_difference_once_and_a_run_without_diff_prints_none(
    tmp_path: Path, playbook: str, role: str
) -> None:
    made = Stage(tmp_path / "collections")
    shutil.copy2(ROOT / "plugins/action/share_diff.py", made.inner / "plugins/action")
    (tmp_path / "run").mkdir()
    rehearsal = Rehearsal(made, tmp_path / "run")
    shared = {"roles": ["slurm_share", "slurm_share_enable"], "sharing": {"node": {}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts")
    for host in NODES:
        change = {"after_header": "/etc/same", "before": "", "after": f"of {host}\n"}
        kept = {"changed": True, "report": {}, KEPT: {"host": host, "changes": [change]}}
        rehearsal.answer(kept, module="node_state", host=host, args={"role": role})
    planned = rehearsal.playbook(playbook, "--check", "--diff")
    assert planned.passed, planned.said
    assert "\non n[1-2], 2 hosts: /etc/same\n@@ -0,0 +1 @@\n+of {{ inventory_hostname }}\n" in planned.said
    assert planned.said.count("/etc/same") == 1
    assert "/etc/same" not in rehearsal.playbook(playbook, "--check").said
