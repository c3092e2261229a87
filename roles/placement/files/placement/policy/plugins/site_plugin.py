# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own plugin: what its author derives from, and what it is told of nodes and pods.

The guide is docs/guides/placement-plugins.md. A plugin runs in the one thread that decides, so it must be quick. It
works on columns of all nodes at once, does no input or output, and keeps nothing that it is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts
from placement.model.objects.pod import PodSpec
from placement.state.cluster import Cluster
from placement.state.nodes.node_filters import Bools

# What the author of a plugin imports.
__all__ = ("Amounts", "Asking", "Bools", "Nodes", "Numbers", "PodSpec", "Rooms", "Scores", "SitePlugin", "requested")

# One place for each node; some places are no node, and what is said of those does not matter.
Scores = NDArray[np.float32]
Numbers = NDArray[np.int64]
Rows = NDArray[np.intp]

Value = TypeVar("Value", np.bool_, np.int64)


class Nodes:
    """What the Node objects say, in columns. Every answer is a new array, or one that cannot be written to."""

    def __init__(self, cluster: Cluster, rows: Rows | None = None) -> None:
        self._cluster = cluster
        self._columns = cluster.columns
        # The places that are asked about; None means all.
        self._rows = rows

    def __len__(self) -> int:
        return self._columns.capacity if self._rows is None else len(self._rows)

    def labelled(self, key: str, *values: str) -> Bools:
        """Return the nodes whose label has one of these values, or any value if none is given."""
        column = self._columns.label_column(key)
        return self._asked(column.among(values) if values else np.greater_equal(column.of_row, 0))

    def named(self, *names: str) -> Bools:
        """Return the nodes with these names."""
        found = np.zeros(self._columns.capacity, np.bool_)
        found[[self._columns.rows[name] for name in names if name in self._columns.rows]] = True
        return self._asked(found)

    def allocatable(self, resource: str) -> Numbers:
        """Return what each node offers: CPU in thousandths, memory in bytes, anything else in whole numbers."""
        return self._line(self._columns.allocatable, resource)

    def _line(self, array: Numbers, resource: str) -> Numbers:
        names = self._columns.axis.names
        if resource not in names:
            return np.zeros(len(self), np.int64)
        return self._asked(array[names.index(resource)])

    def _asked(self, column: NDArray[Value]) -> NDArray[Value]:
        return _fixed(column if self._rows is None else column.take(self._rows))


class Rooms(Nodes):
    """The same, and what is on the nodes."""

    def __init__(
        self, cluster: Cluster, rows: Rows | None = None, left: Numbers | None = None, labels: Sequence[str] = ()
    ) -> None:
        super().__init__(cluster, rows)
        self._left = left
        self._labels = labels

    def free(self, resource: str) -> Numbers:
        """Return what no pod has and none is promised; for a score, once the pod is there."""
        names = self._columns.axis.names
        if self._left is not None and resource in names[: len(self._left)]:
            return _fixed(self._left[names.index(resource)])
        return self._line(self._columns.unpromised, resource)

    def pods(self, key: str, value: str) -> Numbers:
        """Return how many pods of all namespaces with this label are on each node; the plugin's `labels` name the key.

        Pods that are only promised room do not count yet.
        """
        if key not in self._labels:
            raise ValueError(f"label {key!r} of pods is read, but is not in the plugin's `labels`")
        found = np.zeros(self._columns.capacity, np.int64)
        for labelset in self._cluster.labelsets.labelled(key, value):
            for row, number in labelset.pods.items():
                found[row] += number
        return self._asked(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """The pod that is asked for, as far as it may decide: pods that are equal here are placed together."""

    namespace: str
    # Those that the plugin's `labels` name.
    labels: Mapping[str, str]
    spec: PodSpec
    request: Amounts


class SitePlugin:
    """Decides nothing. A plugin overrides one of the three methods at least."""

    # Arguments and their defaults, whose types are those of the arguments: bool, or int from 0 to 1000.
    arguments: ClassVar[Mapping[str, int | bool]] = {}
    # Keys of the labels of pods that `allowed` reads.
    labels: ClassVar[tuple[str, ...]] = ()

    def __init__(self, given: Mapping[str, int | bool]) -> None:
        # All arguments, as the policy gives them.
        self.given = given

    def mask(self, spec: PodSpec, request: Amounts, nodes: Nodes) -> Bools | None:
        """Return the nodes where such pods may run, whatever is on them; None means all.

        The answer is kept until a Node changes. What it says of a node must follow from that node alone.
        """
        return None

    def allowed(self, pod: Asking, nodes: Rooms) -> Bools | None:
        """Return the nodes where the pod may run as things stand; None if the plugin is not about such pods.

        It is asked for every such pod, one after the other, and sees those placed before.
        """
        return None

    def score(self, spec: PodSpec, request: Amounts, nodes: Rooms) -> Scores | None:
        """Return how good each node is for such a pod, in points of `nodeorder` (0 to 100 for each weight of 1).

        It is asked about some of the nodes, too: what it says of a node must follow from that node alone.
        """
        return None


def requested(request: Amounts, resource: str) -> int:
    """Return how much of a resource a pod requests; CPU in thousandths, memory in bytes."""
    return dict(request).get(resource, 0)


def _fixed(column: NDArray[Value]) -> NDArray[Value]:
    """Return a read-only view of the column."""
    found = column[:]
    found.flags.writeable = False
    return found
