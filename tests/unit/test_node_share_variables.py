# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role node_share makes of the site's variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

VARIABLES = Path(__file__).parents[2] / "roles/node_share/vars/main.yml"
FENCES = ("/run/converged/nodeshare/closed/%n", "/var/lib/converged/nodeshare/closed/%n")
CLOSED = "[Unit]\n" + "".join(f"ConditionPathExists=!{path}\n" for path in FENCES)


@pytest.mark.parametrize("services", [["kubelet.service", "containerd.service"], ["k3s.service"], []])
def test_the_fence_is_watched_behind_the_kubelet_alone(services: list[str]) -> None:
    found = {item["path"]: item["content"] for item in rendered("_node_share_fences", services)}
    where = {name: f"/etc/systemd/system/{name}.d/50-converged-nodeshare.conf" for name in services}
    assert set(found) == set(where.values())
    for number, name in enumerate(services):
        watched = "" if number else "Wants=converged-nodeshare-fence.service\n"
        assert found[where[name]] == CLOSED + watched


def test_the_watch_is_stopped_with_the_kubelet_and_keeps_it_from_nothing() -> None:
    unit = rendered("_node_share_fence_service", ["kubelet.service"]).splitlines()
    assert {"After=kubelet.service", "PartOf=kubelet.service", "TimeoutStopSec=5"} < set(unit)
    assert "ExecStart=/usr/local/sbin/nodeshare fence" in unit
    assert not [line for line in unit if line.startswith(("Before=", "Requires", "BindsTo="))]


def test_byte_code_is_made_with_a_mask_that_lets_root_alone_write() -> None:
    lines = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))["_node_share_launcher"].splitlines()
    masked = next(number for number, line in enumerate(lines) if line.startswith("os.umask(0o022)"))
    assert masked < lines.index("from nodeshare.run.cli import main")


def rendered(name: str, services: list[str]) -> Any:
    templar = Templar(loader=DataLoader(), variables={})
    text = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))
    parts = [
        one
        for one in text
        if "fence" in one
        or one in ("_node_share_memory", "_node_share_state", "_node_share_program", "_node_share_kubelet")
    ]
    variables = {one: trust_as_template(text[one]) for one in parts}
    templar.available_variables = {**variables, "node_share_services": services}
    return templar.template(variables[name])
