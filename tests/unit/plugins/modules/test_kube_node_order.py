# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order module kube_node opens a node to pods."""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.modules import kube_node

CONVERTING = {"key": "converged.hpc/converting", "effect": "NoSchedule"}


class Kubectl:
    """A cluster whose node is ready at the third look."""

    def __init__(self) -> None:
        self.done: t.List[str] = []
        self.looks = 0

    def nodes(self) -> t.Dict[str, t.Any]:
        self.looks += 1
        ready = "True" if self.looks > 2 else "False"
        self.done.append(f"ready {ready}")
        return {
            "n1": {
                "metadata": {"labels": {}},
                "spec": {"taints": [CONVERTING]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }
        }

    def label(self, names: t.Sequence[str], labels: t.Mapping[str, str]) -> None:
        self.done.append(f"label {names} {labels}")

    def taint(self, names: t.Sequence[str], key: str, effect: str) -> None:
        self.done.append(f"taint {names} {key} {effect}")

    def untaint(self, names: t.Sequence[str], key: str) -> None:
        self.done.append(f"untaint {names} {key}")


def test_pods_are_kept_off_until_the_node_has_its_labels_and_taints_and_is_ready() -> None:
    kubectl = Kubectl()
    params = {
        "nodes": {"n1": {"zone": "a"}},
        "taints": {"converged.hpc/backed": ["n1"]},
        "no_taints": ["converged.hpc/converting"],
        "wait": 60,
    }
    result = kube_node.keep(t.cast(t.Any, kubectl), params, check=False)
    assert result["untainted"] == ["n1"]
    assert kubectl.done == [
        "ready False",
        "label ['n1'] {'zone': 'a'}",
        "taint ['n1'] converged.hpc/backed NoSchedule",
        "ready False",
        "ready True",
        "untaint ['n1'] converged.hpc/converting",
    ]
