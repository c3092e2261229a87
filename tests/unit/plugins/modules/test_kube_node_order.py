# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order module kube_node opens a node to pods, and takes what is ours from a Node that stays."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.converged.hpc.plugins.modules import kube_node

SHARE_MODE = "node-restriction.kubernetes.io/converged-share-mode"
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


class Several(Kubectl):
    """A cluster with a node that is ready and one that is not; a third has no Node object."""

    def nodes(self) -> t.Dict[str, t.Any]:
        return {
            name: {
                "metadata": {"labels": {}},
                "spec": {"taints": [CONVERTING]},
                "status": {"conditions": [{"type": "Ready", "status": ready, "message": "runtime is down"}]},
            }
            for name, ready in (("n1", "True"), ("n2", "False"))
        }


def test_a_node_that_is_late_is_named_and_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_node, "_REGISTERING", 0)
    monkeypatch.setattr(kube_node, "_PAUSE", 0)
    several = Several()
    params = {
        "nodes": {"n1": {"zone": "a"}, "n2": {"zone": "a"}, "n3": {"zone": "a"}},
        "taints": {"converged.hpc/backed": ["n1", "n2", "n3"]},
        "no_taints": ["converged.hpc/converting"],
        "wait": 0.01,
    }
    result = kube_node.keep(t.cast(t.Any, several), params, check=False)
    assert result["late"] == {
        "n2": "not ready after 0.01 s: runtime is down",
        "n3": "has no Node object: join it first, and see its journalctl -u kubelet",
    }
    assert several.done == [
        "label ['n1', 'n2'] {'zone': 'a'}",
        "taint ['n1', 'n2'] converged.hpc/backed NoSchedule",
        "untaint ['n1'] converged.hpc/converting",
    ]
    assert (result["tainted"], result["untainted"]) == (["n1", "n2"], ["n1"])


class Beside:
    """A Node that stays, and a controller that taints it until it has no label any more."""

    def __init__(self) -> None:
        self.labels = {SHARE_MODE: "handover", "zone": "a"}
        self.annotations = {"converged.hpc/leases": "", "note": "site"}
        self.taints: t.List[t.Dict[str, str]] = []

    def nodes(self) -> t.Dict[str, t.Any]:
        meta = {"labels": dict(self.labels), "annotations": dict(self.annotations)}
        seen = {"n1": {"metadata": meta, "spec": {"taints": list(self.taints)}}}
        if SHARE_MODE in self.labels:
            self.taints = [{"key": "converged.hpc/batch", "effect": "NoSchedule"}]
            self.annotations["converged.hpc/held-by"] = "slurm/7/0"
        return seen

    def clear(self, _name: str, *, labels: t.Iterable[str], annotations: t.Iterable[str]) -> None:
        for part, keys in ((self.labels, labels), (self.annotations, annotations)):
            for key in keys:
                del part[key]

    def untaint(self, _names: t.Sequence[str], key: str) -> None:
        self.taints = [taint for taint in self.taints if taint["key"] != key]


def test_what_a_controller_writes_while_a_node_is_restored_goes_as_well() -> None:
    beside = Beside()
    result = kube_node.clear(t.cast(t.Any, beside), {"nodes": {"n1": None}}, check=False)
    assert result == {"changed": True, "cleared": ["n1"]}
    assert (beside.labels, beside.annotations, beside.taints) == ({"zone": "a"}, {"note": "site"}, [])
