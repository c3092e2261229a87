# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why nodes are out of question for a pod: each node under the first rule that refuses it, as kube-scheduler counts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement.model.pod import Pod
from placement.model.selector import UNSCHEDULABLE_TAINT, Effect, Taint, untolerated
from placement.state.cluster import Cluster
from placement.state.columns import HELD, LEASED, RESTING, UNKNOWN, UNREADABLE, UNSCHEDULABLE
from placement.state.domains import DomainRules
from placement.state.labelsets import LabelSet
from placement.state.masks import Bools
from placement.state.volumes import VolumeRules

_CORDON = Taint(UNSCHEDULABLE_TAINT, "", Effect.NO_SCHEDULE)
_EXAMPLES = 3
# Without the name of that job, so that a new one is no news for all that wait.
KEPT = "kept for a job that comes before"


@dataclass(frozen=True, slots=True)
class Refusing:
    """One reason, how many nodes have it, and some of them."""

    reason: str
    nodes: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reasons:
    """All reasons over all nodes, the most frequent first."""

    nodes: int
    refusing: tuple[Refusing, ...]

    def __str__(self) -> str:
        """kube-scheduler's sentence."""
        if not self.refusing:
            return f"0/{self.nodes} nodes are available"
        listed = ", ".join(f"{item.nodes} {item.reason}" for item in self.refusing)
        return f"0/{self.nodes} nodes are available: {listed}"

    @property
    def kinds(self) -> frozenset[str]:
        """The reasons without their numbers, to see whether something new is to be told."""
        return frozenset(item.reason for item in self.refusing)


class Refusals:
    """Looks for reasons in one cluster."""

    def __init__(self, cluster: Cluster, domains: DomainRules, volumes: VolumeRules) -> None:
        self._cluster = cluster
        self._volumes = volumes
        self._domains = domains

    def of(self, pod: Pod, labelset: LabelSet, rank: int, unkept: Bools | None = None) -> Reasons:
        """Return the reasons for this pod, of this rank, as things stand. Rows outside `unkept` are kept for others."""
        columns = self._cluster.columns
        left = self._cluster.masks.present()
        number = int(left.sum())
        found: dict[str, NDArray[np.intp]] = {}

        def take(reason: str, refused: Bools) -> None:
            rows = np.flatnonzero(left & refused)
            if len(rows):
                found[reason] = np.concatenate((found[reason], rows)) if reason in found else rows
                left[rows] = False

        take("held by batch jobs", np.not_equal(columns.flags & HELD, 0))
        take("on which batch jobs begin", np.not_equal(columns.flags & LEASED, 0))
        take("of which nobody knows whether batch jobs have them", np.not_equal(columns.flags & UNKNOWN, 0))
        take("with an unreadable Node or pod", np.not_equal(columns.flags & UNREADABLE, 0))
        take("that turned pods away a moment ago", np.not_equal(columns.flags & RESTING, 0))
        suited = self._cluster.suited(pod)
        if suited is not None:
            take("that turned pods like this away a moment ago", ~suited)
        if untolerated((_CORDON,), pod.spec.tolerations) is not None:
            take("unschedulable", np.not_equal(columns.flags & UNSCHEDULABLE, 0))
        if not self._cluster.masks.taints(pod.spec.tolerations).allows.all():
            for taints, number_of in list(columns.taint_sets.items()):
                taint = untolerated(taints, pod.spec.tolerations)
                if taint is not None:
                    take(f"with untolerated taint {_shown(taint)}", columns.taint_set == number_of)
        selected = self._cluster.masks.selector(pod.spec.selector).allows
        take("not matched by node selector or node affinity", ~selected)
        if pod.spec.host_ports:
            ports = np.zeros(columns.capacity, np.bool_)
            ports[self._cluster.ports.clashing_rows(pod.spec.host_ports)] = True
            take("without free host ports", ports)
        self._amounts(pod, rank, left, found)
        for reason, allowed in [*self._volumes.answers(pod), *self._domains.answers(pod.spec, labelset)]:
            take(f"refused by {reason}", ~allowed)
        if unkept is not None:
            take(KEPT, ~unkept)
        return Reasons(number, tuple(sorted((self._named(*item) for item in found.items()), key=_frequency)))

    def _amounts(self, pod: Pod, rank: int, left: Bools, found: dict[str, NDArray[np.intp]]) -> None:
        """Too little of something: a node is counted under everything it has too little of."""
        columns = self._cluster.columns
        vector = columns.axis.request(pod.request)
        opened = columns.opened(len(columns.axis), columns.lower_rank(rank))
        short = np.zeros(columns.capacity, np.bool_)
        for name in vector.unknown:
            found[f"without {name}"] = np.flatnonzero(left)
            short |= left
        for index, name in enumerate(columns.axis.names):
            wanted = int(vector.dense[index])
            if not wanted:
                continue
            lacking = left & (opened[index] < wanted)
            never = lacking & (columns.alloc[index] < wanted)
            for reason, rows in (("too small: ", never), ("Insufficient ", lacking & ~never)):
                if rows.any():
                    found[reason + name] = np.flatnonzero(rows)
            short |= lacking
        left &= ~short

    def _named(self, reason: str, rows: NDArray[np.intp]) -> Refusing:
        nodes = (self._cluster.columns.nodes[row] for row in rows[:_EXAMPLES].tolist())
        return Refusing(reason, len(rows), tuple(node.name for node in nodes if node is not None))


def _shown(taint: Taint) -> str:
    return "{" + taint.key + (f"={taint.value}" if taint.value else "") + f":{taint.effect}" + "}"


def _frequency(item: Refusing) -> tuple[int, str]:
    return (-item.nodes, item.reason)
