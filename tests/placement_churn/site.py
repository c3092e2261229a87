# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of a run: its pools, its objects, two replicas of the daemon, and each fault as a context."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

from e2e.outage import without_api
from e2e.placement.cluster import KUBE_BATCH, Cluster, Namespace
from e2e.placement.daemon import Daemon, free_port
from placement_kit.kube_batch import policy
from testbed.api import RunningBed
from testbed.controlplane import kube_dir
from testbed.kube_api import STRATEGIC_PATCH, Api, ApiError, read_kubeconfig, tls_context
from testbed.load import Kind as NodeKind
from testbed.load import load_node

from placement_churn.load import FILLER, TIGHT, URGENT, WIDE
from placement_churn.plan import Fault, Kind
from placement_churn.reading import POOL

Json = dict[str, Any]

NAMESPACE: Final = "placement-churn"
SCHEDULER: Final = "placement-churn"
NODES: Final = "/api/v1/nodes?labelSelector=converged.hpc/load"
# Leader and standby, with a Lease that outlives a restart of the API server on a busy machine.
TERMS: Final = {"lease_duration": 30, "renew_deadline": 25, "retry_period": 2}
# A gang that is bound in part is given up after this time, and a pod has to have its place after as much again.
HALF_GANG_SECONDS: Final = 30
# No nodes are kept for a job in the time of a run: the checker knows of no rooms that are kept.
RESERVE_AFTER_SECONDS: Final = 604_800
_TIGHT_SHARE: Final = 50
_LEAST_TIGHT: Final = 4
_AWAY_SECONDS: Final = 300.0
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
_DENY: Final = "placement-churn-no-evictions"
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
_TAINT: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class Site:
    """What a run needs of the cluster."""

    def __init__(self, bed: RunningBed, folder: Path, nodes: int) -> None:
        self.cluster = Cluster(bed, folder)
        self._credentials = read_kubeconfig(kube_dir(bed.bed) / "super-admin.conf")
        self._context = tls_context(self._credentials)
        self.cluster.prepare(nodes)
        self.cluster.priority(URGENT, 1000)
        self.team: Namespace = self.cluster.namespace(NAMESPACE)
        self.api = self.connect()
        self._deny_evictions_by_a_policy()
        self.names = sorted(node["metadata"]["name"] for node in self.api.items(NODES))
        self.pools = pools(self.names)
        for name, pool in self.pools.items():
            self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {POOL: pool}}})
        file = folder / "policy.yml"
        file.write_text(policy("allocate, backfill, preempt"), encoding="utf-8")
        self.daemons: list[Daemon] = [
            self.cluster.daemon(
                f"churn-{number}",
                scheduler_name=SCHEDULER,
                lease_name=SCHEDULER,
                listen=f"127.0.0.1:{free_port()}",
                topology_levels="zone=topology.kubernetes.io/zone",
                policy=str(file),
                half_gang_seconds=HALF_GANG_SECONDS,
                reserve_after_seconds=RESERVE_AFTER_SECONDS,
                **TERMS,
            )
            for number in range(2)
        ]

    def connect(self) -> Api:
        """Return one connection more, of an identity that the API server always lets in."""
        return Api(self._credentials, context=self._context, timeout=60)

    def clear(self) -> None:
        """Delete what an earlier run on this bed has left."""
        self.api.send("DELETE", f"{self.team.path}/pods", b'{"gracePeriodSeconds": 0}')
        self.api.send("DELETE", self.team.group_path(KUBE_BATCH), None)
        self.api.send("DELETE", _BUDGETS, None)
        deadline = time.monotonic() + _AWAY_SECONDS
        while self.api.items(f"{self.team.path}/pods?limit=1"):
            if time.monotonic() > deadline:
                raise AssertionError("pods of the last run do not go away")
            time.sleep(0.5)

    def leader(self) -> Daemon:
        """Return the daemon that leads, or one that could."""
        return next((daemon for daemon in self.daemons if daemon.leads()), self.daemons[0])

    def evictions(self) -> Counter[int]:
        """Return how often the API server gave each answer to an eviction, as far as its audit log still has them."""
        asked = (event for event in self.cluster.audit() if event.resource == "pods/eviction")
        return Counter(event.code for event in asked if event.namespace == NAMESPACE)

    def _deny_evictions_by_a_policy(self) -> None:
        """Make the policy that refuses evictions; a fault is the binding that puts it into force."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "no evictions now"}],
        }
        self.cluster.apply(
            f"{_POLICIES}/validatingadmissionpolicies",
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": _DENY},
                "spec": spec,
            },
        )
        self.api.delete(f"{_POLICIES}/validatingadmissionpolicybindings/{_DENY}", missing_ok=True)


def pools(names: Sequence[str]) -> dict[str, str]:
    """Return the pool of each node: every fiftieth, and at least four, are of the tight one."""
    tight = set(names[: max(_LEAST_TIGHT, len(names) // _TIGHT_SHARE)])
    return {name: TIGHT if name in tight else WIDE for name in names}


class Faults:
    """Bring each fault about, and take it back whatever the API server does meanwhile."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._api = site.connect()
        self._ways: dict[Kind, Callable[[Fault], AbstractContextManager[None]]] = {
            Kind.API: lambda _fault: without_api(site.cluster.bed),
            Kind.KILL: self._killed,
            Kind.FREEZE: self._frozen,
            Kind.NOT_READY: self._not_ready,
            Kind.CORDON: self._cordoned,
            Kind.VANISH: self._vanished,
            Kind.BUDGET: self._budget,
            Kind.DENIED: self._denied,
        }

    def run(self, fault: Fault, over: Event) -> None:
        """Let one fault last as long as it should, or until the run is over."""
        with self._ways[fault.kind](fault):
            over.wait(fault.seconds)

    @contextmanager
    def _killed(self, _fault: Fault) -> Iterator[None]:
        self._site.leader().signal(signal.SIGKILL)
        yield

    @contextmanager
    def _frozen(self, _fault: Fault) -> Iterator[None]:
        daemon = self._site.leader()
        daemon.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            daemon.signal(signal.SIGCONT)

    def _some(self, fault: Fault) -> list[str]:
        """Return one to four nodes of a pool."""
        rng = random.Random(fault.seed)
        pool = rng.choice((TIGHT, WIDE))
        names = [name for name in self._site.names if self._site.pools[name] == pool]
        return rng.sample(names, min(len(names), rng.randint(1, 4)))

    @contextmanager
    def _not_ready(self, fault: Fault) -> Iterator[None]:
        # kwok says at once that a node is ready again; the taint is what the node lifecycle leaves for schedulers.
        condition = {"type": "Ready", "status": "False", "reason": "NodeStatusUnknown", "message": "churn"}
        names = self._some(fault)
        with ExitStack() as undo:
            for name in names:
                undo.callback(self._insist, partial(self._patch, name, {"spec": {"taints": []}}))
                self._insist(partial(self._patch, name, {"spec": {"taints": [_TAINT]}}))
                status = {"status": {"conditions": [condition]}}
                self._insist(partial(self._patch, f"{name}/status", status, STRATEGIC_PATCH))
            yield

    @contextmanager
    def _cordoned(self, fault: Fault) -> Iterator[None]:
        with ExitStack() as undo:
            for name in self._some(fault):
                undo.callback(self._insist, partial(self._patch, name, {"spec": {"unschedulable": None}}))
                self._insist(partial(self._patch, name, {"spec": {"unschedulable": True}}))
            yield

    @contextmanager
    def _vanished(self, fault: Fault) -> Iterator[None]:
        with ExitStack() as undo:
            for name in self._some(fault):
                undo.callback(self._insist, partial(self._come_back, name))
                self._insist(partial(self._api.delete, f"/api/v1/nodes/{name}", missing_ok=True))
            yield

    def _come_back(self, name: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        node = load_node(int(name.rpartition("-")[2]), NodeKind.KWOK, now=now)
        node["metadata"]["labels"][POOL] = self._site.pools[name]
        try:
            self._api.create("/api/v1/nodes", node)
        except ApiError as error:
            if error.status != 409:
                raise
        # Admission calls every new node not ready.
        self._patch(name, {"spec": {"taints": []}})

    @contextmanager
    def _budget(self, fault: Fault) -> Iterator[None]:
        name = f"none-{fault.seed}"
        spec = {"minAvailable": 1_000_000, "selector": {"matchLabels": {"app": FILLER}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        with self._while_there(f"{_BUDGETS}/{name}", _BUDGETS, body):
            yield

    @contextmanager
    def _denied(self, _fault: Fault) -> Iterator[None]:
        path = f"{_POLICIES}/validatingadmissionpolicybindings"
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": _DENY},
            "spec": {"policyName": _DENY, "validationActions": ["Deny"]},
        }
        with self._while_there(f"{path}/{_DENY}", path, body):
            yield

    @contextmanager
    def _while_there(self, path: str, group: str, body: Json) -> Iterator[None]:
        try:
            self._insist(lambda: self._created(group, body))
            yield
        finally:
            self._insist(lambda: self._api.delete(path, missing_ok=True))

    def _created(self, group: str, body: Json) -> None:
        try:
            self._api.create(group, body)
        except ApiError as error:
            if error.status != 409:
                raise

    def _patch(self, path: str, body: Json, kind: str = "application/merge-patch+json") -> None:
        self._api.send("PATCH", f"/api/v1/nodes/{path}", json.dumps(body).encode(), content_type=kind)

    def _insist(self, do: Callable[[], None]) -> None:
        """Do it; where the API server is away, again until it is back."""
        deadline = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                do()
                return
            except ApiError as error:
                if (400 <= error.status < 500 and error.status not in (403, 429)) or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
