# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of placeholders: nodeshare and the kubelet have the same one, and each boot makes it."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rehearsals.conftest import seen

IN_MEMORY, ON_DISK = "/run/converged-placeholders", "/var/lib/converged/placeholders"
AT_BOOT = "/etc/tmpfiles.d/90-converged-node-share.conf"
PBS = {
    "bin_dir": "/opt/pbs/bin",
    "home": "/var/spool/pbs",
    "server": "ctl",
    **{what: {} for what in ("queues", "hooks", "nodes", "settings")},
    "jobs": [],
}
ROLES = ("node_share", "node_kubelet")
BESIDE = {"converged_share_mode": "placeholder"}
PREFLIGHT = {"converged.hpc.share_node_info": {}, "register": "__share_preflight_host"}


def asked(
    rehearsal: Any, *before: dict[str, Any], roles: tuple[str, ...] = ROLES, **given: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run both roles for one node; return what nodeshare and what the kubelet is to have."""
    rehearsal.answer(PBS, module="pbs_info")
    steps = [{"import_role": {"name": f"converged.hpc.{name}"}} for name in roles]
    play = {"hosts": "n1", "gather_facts": False, "tasks": [*before, *steps]}
    site = {"converged_wlm": "pbs", **BESIDE}
    done = rehearsal.play([play], **{**site, **given})
    assert done.passed, done.said
    (share,) = (call.args for call in done.calls if call.args.get("role") == "node_share")
    (kubelet,) = (call.args for call in done.calls if call.module == "kubelet_config")
    return share, kubelet["config"]


def settings(share: dict[str, Any]) -> dict[str, Any]:
    (content,) = (one["content"] for one in share["files"] if one["path"] == "/etc/converged/nodeshare.json")
    found: dict[str, Any] = json.loads(content) if isinstance(content, str) else content
    return found


def at_boot(share: dict[str, Any]) -> list[str]:
    return [one["content"] for one in share["files"] if one["path"] == AT_BOOT]


def is_one(share: dict[str, Any], kubelet: dict[str, Any]) -> str:
    """Return the directory, which nodeshare, the record and the kubelet have alike."""
    directory = str(settings(share)["manifests"])
    assert kubelet["staticPodPath"] == directory
    assert {"path": directory, "owner": "root", "group": "root", "mode": "0700"} in share["directories"]
    return directory


@pytest.mark.parametrize(
    ("read", "directory"),
    [(ON_DISK, ON_DISK), ("/etc/kubernetes/manifests", IN_MEMORY), pytest.param("", IN_MEMORY, marks=pytest.mark.soak)],
)
def test_a_site_leaves_a_node_of_an_earlier_release_its_directory_and_gives_others_one_in_memory(
    rehearsal: Any, read: str, directory: str
) -> None:
    rehearsal.answer(seen(kubelet_file={"staticPodPath": read} if read else {}), module="share_node_info")
    share, kubelet = asked(rehearsal, PREFLIGHT)
    assert is_one(share, kubelet) == directory
    assert len(at_boot(share)) == (directory == IN_MEMORY)


@pytest.mark.parametrize(
    ("answer", "directory"),
    [
        ({"content": base64.b64encode(f"staticPodPath: {ON_DISK}\n".encode()).decode()}, ON_DISK),
        ({"failed": True, "msg": "File not found: /var/lib/kubelet/config.yaml"}, IN_MEMORY),
    ],
)
def test_roles_by_themselves_read_the_kubelets_file(rehearsal: Any, answer: dict[str, Any], directory: str) -> None:
    rehearsal.answer(answer, module="slurp")
    assert is_one(*asked(rehearsal)) == directory


# In every change the other order is tried below, without an answer of the preflight.
@pytest.mark.parametrize("order", [ROLES, pytest.param(ROLES[::-1], marks=pytest.mark.soak)], ids="-".join)
@pytest.mark.parametrize(
    "directory", [*(pytest.param(one, marks=pytest.mark.soak) for one in (ON_DISK, IN_MEMORY)), "/srv/static pods"]
)
def test_both_roles_have_the_directory_that_one_variable_names(
    rehearsal: Any, order: tuple[str, ...], directory: str
) -> None:
    rehearsal.answer({"failed": True, "msg": "file not found: /var/lib/kubelet/config.yaml"}, module="slurp")
    assert is_one(*asked(rehearsal, roles=order, node_share_manifests=directory)) == directory


@pytest.mark.parametrize("order", [pytest.param(ROLES, marks=pytest.mark.soak), ROLES[::-1]], ids="-".join)
def test_where_preflight_had_no_answer_the_roles_read_the_file(rehearsal: Any, order: tuple[str, ...]) -> None:
    rehearsal.answer({"failed": True, "msg": "timed out"}, module="share_node_info")
    rehearsal.answer({"content": base64.b64encode(f"staticPodPath: {ON_DISK}\n".encode()).decode()}, module="slurp")
    assert is_one(*asked(rehearsal, {**PREFLIGHT, "failed_when": False}, roles=order)) == ON_DISK


@pytest.mark.parametrize("said", ["file is not readable: config.yaml", "The module interpreter '/p' was not found."])
@pytest.mark.parametrize("role", ROLES)
def test_a_file_that_cannot_be_read_ends_a_role(rehearsal: Any, role: str, said: str) -> None:
    rehearsal.answer({"failed": True, "msg": said}, module="slurp")
    play = {"hosts": "n1", "gather_facts": False, "tasks": [{"import_role": {"name": f"converged.hpc.{role}"}}]}
    done = rehearsal.play([play], converged_wlm="slurm", **BESIDE)
    assert not done.passed
    assert not [call for call in done.calls if call.module in ("node_state", "kubelet_config")]


def test_nodeshare_is_not_installed_where_nobody_has_read_what_the_kubelet_reads(rehearsal: Any) -> None:
    role = {"import_role": {"name": "converged.hpc.node_share", "tasks_from": "install"}}
    play = {"hosts": "n1", "gather_facts": False, "tasks": [role]}
    done = rehearsal.play([play], converged_wlm="slurm", **BESIDE)
    assert not done.passed
    assert "manifests" in done.said


def test_a_site_installs_nothing_where_a_placeholder_has_come_since_the_plan(rehearsal: Any) -> None:
    rehearsal.answer(seen(kubelet_file={"staticPodPath": ON_DISK}, record=["node_kubelet"]), module="share_node_info")
    rehearsal.answer(PBS, module="pbs_info")
    for module in ("pbs_hook", "pbs_queue", "pbs_server"):
        rehearsal.answer({"changed": True}, module=module)
    refused = {"failed": True, "msg": f"staticPodPath is {ON_DISK}, which holds lease-pbs-15"}
    rehearsal.answer(refused, module="kubelet_config", host="n1", check=True)
    rehearsal.answer({"changed": True}, times=1, module="kubelet_config", host="n1", check=True)
    done = rehearsal.playbook("site", **BESIDE, converged_wlm="pbs", node_share_manifests=IN_MEMORY)
    assert "n1 is not converted: See whether the kubelet may read static pods elsewhere: staticPodPath is" in done.said
    changed = [call.module for call in done.calls if call.host == "n1" and not call.check]
    assert not {"node_state", "kubelet_config"}.intersection(changed)


def test_a_node_is_moved_and_a_boot_makes_the_directory_for_root_alone(rehearsal: Any, tmp_path: Path) -> None:
    rehearsal.answer(seen(kubelet_file={"staticPodPath": ON_DISK}), module="share_node_info")
    share, kubelet = asked(rehearsal, PREFLIGHT, node_share_manifests=IN_MEMORY)
    assert is_one(share, kubelet) == IN_MEMORY
    (text,) = at_boot(share)
    root = tmp_path / "node"
    (root / AT_BOOT[1:]).parent.mkdir(parents=True)
    (root / AT_BOOT[1:]).write_text(text, encoding="utf-8")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n", encoding="utf-8")
    (root / "etc/group").write_text("root:x:0:\n", encoding="utf-8")
    argv = ["systemd-tmpfiles", f"--root={root}", "--create", "--boot"]
    made = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (made.returncode, made.stderr) == (0, "")
    assert (root / IN_MEMORY[1:]).stat().st_mode & 0o7777 == 0o700


def test_a_node_without_placeholders_has_no_directory_of_them(rehearsal: Any) -> None:
    rehearsal.answer(seen(), module="share_node_info")
    share, kubelet = asked(rehearsal, PREFLIGHT, converged_share_mode="handover")
    assert "staticPodPath" not in kubelet
    assert IN_MEMORY not in [one["path"] for one in share["directories"]]
    assert at_boot(share) == []
