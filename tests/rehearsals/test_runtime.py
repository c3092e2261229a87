# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order a conversion gives a node another runtime, and what it leaves when it breaks off."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.module_utils._runtime import LABEL, TAINT
from ansible_collections.converged.hpc.plugins.module_utils._slurm.ours import FILES
from rehearsals.conftest import USUAL

CONTAINERD, OURS = "containerd", "singularity_cri"
BOTH_WAYS = [(CONTAINERD, OURS), (OURS, CONTAINERD)]
POLICY = "Keep pods off these nodes that ask for what Singularity-CRI cannot do"
DRAIN = ["drain", "n1"]
GET = ["get", "node", "n1", "--ignore-not-found", "--output=jsonpath={.metadata.name} {.spec.unschedulable}"]
GIVEN = {"singularity_cri_folder": "/srv", "converged_after_canary": "go_on", "slurm_share_drain_delay": 1}


def converted(
    rehearsal: Any,
    before: str,
    after: str,
    *,
    found: dict[str, Any] = USUAL["share_node_info"]["found"],
    wanted: dict[str, Any] | None = None,
    alone: bool = False,
    cordoned: bool = False,
    **given: Any,
) -> Any:
    """Convert a site on which node n1 changes from the runtime `before` to `after`.

    `alone` runs only the play that converts n1; what preflight would have found is given to it.
    """
    role = {CONTAINERD: ["node_runtime"], OURS: ["singularity_cri", "singularity_cri_config"]}[before]
    found = {**found, "record": [*role, "node_kubelet", "kube_join"], "enabled": True}
    rehearsal.answer({"changed": True, "socket": "/run/singularity.sock"}, module="singularity_cri_config")
    rehearsal.answer({"found": found, "wanted": wanted or {}}, module="share_node_info", host="n1")
    known = {"changed": True, "rc": 0, "stdout": f"n1 {'true' if cordoned else ''}", "stderr": ""}
    rehearsal.answer(known, module="command", args={"argv": kubectl(*GET)})
    given = {"converged_convert": "n1", **called(rehearsal), **GIVEN, **given, **runtime(after)}
    if not alone:
        return rehearsal.playbook("site", **given)
    play = rehearsal.stage.play("site", "Convert the nodes")
    read = {"__share_preflight_host": {"found": found, "wanted": wanted or {}}}
    return rehearsal.play([{**play, "hosts": "n1"}], **given, **read)


def called(rehearsal: Any) -> dict[str, Any]:
    """Have Slurm call our scripts already, as on a site that was converted."""
    config = {key: [f"/etc/converged/slurm/{name}"] for key, name in FILES.items()}
    rehearsal.answer({**USUAL["slurm_info"], "config": config, "jobs": []}, module="slurm_info")
    return {"slurm_share_site_scripts": dict.fromkeys(FILES, "")}


def runtime(name: str) -> dict[str, str]:
    return {"converged_runtime": name}


def kubectl(*words: str) -> list[str]:
    return ["kubectl", "--kubeconfig=/admin.conf", *words]


def place(done: Any, name: str) -> int:
    """Return where in what was done for n1 the first task of this name comes."""
    calls = [call.name for call in done.calls if call.host == "n1" and not call.check]
    assert name in calls, f"{name}: not among {calls}"
    return calls.index(name)


def names(done: Any) -> set[str]:
    return {call.name for call in done.calls if call.host == "n1" and not call.check}


@pytest.fixture(scope="module")
def changes(rehearsals: Any) -> dict[str, Any]:
    """A change of n1 to each of the two runtimes, by its name: one with all of site, the other without the plan."""
    return {after: converted(rehearsals(), before, after, alone=after == CONTAINERD) for before, after in BOTH_WAYS}


@pytest.mark.parametrize(
    ("after", "answers", "goes"),
    [
        (OURS, "See the bridge answer", "Take the container runtime away again"),
        (CONTAINERD, "Put the container runtime on the node", "Take Singularity-CRI away again"),
    ],
)
def test_a_node_keeps_its_runtime_until_the_new_one_answers_and_it_is_drained(
    changes: dict[str, Any], after: str, answers: str, goes: str
) -> None:
    done = changes[after]
    assert done.passed, done.said
    order = (
        answers,
        "Have the jobs of this host run out",
        "Have its pods run elsewhere",
        "End the pods and leave the cluster",
        "Delete the Node object of the runtime of before",
        goes,
        "Put nodeshare on the node",
        "Join the node",
        "End the drain of the conversion",
        "Let pods onto the nodes",
    )
    places = [place(done, name) for name in order]
    assert places == sorted(places), dict(zip(order, places, strict=True))


@pytest.mark.parametrize(("before", "after"), BOTH_WAYS)
def test_the_kubelet_leaves_by_the_old_socket_and_joins_by_the_new_one(
    changes: dict[str, Any], before: str, after: str
) -> None:
    sockets = {CONTAINERD: "unix:///run/containerd/containerd.sock", OURS: "unix:///run/converged-cri/cri.sock"}
    done = changes[after]
    calls = [call for call in done.calls if call.module == "kube_join" and call.host == "n1" and not call.check]
    used = [(call.args.get("state", "present"), call.args.get("socket")) for call in calls]
    assert ("absent", sockets[before]) in used
    assert used[-1] == ("present", sockets[after])


@pytest.mark.parametrize("after", [OURS, CONTAINERD])
def test_taint_label_and_policy_are_there_for_as_long_as_the_node_has_the_limited_runtime(
    changes: dict[str, Any], after: str
) -> None:
    calls = [call for call in changes[after].calls if not call.check]
    (labelled,) = [call.args for call in calls if call.name == "Label the nodes and see them ready"]
    policy = [call.args["state"] for call in calls if call.name == POLICY]
    is_limited = after == OURS
    assert (LABEL in labelled["nodes"]["n1"]) == is_limited
    assert bool(labelled["taints"][TAINT]) == is_limited
    assert set(policy) == {"present" if is_limited else "absent"}


def test_the_policy_stays_for_nodes_that_the_cluster_still_has_with_the_limited_runtime(rehearsal: Any) -> None:
    rehearsal.answer({"resources": [{"metadata": {"name": "n2"}}], "api_found": True}, module="k8s_info")
    done = converted(rehearsal, OURS, CONTAINERD, alone=True)
    assert done.passed, done.said
    (policy,) = [call.args for call in done.calls if call.name == POLICY]
    (nodes,) = [one["expression"] for one in policy["definition"][0]["spec"]["variables"] if one["name"] == "nodes"]
    assert (policy["state"], nodes) == ("present", '["n2"]')


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ({"name": POLICY}, {"failed": True, "msg": "no route"}),
        # What kubernetes.core.k8s_info says of an API that answers with 503.
        ({"module": "k8s_info"}, {"resources": [], "api_found": False}),
    ],
)
def test_what_says_that_the_policy_is_to_be_changed_stays_until_it_is(
    rehearsal: Any, wanted: dict[str, Any], answer: dict[str, Any]
) -> None:
    rehearsal.answer(answer, **wanted)
    done = converted(rehearsal, OURS, CONTAINERD, alone=True)
    assert not done.passed
    assert "n1 is not converted: See that the cluster has the policy: " in " ".join(done.said.split())
    assert "Take Singularity-CRI away again" not in names(done)


def test_a_node_with_the_runtime_that_it_shall_have_is_drained_of_nothing(rehearsal: Any) -> None:
    done = converted(rehearsal, CONTAINERD, CONTAINERD, alone=True)
    assert done.passed, done.said
    assert names(done).isdisjoint({"Have its pods run elsewhere", "End the pods and leave the cluster", POLICY})


def test_what_is_left_of_the_runtime_before_drains_no_node_that_uses_the_new_one(rehearsal: Any) -> None:
    socket = "unix:///run/converged-cri/cri.sock"
    found = {**USUAL["share_node_info"]["found"], "kubelet_socket": socket}
    done = converted(rehearsal, CONTAINERD, OURS, found=found, wanted={"socket": socket}, alone=True)
    assert done.passed, done.said
    assert "Take the container runtime away again" in names(done)
    assert names(done).isdisjoint({"Have its pods run elsewhere", "End the pods and leave the cluster"})


def test_a_runtime_that_does_not_answer_keeps_jobs_and_pods_where_they_are(rehearsal: Any) -> None:
    refused = {"failed": True, "msg": "engine singularity-ce 4.1: from 3.10 on its command oci is a front of runc"}
    kept = converted_with(rehearsal, refused, module="singularity_cri_config")
    assert not kept.passed
    assert "from 3.10 on its command oci" in kept.said
    done = names(kept)
    assert done.isdisjoint({"Have the jobs of this host run out", "Have its pods run elsewhere"})
    assert done.isdisjoint({"End the pods and leave the cluster", "Take the container runtime away again"})


def test_a_bridge_that_does_not_start_keeps_the_node_and_its_own_reason_is_said(rehearsal: Any) -> None:
    reason = "cri_bridge: /run/converged-cri/cri.sock is in use: another program listens there; stop it first"
    words = ["journalctl", "--unit=converged-cri-bridge.service", "--lines=50", "--output=cat", "--no-pager"]
    journal = {"changed": False, "rc": 0, "stdout": f"Starting\n{reason}\nFailed", "stderr": ""}
    rehearsal.answer(journal, module="command", args={"argv": words})
    failed = {"failed": True, "msg": "unit converged-cri-bridge.service: restart failed: exit status 1"}
    done = converted_with(rehearsal, failed, module="node_state", args={"role": "singularity_cri_bridge"})
    assert not done.passed
    assert f"does not serve the kubelet: {reason}. The kubelet keeps the runtime" in " ".join(done.said.split())
    assert names(done).isdisjoint({"Have the jobs of this host run out", "Have its pods run elsewhere"})
    assert names(done).isdisjoint({"End the pods and leave the cluster", "Take the container runtime away again"})


@pytest.mark.parametrize("cordoned", [False, True])
def test_pods_that_cannot_leave_keep_the_node_as_it_is_and_it_is_open_again(rehearsal: Any, cordoned: bool) -> None:
    budget = {"failed": True, "rc": 1, "stdout": "", "stderr": "cannot delete Pods declare no controller: default/bare"}
    words = kubectl(*DRAIN, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s")
    done = converted_with(rehearsal, budget, cordoned=cordoned, module="command", args={"argv": words})
    assert not done.passed
    assert "n1 keeps its runtime: Have its pods run elsewhere: cannot delete Pods declare no controller" in " ".join(
        done.said.split()
    )
    assert "End the drain of the conversion" in names(done)
    # The cordon of an administrator stays, and is said.
    assert ("Let pods come again" in names(done)) != cordoned
    assert ("new pods may still be kept off it" in done.said) == cordoned
    assert "Take the container runtime away again" not in names(done)


def test_no_pod_comes_to_a_node_that_has_half_left_the_cluster(rehearsal: Any) -> None:
    done = converted_with(rehearsal, {"failed": True, "msg": "no space left"}, name="Take the kubelet away again")
    assert not done.passed
    said = " ".join(done.said.split())
    assert "n1 has half left the cluster, and stays cordoned until a run" in said, done.said
    assert "Take the kubelet away again: no space left" in said
    assert "keeps its runtime" not in said
    assert "End the drain of the conversion" in names(done)
    assert names(done).isdisjoint({"Let pods come again", "Delete the Node object of the runtime of before"})


@pytest.mark.parametrize(
    "name",
    [
        "See whether the cluster has this node",
        "Have its pods run elsewhere",
        "Delete the Node object of the runtime of before",
    ],
)
def test_when_the_host_that_asks_the_api_is_lost_jobs_come_to_the_node_again(rehearsal: Any, name: str) -> None:
    lost = {"unreachable": True, "msg": "no route to host"}
    rehearsal.answer(lost, name="Let pods come again")
    done = converted_with(rehearsal, lost, name=name)
    assert not done.passed
    said = " ".join(done.said.split())
    assert "n1 is not converted: " in said
    assert "See what the API says of the node: Task failed: no route to host" in said
    assert ("no route to host; new pods may still be kept off it" in said) == (name == "Have its pods run elsewhere")
    assert "End the drain of the conversion" in names(done)
    assert ("End the pods and leave the cluster" in names(done)) == name.startswith("Delete")


def test_a_site_that_never_drains_keeps_every_runtime(rehearsal: Any) -> None:
    done = converted(rehearsal, CONTAINERD, OURS, alone=True, converged_drain="never")
    assert not done.passed
    assert "a node changes its runtime when it has neither jobs nor pods, and converged_drain is never" in " ".join(
        done.said.split()
    )
    assert "Have its pods run elsewhere" not in names(done)


def converted_with(rehearsal: Any, result: dict[str, Any], *, cordoned: bool = False, **wanted: Any) -> Any:
    """Convert n1 to Singularity-CRI while one call fails."""
    answer = rehearsal.answer

    def last(given: dict[str, Any], **words: Any) -> None:
        answer(given, **words)
        answer(result, host="n1", check=False, **wanted)

    rehearsal.answer = last
    return converted(rehearsal, CONTAINERD, OURS, alone=True, cordoned=cordoned)
