# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Victims that need not leave: what is found for later members of a gang can make earlier victims unnecessary.

A pod that stays takes room from one node and some queues, so only those are looked at again, and most are told by their
sums.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from placement.model.amounts.totals import Totals
from placement.model.slicing import Steps, paced
from placement.policy.framework.session import Session
from placement.policy.framework.statement import Statement
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Status, Task, wanted_by
from placement.policy.queues.queue import QueueInfo

# Victims of one unit that are reprieved in one step.
_AT_ONCE: Final = 128


class Reprieve:
    """Victims for some tasks of one queue, all of which have been promised room."""

    def __init__(
        self,
        session: Session,
        queue: QueueInfo,
        tasks: Sequence[Task],
        statement: Statement,
        agreed: Callable[[], bool],
    ) -> None:
        self._session = session
        self._statement = statement
        # What guarantees to others say of those that have been reprieved; nothing to ask where there are none.
        self._agreed = agreed if session.cache.tree.guarantees else None
        self._on_ports: dict[str, list[Task]] = {}
        # What is left, of what the tasks ask for, on each of their nodes and in each queue with a capability.
        self._at_node: dict[str, Totals] = {}
        wanted = wanted_by(tasks)
        self._in_queue: dict[QueueInfo, Totals] = {
            at: {
                name: limit - at.allocated.get(name, 0) for name, limit in at.capability.items() if wanted.get(name, 0)
            }
            for at in queue.path
        }
        columns = session.cache.cluster.columns
        for task in tasks:
            row = columns.rows[task.node]
            left = self._at_node.setdefault(task.node, {})
            room = columns.future_free(row, task.priority)
            for index in np.flatnonzero(columns.axis.request(task.pod.request).dense).tolist():
                left[columns.axis.names[index]] = int(room[index])
            if session.feasibility.exclusive(task.pod.spec):
                self._on_ports.setdefault(task.node, []).append(task)

    def kept(self, evicted: Sequence[Task]) -> Steps[list[Task]]:
        """Return those that have to leave; the dearest are reprieved first, a broken gang whole or not at all.

        Yields after each unit.
        """
        units: dict[GroupKey | str, list[Task]] = {}
        for victim in evicted:
            whole = victim.job.min_member > 1 and victim.job.ready < victim.job.min_member
            units.setdefault(victim.job.key if whole else victim.uid, []).append(victim)
        kept: list[Task] = []
        sound = all(amount >= 0 for left in self._at_node.values() for amount in left.values())
        sound = sound and self._ports_free(self._on_ports)
        for unit in sorted(units.values(), key=lambda unit: (-unit[0].job.priority, -len(unit))):
            if not sound or not (yield from self._reprieved(unit)):
                kept += unit
            yield
        return kept

    def _reprieved(self, unit: Sequence[Task]) -> Steps[bool]:
        enough = True
        for left, name, amount in self._taken(unit):
            left[name] -= amount
            enough = enough and left[name] >= 0
        if enough and (yield from self._stay(unit)):
            return True
        for left, name, amount in self._taken(unit):
            left[name] += amount
        return False

    def _taken(self, unit: Sequence[Task]) -> Iterator[tuple[Totals, str, int]]:
        """Yield what is left somewhere, and what of it the unit takes by staying."""
        tree = self._session.cache.tree
        for victim in unit:
            queue = tree.by_name.get(victim.queue)
            places = [self._in_queue.get(at) for at in (queue.path if queue is not None else ())]
            for left in (self._at_node.get(victim.node), *places):
                for name, amount in victim.amounts if left else ():
                    if left and name in left:
                        yield left, name, amount

    def _stay(self, unit: Sequence[Task]) -> Steps[bool]:
        """Let the unit stay, unless a plugin that has to be asked refuses it; return whether it stays."""
        mark = self._statement.savepoint()
        nodes = {victim.node for victim in unit}
        for victim, pause in paced(unit, _AT_ONCE):
            self._statement.unevict(victim, Status.RUNNING if victim.pod.phase == "Running" else Status.BOUND)
            if pause:
                yield
        if self._ports_free(nodes) and (self._agreed is None or self._agreed()):
            return True
        yield from self._statement.rollback_to(mark)
        return False

    def _ports_free(self, nodes: Iterable[str]) -> bool:
        tasks = (task for node in nodes for task in self._on_ports.get(node, ()))
        return all(self._session.feasibility.has_room(task, leaving=True) for task in tasks)
