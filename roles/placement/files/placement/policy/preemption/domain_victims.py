# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Victims for a gang that must be within one rack, or that asks for whole nodes: all of them in one domain.

Victims on nodes of several racks would free room that the gang cannot use. So each domain is asked what would have to
leave it, and the cheapest one is cleared.
"""

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

import numpy as np

from placement.graph.request import Selection
from placement.model.slicing import Steps
from placement.policy.framework.placers.domain_clearing import Int64s, Trial, Unit, Units
from placement.policy.framework.session import Session
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import ON_NODE, Task
from placement.policy.preemption.victims import Cost, VictimRules, priced

# What a look at a node costs, in pods looked at.
_LOOK: Final = 8


class DomainVictims(NamedTuple):
    """The victims of one domain, what they cost, and where the gang goes when they have left."""

    cost: Cost
    victims: tuple[Task, ...]
    found: Selection


def cheapest_domain(session: Session, trial: Trial, rules: VictimRules) -> Steps[DomainVictims | None]:
    """Return the victims of the cheapest domain of the best level that can be cleared; None where there is none.

    Nothing may change between two steps.
    """
    columns = session.cache.cluster.columns
    first = trial.wanted.parts[0][0]
    room = columns.all_future_free(first.priority)
    units = yield from _units(session, trial, rules)
    for domains in trial.levels():
        best: DomainVictims | None = None
        most: tuple[int, int] | None = None
        for domain in domains:
            if session.effort.is_due():
                yield
            cleared = yield from trial.clear(domain, units, room, most)
            if cleared is None:
                continue
            victims = list({task.uid: task for unit in cleared.units for task in unit.members}.values())
            price = priced(victims, rules)
            if price is not None and (best is None or price.cost < best.cost):
                best = DomainVictims(price.cost, price.victims, cleared.found)
                # A domain that is dearer by the first of its victims need not be looked at any further.
                most = max((unit.rank for unit in cleared.units), default=(-1, 0))
        if best is not None:
            return best
    return None


def _units(session: Session, trial: Trial, rules: VictimRules) -> Steps[Units[Task]]:
    """Return what may leave the rows of the trial: single pods, and whole gangs that cannot lose one more."""
    cache, columns = session.cache, session.cache.cluster.columns
    may: dict[Hashable, bool] = {}
    # How many members each gang can lose.
    spare: dict[GroupKey, int] = {}
    found: Units[Task] = Units()

    def allowed(task: Task) -> bool:
        if not rules.evictable(task):
            return False
        like = rules.like(task)
        if like not in may:
            may[like] = rules.alone(task)
        return may[like]

    for row in np.flatnonzero(trial.rows).tolist():
        node = columns.nodes[row]
        session.effort.spend(_LOOK)
        if session.effort.is_due():
            yield
        for entry in cache.cluster.pods.at_node(node.name) if node is not None else ():
            task = cache.jobs.tasks.get(entry.pod.uid)
            if task is None or not entry.charged or not allowed(task):
                continue
            job = None if task.is_archived else task.job
            if job is None or not job.ready >= job.min_member > 1:
                found.add(_unit(session, rules, (task,)))
                continue
            left = spare.get(job.key, job.ready - job.min_member)
            spare[job.key] = left - 1
            if left > 0:
                found.add(_unit(session, rules, (task,)))
            elif left == 0:
                members = tuple(member for member in job.tasks.values() if member.status in ON_NODE)
                if all(allowed(member) for member in members):
                    found.add(_unit(session, rules, members))
    return found


def _unit(session: Session, rules: VictimRules, members: tuple[Task, ...]) -> Unit[Task]:
    budgets = rules.budgets
    beyond = any(budgets.allowed(uid) <= 0 for task in members for uid in budgets.of(task))
    frees: dict[int, Int64s] = {}
    for row, amounts in _freed(session, members):
        frees[row] = frees[row] + amounts if row in frees else amounts
    return Unit(members, (int(beyond), max(task.priority for task in members)), frees)


def _freed(session: Session, members: tuple[Task, ...]) -> Iterator[tuple[int, Int64s]]:
    columns = session.cache.cluster.columns
    for task in members:
        row = task.entry.row
        if row >= 0 and task.entry.charged:
            yield row, columns.charged(row, task.pod.request).dense
