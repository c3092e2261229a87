# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role torque_share makes of the site's variables."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible_collections.converged.hpc.plugins.filter.quantity import FilterModule
from jinja2.nativetypes import NativeEnvironment

ROLE = Path(__file__).parents[2] / "roles/torque_share"


def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torque_pelogue", ROLE / "files/pelogue.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_filters() -> NativeEnvironment:
    environment = NativeEnvironment()
    for name, function in FilterModule().filters().items():
        environment.filters[f"converged.hpc.{name}"] = function
    return environment


def settings(**chosen: Any) -> dict[str, Any]:
    environment = with_filters()
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    known = {**defaults, "_torque_share_mom_priv": "/var/spool/torque/mom_priv", "_torque_share_name": "n1", **chosen}
    found: dict[str, Any] = environment.from_string(variables["_torque_share_settings"]).render(**known)
    return found


def test_the_program_takes_the_settings_that_the_role_writes() -> None:
    wishes = {"torque_share_timeout": "2m", "torque_share_default_mem": "2gb", "torque_share_on_failure": "requeue"}
    for chosen, seconds, memory, outcome in (({}, 60, None, "accept"), (wishes, 120, "2gb", "requeue")):
        read = program().parse_settings(json.dumps(settings(**chosen)))
        assert (read.timeout_seconds, read.default_mem, read.on_failure) == (seconds, memory, outcome)
        assert read.nodeshare == ("/usr/local/sbin/nodeshare",)
        assert read.names == ("n1",)


def test_settings_are_one_expression_so_that_numbers_are_numbers_under_every_ansible_core() -> None:
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    assert isinstance(variables["_torque_share_settings"], str)


@pytest.mark.parametrize(("alarm", "is_late_enough"), [(64, False), (65, True)])
def test_a_host_is_refused_whose_alarm_comes_before_nodeshare_has_taken_a_lease_back(
    alarm: int, is_late_enough: bool
) -> None:
    tasks = yaml.safe_load((ROLE / "tasks/configure.yml").read_text(encoding="utf-8"))
    (asked,) = [task["ansible.builtin.assert"]["that"] for task in tasks if "an alarm of Torque" in task["name"]]
    judged = with_filters().compile_expression(asked)
    assert judged(__torque_share_mom={"alarm": alarm}, torque_share_timeout="1m") is is_late_enough
