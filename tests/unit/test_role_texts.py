# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What roles write for other programs is understood by those in the way that is meant."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.converged.hpc.plugins.module_utils import _share_mode
from nodeshare.model.settings import Settings
from nodeshare.run import arguments

ROLES = Path(__file__).parents[2] / "roles"


def rendered(role: str, name: str, **given: Any) -> Any:
    """Return a variable of a role with its defaults and these values."""
    variables: dict[str, Any] = {}
    for file in ("defaults/main.yml", "vars/main.yml"):
        text = yaml.safe_load((ROLES / role / file).read_text(encoding="utf-8"))
        variables |= {key: trust_as_template(value) if isinstance(value, str) else value for key, value in text.items()}
    templar = Templar(loader=DataLoader(), variables={**variables, **given})
    return templar.template(variables[name])


@pytest.mark.parametrize(
    ("variable", "command", "linger"),
    [
        ("_node_share_repair_service", "repair", False),
        ("_node_share_return_service", "repair", True),
        ("_node_share_fence_service", "fence", False),
    ],
)
def test_the_units_of_nodeshare_call_it_as_it_wants_to_be_called(variable: str, command: str, linger: bool) -> None:
    lines = rendered("node_share", variable).splitlines()
    (start,) = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=")]
    program, *words = shlex.split(start)
    found = arguments.parse(words)
    assert program == "/usr/local/sbin/nodeshare"
    assert (found.command, getattr(found, "linger", False)) == (command, linger)
    assert "MemoryMax=512M" in lines, "what a tenant makes it read must not grow without bound"


def test_the_unit_that_waits_for_the_linger_is_the_one_that_nodeshare_starts() -> None:
    files = yaml.safe_load((ROLES / "node_share/vars/main.yml").read_text(encoding="utf-8"))["_node_share_files"]
    assert f"/etc/systemd/system/{Settings(node='n1').return_unit}" in [item["path"] for item in files]


def test_nodeshare_by_itself_has_placeholders_where_the_roles_have_them_on_a_new_node() -> None:
    assert Settings(node="n1").manifests == _share_mode.placeholder_directory("")


@pytest.mark.parametrize(("driver", "systemd"), [("systemd", True), ("cgroupfs", False)])
def test_the_runtime_manages_cgroups_as_its_driver_says(driver: str, systemd: bool) -> None:
    found = rendered("node_runtime", "_node_runtime_cri", node_runtime_cgroup_driver=driver)
    assert found["containerd"]["runtimes"]["runc"]["options"] == {"SystemdCgroup": systemd}


def test_arguments_of_the_kubelet_count_whatever_its_package_or_the_site_has_in_a_file() -> None:
    given = {
        "node_kubelet_node_ip": "10.0.0.7",
        "node_kubelet_extra_args": ["--v=4"],
        "node_kubelet_source": "packages",
    }
    text = rendered("node_kubelet", "_node_kubelet_arguments", **given)
    # A file with KUBELET_EXTRA_ARGS, as EL 9 has it, would win over an Environment of the same name.
    assert 'Environment="CONVERGED_KUBELET_ARGS=--node-ip=10.0.0.7 --v=4"' in text.splitlines()
    starts = [line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecStart=")]
    assert starts[0] == "", "systemd takes one start, which this one replaces"
    program, *words = starts[1].split()
    assert (program, words[-2:]) == ("/usr/bin/kubelet", ["$KUBELET_EXTRA_ARGS", "$CONVERGED_KUBELET_ARGS"])


def tasks(found: object) -> Iterator[dict[str, Any]]:
    """Every task of plays or of a file of tasks, those in blocks too."""
    for one in found if isinstance(found, list) else []:
        yield one
        for part in ("tasks", "block", "rescue", "always"):
            yield from tasks(one.get(part))


def test_no_task_that_asks_the_api_becomes_root_without_need() -> None:
    files = [*ROLES.glob("*/tasks/*.yml"), *ROLES.parent.glob("playbooks/*.yml")]
    asking = [
        (file.name, task)
        for file in files
        for task in tasks(yaml.safe_load(file.read_text(encoding="utf-8")))
        if "_kube }}" in str(task.get("delegate_to")) or "converged_kube" in str(task.get("delegate_to"))
    ]
    assert len(asking) > 15
    assert [(name, task["name"]) for name, task in asking if "kube_become" not in str(task.get("become"))] == []


def test_the_api_is_asked_by_kubernetes_core_for_whole_objects_and_else_by_one_class_alone() -> None:
    """docs/architecture.md says why there are two ways; a third one would be seen here."""
    root = ROLES.parent
    tasks = {
        path: path.read_text("utf-8")
        for path in sorted([*root.glob("roles/*/tasks/*.yml"), *root.glob("playbooks/*.yml")])
    }
    assert {way for text in tasks.values() for way in re.findall(r"kubernetes\.core\.(\w+):", text)} == {
        "k8s",
        "k8s_info",
    }
    calling = re.compile(r"argv: .*\b_?\w*(?:kubectl|helm|crictl)\b|_\w+_kubectl \+")
    assert [path.name for path, text in tasks.items() if calling.search(text)] == ["switch.yml"], "its drain"
    programs = {path: path.read_text("utf-8") for path in sorted(root.glob("plugins/**/*.py"))}
    client = re.compile(
        r"^\s*(?:import|from) (?:kubernetes|openshift|lightkube|requests|httpx|urllib\.request)\b", re.MULTILINE
    )
    assert [path.name for path, text in programs.items() if client.search(text)] == []
    assert [path.name for path, text in programs.items() if '"--kubeconfig"' in text] == ["kubectl.py"]
