# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of `verify`: what it refuses, what counts as proved, and what it says where nothing is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rehearsals.conftest import HOSTS, Rehearsal, Rehearsed, Stage

# Modules of Ansible's own that the stage leaves as they are.
OTHERS = ("ansible.builtin.async_status", "ansible.builtin.shell")
UID = "8f3c0000-aaaa-4000-8000-000000000001"
API_AWAY = {"failed": True, "msg": "Failed to get client due to connection refused"}
NO_PROGRAM = {"failed": True, "rc": 2, "stdout": "", "stderr": "", "msg": "No such file: /usr/local/sbin/nodeshare"}
LOST = {"unreachable": True, "msg": "Connection timed out"}


def pod(node: str = "n1", *, phase: str = "Running", **metadata: str) -> dict[str, Any]:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
    return {"metadata": {"name": f"proof-{node}", "uid": UID, **metadata}, "spec": {"nodeName": node}, "status": status}


def objects(*found: dict[str, Any]) -> dict[str, Any]:
    return {"resources": list(found), "api_found": True}


def printed(stdout: str = "", *, rc: int = 0, stderr: str = "") -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": stderr}


def shows(*jobs: str) -> dict[str, Any]:
    """Return what nodeshare shows of a node that these jobs have."""
    return printed(json.dumps({"phase": "held", "leases": [{"job": job} for job in jobs]}))


# What each task finds where all is well: job 7 takes node n1.
WELL: dict[str, dict[str, Any]] = {
    "See it run on each node": objects(pod()),
    "Start a job on these nodes": {"ansible_job_id": "j1", "changed": True},
    "Start a job of PBS on these nodes": printed("7.pbs"),
    "Look for the job in the queue": printed("7"),
    "See the job run": printed("7"),
    "See each node free for it": shows("7"),
    "Look at the cgroups of all processes there": printed("0::/init.scope"),
    "Look at what the API says of the pods": objects(pod(phase="Pending")),
    "See the job still there": shows("7"),
    "End the job": printed(),
    "See the job end": {"finished": 1, "rc": 143, "stderr": "srun: Terminated"},
    "See the pods return": objects(pod()),
}


@pytest.fixture
def staged(stage: Stage, tmp_path: Path) -> Callable[..., Rehearsal]:
    """Return what makes a rehearsal in which all is well, for these hosts."""

    def made(**groups: list[str]) -> Rehearsal:
        rehearsal = Rehearsal(stage, tmp_path, {**HOSTS, **groups})
        rehearsal.answer({"bin_dir": "/usr/bin", "config": {"DisableRootJobs": "NO"}}, module="slurm_info")
        for name, result in WELL.items():
            rehearsal.answer(result, name=name)
        return rehearsal

    return made


@pytest.fixture
def site(staged: Callable[..., Rehearsal]) -> Rehearsal:
    return staged()


def prove(site: Rehearsal, *names: str, **given: Any) -> Rehearsed:
    """Rehearse the proof as a whole, or only these of its tasks, with the job and the pods that were seen before."""
    play = site.stage.play("verify", "Prove the sharing")
    tasks = stood_in(play["tasks"])
    if names:
        proof = tasks[-1]
        block = [task for task in proof["block"] if task["name"] in names]
        assert len(block) == len(names), names
        tasks = [{**proof, "block": block, "always": []}]
        # What earlier tasks have found.
        known = {"__running": WELL["See the job run"], "__slurm_here": {"bin_dir": "/usr/bin"}}
        given = {**known, "__job_name": "converged-verify-5", **given}
    done = site.play([{**play, "tasks": tasks}], **{"converged_verify_wait": 2, **given})
    return Rehearsed(" ".join(done.said.split()), done.passed, done.calls)


def stood_in(tasks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return these tasks with stand-ins for all that reads a host, and without pauses."""
    found = []
    for task in tasks:
        words = {"converged.hpc.stand_in_command" if word in OTHERS else word: task[word] for word in task}
        words |= {part: stood_in(words[part]) for part in ("block", "rescue", "always") if part in words}
        found.append({**words, "delay": 0} if "delay" in words else words)
    return found


def times(done: Rehearsed, name: str) -> int:
    return [call.name for call in done.calls].count(name)


def test_a_proof_looks_at_each_thing_once(site: Rehearsal) -> None:
    done = prove(site)
    assert done.passed, done.said
    assert "job 7 took n1, and none of these pods ran beside it" in done.said
    assert {name: times(done, name) for name in WELL if "PBS" not in name} == {
        **{name: 1 for name in WELL if "PBS" not in name},
        "End the job": 2,
    }


@pytest.mark.parametrize(
    ("groups", "nodes", "said"),
    [
        ({}, [], "There is no node to prove: converged_verify_nodes is empty"),
        ({"converged_excepted": ["n1", "n2"]}, None, "There is no node to prove"),
        ({}, ["n1", "n1"], "converged_verify_nodes names n1 more than once: name each node once"),
        ({}, ["n1", "n7"], "converged_verify_nodes names n7, which converged_nodes has not"),
        ({}, "n1", "converged_verify_nodes is 'n1': expected a list"),
        ({"converged_kube": ["kube", "k2"]}, ["n1"], "converged_kube has 2 hosts (kube, k2), and one asks the API"),
    ],
)
def test_a_proof_is_refused_before_anything_is_asked(
    staged: Callable[..., Rehearsal], groups: dict[str, list[str]], nodes: Any, said: str
) -> None:
    done = prove(staged(**groups), **({} if nodes is None else {"converged_verify_nodes": nodes}))
    assert not done.passed
    assert said in done.said, done.said
    assert "Nothing was started" in done.said
    assert done.calls == []


@pytest.mark.parametrize(("away", "used"), [([], "ctl"), (["ctl"], "backup"), (["ctl", "backup"], "ctl")])
def test_a_job_is_submitted_on_the_first_controller_that_is_not_left_out(
    staged: Callable[..., Rehearsal], away: list[str], used: str
) -> None:
    site = staged(converged_controllers=["ctl", "backup"], converged_excepted=away)
    done = prove(site, "Start a job on these nodes", "See the job run")
    assert done.passed, done.said
    assert set(re.findall(r"\[kube -> (ctl|backup)\]", done.said)) == {used}


REFUSAL = "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified"
OPTIONS = """If the job needs other options, give them as in -e '{"converged_verify_options": ["--account=NAME"]}'"""


def says(done: Rehearsed, *words: str) -> None:
    """Assert that the proof failed with these words in its reason."""
    assert not done.passed
    reason = re.search(r"TASK \[Say why nothing is proved\].*?(?=TASK|PLAY RECAP)", done.said)
    assert reason, done.said
    plain = reason[0].replace('\\"', '"')
    assert [text for text in words if text not in plain] == [], plain


def test_a_job_that_is_refused_ends_the_proof_at_once_with_the_words_of_srun(site: Rehearsal) -> None:
    site.answer(printed(), name="Look for the job in the queue")
    for name in ("See that srun has not ended without a job", "Ask for the words of srun"):
        site.answer({"finished": 1, "rc": 1, "stderr": REFUSAL}, name=name)
    done = prove(site, converged_verify_wait=100)
    says(done, f"See that srun has not ended without a job: {REFUSAL}. {OPTIONS}")
    assert times(done, "See the job run") == 0


def test_a_job_that_comes_late_into_the_queue_is_waited_for(site: Rehearsal) -> None:
    site.answer(printed(), name="Look for the job in the queue")
    site.answer({"finished": 0}, name="See that srun has not ended without a job")
    site.answer(printed(), name="See the job run", times=1)
    done = prove(site)
    assert done.passed, done.said


@pytest.mark.parametrize(("finished", "told"), [(1, True), (0, False)])
def test_a_job_that_never_runs_is_told_with_the_words_of_srun(site: Rehearsal, finished: int, told: bool) -> None:
    site.answer(printed(), name="See the job run")
    site.answer({"finished": finished, "stderr": "srun: Job allocation revoked"}, name="Ask for the words of srun")
    done = prove(site)
    says(done, "See the job run: not so after 2 looks")
    assert ("srun has ended: srun: Job allocation revoked" in done.said) == told


def test_a_job_that_qsub_refuses_is_told_with_how_to_give_options(site: Rehearsal) -> None:
    site.answer({"bin_dir": "/opt/pbs/bin", "settings": {"acl_roots": ["root"]}}, module="pbs_info")
    refused = {"failed": True, "cmd": ["/opt/pbs/bin/qsub"], **printed(rc=1, stderr="qsub: Unknown queue")}
    site.answer(refused, name="Start a job of PBS on these nodes")
    done = prove(site, converged_wlm="pbs")
    says(done, "Start a job of PBS on these nodes: qsub: Unknown queue", OPTIONS)
    assert times(done, "End the job") == 0


LOOKS = ["See it run on each node", "Look at what the API says of the pods", "See the pods return"]


@pytest.mark.parametrize("name", LOOKS)
def test_an_api_that_is_away_is_asked_again(site: Rehearsal, name: str) -> None:
    site.answer(API_AWAY, name=name, times=1)
    done = prove(site, name, node_share_linger=0)
    assert done.passed, done.said
    assert times(done, name) == 2


PLACEHOLDER = {
    "metadata": {"annotations": {"converged.hpc/lease": '{"job": "7", "cores": 1}'}},
    "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
}


@pytest.mark.parametrize("name", ["See it stand beside pods in its size", "See nothing stand for it any more"])
@pytest.mark.parametrize("short", [True, False])
def test_an_api_that_is_away_is_asked_again_about_the_job(site: Rehearsal, name: str, short: bool) -> None:
    site.answer(objects(PLACEHOLDER), name="See it stand beside pods in its size")
    site.answer(objects(), name="See nothing stand for it any more")
    site.answer(API_AWAY, name=name, times=1 if short else 100)
    done = prove(site, name, converged_share_mode="placeholder")
    assert done.passed == short, done.said
    if not short:
        says(done, f"{name}: {API_AWAY['msg']}")


def test_what_the_module_said_is_shown_where_the_api_stays_away(site: Rehearsal) -> None:
    site.answer(API_AWAY, name="See it run on each node")
    done = prove(site, "See it run on each node")
    says(done, f"See it run on each node: {API_AWAY['msg']}")
    assert "No pod of the proof is ready" not in done.said, "nothing was seen"
    assert times(done, "See it run on each node") == 3


@pytest.mark.parametrize("name", ["See it run on each node", "See the pods return"])
def test_nodes_without_a_ready_pod_are_named_and_no_object_is_shown(site: Rehearsal, name: str) -> None:
    site.answer(objects(pod("n1"), pod("n2")), name="See it run on each node")
    site.answer(objects(pod("n1"), pod("n2", phase="Pending")), name=name)
    names = dict.fromkeys(["See it run on each node", name])
    done = prove(site, *names, converged_verify_nodes=["n1", "n2"])
    says(done, "No pod of the proof is ready on n2: run the proof again", "kubectl -n converged-verify describe pods")
    assert UID not in done.said


@pytest.mark.parametrize(("name", "looks"), [("See each node free for it", 11), ("See the job still there", 1)])
def test_a_node_without_nodeshare_is_named_with_what_its_start_said(site: Rehearsal, name: str, looks: int) -> None:
    site.answer(NO_PROGRAM, name=name)
    done = prove(site, name, node_share_limit=0)
    says(done, f"{name}: n1: {NO_PROGRAM['msg']}")
    assert times(done, name) == looks


# The heart of the proof. Each test names one thing that must not be: pods and the job beside each other.
CGROUPS = {
    "cgroupfs": f"0::/kubepods/besteffort/pod{UID}/abc",
    "systemd": f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice/abc",
}


HEART = (
    *("Look at the cgroups of all processes there", "Look at what the API says of the pods"),
    *("See the job still there", "See no pod beside it"),
)
BEFORE = {"__before": objects(pod())}


@pytest.mark.parametrize("driver", sorted(CGROUPS))
def test_a_process_of_a_pod_of_the_proof_beside_the_job_is_refused(site: Rehearsal, driver: str) -> None:
    site.answer(printed(f"0::/init.scope\n{CGROUPS[driver]}"), name="Look at the cgroups of all processes there")
    says(prove(site, *HEART, **BEFORE), f"See no pod beside it: pods beside job 7: {UID}")


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (pod(uid="other"), True),
        (pod(uid="other", phase="Pending"), False),
        (pod(uid="other", deletionTimestamp="2026-11-29T12:00:00Z"), False),
        (pod("n2", uid="other"), False),
    ],
)
def test_a_pod_that_the_api_shows_running_on_a_taken_node_is_refused(
    site: Rehearsal, found: dict[str, Any], refused: bool
) -> None:
    site.answer(objects(found), name="Look at what the API says of the pods")
    done = prove(site, *HEART, **BEFORE)
    assert done.passed != refused, done.said
    if refused:
        says(done, "See no pod beside it: pods beside job 7: proof-n1")


def test_a_proof_whose_job_has_left_its_node_meanwhile_is_none(site: Rehearsal) -> None:
    site.answer(shows("6"), name="See the job still there")
    says(prove(site, *HEART, **BEFORE), "See the job still there: n1: ")


@pytest.mark.parametrize("name", ["See the job still there", "See the pods return"])
def test_a_host_that_has_gone_away_leaves_nothing_proved(site: Rehearsal, name: str) -> None:
    site.answer(LOST, name=name)
    site.answer({"finished": 0}, name="Ask for the words of srun")
    done = prove(site)
    assert not done.passed
    assert '"proved"' not in done.said


@pytest.mark.parametrize(
    ("system", "name", "said"),
    [
        ("slurm", "Start a job on these nodes", "ctl was not reached, so a job may be there that is not known"),
        ("slurm", "See the job run", "ctl was not reached, so it is not known whether the job runs"),
        ("pbs", "Start a job of PBS on these nodes", "ctl was not reached, so a job may be there that is not known"),
        ("pbs", "See the job of PBS run", "ctl was not reached, so it is not known whether the job runs"),
    ],
)
def test_a_batch_controller_that_is_away_ends_the_proof_with_its_name(
    site: Rehearsal, system: str, name: str, said: str
) -> None:
    site.answer({"bin_dir": "/opt/pbs/bin", "settings": {"acl_roots": ["root"]}, "jobs": []}, module="pbs_info")
    site.answer({"finished": 0}, name="Ask for the words of srun")
    site.answer(LOST, name=name)
    says(prove(site, converged_wlm=system), said)


def test_a_host_that_was_away_and_came_back_leaves_nothing_proved(site: Rehearsal) -> None:
    site.answer(LOST, name="See each node free for it")
    says(prove(site), "a host has gone away meanwhile, and nothing is proved")


DOWN = {"failed": True, **printed(rc=1, stderr="scancel: error: Unable to contact slurm controller")}


@pytest.mark.parametrize("end", [DOWN, LOST])
def test_a_job_that_could_not_be_removed_is_named_with_what_ends_it(site: Rehearsal, end: dict[str, Any]) -> None:
    site.answer(objects(pod()), name="Look at what the API says of the pods")
    site.answer({"finished": 0}, name="Ask for the words of srun")
    site.answer(end, name="End the job")
    done = prove(site)
    says(done, "See no pod beside it")
    words = end.get("stderr") or end["msg"]
    assert re.search(
        rf"job (converged-verify-\d+) of this proof may be left: {words}; /usr/bin/scancel --name=\1 --user=root",
        done.said,
    ), done.said


@pytest.mark.parametrize(("said", "left"), [("qdel: Unknown Job Id 7.pbs", False), ("qdel: Unauthorized", True)])
def test_a_job_of_pbs_that_has_ended_is_not_called_left(site: Rehearsal, said: str, left: bool) -> None:
    site.answer({"bin_dir": "/opt/pbs/bin", "settings": {"acl_roots": ["root"]}, "jobs": []}, module="pbs_info")
    site.answer({"failed": True, **printed(rc=1, stderr=said)}, name="End the job")
    done = prove(site, converged_wlm="pbs")
    says(done, "See the job of PBS run: not so after 2 looks")
    assert (f"job 7.pbs of this proof may be left: {said}; /opt/pbs/bin/qdel 7.pbs" in done.said) == left


def test_a_job_that_was_never_submitted_and_one_that_was_seen_to_end_are_not_called_left(
    staged: Callable[..., Rehearsal],
) -> None:
    proved = staged()
    proved.answer(DOWN, name="End the job")
    assert prove(proved).passed
    early = staged()
    early.answer({"failed": True, "msg": "forbidden"}, name="Have a pod for each node")
    early.answer(DOWN, name="End the job")
    done = prove(early)
    says(done, "Have a pod for each node: forbidden")
    assert "may be left" not in done.said


def test_pods_that_could_not_be_removed_are_told_beside_the_job(site: Rehearsal) -> None:
    site.answer(objects(pod()), name="Look at what the API says of the pods")
    site.answer({"finished": 0}, name="Ask for the words of srun")
    site.answer(DOWN, name="End the job")
    site.answer({"failed": True, "msg": "timed out"}, name="Remove the pods")
    done = prove(site)
    assert "the pods of this proof may be left: timed out; kubectl delete namespace converged-verify" in done.said
    assert "of this proof may be left: scancel: error" in done.said
