# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The daemon killed at each step of its work: what it had begun becomes whole, and nothing is done twice.

`make test` kills it once at four of the steps; `make soak` at every step, and a hundred times.
"""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.placement import proxy as faults
from e2e.placement.behind_proxy import BINDING, NAMES, REPEATS, assert_all_is_well, behind
from e2e.placement.cluster import GROUP_NAME, KUBE_BATCH, NODES, Cluster, Namespace
from e2e.placement.proxy import Fault, Proxy
from e2e.playing import until
from placement_kit.kube_batch import policy

EVICTION = "/eviction"
CLAIM = "/persistentvolumeclaims"
SELECTED = "volume.kubernetes.io/selected-node"
MODES = {"accessModes": ["ReadWriteOnce"]}
MEMBERS = 6
AGAIN = (pytest.mark.soak, pytest.mark.repeated)


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang in a cluster that is empty, and what others do for it."""

    cluster: Cluster
    team: Namespace
    name: str

    def come(self) -> None:
        """The gang appears."""
        self.team.job("gang", replicas=MEMBERS, cpu="8", scheduler=self.name)

    def go_on(self) -> None:
        """What others do for it after the daemon has begun anew."""

    def in_all(self) -> int:
        """How many pods are bound once the gang is whole."""
        return MEMBERS


class Urgent(Gang):
    """As many pods have to leave a full cluster for it."""

    def come(self) -> None:
        """The cluster is filled before."""
        self.cluster.priority("urgent", 1000)
        for number in range(NODES):
            self.team.pod(f"filler-{number}", cpu="32", scheduler=self.name)
        until(lambda: len(self.team.bound()) == NODES, "the cluster is full")
        self.team.job("gang", replicas=MEMBERS, cpu="32", scheduler=self.name, priorityClassName="urgent")

    def in_all(self) -> int:
        """Nobody has left in vain."""
        until(lambda: len(self.team.bound("gang")) == MEMBERS, "the gang is whole")
        asked = [event for event in self.cluster.audit() if event.namespace == self.team.name]
        left = {event.name for event in asked if event.resource == "pods/eviction" and event.code == 201}
        assert len(left) == MEMBERS
        return NODES


class WithVolumes(Gang):
    """Its volumes are made where its pods are to be."""

    def come(self) -> None:
        """Claims that wait for their first consumer, and nobody yet who provides."""
        late = {"provisioner": "by.hand/e2e", "volumeBindingMode": "WaitForFirstConsumer"}
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "by-hand"}}
        self.cluster.bed.kubectl("apply", "-f", "-", input=json.dumps(kind | late))
        self.team.create(KUBE_BATCH, "PodGroup", "gang", {"minMember": MEMBERS})
        for number in range(MEMBERS):
            name = f"gang-{number}"
            spec = {"storageClassName": "by-hand", "resources": {"requests": {"storage": "1Gi"}}, **MODES}
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
            self.cluster.api.create(f"{self.team.path}{CLAIM}", claim)
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
            notes = {GROUP_NAME: "gang"}
            self.team.pod(name, cpu="8", scheduler=self.name, annotations=notes, volumes=[volume])

    def go_on(self) -> None:
        """A volume is made for each claim once its node has been selected."""
        until(lambda: all(SELECTED in item["metadata"].get("annotations", {}) for item in self._claims()), "all are")
        for claim in self._claims():
            name = f"{self.team.name}-{claim['metadata']['name']}"
            wanted = {"namespace": self.team.name, "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]}
            spec = {"capacity": {"storage": "1Gi"}, "storageClassName": "by-hand", "claimRef": wanted, **MODES}
            volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
            self.cluster.api.create("/api/v1/persistentvolumes", {**volume, "spec": spec | {"hostPath": {"path": "/"}}})

    def _claims(self) -> list[dict[str, Any]]:
        return self.cluster.api.items(f"{self.team.path}{CLAIM}")


STEPS: dict[str, tuple[type[Gang], str, str, Fault]] = {
    "a binding is on its way": (Gang, "POST", BINDING, faults.lost_before),
    "a binding is done": (Gang, "POST", BINDING, faults.lost_after),
    "the group's status is on its way": (Gang, "PATCH", "/podgroups/gang/status", faults.lost_before),
    "an Event is on its way": (Gang, "POST", "/events", faults.lost_before),
    "an eviction is on its way": (Urgent, "POST", EVICTION, faults.lost_before),
    "an eviction is done": (Urgent, "POST", EVICTION, faults.lost_after),
    "a nomination is on its way": (Urgent, "PATCH", "/pods/gang-./status", faults.lost_before),
    "a nomination is done": (Urgent, "PATCH", "/pods/gang-./status", faults.lost_after),
    "the choice of a node for a volume is on its way": (WithVolumes, "PATCH", CLAIM, faults.lost_before),
    "the choice of a node for a volume is done": (WithVolumes, "PATCH", CLAIM, faults.lost_after),
}


# One of each kind of request that a gang is made of, twice lost and twice done. What a daemon makes of what it finds is
# proved for every step in tests/placement: policy/test_withdraw.py and test_histories.py, kube/test_performer.py.
OFTEN = {
    "a binding is done",
    "an eviction is done",
    "a nomination is on its way",
    "the choice of a node for a volume is on its way",
}
CASES = [
    *(pytest.param(step, 0, marks=[] if step in OFTEN else pytest.mark.soak) for step in STEPS),
    *(pytest.param(step, number, marks=AGAIN) for step in STEPS for number in range(1, REPEATS + 1)),
]


@pytest.mark.parametrize(("step", "repeat"), CASES)
def test_a_kill_at_any_step_leaves_whole_gangs(
    cluster: Cluster, proxy: Proxy, team: Namespace, step: str, repeat: int
) -> None:
    scene, method, path, then = STEPS[step]
    name = next(NAMES)
    rules = cluster.folder / "preempting.yml"
    rules.write_text(policy(), encoding="utf-8")
    daemon = behind(cluster, proxy, name, policy=str(rules)).start()
    until(daemon.leads, "it leads")
    gang = scene(cluster, team, name)
    go = threading.Event()
    # With as many of its kind before it as there can be.
    before = repeat % MEMBERS if path in (BINDING, EVICTION, CLAIM) else 0
    anywhere = f"/{team.name}/.*{path}|/{team.name}{path}"
    try:
        with proxy.fault(method, anywhere, faults.held(go, then=then), times=1, after=before) as rule:
            gang.come()
            until(lambda: rule.met == 1, "it has come to the step")
            if then is faults.lost_after:
                go.set()
            daemon.signal(signal.SIGKILL)
            daemon.wait()
            cluster.end_lease(name)
            go.set()
        daemon.start()
        gang.go_on()
        assert_all_is_well(cluster, team, gang.in_all())
        group = f"{team.group_path(KUBE_BATCH)}/gang"
        until(lambda: team.api.get(group).get("status", {}).get("phase") == "Running", "the group says so")
    finally:
        go.set()
        daemon.stop()
