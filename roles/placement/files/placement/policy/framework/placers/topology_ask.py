# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tasks of a job ask of the graph: their group's wish, those of their sub-groups, and where other members are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from placement.graph.request import MOST_PARTS, Part, Request, RequestError
from placement.graph.topology import CLUSTER, NODE, Topology
from placement.model.rules.topology import TopologyRequest
from placement.policy.jobs.job import COUNTS_IN_SHARE, Job, Task, alike

_NO_WISH: Final = TopologyRequest()


class UnservedError(ValueError):
    """A wish that the tree cannot serve; the message names the field, what was found and what is expected."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to the graph, and what its parts are."""

    request: Request
    # The tasks of each part, and the names of their sub-groups.
    parts: tuple[tuple[Task, ...], ...]
    sub_groups: tuple[str, ...]
    # Members that have a node already.
    there: tuple[Task, ...]

    def there_of(self, index: int) -> list[Task]:
        """Return the members of the part's sub-group that have a node already."""
        return [task for task in self.there if _sub_group(task) == self.sub_groups[index]]


def ask(
    tasks: Sequence[Task], topology: Topology, *, ignored: int | None, queue_policy: str, most: Sequence[int]
) -> Ask:
    """Return what tasks of one job ask; `most` says of each part how many may be on one node, 0 for as many as fit.

    UnservedError names a field of the group or of its pods, RequestError a limit of the graph.
    """
    job, parts = tasks[0].job, parts_of(tasks)
    firsts = [part[0] for part in parts]
    wishes = [first.pod.spec.topology or _NO_WISH for first in firsts]
    sub_groups = tuple(_sub_group(first) for first in firsts)
    group = job.group.topology if job.group is not None else None
    if group is None and len(set(wishes)) == 1 and wishes[0] is not _NO_WISH:
        # What all pods ask alike is asked of the gang.
        group, wishes = wishes[0], [_NO_WISH] * len(wishes)
    if group is not None:
        within, required = levels_of(group, topology)
    else:
        apart = any(wish is not _NO_WISH for wish in wishes)
        within, required = (() if apart else tuple(reversed(topology.levels))), False
    every = (group or _NO_WISH, *wishes)
    made: list[Part] = []
    for part, wish, name, limit in zip(parts, wishes, sub_groups, most, strict=True):
        levels, needed = levels_of(wish, topology) if wish is not _NO_WISH else ((), False)
        if levels and sub_groups.count(name) > 1:
            raise UnservedError(
                f"{wish.field}: found sub-group {name!r} with pods of several kinds, expected equal pods"
            )
        per_node = wish.per_node or (group.per_node if group is not None else 0)
        even = wish.even or (group is not None and group.even and not per_node)
        made.append(
            Part(
                count=len(part),
                request=part[0].pod.request,
                name=name,
                most=limit,
                per_node=per_node,
                even=even,
                within=levels,
                required=needed,
            )
        )
    request = Request(
        parts=tuple(made),
        within=within,
        required=required,
        exclusive=any(wish.exclusive for wish in every),
        policy=next((wish.policy for wish in every if wish.policy), queue_policy or "first"),
        ignored=ignored,
    )
    return Ask(request, parts, sub_groups, tuple(_there(job, tasks)))


def parts_of(tasks: Sequence[Task]) -> tuple[tuple[Task, ...], ...]:
    """Return the tasks by what they are: those of a part are alike; RequestError if there are too many kinds."""
    found: list[list[Task]] = []
    for task in tasks:
        # Members that are alike mostly follow each other.
        part = next((part for part in reversed(found) if alike(part[0], task)), None)
        if part is not None:
            part.append(task)
            continue
        found.append([task])
        if len(found) > MOST_PARTS:
            raise RequestError(f"more than {MOST_PARTS} kinds of pods, expected at most {MOST_PARTS}")
    return tuple(tuple(part) for part in found)


def levels_of(wish: TopologyRequest, topology: Topology) -> tuple[tuple[str, ...], bool]:
    """Return the levels of a wish, the innermost first, and whether one of them is needed."""
    if wish.tier:
        if wish.tier_required and not topology.levels:
            raise UnservedError(f"{wish.field}: found {wish.tier}, expected nothing: the settings name no levels")
        # A tier above all levels is the whole cluster.
        return tuple(reversed(topology.levels))[: wish.tier], wish.tier_required and wish.tier <= len(topology.levels)
    required, preferred = _named(wish, wish.required, topology), _named(wish, wish.preferred, topology)
    if required and preferred:
        outermost = min(map(topology.depth, required))
        beyond = [level for level in preferred if topology.depth(level) < outermost]
        if beyond:
            raise UnservedError(
                f"{wish.field}: found {beyond[0]!r} as preferred, expected a level below the required one"
            )
    levels = sorted({*required, *preferred}, key=topology.depth, reverse=True)
    return tuple(levels), bool(required)


def _named(wish: TopologyRequest, names: Iterable[str], topology: Topology) -> list[str]:
    found: list[str] = []
    for name in names:
        level = topology.level_of(name)
        if level is None:
            known = ", ".join((CLUSTER, *topology.levels, NODE))
            raise UnservedError(
                f"{wish.field}: found {name[:80]!r}, expected one of the levels {known}, or a label of one"
            )
        found.append(level)
    return found


def _sub_group(task: Task) -> str:
    wish = task.pod.spec.topology
    return wish.sub_group if wish is not None else ""


def _there(job: Job, tasks: Sequence[Task]) -> Iterable[Task]:
    if not any(job.counts[status] for status in COUNTS_IN_SHARE):
        return ()
    asking = {task.uid for task in tasks}
    return (
        task
        for task in job.tasks.values()
        if task.status in COUNTS_IN_SHARE and task.entry.row >= 0 and task.uid not in asking
    )
