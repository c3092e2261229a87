# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""torque_node: the exact conversation with Torque's programs (test_torque_node.yaml)."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.converged.hpc.plugins.modules import torque_node

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_torque_node(case: dict[str, t.Any], converse: t.Callable[..., dict[str, t.Any]]) -> None:
    assert converse(torque_node, case) == case["result"]
