# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: what it takes, and what it says to what it does not take."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from testbed import cli, inventory, status
from testbed.privilege import asking_user, sudo_command
from testbed.state import Bed, BedStore
from testbed.status import Part

Beds = Callable[..., Bed]
COMMANDS = ("up", "supplies", "status", "inventory", "exec", "logs", "join", "load", "down")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """These commands fail before they need root; where root is asked for first, we have it."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.parametrize(
    ("line", "status_", "message"),
    [
        ("", 2, "the following arguments are required: COMMAND"),
        ("fly", 2, "invalid choice: 'fly'"),
        ("up --nodes many", 2, "invalid int value: 'many'"),
        ("up --nodes 0", 2, "--nodes 0: give a number from 1 to 64"),
        ("up --wlm sge", 2, "--wlm sge: unknown; give one of slurm, pbs, torque, none"),
        ("up --name Bad_Name", 2, "name 'Bad_Name': give 1 to 20"),
        ("up --wait 0", 2, "--wait 0: give a number of seconds above 0"),
        ("up --wait nan", 2, "--wait nan: give a number of seconds above 0"),
        ("supplies --for lunch", 2, "--for lunch: unknown; give one of demo, all"),
        ("status nobody", 1, "no bed 'nobody'"),
        ("inventory ../etc", 2, "name '../etc'"),
        ("exec nobody n1", 2, "no command given"),
        ("exec nobody n1 -- true", 1, "no bed 'nobody'"),
        ("down", 2, "one of the arguments name --all is required"),
        ("down nobody", 1, "no bed 'nobody'"),
        ("join nobody", 1, "no bed 'nobody'"),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(
    cache: Path, root: None, capsys: pytest.CaptureFixture[str], line: str, status_: int, message: str
) -> None:
    try:
        found = cli.main(line.split())
    except SystemExit as stopped:
        found = int(str(stopped.code))
    said = capsys.readouterr()
    assert found == status_
    assert said.out == ""
    assert said.err.startswith("testbed: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main([command, "--help"])
    said = capsys.readouterr().out
    assert f"examples:\n  testbed {command}" in said or f"| testbed {command}" in said


def test_without_root_and_sudo_the_reason_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(cache))
    assert cli.main(["status"]) == 1
    assert "needs root" in capsys.readouterr().err


def test_a_full_disk_is_called_one(
    cache: Path, root: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> list[str]:
        raise OSError(28, "No space left on device", "/cache/x")

    monkeypatch.setattr("testbed.commands.bed_names", full)
    assert cli.main(["status"]) == 1
    assert capsys.readouterr().err == "testbed: /cache/x: the disk is full; make room\n"


def test_sudo_keeps_what_decides_where_things_lie_and_nothing_else() -> None:
    environment = {"CONVERGED_CACHE": "/c", "https_proxy": "http://p/", "HOME": "/home/me", "LD_PRELOAD": "x"}
    command = sudo_command(["down", "bed"], environment)
    assert command[:3] == ["sudo", "-n", "env"]
    assert command[-3:] == ["testbed", "down", "bed"]
    settings = {word for word in command if "=" in word}
    assert {"CONVERGED_CACHE=/c", "https_proxy=http://p/", "PYTHONDONTWRITEBYTECODE=1"} <= settings
    assert not {word for word in settings if word.startswith(("HOME", "LD_"))}


@pytest.mark.parametrize(("environment", "uid"), [({"SUDO_UID": "1234"}, 1234), ({}, os.getuid())])
def test_files_belong_to_whoever_asked(environment: dict[str, str], uid: int) -> None:
    assert asking_user(environment) == uid


def test_the_inventory_has_the_groups_and_variables_of_the_collection(
    paper_bed: Beds, capsys: pytest.CaptureFixture[str]
) -> None:
    bed = paper_bed(name="b", nodes=3)
    BedStore("b").save(bed)
    assert cli.main(["inventory", "b"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)["all"]
    groups = {name: list(group["hosts"]) for name, group in found["children"].items()}
    assert groups == {
        "converged_nodes": ["n1", "n2", "n3"],
        "converged_controllers": ["ctl"],
        "converged_kube": ["kube"],
        "converged_shared": ["n1", "n2", "n3"],
    }
    assert found["children"]["converged_nodes"]["hosts"]["n2"] == {"ansible_host": bed.host("n2").ip}
    variables = found["vars"]
    assert variables["ansible_user"] == "ops"
    assert variables["converged_wlm"] == "slurm"
    assert variables["converged_kubeconfig"] == "/etc/kubernetes/admin.conf"
    assert "StrictHostKeyChecking=yes" in variables["ansible_ssh_common_args"]


def test_a_bed_without_batch_system_and_cluster_has_nodes_only(paper_bed: Beds) -> None:
    found = inventory.inventory(paper_bed(wlm="none", kube=False))["all"]
    assert list(found["children"]) == ["converged_nodes"]
    assert not [name for name in found["vars"] if name.startswith("converged_")]


def test_yaml_keeps_every_string(paper_bed: Beds) -> None:
    odd = {"a": {"b": 'x: "y" # z\n', "c": "é"}, "d": "- no"}
    assert yaml.safe_load(inventory.to_yaml(odd)) == odd


def test_status_names_what_is_not_as_it_should_be() -> None:
    parts = [Part("container", "b-n1", "running", True), Part("slurm node", "n2", "down*", False)]
    assert status.faults(parts) == ["slurm node n2 is down*"]


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ([{"type": "Ready", "status": "True"}], "Ready"),
        ([{"type": "Ready", "status": "Unknown"}], "NotReady"),
        ([], "NotReady"),
    ],
)
def test_a_cluster_node_is_ready_when_it_says_so(conditions: list[dict[str, str]], state: str) -> None:
    member = {"metadata": {"name": "n1"}, "status": {"conditions": conditions}}
    assert status.kube_node(member) == Part("cluster node", "n1", state, state == "Ready")
