# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's metadata and its content say the same."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
HEADER = (
    "Copyright (c) 2026, converged.hpc maintainers",
    "GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)",
    "SPDX-License-Identifier: GPL-3.0-or-later",
)


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHECKOUT / name).read_text(encoding="utf-8"))
    return found


def files(*patterns: str) -> list[Path]:
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(argv, cwd=CHECKOUT, check=True, capture_output=True, text=True, timeout=300).stdout
    return [path for name in listed.splitlines() if (path := CHECKOUT / name).is_file()]


def modules() -> set[str]:
    return {path.stem for path in files("plugins/modules/*.py")}


def test_the_action_group_holds_every_module_and_nothing_else() -> None:
    group = document("meta/runtime.yml")["action_groups"]["hpc"]

    assert sorted(group) == sorted(modules())


def test_the_modules_of_a_group_have_its_options_in_common() -> None:
    groups = document("meta/runtime.yml")["action_groups"]
    for group, option in {"kube": "kubectl", "slurm": "bin_dir", "pbs": "bin_dir"}.items():
        fragment = document_of(f"plugins/doc_fragments/_{group}.py")
        assert option in fragment
        users = {
            path.stem for path in files("plugins/modules/*.py") if f"- converged.hpc._{group}\n" in path.read_text()
        }
        assert set(groups[group]) == users


def document_of(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


@pytest.mark.prose
def test_a_filter_is_named_in_the_readme_or_says_that_it_is_private() -> None:
    (named,) = re.findall(r"^Filters: (.*)$", document_of("README.md"), re.MULTILINE)
    public = set(re.findall(r"`(\w+)`", named))
    private = {path.stem for path in files("plugins/filter/*.yml") if "PRIVATE to the collection" in path.read_text()}

    assert public & private == set()
    assert public | private == {path.stem for path in files("plugins/filter/*.yml")}


def test_an_action_plugin_stands_beside_a_module_of_its_name() -> None:
    assert {path.stem for path in files("plugins/action/*.py")} <= modules()


def test_the_versions_of_galaxy_and_the_development_environment_agree() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert document("galaxy.yml")["version"] == project["version"]


def test_the_only_dependency_is_kubernetes_core() -> None:
    assert set(document("galaxy.yml")["dependencies"]) == {"kubernetes.core"}


def test_every_pinned_requirement_is_exact() -> None:
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    entries = [entry for group in groups.values() for entry in group if isinstance(entry, str)]

    assert [entry for entry in entries if not re.fullmatch(r"[\w.-]+==[\w.]+(; .+)?", entry)] == []


@pytest.mark.prose
def test_every_python_file_begins_with_the_licence() -> None:
    without = []
    for path in files("*.py"):
        text = path.read_text(encoding="utf-8")
        head = text[:600]
        if text and not all(line in head for line in HEADER):
            without.append(str(path.relative_to(CHECKOUT)))

    assert without == []


def test_playbooks_are_named_by_a_word_an_administrator_would_type() -> None:
    assert [path.stem for path in files("playbooks/*.yml") if not re.fullmatch(r"[a-z]+", path.stem)] == []


def tasks_of(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those in blocks, too."""
    blocks = [task[part] for task in tasks for part in ("block", "rescue", "always") if part in task]
    return [*tasks, *(task for block in blocks for task in tasks_of(block))]


def test_every_task_of_a_role_that_uses_the_record_looks_where_the_site_keeps_it() -> None:
    users = {path.stem for path in files("plugins/modules/*.py") if "record_dir" in path.read_text(encoding="utf-8")}
    elsewhere = [
        f"{path.relative_to(CHECKOUT)}: {task['name']}"
        for path in files("roles/*/tasks/*.yml")
        for task in tasks_of(yaml.safe_load(path.read_text(encoding="utf-8")))
        for user in users
        if "record_dir" not in task.get(f"converged.hpc.{user}", {"record_dir": ""})
    ]

    assert {"node_state", "slurm_conf", "kube_client_config", "kubelet_config", "kube_join"} <= users
    assert elsewhere == []
