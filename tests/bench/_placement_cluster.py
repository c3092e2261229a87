# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the placement daemon's benchmarks share: a cluster, nodes for load, pods that nobody runs, the audit log."""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench._beds import own_bed
from bench._figures import count
from bench._placement_cases import DEVICE, GROUPS, NAMESPACE, RACK, RACKS
from bench._placement_contestants import BINDING, READER, Contestant, KubeScheduler, Ours
from bench._placement_latency import farther_away
from testbed.api import RunningBed, command_line
from testbed.controlplane import audit_log, kube_dir
from testbed.kube_api import Api, ApiError, read_kubeconfig, tls_context
from testbed.kube_audit import AuditEvent, parse_event

Json = dict[str, Any]

CONTESTANTS: Final = ("bare", "placement", "kube-scheduler")
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_BED: Final = "placement-bench"
_CONNECTIONS: Final = 16
_EVENTS: Final = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_CLEAR_SECONDS: Final = 900.0
_PAGE: Final = 5_000
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_NO_CHECK: Final = "?fieldValidation=Ignore"
_LOAD: Final = "/api/v1/nodes?labelSelector=converged.hpc/load"
_DEVICES: Final = {"status": {name: {DEVICE: "8"} for name in ("capacity", "allocatable")}}


class Cluster:
    """The API, and what is done with it before, in and after a run."""

    def __init__(self, bed: RunningBed) -> None:
        self._log = audit_log(bed.bed)
        self._credentials = read_kubeconfig(kube_dir(bed.bed) / "super-admin.conf")
        self._context = tls_context(self._credentials)
        self.api = self.connect()
        for path, body in (
            ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            (f"{_RBAC}/clusterroles", READER),
            (f"{_RBAC}/clusterrolebindings", BINDING),
        ):
            self._ensure(path, body)
        self.api.wait_for(
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default", lambda _found: True, timeout=30, what="account"
        )

    def connect(self) -> Api:
        """One connection more."""
        return Api(self._credentials, context=self._context, timeout=300)

    def _ensure(self, path: str, body: Json) -> None:
        try:
            self.api.create(path, body)
        except ApiError as error:
            if error.status != 409:
                raise

    def each(self, items: Sequence[Any], do: Callable[[Api, Any], None]) -> None:
        """Does something with every item, over several connections."""

        def some(first: int) -> None:
            api = self.connect()
            for item in items[first::_CONNECTIONS]:
                do(api, item)
            api.close()

        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(some, range(_CONNECTIONS)))

    def nodes(self) -> list[str]:
        """The nodes for load; each has devices, an extended resource, and a rack from now on."""
        found = self.api.items(_LOAD)
        lacking = [node["metadata"]["name"] for node in found if DEVICE not in node["status"]["allocatable"]]
        self.each(lacking, lambda api, name: _nothing(api.patch(f"/api/v1/nodes/{name}/status", _DEVICES)))
        names = sorted(node["metadata"]["name"] for node in found)
        racks = {name: f"r{index % RACKS}" for index, name in enumerate(names)}
        moved = [node["metadata"]["name"] for node in found if RACK not in node["metadata"]["labels"]]
        self.each(moved, lambda api, name: _nothing(api.patch(f"/api/v1/nodes/{name}", _in_rack(racks[name]))))
        return names

    def racks(self) -> dict[str, str]:
        """Return the rack of each node for load."""
        return {node["metadata"]["name"]: node["metadata"]["labels"][RACK] for node in self.api.items(_LOAD)}

    def create(self, api: Api, pod: Json) -> None:
        """One pod."""
        api.send("POST", PODS + _NO_CHECK, json.dumps(pod).encode())

    def create_all(self, pods: Sequence[Json], groups: Sequence[Json] = ()) -> None:
        """Groups, then pods."""
        for group in groups:
            self.api.create(GROUPS + _NO_CHECK, group)
        self.each(pods, self.create)

    def clear(self) -> None:
        """Deletes pods at once (nobody runs them), groups and Events."""
        # The API server ends connections that were not used for 90 seconds, and a run can take longer.
        self.api.close()
        deadline = time.monotonic() + _CLEAR_SECONDS
        for path, options in ((PODS, b'{"gracePeriodSeconds": 0}'), (GROUPS, None), (_EVENTS, None)):
            # The API server ends a request after a minute, which is too short for the Events of an hour.
            while self.api.items(f"{path}?limit=1"):
                if time.monotonic() > deadline:
                    raise SystemExit(f"what the last run has left does not go away: {path}")
                self.api.send("DELETE", f"{path}?limit={_PAGE}", options)
                time.sleep(0.1)

    def follow(self) -> "Follower":
        """The audit log from now on."""
        return Follower(self._log)


class Follower:
    """Bindings and Events of the benchmark's pods as the audit log grows."""

    def __init__(self, log: Path) -> None:
        self._log = log
        known = log.stat()
        self._file, self._at = known.st_ino, known.st_size
        self._rest = b""
        self.binds: list[AuditEvent] = []
        self.events: list[AuditEvent] = []

    def read(self) -> int:
        """Takes in what is new and says how much of it was about the pods.

        A log that has reached its greatest size gets another name, and the API server begins a new one.
        """
        files = dict[int, Path]()
        for path in self._log.parent.glob(f"{self._log.stem}*{self._log.suffix}"):
            with suppress(FileNotFoundError):  # the API server removes old ones
                files[path.stat().st_ino] = path
        piece = self._read(files[self._file])
        if files[self._file] != self._log and self._log.exists():
            self._file, self._at = self._log.stat().st_ino, 0
            piece += self._read(self._log)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        found = 0
        for line in lines:
            # Parsing costs CPU that the contestants need: most lines are passed over by their text.
            if b'"create"' not in line or (b'"binding"' not in line and b'"events"' not in line):
                continue
            event = parse_event(line.decode())
            if event.namespace == NAMESPACE and event.code == 201 and event.resource in ("pods/binding", "events"):
                (self.binds if event.resource == "pods/binding" else self.events).append(event)
                found += 1
        return found

    def _read(self, path: Path) -> bytes:
        with path.open("rb") as stream:
            stream.seek(self._at)
            piece = stream.read()
        self._at += len(piece)
        return piece


@dataclass(frozen=True, slots=True)
class Field:
    """A cluster with its own kube-scheduler at rest, and who competes on it."""

    cluster: Cluster
    nodes: list[str]
    contestants: list[Contestant]


def options(parser: argparse.ArgumentParser, contestants: Sequence[str] = CONTESTANTS) -> None:
    """What all these benchmarks can be told."""
    parser.add_argument("--bed", help="a bed that is up; it keeps its nodes for load (default: one of our own)")
    parser.add_argument("--nodes", type=count, default=5000, help="nodes if there are none yet (default: %(default)s)")
    parser.add_argument("--contestant", action="append", choices=contestants, help="may be repeated (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there")


def keep(given: argparse.Namespace, runs: Sequence[Mapping[str, Any]]) -> None:
    """Writes every run where `--json` says."""
    if given.json:
        given.json.write_text(json.dumps(runs))


@contextmanager
def field(
    given: argparse.Namespace, contestants: Sequence[str] = CONTESTANTS, *, latency: float = 0.0
) -> Iterator[Field]:
    """The bed with its nodes; a bed of our own goes away again, also where a signal ends the benchmark.

    The daemon's requests are late by so many seconds.
    """
    with own_bed(_BED, "--nodes", "1", "--wlm", "none", given=given.bed) as bed:
        cluster = Cluster(bed)
        if not cluster.api.items(f"{_LOAD}&limit=1"):
            command_line("load", bed.bed.name, "--nodes", str(given.nodes), timeout=600)
        bed.exec("kube", ["systemctl", "stop", "kube-scheduler.service"])
        try:
            with ExitStack() as stack:
                folder = stack.enter_context(TemporaryDirectory())
                more: dict[str, str] = {}
                if latency:
                    near = kube_dir(bed.bed) / "scheduler.conf"
                    more["kubeconfig"] = str(stack.enter_context(farther_away(near, Path(folder), latency)))
                makers: Mapping[str, Callable[[], Contestant]] = {
                    "bare": lambda: Ours(bed, Path(folder), bare=True),
                    "placement": lambda: Ours(bed, Path(folder), bare=False, **more),
                    "kube-scheduler": lambda: KubeScheduler(bed),
                }
                cluster.clear()
                yield Field(cluster, cluster.nodes(), [makers[name]() for name in given.contestant or contestants])
        finally:
            bed.exec("kube", ["systemctl", "start", "kube-scheduler.service"])


def _in_rack(name: str) -> Json:
    return {"metadata": {"labels": {RACK: name}}}


def _nothing(_answer: object) -> None:
    return None
