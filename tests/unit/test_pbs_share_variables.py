# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role pbs_share makes of the site's variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible.plugins.filter.core import FilterModule
from ansible_collections.converged.hpc.plugins.filter.pbs_share import pbs_jobs_on
from jinja2.nativetypes import NativeEnvironment

VARIABLES = Path(__file__).parents[2] / "roles/pbs_share/vars/main.yml"


def test_jobs_of_pods_are_not_adopted() -> None:
    environment = NativeEnvironment()
    environment.filters["converged.hpc.pbs_jobs_on"] = pbs_jobs_on
    text = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))["_pbs_share_adopted"]
    held = {"run": 1, "state": "R", "chunks": [{"vnode": "n1"}]}
    jobs = [{"id": "1.ctl", "queue": "pods", **held}, {"id": "2.ctl", "queue": "workq", **held}]
    found = environment.from_string(text).render(
        __pbs_share_jobs={"jobs": jobs, "nodes": [{"name": "n1", "host": "n1"}]},
        _pbs_share_queues=["pods"],
        _pbs_share_name="n1",
    )
    assert found == ["2.ctl/1"]


def queue_with(attributes: dict[str, Any]) -> Any:
    environment = NativeEnvironment()
    environment.filters["combine"] = FilterModule().filters()["combine"]
    text = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))["_pbs_share_queue_attributes"]
    return environment.from_string(text).render(
        pbs_share_queue_users=["placement"], pbs_share_queue_attributes=attributes
    )


def test_attributes_of_the_site_s_do_not_open_the_queue_of_pods() -> None:
    opened = {"acl_user_enable": False, "acl_users": ["everybody"], "queue_type": "route"}
    assert queue_with({**opened, "started": False, "Priority": 9}) == {
        "queue_type": "execution",
        "acl_user_enable": True,
        "acl_users": ["placement"],
        "enabled": True,
        "started": False,
        "Priority": 9,
    }
