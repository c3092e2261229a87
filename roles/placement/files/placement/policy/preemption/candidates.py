# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where room can be made for a pod: the cheapest victims over all nodes.

Nodes are searched one after another, in slices, and what was found is kept with the row. Few nodes have changed when
the next preemptor of the same kind is served. What was found long ago is looked at again before it is used, so it may
have become dearer. Whatever can make a node cheaper has to bring it up again.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np

from placement.model.amounts.totals import Totals
from placement.model.slicing import Steps
from placement.policy.framework.session import Session
from placement.policy.jobs.job import Status, Task
from placement.policy.preemption.victims import NO_VICTIMS, Cost, VictimRules, VictimSearch, VictimSet, classes, priced

# What a look at a node costs that has no pods.
_LOOK: Final = 8
# A search that is longer than this is time for what has come.
_LONG: Final = 256
# So many void entries may be in the heap of a search that has few others.
_VOID: Final = 1024
_EVICTABLE: Final = (Status.BOUND, Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node and the victims on it."""

    row: int
    node: str
    found: VictimSet


class CandidateFinder:
    """Find candidates for preemptors of one kind, cheapest first."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Which pods may be victims. The rules refer to the preemptor, so they are dropped after the search.
        self.rules: VictimRules | None = None
        self._columns = session.cache.cluster.columns
        self._effort = session.effort
        self._heap: list[tuple[Cost, int]] = []
        # The cost of each row as it was last found; entries of the heap with another cost are void.
        self._costs: dict[int, Cost] = {}
        # How far the changes of rooms and the confirmed bindings have been followed; None to search all nodes.
        self._seen: tuple[int, int] | None = None
        # The plugins and the version of evictability that the last search went by; others make all costs void.
        self._searched_by: Hashable = None
        # Budgets that are short on some of the rows: what they allowed then, and the rows.
        self._short: dict[str, tuple[int, set[int]]] = {}
        # What was found out while nothing changed: of kinds of pods, whether they may leave, and of nodes with so many
        # of each kind, how many of each kind leave. Most nodes are like another.
        self._valid: tuple[int, int] = (-1, -1)
        self._may: dict[Hashable, bool] = {}
        self._numbers: dict[Hashable, tuple[int, ...] | None] = {}

    @property
    def _required_rules(self) -> VictimRules:
        if self.rules is None:
            raise RuntimeError("a search needs the rules of its preemptor")
        return self.rules

    def refresh(self, preemptor: Task) -> Steps[None]:
        """Search the nodes that have changed, all of them at first, in steps."""
        session = self._session
        columns, confirmed = self._columns, session.cache.confirmed
        # None of either where that is too long ago.
        news = [] if self._seen is None else [columns.changed_since(self._seen[0]), confirmed.since(self._seen[1])]
        changed = [rows.tolist() for rows in news if rows is not None]
        searched_by = (session.plugins, session.cache.versions.evictability)
        usable = session.feasibility.usable(preemptor)
        if len(changed) < 2 or searched_by != self._searched_by:
            self._heap.clear()
            self._costs.clear()
            self._short.clear()
            rows = np.flatnonzero(usable).tolist()
        else:
            rows = sorted(row for row in {*changed[0], *changed[1], *self._relieved()} if usable[row])
        # A search that is given up has to begin again.
        self._seen, self._searched_by, seen = None, searched_by, (columns.changes, confirmed.count)
        for row in rows:
            found = yield from self._look(preemptor, row)
            if found is not None:
                self._put(row, found.cost)
        self._seen = seen
        if len(self._heap) > 2 * len(self._costs) + _VOID:
            self._heap = [(cost, row) for row, cost in self._costs.items()]
            heapify(self._heap)

    def _put(self, row: int, cost: Cost) -> None:
        if self._costs.get(row) != cost:
            self._costs[row] = cost
            heappush(self._heap, (cost, row))

    def _relieved(self) -> Iterator[int]:
        """Rows on which a budget was short that allows more by now."""
        for uid, (allowed, rows) in list(self._short.items()):
            if self._required_rules.budgets.allowed(uid) > allowed:
                del self._short[uid]
                yield from rows

    def best(self, preemptor: Task) -> Steps[Candidate | None]:
        """Return the cheapest candidate, in steps; the state must stay as it is until then."""
        yield from self.refresh(preemptor)
        usable = self._session.feasibility.usable(preemptor)
        allowed = self._session.feasibility.allowed(preemptor)
        aside: list[tuple[Cost, int]] = []
        cheapest: Candidate | None = None
        while self._heap and cheapest is None:
            place = heappop(self._heap)
            cost, row = place
            if self._costs.get(row) != cost:
                continue
            node = self._columns.nodes[row]
            if node is None or not usable[row]:
                del self._costs[row]
                continue
            if allowed is not None and not allowed[row]:
                aside.append(place)
                continue
            found = yield from self._look(preemptor, row)
            del self._costs[row]
            if found is None:
                continue
            if found.cost > cost:
                self._put(row, found.cost)
                continue
            aside.append((found.cost, row))
            cheapest = Candidate(row, node.name, found)
        for cost, row in aside:
            self._costs.pop(row, None)
            self._put(row, cost)
        return cheapest

    def _look(self, preemptor: Task, row: int) -> Steps[VictimSet | None]:
        """Return the victims on this node; None if the preemptor cannot have it at all."""
        self._effort.spend(_LOOK)
        if self._effort.is_due():
            yield
        cache, node = self._session.cache, self._columns.nodes[row]
        feasibility = self._session.feasibility
        needed = feasibility.lacking(preemptor, row)
        if node is None or needed is None:
            return None
        clashing = feasibility.taken(preemptor.pod.spec, row)
        if not needed and not clashing:
            return NO_VICTIMS
        self._forget_old()
        candidates: list[tuple[Hashable, Task]] = []
        forced: list[Task] = []
        hits: dict[str, int] = {}
        budgets = self._required_rules.budgets
        for entry in cache.cluster.pods.at_node(node.name):
            task = cache.jobs.tasks.get(entry.pod.uid)
            like = self._like(task) if task is not None else None
            blocks = clashing and feasibility.excludes(preemptor.pod, entry.pod)
            if blocks and not entry.leaving and entry.charged:
                if task is None or like is None:
                    return None
                forced.append(task)
            elif task is not None and like is not None:
                candidates.append((like, task))
            if like is not None and task is not None:
                for uid in budgets.of(task):
                    hits[uid] = hits.get(uid, 0) + 1
        # A budget that allows all of the node's pods to leave tells none of them from another.
        short = {uid for uid, number in hits.items() if number > budgets.allowed(uid)}
        if short:
            self._note_short(short, row)
            candidates = [
                ((like, *(uid for uid in budgets.of(task) if uid in short)), task) for like, task in candidates
            ]
        self._effort.spend(len(candidates))
        return (yield from self._search(candidates, needed, forced))

    def _note_short(self, budgets: Iterable[str], row: int) -> None:
        for uid in budgets:
            known = self._short.get(uid)
            if known is None:
                known = self._short[uid] = (self._required_rules.budgets.allowed(uid), set())
            known[1].add(row)

    def _forget_old(self) -> None:
        now = (self._session.slice, self._columns.changes)
        if self._valid != now:
            self._valid = now
            self._may.clear()
            self._numbers.clear()

    def _like(self, task: Task) -> Hashable | None:
        """Return the kind of a pod that may be evicted; None if it may not."""
        if not self._required_rules.evictable(task):
            return None
        like = self._required_rules.like(task)
        may = self._may.get(like)
        if may is None:
            may = self._may[like] = self._required_rules.alone(task)
        return like if may else None

    def _search(
        self, candidates: list[tuple[Hashable, Task]], needed: Totals, forced: list[Task]
    ) -> Steps[VictimSet | None]:
        found = classes(candidates)
        members = [tasks for _unused, tasks in found]
        kind = (tuple(needed.items()), tuple((like, len(tasks)) for like, tasks in found))
        if forced or kind not in self._numbers:
            search = VictimSearch(self._required_rules, members, needed, forced, self._effort)
            best = yield from self._undisturbed(search)
            if not forced:
                self._numbers[kind] = search.numbers if best else None
            return best
        numbers = self._numbers[kind]
        if numbers is None:
            return None
        chosen = [task for tasks, number in zip(members, numbers, strict=False) for task in tasks[:number]]
        return priced(chosen, self._required_rules)

    def _undisturbed(self, search: VictimSearch) -> Steps[VictimSet | None]:
        """Search a node while what is known of it stays as it is."""
        cache = self._session.cache
        before, cache.in_transaction = cache.in_transaction, True
        try:
            found = yield from search.run()
        finally:
            cache.in_transaction = before
        if search.steps > _LONG:
            # What has come in the meantime need not wait for the others.
            yield
        return found


def evictable(session: Session, task: Task) -> bool:
    """Whether a task could be asked to leave at all."""
    pod = task.pod
    return (
        task.status in _EVICTABLE
        and not pod.mirror
        and not pod.daemon
        and task.uid not in session.unevictable
        and not session.plugins.spares(task)
    )
