# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placeholder of a lease: a static pod of exactly the size that the job has of this node. Pure.

Its names are made of the batch system, the job id and the run, never of what a user wrote. Its uid is ours: the kubelet
keeps it, so that the pod is known again at the API, in cgroups, and after a restart of the program that looks.
"""

import functools
import json
import re
from typing import Any, Dict, Mapping, NamedTuple, Tuple

from ...shared.victims import NODE_CRITICAL
from ..jobs.job_key import JobKey
from ..jobs.lease import Lease
from ..settings import SPLIT, Settings

NAMESPACE = "kube-system"  # always there, and meant for pods of this priority
LABEL = "converged.hpc/placeholder"
ANNOTATION = "converged.hpc/lease"
PRIORITY_CLASS, PRIORITY = "system-node-critical", NODE_CRITICAL
UID_LENGTH = 30  # with the two digits of a try the 32 that the kubelet's own uids of static pods have
_NOT_SAFE = re.compile(r"[^0-9a-z]+", re.ASCII)

Sizes = Mapping[str, int]  # thousandths by resource


class Planned(NamedTuple):
    """`stem`: the uid without its last digits. Another size is another pod, a further try of the same is not."""

    lease: Lease
    size: Sizes
    stem: str


class Placeholder(NamedTuple):
    """What is to stand in the kubelet's directory for one lease."""

    name: str
    uid: str
    manifest: Dict[str, Any]


@functools.lru_cache(maxsize=None)
def name_of(key: JobKey) -> str:
    """Return a DNS label for a run. A digest tells apart what the label cannot hold of the id."""
    safe = _NOT_SAFE.sub("-", key.job.lower()).strip("-")[:30].strip("-")
    digest = _digest(str(key))[:8]
    return "lease-{}-{}-{}-r{}".format(key.wlm, safe, digest, key.run)


def is_whole(lease: Lease) -> bool:
    """Return whether the lease takes the whole node; a job of unknown size does, as far as we know."""
    return lease.exclusive or lease.cores is None


def attempt_of(uid: str) -> int:
    return int(uid[UID_LENGTH:], 16)


@functools.lru_cache(maxsize=1)
def plan(leases: Tuple[Lease, ...], room: Tuple[Tuple[str, int], ...], settings: Settings) -> Mapping[str, Planned]:
    """By name, what each placeholder asks for: in order of their begin, and never more than the node can give.

    A kubelet keeps something for the system, so a job that has all cores has more than the kubelet could admit.
    Where `room` is not known, a share that was told stands as it is. A call asks for the same plan several times.
    """
    left = dict(room)
    found: Dict[str, Planned] = {}
    for lease in leases:
        if is_whole(lease):
            wanted = {name: amount for name, amount in left.items() if _is_asked_whole(name)}
        else:
            wanted = _told(lease, settings)
        if room:
            wanted = {name: min(amount, left.get(name, 0)) for name, amount in wanted.items()}
        for name, amount in wanted.items():
            left[name] = left.get(name, 0) - amount
        size = {name: amount for name, amount in wanted.items() if amount > 0}
        found[name_of(lease.key)] = Planned(lease, size, _stem(lease, size, settings))
    return found


def make(planned: Planned, settings: Settings, *, attempt: int = 0) -> Placeholder:
    name, uid = name_of(planned.lease.key), planned.stem + "{:02x}".format(attempt % 256)
    quantities = {resource: _quantity(amount) for resource, amount in sorted(planned.size.items())}
    container = {
        "name": "hold",
        "image": settings.pause_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": quantities, "limits": quantities},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65534,
        },
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "labels": {LABEL: "true"},
            "annotations": {ANNOTATION: json.dumps(planned.lease.told(), sort_keys=True)},
        },
        "spec": {
            "containers": [container],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostNetwork": True,  # takes no address of the pods' network, and does not wait for it
            "priority": PRIORITY,
            "priorityClassName": PRIORITY_CLASS,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
        },
    }
    return Placeholder(name, uid, manifest)


def need(planned: Mapping[str, Planned]) -> Dict[str, int]:
    total: Dict[str, int] = {"pods": 1000 * len(planned)}
    for one in planned.values():
        for name, amount in one.size.items():
            total[name] = total.get(name, 0) + amount
    return total


def _digest(text: str) -> str:
    import hashlib  # a hand-over, which jobs wait for, has no use for it

    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _stem(lease: Lease, size: Sizes, settings: Settings) -> str:
    told = (settings.node, lease.boot_id, lease.began, str(lease.key), sorted(size.items()))
    return _digest(repr(told))[:UID_LENGTH]


def _told(lease: Lease, settings: Settings) -> Dict[str, int]:
    """With a fixed split the cores of jobs are not Kubernetes' at all: only the rest is shared."""
    wanted: Dict[str, int] = {}
    if settings.fence != SPLIT:
        wanted["cpu"] = 1000 * (lease.cores or 0)
    wanted["memory"] = 1000 * (lease.memory or 0)
    for device in lease.devices:
        name, _equals, number = device.partition("=")
        if "/" in name:
            wanted[name] = wanted.get(name, 0) + 1000 * int(number or "1")
    return wanted


def _is_asked_whole(name: str) -> bool:
    """Cores, memory and devices; neither slots for pods, nor disk, nor huge pages."""
    return name in ("cpu", "memory") or ("/" in name and not name.startswith("hugepages-"))


def _quantity(amount: int) -> str:
    return str(amount // 1000) if amount % 1000 == 0 else "{}m".format(amount)
