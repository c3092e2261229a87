# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order the way back goes, and what it keeps where something cannot be put back."""

from __future__ import annotations

from typing import Any

import pytest

ROLES = (
    *("slurm_share", "slurm_share_enable", "slurm_conf", "node_share", "node_runtime", "node_kubelet", "kube_join"),
    *("kubelet_config", "node_share_controller", "drain_access"),
)
NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def restored(rehearsals: Any) -> Any:
    """A way back of the whole site; one thing on n1 cannot be put back."""
    rehearsal = rehearsals()
    shared = {"roles": list(ROLES), "sharing": {"node": {"leases": [], "placeholders": None}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts")
    report = {"found_record": True, "left": ["path:/etc/app: still holds x"]}
    rehearsal.answer({"changed": True, "report": report}, host="n1", name="Put back what was there before")
    return rehearsal.playbook("restore")


@pytest.mark.parametrize("given", [{}, {"converged_restore_role": "placement"}])
def test_what_the_placement_daemon_has_in_no_record_goes_before_what_holds_it(rehearsal: Any, given: Any) -> None:
    roles = ["placement", "placement_program", "placement_identity"]
    shared = {"roles": roles, "sharing": {"node": {"leases": [], "placeholders": None}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts", host="ctl")
    done = rehearsal.playbook("restore", **given)
    assert done.passed, done.said
    calls = [call for call in done.calls if call.host == "ctl"]
    gone = [call.args["path"] for call in calls if call.module == "file"]
    assert {"/usr/local/lib/converged-placement", "/usr/local/lib/converged/placement-venv"} <= set(gone)
    names = [call.name for call in calls]
    removed = names.index("Remove what the daemon and its installation have made")
    assert names.index("Stop the daemon") < removed < names.index("Take the program away"), names
    assert names.index("Take the identity away") < names.index("Put back what was there before"), names
    # A daemon on a host that is not of this site goes on using them.
    assert "converged-placement" not in str([call.args for call in done.calls if call.module == "k8s"])


def positions(done: Any, what: str) -> list[int]:
    """Return where among all that was done this comes."""
    calls = [call for call in done.calls if not call.check]
    return [at for at, call in enumerate(calls) if str(call) == what]


@pytest.mark.parametrize("host", NODES)
def test_a_node_leaves_kubernetes_from_the_outside_in(restored: Any, host: str) -> None:
    done = restored.done(host)
    steps = [
        "node_state restored slurm_share_enable",
        "command forget",
        "node_state restored node_share",
        "kube_join absent",
        "node_state restored node_kubelet",
        "node_state restored node_runtime",
        "slurm_conf restored",
        "node_state restored slurm_share",
        "node_state restored kube_join",
        "node_state restored",
    ]
    at = [done.index(step) for step in steps]
    assert at == sorted(at), done


@pytest.mark.parametrize("host", NODES)
def test_a_kubelet_that_is_to_leave_is_not_started_once_more(restored: Any, host: str) -> None:
    (forgetting,) = [call for call in restored.calls if call.host == host and str(call) == "command forget"]
    assert forgetting.args["argv"] == ["/usr/local/sbin/nodeshare", "forget", "--leave", "kubelet.service"]


def test_slurm_conf_names_no_script_of_ours_any_more_when_the_first_goes(restored: Any) -> None:
    settings = positions(restored, "slurm_conf restored")
    scripts = positions(restored, "node_state restored slurm_share")
    assert len(settings) == len(scripts) == 3
    assert max(settings) < min(scripts)


def test_scripts_that_slurm_goes_on_calling_stay(rehearsal: Any) -> None:
    shared = {"roles": list(ROLES), "sharing": {"node": {"leases": [], "placeholders": None}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts")
    name = "Take our settings out of slurm.conf on the controller and have it followed"
    rehearsal.answer({"failed": True, "msg": "slurm.conf goes on naming scripts"}, name=name)
    done = rehearsal.playbook("restore")
    assert not done.passed
    assert "node_state restored slurm_share_enable" in done.done("n1")
    assert positions(done, "node_state restored slurm_share") == []
    assert positions(done, "node_state restored") == []


@pytest.mark.parametrize("host", NODES)
def test_jobs_come_to_a_node_again_when_no_pod_is_left(restored: Any, host: str) -> None:
    done = restored.done(host)
    assert done.index("node_state restored node_runtime") < done.index("slurm_node restored")


@pytest.mark.parametrize("system", ["slurm", "pbs", "torque"])
def test_a_node_that_cannot_be_given_back_to_its_batch_system_fails_the_way_back(rehearsal: Any, system: str) -> None:
    rehearsal.answer({"changed": True, "busy": []}, module=f"{system}_node")
    rehearsal.answer({"failed": True, "msg": "no answer"}, module=f"{system}_node", host="n1")
    done = rehearsal.playbook("restore", "--limit", "n1,n2", converged_wlm=system)
    assert not done.passed
    said = " ".join(done.said.split())
    assert "n1: not everything could be put back: if it was drained, it may still be: no answer. Run this again" in said
    assert "n2: not everything could be put back" not in said
    (back,) = [call for call in done.calls if call.host == "n2" and call.module == f"{system}_node"]
    assert (back.args["names"], back.args["state"], back.args["reason"]) == (["n2"], "restored", "conversion")


def test_no_job_comes_to_a_node_while_a_pod_is_left(rehearsal: Any) -> None:
    shared = {"roles": ["kube_join"], "sharing": {"node": {"leases": [], "placeholders": None}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts")
    left = {"changed": True, "left": ["process 7: does not end"]}
    rehearsal.answer(left, name="End the pods and leave the cluster", host="n1")
    done = rehearsal.playbook("restore", "--limit", "n1,n2")
    assert not done.passed
    assert "slurm_node restored" not in done.done("n1"), done.said
    assert "slurm_node restored" in done.done("n2")
    assert "if it was drained, it may still be: what is left of pods would run beside jobs" in " ".join(
        done.said.split()
    )


def test_of_all_drains_those_end_that_this_collection_has_made_for_itself(restored: Any) -> None:
    ended = [call for call in restored.calls if call.name == "Give back every node that we have drained"]
    assert [call.args["reason"] for call in ended] == ["not converted by converged.hpc", "conversion"]
    assert {tuple(call.args["names"]) for call in ended} == {NODES}


def test_one_thing_that_is_left_fails_its_host_and_no_other(restored: Any) -> None:
    assert not restored.passed
    said = " ".join(restored.said.split())
    assert "n1: not everything could be put back: path:/etc/app: still holds x" in said
    assert "n2: not everything could be put back" not in said
    assert str(restored.calls[-1]) == "share_lock absent"


def test_the_role_by_itself_takes_its_scripts_away_last(rehearsal: Any) -> None:
    done = rehearsal.role("slurm_share", "restore", hosts="converged_controllers:converged_nodes")
    assert done.passed, done.said
    inert = positions(done, "node_state restored slurm_share_enable")
    settings = positions(done, "slurm_conf restored")
    scripts = positions(done, "node_state restored slurm_share")
    assert max(inert) < min(settings)
    assert max(settings) < min(scripts)


def test_scripts_of_torque_are_inert_before_those_of_the_site_come_back(rehearsal: Any) -> None:
    done = rehearsal.role("torque_share", "restore", hosts="n1")
    assert done.done("n1") == ["node_state restored torque_share_enable", "node_state restored torque_share"], done.said


@pytest.mark.parametrize(("code", "said"), [(0, ""), (1, "the API does not answer")])
def test_what_says_which_services_were_stopped_goes_only_when_they_were_given_back(
    rehearsal: Any, code: int, said: str
) -> None:
    rehearsal.answer({"changed": True, "rc": code, "stderr": said}, name="Give back what jobs have taken")
    done = rehearsal.role("node_share", "restore", hosts="n1")
    assert done.passed, done.said
    steps = done.done("n1")
    gone = {call.args["path"] for call in done.calls if str(call) == "file absent"}
    both = {"/run/converged/nodeshare", "/var/lib/converged/nodeshare"}
    assert gone == {"/run/converged/pycache"} | (set() if code else both), steps
    assert steps.index("systemd_service stopped") < steps.index("command forget"), "a repair would begin anew"
    # The program writes below /run for as long as it is there.
    rest = steps[steps.index("node_state restored node_share") + 1 :]
    assert rest == ["file absent", "command --ignore-fail-on-non-empty"], steps


def test_a_node_that_goes_on_announcing_jobs_is_named_with_what_takes_that_away(rehearsal: Any) -> None:
    said = "nodeshare event=forget api='the Node still announces jobs: no answer'"
    rehearsal.answer({"changed": True, "rc": 0, "stderr": said}, module="command")
    shared = {"roles": ["node_share"], "sharing": {"node": {"leases": [], "placeholders": None}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts")
    done = rehearsal.playbook("restore", converged_restore_role="node_share")
    assert not done.passed
    assert "kubectl annotate node n1 converged.hpc/leases-" in " ".join(done.said.split())


@pytest.mark.parametrize(("kept", "state"), [(True, "restarted"), (False, "stopped")])
def test_a_daemon_that_does_not_become_ready_is_not_left_running(rehearsal: Any, kept: bool, state: str) -> None:
    rehearsal.answer(
        {"failed": True, "msg": "503"}, module="uri", name="Wait until the daemon has seen the whole cluster"
    )
    rehearsal.answer({"stat": {"exists": kept}}, module="stat")
    done = rehearsal.role("placement", "service", hosts="ctl", placement_ready_seconds=1)
    assert not done.passed
    assert "The new placement daemon did not become ready: 503" in " ".join(done.said.split())
    (asked,) = [call for call in done.calls if call.module == "systemd_service"]
    assert asked.args["state"] == state
    copied = [call.args["argv"][-1] for call in done.calls if call.module == "command"]
    assert copied == (["/"] if kept else [])
