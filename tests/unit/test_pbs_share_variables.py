# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role pbs_share makes of the site's variables."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.filter.core import FilterModule
from ansible.template import Templar, trust_as_template
from ansible_collections.converged.hpc.plugins.filter.pbs_share import pbs_jobs_on
from ansible_collections.converged.hpc.plugins.module_utils._pbs import attributes
from jinja2.nativetypes import NativeEnvironment

VARIABLES = Path(__file__).parents[2] / "roles/pbs_share/vars/main.yml"


def test_jobs_of_pods_are_not_adopted() -> None:
    environment = NativeEnvironment()
    environment.filters["converged.hpc.pbs_jobs_on"] = pbs_jobs_on
    text = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))["_pbs_share_adopted"]
    held = {"run": 1, "state": "R", "placement": "free", "chunks": [{"vnode": "n1", "resources": {"ncpus": 2}}]}
    jobs = [{"id": "1.ctl", "queue": "pods", **held}, {"id": "2.ctl", "queue": "workq", **held}]
    found = environment.from_string(text).render(
        __pbs_share_jobs={"jobs": jobs, "nodes": [{"name": "n1", "host": "n1"}]},
        _pbs_share_queues=["pods"],
        _pbs_share_name="n1",
        _pbs_share_sizes={"default_mem": None, "devices": {}, "cgroup_prefix": None},
    )
    assert found == ["2.ctl/1 --cpus=2"]


def test_what_is_ours_is_known_wherever_the_server_is() -> None:
    """The first server's host may be another one than that of the run that has made hook and queue."""
    made = {"hooks": ["converged"], "queues": ["pods"]}
    known = {"content": base64.b64encode(json.dumps(made).encode()).decode()}
    assert rendered_memory({"srv2": {}, "srv1": {"__pbs_share_memory": known}}) == made
    assert rendered_memory({"srv2": {"__pbs_share_memory": {"failed": False}}}) == {"hooks": [], "queues": []}


def test_settings_are_made_once_and_remembered_on_every_server() -> None:
    for name in ("configure", "unconfigure"):
        tasks = yaml.safe_load((VARIABLES.parents[1] / f"tasks/{name}.yml").read_text(encoding="utf-8"))
        assert tasks[0]["ansible.builtin.import_tasks"] == "remember.yml", "or nobody remembers"
        for task in tasks:
            (module,) = (word for word in task if "." in word)
            if module.startswith("converged.hpc.pbs_"):
                assert (task["run_once"], task["delegate_to"]) == (True, "{{ _pbs_share_primary }}"), task["name"]
            elif module not in ("ansible.builtin.assert", "ansible.builtin.import_tasks"):
                assert task["when"] == "inventory_hostname in _pbs_share_servers", task["name"]


def rendered_memory(hosts: dict[str, Any]) -> Any:
    templar = Templar(loader=DataLoader(), variables={})
    text = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))
    names = ("_pbs_share_servers", "_pbs_share_memories", "_pbs_share_remembered")
    variables = {name: trust_as_template(text[name]) for name in names}
    plays = {"groups": {"converged_controllers": ["srv2", "srv1"]}, "ansible_play_hosts": [*hosts, "n1"]}
    templar.available_variables = {**variables, **plays, "hostvars": hosts}
    return templar.template(variables["_pbs_share_remembered"])


def queue_with(chosen: dict[str, Any], hosts: Sequence[str] = ()) -> Any:
    environment = NativeEnvironment()
    environment.filters["combine"] = FilterModule().filters()["combine"]
    text = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))["_pbs_share_queue_attributes"]
    return environment.from_string(text).render(
        pbs_share_queue_users=["placement"], pbs_share_queue_hosts=hosts, pbs_share_queue_attributes=chosen
    )


def test_attributes_of_the_site_s_do_not_open_the_queue_of_pods() -> None:
    opened = {"acl_user_enable": False, "acl_users": ["everybody"], "queue_type": "route"}
    assert queue_with({**opened, "started": False, "Priority": 9}) == {
        "queue_type": "execution",
        "acl_user_enable": True,
        "acl_users": ["placement"],
        "acl_host_enable": None,
        "acl_hosts": [],
        "enabled": True,
        "started": False,
        "Priority": 9,
    }


def test_the_queue_of_pods_is_closed_to_other_hosts_where_the_site_names_them() -> None:
    opened = {"acl_host_enable": False, "acl_hosts": ["login"]}
    closed = queue_with(opened, ("srv.site",))
    assert (closed["acl_host_enable"], closed["acl_hosts"]) == (True, ("srv.site",))
    assert queue_with(opened)["acl_host_enable"] is False


def test_a_site_that_names_no_hosts_any_more_opens_the_queue_of_pods_to_all() -> None:
    here = {"acl_host_enable": ("True",), "acl_hosts": ("srv.site",)}
    steps = attributes.plan(here, queue_with({}))
    assert [step.attribute for step in steps if step.after is None] == ["acl_host_enable", "acl_hosts"]
    assert [step.attribute for step in attributes.plan(here, queue_with({}, ["srv.site"]))] == [
        step.attribute for step in steps if step.after is not None
    ]
