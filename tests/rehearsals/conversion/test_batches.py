# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failure on one host, or of what is done once for all of them, costs the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rehearsals.conftest import HOSTS, ROOT, USUAL, Rehearsal, Rehearsed, Stage, seen

LOST = {"unreachable": True, "msg": "no route to host"}
FAILED = {"failed": True, "msg": "no space left"}
ROLES = ["node_share", "node_kubelet", "kube_join", "drain_access", "singularity_cri"]


@pytest.fixture
def site(stage: Stage, tmp_path: Path) -> Callable[..., Rehearsal]:
    def make(*nodes: str, controllers: tuple[str, ...] = ("ctl",)) -> Rehearsal:
        hosts = {"converged_nodes": nodes, "converged_shared": nodes, "converged_controllers": controllers}
        rehearsal = Rehearsal(stage, tmp_path, {**HOSTS, **hosts})
        known = {**USUAL["slurm_info"], "nodes": [{"name": name} for name in nodes], "jobs": []}
        rehearsal.answer(known, module="slurm_info")
        rehearsal.answer({**USUAL["kube_bootstrap_token"], "missing": nodes}, module="kube_bootstrap_token")
        return rehearsal

    return make


def converted(rehearsal: Rehearsal, **given: Any) -> Rehearsed:
    """Convert the nodes of a site, for which the plan of the same run has registered that all goes well."""
    well = {"changed": True, "failed": False}
    planned = {"__node_kubelet_join": well, "__node_kubelet_configured": well}
    plan = {"hosts": "converged_nodes", "gather_facts": False, "tasks": [{"ansible.builtin.set_fact": planned}]}
    play = {**rehearsal.stage.play("site", "Convert the nodes"), "hosts": "converged_nodes"}
    usual = {"__share_preflight_host": seen(), "converged_after_canary": "go_on"}
    return rehearsal.play([plan, play], **{**usual, **given})


def nodes_of(done: Rehearsed, name: str) -> list[str]:
    """Return the nodes for which tasks of this name were done, each for all of a batch."""
    calls = [call for call in done.calls if call.name == name and not call.check]
    return sorted(node for call in calls for node in call.args["nodes"])


def hosts_of(done: Rehearsed, name: str) -> list[str]:
    """Return the hosts for which tasks of this name were done, each for its own."""
    return sorted(call.host for call in done.calls if call.name == name and not call.check)


def words(done: Rehearsed) -> str:
    return " ".join(done.said.split())


@pytest.mark.parametrize(
    ("happens", "where", "node", "budget", "said", "joins"),
    [
        # Ansible counts only what fails.
        (LOST, {"args": {"role": "node_share"}}, "n2", 0, "fatal: [n2]: UNREACHABLE!", False),
        (FAILED, {"args": {"role": "node_share"}}, "n2", 50, "n2 is not converted: Put nodeshare on the node: ", False),
        (
            *(FAILED, {"args": {"role": "slurm_share_enable"}}, "n2", 50),
            *("n2 is not converted: Let the scripts on this host act: ", True),
        ),
        # The first of its batch, on which Ansible runs what it runs once.
        (
            *(FAILED, {"args": {"role": "slurm_share_enable"}}, "n1", 50),
            *("n1 is not converted: Let the scripts on this host act: ", True),
        ),
    ],
    ids=["unreachable", "before it joins", "when it has joined", "the first, when it has joined"],
)
def test_a_node_that_is_lost_behind_the_plan_costs_no_other_within_the_budget_and_gets_no_pods(
    happens: dict[str, Any], where: dict[str, Any], node: str, budget: int, said: str, joins: bool, site: Any
) -> None:
    nodes = ["n1", "n2", "n3"]
    rehearsal = site(*nodes)
    rehearsal.answer(happens, host=node, check=False, **where)
    done = converted(rehearsal, converged_serial=[2, 1], converged_max_fail_percentage=budget)
    assert not done.passed
    assert said in words(done)
    others = [name for name in nodes if name != node]
    assert nodes_of(done, "Label the nodes and see them ready") == (nodes if joins else others), done.said
    assert nodes_of(done, "Let pods onto the nodes") == others, done.said


def test_without_a_budget_the_batch_of_a_node_that_failed_is_the_last(site: Any) -> None:
    rehearsal = site("n1", "n2", "n3")
    rehearsal.answer(FAILED, host="n2", check=False, args={"role": "node_share"})
    done = converted(rehearsal, converged_serial=[2, 1])
    assert not done.passed
    assert nodes_of(done, "Let pods onto the nodes") == ["n1"], done.said
    assert done.done("n3") == []


def test_a_node_that_is_not_ready_in_time_costs_no_other_of_its_batch(site: Any) -> None:
    node = "n2"
    rehearsal = site("n1", "n2")
    late = {node: "not ready after 60 s: container runtime is down"}
    rehearsal.answer({"failed": True, "msg": "it is late", "late": late}, name="Label the nodes and see them ready")
    rehearsal.answer(FAILED, name="Delete the token")  # costs no node anything either
    done = converted(rehearsal, converged_serial=["100%"])
    assert not done.passed
    said = f"{node} is not converted: See what the API says of the node: not ready after 60 s: container"
    assert said in words(done)
    assert nodes_of(done, "Let pods onto the nodes") == ["n1"]
    assert hosts_of(done, "End the drain of the conversion") == ["n1", "n2"]
    assert "n1 is not converted" not in words(done)


# What a name of a role that is put together can stand for.
BATCH = ("slurm_share", "pbs_share", "torque_share")
STANDS_FOR = {"__batch": BATCH, "converged_wlm": BATCH, "{{": ("node_runtime", "singularity_cri")}


def every(tasks: list[dict[str, Any]], here: Path | None = None) -> Iterator[dict[str, Any]]:
    """Return these tasks, which stand in this folder, and what is in their blocks and in what they include."""
    for task in tasks:
        yield task
        for part in ("block", "rescue", "always"):
            yield from every(task.get(part) or [], here)
        for key, asked in task.items():
            kind = key.removeprefix("ansible.builtin.")
            if kind in ("import_role", "include_role"):
                name = asked["name"].removeprefix("converged.hpc.")
                roles = next((roles for part, roles in STANDS_FOR.items() if part in name), (name,))
                paths = [ROOT / f"roles/{role}/tasks/{asked.get('tasks_from', 'main')}.yml" for role in roles]
            elif kind in ("import_tasks", "include_tasks") and here:
                paths = [here / (asked if isinstance(asked, str) else asked["file"])]
            else:
                continue
            for path in paths:
                yield from every(yaml.safe_load(path.read_text(encoding="utf-8")), path.parent)


# By the tasks that are done once for a batch of nodes of Slurm, those that say of each node how they have ended.
CONVERTING = {
    "Ask Slurm what runs": "See that Slurm has said what runs",
    "Ask the cluster how nodes join it": "Join the node",
    "Label the nodes and see them ready": "See what the API says of the node",
    "Let pods onto the nodes": "See what the API says of the node",
}
OF_OTHERS = {"Ask PBS what runs", "Ask Torque what runs"}
POLICY = {
    "Ask the cluster which nodes have Singularity-CRI",
    "Keep pods off these nodes that ask for what Singularity-CRI cannot do",
}
IDENTITY = {
    "Ask where the cluster is and by what it is known",
    "Say what the batch controllers may do at the API",
    "Have the requests signed",
    "Take back what the batch controllers may do at the API",
    "Delete requests that a killed run has left",
}
FORGETTING = {"Delete the Node objects", "Take what we wrote from the Node objects that stay"}
DRAINING = {"Have the jobs of this host run out", "End the drain of the conversion"}
SWITCHING = {
    "See whether the cluster has this node",
    "Have its pods run elsewhere",
    "Let pods come again",
    "Delete the Node object of the runtime of before",
}
REACHING = "See whether the host that asks the API is there"


@pytest.mark.parametrize(
    ("name", "happens"),
    [(name, LOST if name == "Ask the cluster how nodes join it" else FAILED) for name in CONVERTING],
)
def test_what_is_done_once_for_a_batch_and_fails_is_said_of_each_node_which_jobs_can_use_again(
    site: Any, name: str, happens: dict[str, Any]
) -> None:
    rehearsal = site("n1", "n2")
    rehearsal.answer(happens, name=name)
    done = converted(rehearsal, converged_serial=["100%"])
    assert not done.passed
    for node in ("n1", "n2"):
        assert f"{node} is not converted: {CONVERTING[name]}: " in words(done), done.said
    assert words(done).count(happens["msg"]) >= 2
    times = 2 if name == "Let pods onto the nodes" else 1  # jobs had come again already
    assert hosts_of(done, "End the drain of the conversion") == sorted(["n1", "n2"] * times)
    # Where jobs cannot be recorded, a node is drained first.
    assert hosts_of(done, "Have the jobs of this host run out") == (
        ["n1", "n2"] if name.startswith("Ask Slurm") else []
    )


STILL = "If it was drained, it may still be: "


def test_when_the_controller_of_slurm_is_lost_each_node_says_that_it_may_still_be_drained(site: Any) -> None:
    rehearsal = site("n1", "n2")
    rehearsal.answer(LOST, module="slurm_info")
    rehearsal.answer(LOST, module="slurm_node")
    done = converted(rehearsal, converged_serial=["100%"], slurm_share_drain_delay=1, slurm_share_drain_timeout=1)
    assert not done.passed
    for node in ("n1", "n2"):
        said = "See that the controller of Slurm is there: Task failed: no route to host. "
        left = f"{STILL}Task failed: no route to host. New pods come at most if"
        assert f"{node} is not converted: {said}{left}" in words(done), done.said


@pytest.mark.parametrize("happens", [LOST, FAILED], ids=["lost", "failed"])
def test_a_node_whose_jobs_go_on_is_skipped_only_when_it_was_given_back(site: Any, happens: dict[str, Any]) -> None:
    rehearsal = site("n1", "n2")
    rehearsal.answer({"changed": True, "busy": ["n1"]}, name="Have the jobs of this host run out", host="n1")
    rehearsal.answer({"changed": True, "busy": ["n2"]}, name="Have the jobs of this host run out", host="n2")
    rehearsal.answer(happens, name="End the drain of the conversion", host="n1")
    waits = {"slurm_share_drain_delay": 1, "slurm_share_drain_timeout": 1}
    done = converted(rehearsal, converged_serial=["100%"], converged_drain="always", **waits)
    assert not done.passed
    assert "n1 is not converted: Have the jobs of this host run out: " in words(done), done.said
    assert f"{STILL}{'Task failed: ' if happens is LOST else ''}{happens['msg']}" in words(done), done.said
    assert "n2 is not converted" not in words(done)


def test_a_node_that_cannot_be_given_back_gets_no_pods_so_that_the_next_run_knows_it(site: Any) -> None:
    rehearsal = site("n1", "n2")
    rehearsal.answer(FAILED, name="End the drain of the conversion", host="n1")
    done = converted(rehearsal, converged_serial=["100%"], converged_drain="always")
    assert not done.passed
    assert f"n1 is not converted: End the drain of the conversion: no space left. {STILL}no space left" in words(done)
    assert nodes_of(done, "Let pods onto the nodes") == ["n2"]


def blocks(play: dict[str, Any]) -> list[dict[str, Any]]:
    return [task for task in play["tasks"] if "rescue" in task]


@pytest.fixture
def rescued(stage: Stage) -> list[dict[str, Any]]:
    """Return the tasks of site and restore behind which a rescue follows."""
    of_site = (
        "Give the batch controllers an identity",
        "Give back nodes on which nothing is to be done",
        "Convert the nodes",
    )
    plays = [*(stage.play("site", name) for name in of_site), *stage.plays("restore")]
    return list(every([block for play in plays for block in blocks(play)]))


def test_a_host_that_acts_for_another_and_is_lost_leaves_that_one_its_rescue(rescued: list[dict[str, Any]]) -> None:
    found = [task for task in rescued if task.get("delegate_to", "localhost") != "localhost"]
    assert {*DRAINING, *SWITCHING} <= {task["name"] for task in found}
    assert [task["name"] for task in found if not task.get("ignore_unreachable")] == []


def test_every_task_that_runs_once_where_a_rescue_follows_leaves_the_rescue_to_each_host(
    rescued: list[dict[str, Any]],
) -> None:
    found = [task for task in rescued if task.get("run_once")]
    names = {task["name"] for task in found}
    assert names == {*CONVERTING, *OF_OTHERS, *POLICY, *IDENTITY, *FORGETTING, "Delete the token", REACHING}
    unsaid = {task["name"] for task in found if task.get("ignore_errors") and task.get("ignore_unreachable")}
    assert names == unsaid


def test_an_api_that_does_not_answer_keeps_no_host_from_the_rest_of_the_way_back(site: Any) -> None:
    rehearsal = site("n1", "n2", controllers=("ctl", "backup"))
    shared = {"roles": ROLES, "sharing": {"node": {"leases": [], "placeholders": None}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts")
    rehearsal.answer({"changed": True}, module="singularity_cri_config")
    rehearsal.answer(FAILED, times=1, name="Delete the Node objects")
    rehearsal.answer(LOST, name="Ask the cluster which nodes have Singularity-CRI")
    rehearsal.answer(FAILED, name="Take back what the batch controllers may do at the API")
    done = rehearsal.playbook("restore")
    assert not done.passed
    for node in ("n1", "n2"):
        assert "node_state restored kube_join" in done.done(node), done.said
        assert f"{node}: not everything could be put back: the Node object" in words(done), done.said
    for host in ("ctl", "backup"):
        said = f"{host}: not everything could be put back: the controllers' rights at the API: no space left"
        assert said in words(done), done.said


def test_the_policy_of_a_conversion_that_never_came_to_its_nodes_goes_with_the_rest(site: Any) -> None:
    rehearsal = site("n1", "n2")
    shared = {"roles": ["node_share"], "sharing": {"node": {"leases": [], "placeholders": None}}}
    rehearsal.answer({"ansible_facts": {"converged_share": shared}}, module="share_facts")
    done = rehearsal.playbook("restore", converged_runtime="singularity_cri")
    assert done.passed, done.said
    policies = [call for call in done.calls if call.name in POLICY and call.module == "k8s"]
    assert [call.args["state"] for call in policies][-1:] == ["absent"], done.said
    rehearsal.answer(LOST, name=REACHING)
    done = rehearsal.playbook("restore", converged_runtime="singularity_cri")
    assert not done.passed
    assert "or the policy for Singularity-CRI: " in words(done)


def test_a_lone_controller_that_fails_in_the_plan_ends_the_run(site: Any) -> None:
    rehearsal = site("n1", "n2")
    rehearsal.answer(FAILED, module="node_state", host="ctl", check=True, args={"role": "slurm_share"})
    done = rehearsal.playbook("site")
    assert not done.passed
    assert "nothing was changed, as these batch controllers failed or were lost, see above: ctl" in words(done)
    reading = {"share_inventory", "share_node_info", "share_verdict", "slurm_info", "kube_info"}
    assert {call.module for call in done.calls if not call.check} == {*reading, "share_lock"}


@pytest.mark.parametrize(
    ("happens", "wanted", "said"),
    [
        (
            FAILED,
            {"module": "k8s"},
            "given the rights: no space left; not all that was begun could be taken back: no space left",
        ),
        (LOST, {"name": "Have the requests signed"}, "See that the requests are signed: Task failed: no route to host"),
        (FAILED, {"module": "kube_client_config", "host": "ctl"}, "request for one: no space left"),
        (LOST, {"module": "kube_client_config", "host": "ctl"}, "ctl failed or was lost earlier in this run"),
        (LOST, {"name": "Plan", "host": "ctl"}, "ctl failed or was lost earlier in this run"),
    ],
)
def test_two_controllers_have_an_identity_both_or_neither_and_then_the_run_ends(
    site: Any, happens: dict[str, Any], wanted: dict[str, Any], said: str
) -> None:
    rehearsal = site("n1", controllers=("ctl", "backup"))
    signed = {f"converged:controller:{host}": "pem" for host in ("ctl", "backup")}
    rehearsal.answer({**USUAL["kube_certificate"], "certificates": signed}, module="kube_certificate")
    rehearsal.answer(happens, **wanted)
    giving = rehearsal.stage.play("site", "Give the batch controllers an identity")
    planned = {"ansible.builtin.set_fact": {"__drain_access_rights": {"changed": True}}}
    plans = [planned, {"name": "Plan", "converged.hpc.stand_in_ping": {}}]
    after = {"name": "Go on", "converged.hpc.stand_in_ping": {}}
    plays = [
        {**giving, "max_fail_percentage": 100, "tasks": plans},
        giving,
        {**giving, "hosts": "all", "tasks": [after]},
    ]
    done = rehearsal.play(plays, __share_preflight_host={"found": {"record": []}})
    assert not done.passed
    assert said in words(done)[words(done).index("neither Slurm nor any node was touched: ") :], done.said
    lost = {"ctl"} if happens is LOST and "host" in wanted else set()
    for host in {"ctl", "backup"} - lost:
        assert "node_state restored drain_access" in done.done(host), done.said
    assert hosts_of(done, "Go on") == []
    states = [call.args.get("state", "present") for call in done.calls if call.module == "k8s"]
    given = [] if wanted.get("name") == "Plan" else ["present"]
    assert states == [*given, "absent"], done.said


def test_a_controller_that_was_lost_ends_the_run_where_the_others_have_nothing_to_do_too(site: Any) -> None:
    rehearsal = site("n1", controllers=("ctl", "backup"))
    rehearsal.answer(LOST, name="Plan", host="backup")
    plan = {"name": "Plan", "converged.hpc.stand_in_ping": {}}
    giving = rehearsal.stage.play("site", "Give the batch controllers an identity")
    plays = [
        {**giving, "max_fail_percentage": 100, "tasks": [plan]},
        giving,
        {**giving, "hosts": "all", "tasks": [plan]},
    ]
    done = rehearsal.play(plays, __share_preflight_host={"found": {"record": ["drain_access"]}})
    assert not done.passed
    assert "neither Slurm nor any node was touched: backup failed or was lost earlier in this run." in words(done)
    assert hosts_of(done, "Plan") == ["backup", "ctl"]
    assert {call.module for call in done.calls} == {"ping"}, "what the other one has stays as it is"
