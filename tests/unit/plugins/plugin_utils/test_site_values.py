# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a site's variables: what is right, what is wrong and in which words, and how often each is judged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible_collections.converged.hpc.plugins.plugin_utils import _asked, _values

ROOT = Path(__file__).parents[4]
SITE = _values.known(_asked.PLAYBOOKS["site"].roles)


def judged(**variables: Any) -> list[str]:
    """What is said of the variables of one host."""
    found = _values.judge({"n1": variables}, lambda _host, name: f"evaluated {name}", SITE)
    return [one.words for one in found.get("n1", ())]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node_share_deadline", 0),
        ("node_share_deadline", "2m"),
        ("node_share_deadline", "90"),
        ("node_kubelet_ready_timeout", "10m"),
        ("slurm_share_drain_timeout", "1-12:00:00"),
        ("node_share_housekeeping_cpus", "0-1,32"),
        ("node_share_services", ["kubelet.service"]),
        ("node_kubelet_config", {"failCgroupV1": False}),
        ("node_runtime_manage", False),
        ("pbs_share_order", "200"),
        ("share_preflight_min_free", 0.5),
        ("converged_take_lock", "true"),
        ("converged_api_server", None),
        ("converged_serial", [1, "25%"]),
        ("converged_share", {"summary": "a fact that a site keeps in a cache"}),
        ("site_own", "anything"),
    ],
)
def test_what_is_right_is_no_finding(name: str, value: Any) -> None:
    assert judged(**{name: value}) == []


def test_values_are_right_as_an_inventory_has_them() -> None:
    text = """
    node_share_deadline: 60
    pbs_share_order: 200
    share_preflight_min_free: 0.5
    node_runtime_manage: true
    node_share_services: [kubelet.service]
    node_share_housekeeping_cpus: "0"
    node_kubelet_config: {failCgroupV1: false}
    converged_take_lock: true
    converged_drain_timeout: 30m
    """
    found = DataLoader().load(text)
    assert found["node_share_deadline"].__class__ is not int, "a class of Ansible's own"
    assert judged(**found) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("node_share_deadline", "2x", "is '2x': expected a duration: seconds (90), or text such as 30m or 1d12h"),
        ("node_share_deadline", "2h", "is '2h': expected seconds from 0 to 3600"),
        ("node_share_deadline", -1, "is -1: expected a duration"),
        ("node_share_deadline", 1.5, "is 1.5: expected a duration"),
        ("node_share_deadline", None, "is None: expected a value, or no such variable at all"),
        ("node_share_controller_period", "1h", "is '1h': expected seconds from 0.1 to 600"),
        ("node_share_handover", "quiece", "is 'quiece': expected one of quiesce, stop"),
        ("node_share_housekeeping_cpus", 0, "expected a CPU list such as 0-1,32 (as text: write it in quotes)"),
        ("node_share_services", "kubelet.service", "expected a list"),
        ("node_kubelet_config", "failCgroupV1", "expected a dictionary"),
        ("node_runtime_manage", "false", "expected true or false, which -e takes as JSON alone"),
        ("pbs_share_order", "first", "expected a whole number"),
        ("share_preflight_min_free", "much", "expected a number"),
        ("node_kubelet_node_ip", ["10.0.0.1"], "expected text"),
        ("converged_wlm", "sge", "is 'sge': expected one of slurm, pbs, torque"),
        ("converged_take_lock", "perhaps", "expected true or false"),
        ("converged_drain_timeout", "a day", "expected a duration"),
        ("node_share_deadlin", 1, "no role has such a variable: write node_share_deadline"),
        ("converged_foo", 1, "no role has such a variable: see the README of the role, or rename"),
    ],
)
def test_what_is_wrong_is_said_with_what_was_expected(name: str, value: Any, said: str) -> None:
    (found,) = judged(**{name: value})
    assert found.startswith(name)
    assert said in found


def test_every_default_of_every_role_is_right() -> None:
    roles = {path.parents[1].name: () for path in ROOT.glob("roles/*/defaults/main.yml")}
    known = _values.known(roles)
    given = {role: yaml.safe_load((ROOT / "roles" / role / "defaults/main.yml").read_text("utf-8")) for role in roles}
    written = {
        role: {name: value for name, value in found.items() if not _values.is_template(value)}
        for role, found in given.items()
    }
    assert _values.judge(written, lambda _host, _name: None, known) == {}
    assert sum(map(len, written.values())) > 100


def test_durations_are_those_that_roles_read_as_such() -> None:
    roles = {path.parents[1].name: () for path in ROOT.glob("roles/*/meta/argument_specs.yml")}
    told = {name for name, option in _values.known(roles).options.items() if _values.is_duration(option)}
    files = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml"), *ROOT.glob("playbooks/*.yml")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    reads = re.findall(r"(\w+)'?\]?(?: \| default\([^)]*\))? \| converged\.hpc\.quantity_seconds", text)
    assert told == {name for name in reads if not name.startswith("_")}


def test_every_variable_of_the_playbooks_is_known() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("playbooks/*.yml"))
    groups = set(re.findall(r"groups\['(converged_\w+)'\]", text)) | {"converged_hosts"}
    read = set(re.findall(r"\b(converged_\w+) (?:\||is (?:not )?defined)", text)) - groups | {"converged_hosts"}
    assert read <= set(_values.RUN), read - set(_values.RUN)
    specs = [path.read_text(encoding="utf-8") for path in ROOT.glob("roles/*/meta/argument_specs.yml")]
    of_roles = set(re.findall(r"^ +(converged_\w+):$", "\n".join(specs), re.MULTILINE))
    assert of_roles <= set(_values.RUN), of_roles - set(_values.RUN)


def test_a_value_that_many_hosts_have_is_judged_once_and_named_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def check(value: Any) -> Any:
        asked.append(value)
        raise ValueError("something else")

    known = SITE._replace(checks={"node_share_kubeconfig": check})
    given = {f"n{at}": {"node_share_kubeconfig": "/x"} for at in range(600)}
    found = _values.judge(given, lambda _host, _name: None, known)
    assert asked == ["/x"]
    assert len(found) == 600


def test_a_template_is_judged_by_what_it_comes_to_on_each_host() -> None:
    given = {f"n{at}": {"node_share_handover": "{{ way }}"} for at in range(3)}
    ways = {"n0": "quiesce", "n1": "stop", "n2": "quiece"}
    found = _values.judge(given, lambda host, _name: ways[host], SITE)
    assert list(found) == ["n2"]

    def fail(_host: str, _name: str) -> Any:
        raise ValueError("'way' is undefined")

    (one, *_rest) = _values.judge(given, fail, SITE).values()
    assert [finding.words for finding in one] == ["node_share_handover: 'way' is undefined: correct the template"]


def test_a_program_that_is_imported_leaves_nothing_in_the_folder_that_is_copied_to_nodes() -> None:
    assert _values.program("model.settings").PATH == "/etc/converged/nodeshare.json"
    assert not list((_values.ROLES / "node_share/files/nodeshare").glob("__pycache__"))
