# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role pbs_share makes of the site's variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from ansible.plugins.filter.core import FilterModule
from jinja2.nativetypes import NativeEnvironment

VARIABLES = Path(__file__).parents[2] / "roles/pbs_share/vars/main.yml"


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
