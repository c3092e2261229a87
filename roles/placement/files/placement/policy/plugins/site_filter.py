# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's plugin among the filters and scores, so that nothing it does can stop the daemon.

A plugin that raises or answers nonsense gets the safe outcome. As a filter it refuses all nodes to the pod that it was
asked about. A pod that waits can still be placed, and a pod in the wrong place has done its harm. As a score it counts
for nothing. Pods that the plugin is not about, or can judge, are placed as always.
"""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts
from placement.model.objects.pod import PodSpec
from placement.policy.jobs.job import Task
from placement.policy.plugins.filters.filters import Filter
from placement.policy.plugins.site_plugin import Asking, Nodes, Rooms, Scores, SitePlugin
from placement.state.cluster import Cluster
from placement.state.nodes.node_filters import Bools, Part
from placement.state.nodes.score_table import ShapeRow

METHODS: Final = ("mask", "allowed", "score")
# The most points that a score may give or take: beyond that, single precision loses the other scores.
MOST_POINTS: Final = 1e6
# So many masks of a plugin are kept; then all are forgotten.
_KEPT: Final = 512
# So much of an error's text is logged.
_LONGEST: Final = 300
_NO_POINTS: Final = np.zeros(1, np.float32)


class NonsenseError(ValueError):
    """A plugin's answer cannot be used; the message says what was found and what was expected."""


def said_of(error: BaseException) -> str:
    """Return in one short line what was raised."""
    try:
        text = " ".join(str(error).split())[:_LONGEST]
    except Exception:  # noqa: BLE001 -- an error that cannot be shown is one of the plugin's, too
        text = ""
    return text if isinstance(error, NonsenseError) else f"{type(error).__name__}: {text}"


class Faults:
    """What plugins of the site did wrong. Any thread may read it."""

    def __init__(self) -> None:
        # How often, by the plugin's name and its method.
        self.counts: dict[tuple[str, str], int] = {}
        self._logged: set[tuple[str, str]] = set()
        self._unsaid: deque[str] = deque()

    def note(self, plugin: str, method: str, error: BaseException) -> None:
        """Count a fault; the first of each method is for the log."""
        key = (plugin, method)
        self.counts[key] = self.counts.get(key, 0) + 1
        if key not in self._logged:
            self._logged.add(key)
            outcome = "its scores count for nothing" if method == "score" else "pods that it is asked about wait"
            self._unsaid.append(f"plugin {plugin}: {method} failed: {said_of(error)}; {outcome}")

    def begin_anew(self) -> None:
        """Say the next fault of each method again: the plugins are others now."""
        self._logged.clear()

    def take(self) -> list[str]:
        """Return the sentences for the log that have not been taken."""
        found: list[str] = []
        while self._unsaid:
            found.append(self._unsaid.popleft())
        return found


class Guarded:
    """One plugin that may do anything but return what it should not, or raise."""

    def __init__(self, name: str, plugin: SitePlugin, cluster: Cluster, faults: Faults) -> None:
        self.name = name
        self.plugin = plugin
        self.cluster = cluster
        self._faults = faults

    def has(self, method: str) -> bool:
        """Return whether the plugin has this method of its own."""
        return has_own(type(self.plugin), method)

    def ask(self, method: str, asked: Sequence[object], nodes: Nodes) -> tuple[NDArray[Any] | None, bool]:
        """Return the answer of a method, None for none, and whether the method has failed."""
        try:
            return checked(getattr(self.plugin, method)(*asked, nodes), method, len(nodes)), False
        except BaseException as error:  # noqa: BLE001 -- counted and logged; nothing else may come of it
            self._faults.note(self.name, method, error)
            return None, True

    def score(self, shape: ShapeRow, left: NDArray[np.int64], rows: NDArray[np.intp] | None) -> Scores:
        """Return the points of these rows; none if the plugin has nothing to say or fails."""
        points, _failed = self.ask("score", (shape.spec, shape.request), Rooms(self.cluster, rows, left))
        return _NO_POINTS if points is None else points


class SiteFilter(Filter):
    """What a plugin refuses."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded.cluster)
        self._guarded = guarded

    def _told(self, rows: Bools | None, *, failed: bool) -> dict[str, Bools]:
        name = self._guarded.name
        reason = f"that plugin {name} could not judge" if failed else f"refused by plugin {name}"
        return {} if rows is None else {reason: ~rows}

    def why_backed(self, task: Task, row: int, end: float) -> str:
        """Return why."""
        found = self.refused(task)
        return next((f"is one {reason}" for reason, rows in found.items() if rows[row]), "")


class SiteMask(SiteFilter):
    """What follows from the Node objects alone."""

    def __init__(self, guarded: Guarded) -> None:
        super().__init__(guarded)
        self._known: dict[tuple[PodSpec, Amounts], _KnownMask] = {}

    def key(self, spec: PodSpec, request: Amounts) -> Hashable:
        """Return all that the plugin is told; another plugin of this name, after a reload, has other keys."""
        return (self, spec, request)

    def part(self, spec: PodSpec, request: Amounts) -> Part | None:
        """Return the nodes that the plugin allows."""
        known = self._mask(spec, request)
        return Part(known.rows, lambda row: bool(known.rows()[row]))

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the others."""
        known = self._mask(task.pod.spec, task.pod.request)
        return self._told(known.rows(), failed=known.failed)

    def _mask(self, spec: PodSpec, request: Amounts) -> "_KnownMask":
        known = self._known.get((spec, request))
        if known is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[spec, request] = _KnownMask(self._guarded, spec, request)
        return known


class _KnownMask:
    """The answer for one kind of pod, until a Node changes."""

    def __init__(self, guarded: Guarded, spec: PodSpec, request: Amounts) -> None:
        self._guarded = guarded
        self._asked = (spec, request)
        self._at = (-1, -1)
        self._rows: Bools = np.zeros(0, np.bool_)
        self.failed = False

    def rows(self) -> Bools:
        """Return the nodes that are allowed."""
        columns = self._guarded.cluster.columns
        now = (columns.generation, columns.capacity)
        if self._at != now:
            found, self.failed = self._guarded.ask("mask", self._asked, Nodes(self._guarded.cluster))
            self._at = now
            self._rows = np.full(columns.capacity, not self.failed) if found is None else found
        return self._rows


class SiteRule(SiteFilter):
    """What is so as things stand."""

    def allowed(self, task: Task) -> Bools | None:
        """Return the nodes that the plugin allows; None if it is not about such pods."""
        return self._ask(task)[0]

    def ties(self, task: Task) -> bool:
        """Return whether the plugin is about such pods."""
        return self._ask(task)[0] is not None

    def kind(self, tasks: Sequence[Task]) -> Hashable:
        """Return nothing known, for such pods."""
        return None if self.ties(tasks[0]) else ()

    def refused(self, task: Task) -> Mapping[str, Bools]:
        """Return the nodes that the plugin refuses."""
        rows, failed = self._ask(task)
        return self._told(rows, failed=failed)

    def _ask(self, task: Task) -> tuple[Bools | None, bool]:
        keys, labelset = self._guarded.plugin.labels, task.entry.labelset
        labels = {key: value for key, value in labelset.labels if key in keys}
        pod = task.pod
        asked = Asking(namespace=pod.namespace, labels=labels, spec=pod.spec, request=pod.request)
        rows, failed = self._guarded.ask("allowed", (asked,), Rooms(self._cluster, labels=keys))
        return (np.zeros(self._columns.capacity, np.bool_) if failed else rows), failed


def site_filters(guarded: Guarded) -> list[SiteFilter]:
    """Return the filters that the plugin has."""
    found: list[SiteFilter] = [SiteMask(guarded)] if guarded.has("mask") else []
    return [*found, SiteRule(guarded)] if guarded.has("allowed") else found


def has_own(plugin: type[SitePlugin], method: str) -> bool:
    """Return whether a plugin has a method of its own."""
    return getattr(plugin, method) is not getattr(SitePlugin, method)


def checked(answer: object, method: str, places: int) -> NDArray[Any] | None:
    """Return a copy of an answer that can be used, None for none; NonsenseError says what is wrong with it."""
    if answer is None:
        return None
    wanted = "points, finite numbers" if method == "score" else "bool"
    expected = f"expected None or a numpy array of {places} {wanted}"
    if not isinstance(answer, np.ndarray):
        raise NonsenseError(f"the answer is of type {type(answer).__name__}; {expected}")
    if answer.dtype.kind not in ("fiu" if method == "score" else "b"):
        raise NonsenseError(f"the answer is an array of {answer.dtype}; {expected}")
    if answer.shape != (places,):
        raise NonsenseError(f"the answer is an array of shape {answer.shape}; {expected}")
    # A copy, and a plain array whatever kind of one it was.
    if method != "score":
        return np.array(answer, np.bool_)
    if not np.all(np.abs(np.array(answer)) <= MOST_POINTS):
        raise NonsenseError(f"a score is not a number, or beyond {MOST_POINTS:g}; {expected}")
    return np.array(answer, np.float32)
