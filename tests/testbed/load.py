# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes for load: thousands of Node objects without machines behind them, so that a scheduler has something to do.

`plain` nodes only exist; on `kwok` nodes pods also run, as far as the API can tell, and end when deleted. While there
are any, the controller-manager's node lifecycle is off for the whole bed: nobody renews leases for these nodes, and
after 50 seconds it would call all of them dead. Real nodes of the bed are not called dead in that time either.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial

from testbed.binaries import KWOK, build_binaries
from testbed.controlplane import kube_dir, kube_host
from testbed.errors import BedError, UsageError
from testbed.kube_api import Api, Credentials, Json, read_kubeconfig, tls_context
from testbed.kube_config import BIN, CONTROLLER_MANAGER_ENV, LOAD_LABEL
from testbed.podman import Podman
from testbed.progress import step
from testbed.state import Bed

CONNECTIONS = 16
MAX_NODES = 20000
ZONES = 10
SELECTOR = f"labelSelector={LOAD_LABEL}"
# Fields are right, so the API server need not decode twice to warn of wrong ones.
CREATE = "/api/v1/nodes?fieldValidation=Ignore"
WITHOUT_LIFECYCLE = "EXTRA=--controllers=-node-lifecycle-controller\n"
SYSTEMCTL_SECONDS = 60.0
DELETE_SECONDS = 180.0


class Kind(Enum):
    """What a node for load can do."""

    PLAIN = "plain"
    KWOK = "kwok"


def load_node(number: int, kind: Kind, *, now: str) -> Json:
    """One node, ready and with its own zone of ten."""
    name = f"load-{number:05d}"
    size = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                LOAD_LABEL: kind.value,
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
            },
        },
        # A node may be created with its status, as kubelets do: one request instead of two.
        "status": {
            "capacity": size,
            "allocatable": size,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "a node for load",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                }
            ],
        },
    }


def shares(count: int, workers: int) -> list[range]:
    """Divide the numbers 0..count-1 evenly."""
    return [range(start, count, workers) for start in range(min(count, workers))]


def parse_kind(text: str) -> Kind:
    try:
        return Kind(text)
    except ValueError:
        raise UsageError(f"kind {text}: unknown; give one of {', '.join(kind.value for kind in Kind)}") from None


def add_load_nodes(bed: Bed, count: int, kind: Kind, podman: Podman) -> float:
    """Create `count` nodes and return how many seconds it took; there must be none before."""
    if not 1 <= count <= MAX_NODES:
        raise UsageError(f"{count} nodes for load: give a number from 1 to {MAX_NODES}")
    credentials = load_credentials(bed)
    api = Api(credentials)
    taken = has_load_nodes(api)
    api.close()
    if taken:
        raise BedError(f"bed '{bed.name}' has nodes for load already; remove them first")
    if kind is Kind.KWOK:
        have_kwok(bed, podman)
    with step(f"create {count} {kind.value} nodes for load"):
        begun = time.monotonic()
        (kube_dir(bed) / CONTROLLER_MANAGER_ENV).write_text(WITHOUT_LIFECYCLE, encoding="utf-8")
        # One list of all nodes afterwards costs it, and us, much less than watching them come.
        systemctl(bed, podman, "stop", "kube-controller-manager.service")
        try:
            create_all(credentials, count, kind)
        finally:
            systemctl(bed, podman, "start", "kube-controller-manager.service")
        if kind is Kind.KWOK:
            systemctl(bed, podman, "start", "kwok.service")
        return time.monotonic() - begun


def have_kwok(bed: Bed, podman: Podman) -> None:
    """Build kwok into the folder of programs that the bed mounts; few beds ever start it, so `up` builds none."""
    there = partial(podman.exec, kube_host(bed).container, ["test", "-x", f"{BIN}/{KWOK}"], timeout=60, check=False)
    if there().rc != 0:
        build_binaries(names={KWOK})
    if there().rc != 0:
        raise BedError(f"bed '{bed.name}' has other Kubernetes programs than this checkout; take it down and up again")


def create_all(credentials: Credentials, count: int, kind: Kind) -> None:
    """Create over several connections; most of the time goes to the API server, so threads are enough."""
    context = tls_context(credentials)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def create(numbers: range) -> None:
        api = Api(credentials, context=context)
        try:
            for number in numbers:
                api.send("POST", CREATE, json.dumps(load_node(number, kind, now=now)).encode())
        finally:
            api.close()

    with ThreadPoolExecutor(max_workers=CONNECTIONS) as pool:
        list(pool.map(create, shares(count, CONNECTIONS)))


def remove_load_nodes(bed: Bed, podman: Podman) -> None:
    """Delete all nodes for load and give the bed its node lifecycle back; none is fine."""
    api = Api(load_credentials(bed), timeout=DELETE_SECONDS)
    try:
        with step("remove the nodes for load"):
            systemctl(bed, podman, "stop", "kwok.service")
            api.send("DELETE", f"/api/v1/nodes?{SELECTOR}", None)
            (kube_dir(bed) / CONTROLLER_MANAGER_ENV).unlink(missing_ok=True)
            systemctl(bed, podman, "restart", "kube-controller-manager.service")
    finally:
        api.close()


def load_credentials(bed: Bed) -> Credentials:
    """The one identity that the audit log passes over when it makes nodes, and that needs no look-up of roles."""
    return read_kubeconfig(kube_dir(bed) / "super-admin.conf")


def has_load_nodes(api: Api) -> bool:
    return bool(api.items(f"/api/v1/nodes?{SELECTOR}&limit=1"))


def systemctl(bed: Bed, podman: Podman, action: str, unit: str) -> None:
    podman.exec(kube_host(bed).container, ["systemctl", action, unit], timeout=SYSTEMCTL_SECONDS)
