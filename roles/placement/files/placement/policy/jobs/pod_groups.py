# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PodGroups of every dialect by what names them, and what a job has from its group."""

from dataclasses import dataclass

from placement.model.objects.workload import PodGroup, PriorityClass
from placement.policy.jobs.group_key import (
    FLUENCE_SIZE,
    GROUP_MIN_MEMBER,
    LOOKED_UP,
    QUEUE_NAMES,
    SOURCE_OF,
    GroupKey,
    value_of,
)
from placement.policy.jobs.job import Job, Problem
from placement.state.cluster import Cluster

# The API's own limit is that of an int32.
_MAX_MEMBERS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What holds for a job as a whole."""

    group: PodGroup | None
    min_member: int
    queue: str
    priority: int
    created: str
    problem: Problem | None


class GroupIndex:
    """The PodGroups that the cluster has."""

    def __init__(self, cluster: Cluster, default_queue: str) -> None:
        self._cluster = cluster
        self._default_queue = default_queue
        self._by_key: dict[GroupKey, dict[str, PodGroup]] = {}
        self._keys: dict[str, GroupKey] = {}
        # Where those are that cannot be read, by UID.
        self._odd: dict[str, tuple[str, str]] = {}

    def knows(self, uid: str) -> bool:
        """Whether the group has been read before."""
        return uid in self._keys

    def key(self, uid: str) -> GroupKey | None:
        """By which pods name the group."""
        return self._keys.get(uid)

    def changed(self, uid: str) -> list[GroupKey]:
        """Read a group again; return the keys of jobs that it concerns."""
        found = self._cluster.objects.get(PodGroup, {}).get(uid)
        old = self._keys.pop(uid, None)
        if old is not None:
            dialects = self._by_key[old]
            for dialect in [dialect for dialect, group in dialects.items() if group.uid == uid]:
                del dialects[dialect]
            if not dialects:
                del self._by_key[old]
        source = SOURCE_OF.get(found.dialect) if isinstance(found, PodGroup) else None
        odd = self._odd_keys(uid)
        if not isinstance(found, PodGroup) or source is None:
            return [old, *odd] if old else odd
        key = GroupKey(source, found.namespace, found.name)
        self._keys[uid] = key
        self._by_key.setdefault(key, {})[found.dialect] = found
        return [*dict.fromkeys((key, *([old] if old else ()), *odd))]

    def _odd_keys(self, uid: str) -> list[GroupKey]:
        """Whose jobs it concerns that the group cannot be read, or no more: of which dialect it is, is not known."""
        refusal, place = self._cluster.unreadable.get(PodGroup, {}).get(uid), self._odd.pop(uid, None)
        if refusal is not None:
            place = self._odd[uid] = refusal.namespace, refusal.name
        return [GroupKey(source, *place) for source in sorted(set(SOURCE_OF.values()))] if place else []

    def find(self, key: GroupKey) -> PodGroup | None:
        """Return the group that counts for pods that name it so."""
        dialects = self._by_key.get(key)
        if not dialects:
            return None
        return next((dialects[dialect] for dialect in LOOKED_UP[key.source] if dialect in dialects), None)

    def facts(self, job: Job) -> JobFacts:
        """Return what holds for the job."""
        group = self.find(job.key) if job.key.named else None
        tasks = job.tasks.values()
        annotations = next((task.pod.annotations for task in tasks if task.pod.annotations), ())
        queue = group.queue if group else ""
        for name in QUEUE_NAMES if annotations and not queue else ():
            queue = queue or value_of(annotations, name)
        highest = max((task.pod.spec.priority for task in tasks), default=0)
        first = min((task.pod.created for task in tasks), default="")
        problem: Problem | None = None
        priority = highest
        if group is not None and group.priority is not None:
            priority = group.priority
        elif group is not None and group.priority_class:
            found = self._class(group.priority_class)
            if found is None:
                problem = Problem(
                    "UnknownPriorityClass", f"spec.priorityClassName: there is no class {group.priority_class!r}"
                )
            priority = found.value if found is not None else 0
        members = group.min_member if group else 1
        if group is None and job.key.named:
            size, field = value_of(annotations, GROUP_MIN_MEMBER), f"annotation {GROUP_MIN_MEMBER}"
            if not size:
                sizes = (value_of(task.pod.labels, FLUENCE_SIZE) for task in tasks)
                size, field = next(filter(None, sizes), ""), f"label {FLUENCE_SIZE}"
            members, problem = self._unwritten(job, size, field)
        elif group is not None and not 1 <= members <= _MAX_MEMBERS:
            problem = Problem("InvalidGroup", f"{group.member_field}: {members} is not a number of pods from 1")
        if group is not None and group.unsupported and problem is None:
            problem = Problem("Unsupported", "; ".join(group.unsupported))
        if job.foreign:
            problem = Problem(
                "ForeignMembers", f"{job.foreign} pods of the group name another scheduler; a group needs one"
            )
        created = group.created if group is not None and group.created else first
        return JobFacts(group, max(1, members), queue or self._default_queue, priority, created, problem)

    def _unwritten(self, job: Job, members: str, field: str) -> tuple[int, Problem | None]:
        """Judge a group that no object describes: kube-batch takes its size from the pods."""
        refused = next(
            (
                refusal
                for refusal in self._cluster.unreadable.get(PodGroup, {}).values()
                if (refusal.namespace, refusal.name) == (job.key.namespace, job.key.name)
            ),
            None,
        )
        if refused is not None:
            return 1, Problem("InvalidGroup", str(refused))
        if not members:
            return 1, Problem("UnknownGroup", f"there is no PodGroup {job.key}")
        if not (members.isascii() and members.isdigit() and 1 <= int(members[:11]) <= _MAX_MEMBERS):
            return 1, Problem("InvalidGroup", f"{field}: {members[:80]!r} is not a number from 1")
        return int(members[:11]), None

    def preempts(self, group: PodGroup | None) -> bool:
        """Whether the group's class lets others be asked to leave for it."""
        if group is not None and not group.preempts:
            return False
        found = self._class(group.priority_class) if group is not None and group.priority_class else None
        return found is None or found.preempts

    def _class(self, name: str) -> PriorityClass | None:
        classes = self._cluster.objects.get(PriorityClass, {}).values()
        return next((item for item in classes if isinstance(item, PriorityClass) and item.name == name), None)
