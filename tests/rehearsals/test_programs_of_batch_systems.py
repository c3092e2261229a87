# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One variable, or none, says where the batch system's programs are, and Slurm and PBS say the rest."""

from __future__ import annotations

from typing import Any

import pytest
from rehearsals.conftest import seen

SLURM = {"slurm_info", "slurm_conf", "slurm_node"}
PBS = {"pbs_info", "pbs_hook", "pbs_node", "pbs_queue", "pbs_server"}
HERE = ("/etc/converged/nodeshare.json", "/etc/converged/controller.json")
OLDER = {"slurm_bin_dir": "slurm_share_bin_dir", "pbs_bin_dir": "pbs_share_bin_dir"}


def asked(done: Any, modules: set[str]) -> list[Any]:
    """Return the calls that need a batch system's programs, but for those that read or undo only the record."""
    calls = [call for call in done.calls if call.module in modules]
    return [call for call in calls if not (call.module == "slurm_conf" and call.args.get("state") == "restored")]


def settings(done: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of nodeshare and of its controller as they would be written."""
    files = [one for call in done.calls if call.module == "node_state" for one in call.args.get("files") or []]
    return {one["path"]: one["content"] for one in files if one["path"] in HERE}


@pytest.mark.parametrize("name", ["slurm_bin_dir", "slurm_share_bin_dir"])
def test_one_variable_says_everywhere_where_the_programs_of_slurm_are(rehearsal: Any, name: str) -> None:
    done = rehearsal.playbook("site", "--check", **{name: "/opt/slurm/bin"})
    assert done.passed, done.said
    calls = asked(done, SLURM)
    assert {call.module for call in calls} == {"slurm_info", "slurm_conf"}
    assert {call.args.get("bin_dir") for call in calls} == {"/opt/slurm/bin"}, [str(call) for call in calls]
    assert {call.args["slurm_bin_dir"] for call in done.calls if call.module == "share_node_info"} == {"/opt/slurm/bin"}
    found = settings(done)
    assert found[HERE[0]]["squeue"] == found[HERE[1]]["squeue"] == "/opt/slurm/bin/squeue"
    assert found[HERE[1]]["scontrol"] == "/opt/slurm/bin/scontrol"


TORQUE, OLDER_TORQUE = {"torque_bin_dir": "/srv/torque/bin"}, {"torque_share_bin_dir": "/srv/torque/bin"}
OVER_EMPTY = {"torque_bin_dir": "", **OLDER_TORQUE}


# Each playbook and each way to say it; soak has the rest of their pairs.
@pytest.mark.parametrize(
    ("variables", "playbook"),
    [
        *((TORQUE, playbook) for playbook in ("site", "verify", "status")),
        (OVER_EMPTY, "site"),
        pytest.param(OLDER_TORQUE, "site", marks=pytest.mark.soak),
        *(
            pytest.param(variables, playbook, marks=pytest.mark.soak)
            for variables in (OLDER_TORQUE, OVER_EMPTY)
            for playbook in ("verify", "status")
        ),
    ],
)
def test_one_variable_says_everywhere_where_the_programs_of_torque_are(
    rehearsal: Any, variables: dict[str, str], playbook: str
) -> None:
    rehearsal.answer({"bin_dir": "/srv/torque/bin", "nodes": [], "settings": {}}, module="torque_info")
    options = ("--check", "--tags", "share_preflight") if playbook == "site" else ()
    done = rehearsal.playbook(playbook, *options, converged_wlm="torque", **variables)
    calls = asked(done, {"torque_info"})
    assert calls, done.said
    assert {call.args.get("bin_dir") for call in calls} == {"/srv/torque/bin"}, [str(call) for call in calls]


@pytest.fixture(scope="module")
def unsaid(rehearsals: Any) -> Any:
    """Return the plan of a site that says nothing of its programs; each host has a copy of slurm.conf."""
    rehearsal = rehearsals()
    rehearsal.answer(
        seen(slurm={"kept": "local", "bin_dir": "/opt/slurm-23/bin"}, pbs={"bin_dir": "/x"}),
        module="share_node_info",
    )
    rehearsal.answer(
        {"bin_dir": "/opt/slurm/bin", "user": {"name": "batch", "group": "hpc"}, "config": {}},
        module="slurm_info",
        name="Ask Slurm for its user and the group that hands jobs over",
    )
    done = rehearsal.playbook("site", "--check")
    assert done.passed, done.said
    return done


def test_without_a_variable_each_host_says_where_its_programs_are_and_slurm_names_its_group(unsaid: Any) -> None:
    found = settings(unsaid)
    assert found[HERE[0]]["squeue"] == "/opt/slurm-23/bin/squeue"
    assert found[HERE[1]]["squeue"] == "/opt/slurm/bin/squeue"
    assert found[HERE[1]]["group"] == "hpc"


def test_a_slurm_user_that_the_controller_does_not_know_is_named(rehearsal: Any) -> None:
    rehearsal.answer({"user": {"name": "batch", "group": ""}, "config": {}, "bin_dir": "/usr/bin"}, module="slurm_info")
    done = rehearsal.role("node_share", "controller", hosts="ctl")
    assert not done.passed
    assert "SlurmUser batch is no user of this host" in " ".join(done.said.split())


def test_the_role_alone_finds_the_programs_by_itself(rehearsal: Any) -> None:
    rehearsal.answer({"bin_dir": "/opt/slurm/bin", "host": {}}, module="slurm_info")
    rehearsal.answer({"bin_dir": "/srv/pbs/bin", "home": "/srv/spool"}, module="pbs_info")
    slurm = settings(rehearsal.role("node_share", "main", hosts="n1"))[HERE[0]]
    pbs = settings(rehearsal.role("node_share", "main", hosts="n1", converged_wlm="pbs"))[HERE[0]]
    assert (slurm["squeue"], slurm["qstat"], slurm["pbs_home"]) == ("/opt/slurm/bin/squeue", "", "")
    assert (pbs["squeue"], pbs["qstat"], pbs["pbs_home"]) == ("", "/srv/pbs/bin/qstat", "/srv/spool")
    older = {"node_share_controller_wlm": "pbs", "node_share_controller_qstat": "/usr/bin/qstat"}
    done = rehearsal.role("node_share", "controller", hosts="ctl", converged_wlm="pbs", **older)
    controller = settings(done)[HERE[1]]
    assert (controller["qstat"], controller["pbsnodes"]) == ("/usr/bin/qstat", "/srv/pbs/bin/pbsnodes")
    assert controller["pbs_rstat"] == "/srv/pbs/bin/pbs_rstat"


COPIES = "Change the copies of slurm.conf on the other hosts"


def test_slurm_conf_is_changed_where_the_hosts_show_that_it_is(rehearsal: Any, unsaid: Any) -> None:
    assert sorted(call.host for call in unsaid.calls if call.name == COPIES) == ["n1", "n2"]
    rehearsal.answer(seen(slurm={"kept": "shared", "bin_dir": "/usr/bin"}), module="share_node_info")
    shared = rehearsal.playbook("site", "--check")
    assert shared.passed, shared.said
    assert not [call.host for call in shared.calls if call.name == COPIES]


def test_hosts_with_slurm_conf_in_two_ways_stop_the_run_before_it_is_changed(rehearsal: Any) -> None:
    rehearsal.answer(
        seen(slurm={"kept": "shared", "bin_dir": "/usr/bin"}),
        module="share_node_info",
        host="n1",
    )
    done = rehearsal.playbook("site")
    assert not done.passed
    assert "set slurm_share_conf to local, shared or configless" in " ".join(done.said.split())
    assert not [call for call in done.calls if call.module == "slurm_conf"]


@pytest.mark.parametrize("roots", [[], ["rooty"]])
def test_the_proof_is_not_submitted_as_root_where_pbs_refuses_that(rehearsal: Any, roots: list[str]) -> None:
    rehearsal.answer({"bin_dir": "/opt/pbs/bin", "settings": {"acl_roots": roots}}, module="pbs_info")
    done = rehearsal.playbook("verify", converged_wlm="pbs")
    assert not done.passed
    assert "PBS runs no jobs of root here: name an ordinary user" in " ".join(done.said.split())
    assert not [call for call in done.calls if call.module in ("k8s", "command")]


def test_the_proof_is_not_submitted_as_root_where_slurm_refuses_that(rehearsal: Any) -> None:
    rehearsal.answer({"bin_dir": "/usr/bin", "config": {"DisableRootJobs": "YES"}}, module="slurm_info")
    done = rehearsal.playbook("verify")
    assert not done.passed
    assert "Slurm runs no jobs of root here: name an ordinary user" in " ".join(done.said.split())
    assert not [call for call in done.calls if call.module in ("k8s", "command")]
