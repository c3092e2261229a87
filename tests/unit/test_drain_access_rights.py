# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role drain_access gives the batch controllers the rights that they use, and no other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from nodeshare.controller.decide import HELD_BY, HELD_UNTIL, PLANNED_START, SHARE_MODE, STATE
from nodeshare.controller.kube.api import ClusterApi
from nodeshare.model.node.observed import Pod

ROLE = Path(__file__).parents[2] / "roles/drain_access"
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
NODE = {"metadata": {"name": "n1", "resourceVersion": "1"}}
LISTS = {"/api/v1/nodes": "NodeList", "/api/v1/pods": "PodList"}
POD = Pod("team", "web", "uid", False, False, False, False)


class Asked:
    """An API that answers everything, and notes which right each request needs."""

    def __init__(self) -> None:
        self.rights: set[tuple[str, str]] = set()

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "",
        read: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        parts = urlsplit(path)
        words = parts.path.removeprefix("/api/v1/").split("/")
        words = words[2:] if words[0] == "namespaces" else words
        verb = VERBS.get(method) or ("get" if len(words) > 1 else "list")
        verb = "watch" if "watch" in parse_qs(parts.query) else verb
        self.rights.add(("/".join([words[0], *words[2:]]), verb))
        return read({"kind": LISTS.get(parts.path, "Node"), **NODE, "items": []})

    def lines(self, path: str, *, quiet: float) -> Iterator[dict[str, Any]]:
        self.request("GET", path)
        yield {"type": "MODIFIED", "object": NODE}


def test_the_controllers_have_the_rights_that_they_use_and_no_other(monkeypatch: Any) -> None:
    asked = Asked()
    monkeypatch.setattr(ClusterApi, "client", lambda _api, **_timeout: asked)
    api = ClusterApi("/none", timeout=1.0)
    api.nodes()
    next(api.watch("1", beat=lambda: None))
    api.node("n1")
    api.patch("n1", {})
    api.pods(["n1"])
    api.all_pods()
    api.evict(POD)
    api.event("n1", "BatchDrainIncomplete", "pods have not left in time")
    text = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    rules = text["_drain_access_role"]["rules"]
    given = {
        (what, verb)
        for rule in rules
        if "" in rule["apiGroups"]
        for what in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given == asked.rights


def test_the_policy_allows_writes_to_converted_nodes_only_as_the_program_does() -> None:
    text = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    assert text["_drain_access_label"] == SHARE_MODE
    rules = [rule["expression"] for rule in text["_drain_access_policy"]["spec"]["validations"]]
    assert "!variables.update || '{{ _drain_access_label }}' in variables.oldLabels" in rules


def test_the_policy_allows_the_annotations_that_the_program_writes_and_no_other() -> None:
    text = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    variables = {item["name"]: item["expression"] for item in text["_drain_access_policy"]["spec"]["variables"]}
    assert set(ast.literal_eval(variables["ours"])) == {HELD_BY, HELD_UNTIL, STATE, PLANNED_START}
