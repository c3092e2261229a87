# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods ask of a batch system, and which of a job's shares each of them gets. Pure.

A batch system gives whole cores. Either each pod has its own, or the site packs. Then pods of one gang that ask for
less than a core share one chunk of one core, as many as fit. In both cases what they hold is never more than the job.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from placement.model.amounts.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Amounts
from placement.model.batch import BackingSettings, Chunk, HostShare
from placement.model.objects.pod import Pod
from placement.model.rules.selector import NODE_NAME_FIELD, LabelPairs, NodeSelector, Operator

WALLTIME: Final = "converged.hpc/walltime"

_CORE: Final = 1000
_KIB: Final = 1024
# A pod that asks for less shares its core with at most nine others.
_LEAST: Final = 100
_HOST_LABEL: Final = "kubernetes.io/hostname"
_DURATION: Final = re.compile(r"(?:(?:(\d{1,5}):)?([0-5]?\d):([0-5]\d)|(\d{1,9}))", re.ASCII)


class Unbackable(Exception):
    """The batch system cannot be asked for this; the message names what."""


@dataclass(frozen=True, slots=True, order=True)
class Demand:
    """What one pod takes of a job: thousandths of cores, KiB, devices; and what its node must be."""

    millis: int
    memory: int
    devices: Amounts
    properties: tuple[tuple[str, str], ...]


def demand_of(pod: Pod, settings: BackingSettings, hosts: Mapping[str, str] | None = None) -> Demand:
    """Return the pod's part in the batch system's names; hosts keep their names if none are given."""
    if pod.daemon:
        raise Unbackable("a pod of a DaemonSet belongs to its node")
    asked = dict(pod.request)
    millis = max(asked.pop(CPU, 0), _LEAST)
    if not settings.pack or millis >= _CORE:
        millis = -(-millis // _CORE) * _CORE
    memory = -(-asked.pop(MEMORY, 0) // _KIB)
    devices = []
    for name, amount in asked.items():
        if name in settings.devices:
            devices.append((settings.devices[name], amount))
        elif name not in (PODS, EPHEMERAL_STORAGE):
            raise Unbackable(f"the batch system has no name for {name}")
    return Demand(millis, memory, tuple(sorted(devices)), properties_of(pod.spec.selector, settings, hosts))


def properties_of(
    selector: NodeSelector, settings: BackingSettings, known: Mapping[str, str] | None = None
) -> tuple[tuple[str, str], ...]:
    """As much of a pod's wishes for nodes as the batch system can be told; the rest is verified afterwards."""
    pairs: list[tuple[str, str]] = list(selector.labels)
    hosts: list[str] = []
    if selector.terms is not None and len(selector.terms) == 1:
        term = selector.terms[0]
        single = [item for item in term.expressions if item.operator is Operator.IN and len(item.values) == 1]
        pairs += [(item.key, item.values[0]) for item in single]
        hosts = [
            item.values[0]
            for item in term.fields
            if item.key == NODE_NAME_FIELD and item.operator is Operator.IN and len(item.values) == 1
        ]
    names = {_HOST_LABEL: "host", **settings.labels}
    found = {names[key]: value for key, value in pairs if key in names and value}
    found.update(("host", host) for host in hosts)
    if "host" in found and known is not None:
        host = found["host"]
        if host not in known:
            raise Unbackable(f"there is no node {host[:80]!r}")
        found["host"] = known[host]
    return tuple(sorted(found.items()))


def chunks_of(demands: Iterable[Demand], largest: int) -> tuple[Chunk, ...]:
    """One chunk for each shape, the largest first; packed none has more memory than the largest node, in KiB."""
    found = []
    for demand, number in sorted(Counter(demands).items(), reverse=True):
        together = max(1, min(_together(demand), largest // max(1, demand.memory)))
        full, rest = divmod(number, together)
        found += [_chunk(demand, count, each) for count, each in ((full, together), (1, rest)) if count and each]
    return tuple(found)


def _chunk(demand: Demand, count: int, pods: int) -> Chunk:
    cores, memory, devices = _part(demand, pods)
    return Chunk(count=count, cores=cores, memory=memory, devices=devices, properties=demand.properties)


def _together(demand: Demand) -> int:
    """How many such pods share a chunk; devices of several would be more than many a node has."""
    return 1 if demand.devices else max(1, _CORE // max(_LEAST, demand.millis))


def _part(demand: Demand, pods: int) -> tuple[int, int, Amounts]:
    """Cores, memory and devices for so many of them."""
    devices = tuple((name, amount * pods) for name, amount in demand.devices)
    return -(-demand.millis * pods // _CORE), demand.memory * pods, devices


def walltime_of(pods: Sequence[Pod]) -> int | None:
    """Return the longest time that any of the pods may take, in seconds; None if one has no limit."""
    limits = [_limit(pod.spec.deadline, pod.annotations) for pod in pods]
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None


def _limit(deadline: int | None, annotations: LabelPairs) -> int | None:
    if deadline is not None and deadline > 0:
        return deadline
    text = next((value for name, value in annotations if name == WALLTIME), None)
    if text is None:
        return None
    match = _DURATION.fullmatch(text[:20])
    seconds = 0
    if match is not None:
        hours, minutes, rest, whole = (int(part or 0) for part in match.groups())
        seconds = whole or hours * 3600 + minutes * 60 + rest
    if not seconds:
        raise Unbackable(f"annotation {WALLTIME}: {text[:80]!r} is neither seconds nor HH:MM:SS")
    return seconds


class SharePacking:
    """What a job has on each node, and how much of it is left while pods are put into it, the largest first.

    Of what else the batch system may have added to a share only these devices count.
    """

    def __init__(self, shares: Iterable[HostShare], node_of: Callable[[str], str], devices: Collection[str]) -> None:
        self._at: dict[str, list[_Bin]] = {}
        for share in shares:
            self._at.setdefault(node_of(share.host), []).append(_Bin(share, devices))
        # Parts on hosts that are no nodes can be given to no pod.
        self._at.pop("", None)

    @property
    def spent(self) -> bool:
        """Return whether no other pod can have a part."""
        return not self._at

    def take(self, node: str, demand: Demand) -> bool:
        """Take a pod's part on this node; return whether it has one there."""
        fitting = [one for one in self._at.get(node, ()) if one.covers(demand)]
        if not fitting:
            return False
        # What was asked for such pods, or else the tightest, so that what is whole stays whole.
        best = min(fitting, key=lambda one: (not one.is_for(demand), sum(one.devices.values()), one.millis, one.memory))
        best.millis -= demand.millis
        best.memory -= demand.memory
        for name, amount in demand.devices:
            best.devices[name] -= amount
        if best.millis < _LEAST:
            self._at[node].remove(best)
        if not self._at[node]:
            del self._at[node]
        return True

    def put(self, demand: Demand, refuses: Callable[[str], str]) -> tuple[str, str]:
        """Return the node of the part that a pod gets; or nothing, and why the last node was refused."""
        refused = ""
        for own in (True, False):
            for node, bins in self._at.items():
                if not any(one.covers(demand) and one.is_for(demand) is own for one in bins):
                    continue
                refused = refuses(node)
                if not refused:
                    self.take(node, demand)
                    return node, ""
        return "", refused


class _Bin:
    __slots__ = ("devices", "memory", "millis", "whole")

    def __init__(self, share: HostShare, devices: Collection[str]) -> None:
        self.devices = {name: amount for name, amount in sorted(share.devices) if name in devices}
        self.whole = (share.cores, share.memory, tuple(self.devices.items()))
        self.millis = share.cores * _CORE
        self.memory = share.memory

    def covers(self, demand: Demand) -> bool:
        """Whether so much is left."""
        return (
            self.millis >= demand.millis
            and self.memory >= demand.memory
            and all(self.devices.get(name, 0) >= amount for name, amount in demand.devices)
        )

    def is_for(self, demand: Demand) -> bool:
        """Whether it is what is asked for pods like this."""
        together = _together(demand)
        return any(_part(demand, number) == self.whole for number in range(1, together + 1))
