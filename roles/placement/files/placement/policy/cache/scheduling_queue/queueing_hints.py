# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which unschedulable jobs an event can help, as kube-scheduler's queueing hints say.

Every unschedulable job is tried again when there may be more room on many nodes. Other events are frequent, and each
helps few jobs:

- a placed pod helps the jobs that count it in their affinity or hard topology spread;
- a pod that leaves helps the jobs with a tried pod that has room on that node now;
- it also helps the jobs that count it in a rule, that its own rule keeps away, or that name one of its claims;
- a pod of ours that leaves helps the jobs that a limit of its queue, or of one above that, keeps away;
- a claim helps the jobs that name it;
- other storage objects help the jobs with volumes;
- labels of namespaces help the jobs with a rule that reads them.

No job waits for what its pods merely prefer.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from placement.model.amounts.quantity import Amounts
from placement.model.messages.event import Object
from placement.model.objects.pod import PodSpec
from placement.model.objects.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
)
from placement.model.rules.affinity import PodAffinityTerm
from placement.policy.cache.scheduling_queue.lazy_heap import LazyHeap
from placement.policy.cache.scheduling_queue.request_index import RequestIndex
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task
from placement.state.affinity.labelsets import LabelSet, LabelSets, Rule
from placement.state.affinity.matchers import MatcherIndex
from placement.state.nodes.node_columns import NodeColumns
from placement.state.nodes.vectors import ResourceAxis
from placement.state.pods.pod_table import Departure

# Objects that say which nodes reach a volume; an event of a claim helps fewer jobs.
VOLUME_KINDS: Final[frozenset[type[Object]]] = frozenset(
    {PersistentVolume, StorageClass, CSINode, CSIDriver, StorageCapacity}
)

Waiting = dict[GroupKey, Job]
Interest = TypeVar("Interest", bound=Hashable)


class Interests(NamedTuple):
    """What one job waits for, so that it can be forgotten."""

    requests: tuple[Amounts, ...]
    rules: tuple[Rule, ...]
    anti_affinity: tuple[Rule, ...]
    repelling: tuple[PodAffinityTerm, ...]
    claims: tuple[tuple[str, str], ...]
    limits: tuple[str, ...]
    # What was noted before, for other members of the same job.
    before: "Interests | None"


class Hints:
    """Find unschedulable jobs by what they wait for."""

    def __init__(self, labelsets: LabelSets, axis: ResourceAxis) -> None:
        self._labelsets = labelsets
        self._interests: dict[GroupKey, Interests] = {}
        # By what their pods request; and those that room on any node may help, whatever they request.
        self._rooms: dict[Amounts, Waiting] = {}
        self._requests = RequestIndex(axis)  # the same requests
        self._anywhere: Waiting = {}
        self._affinity: dict[Rule, Waiting] = {}
        self._rules: MatcherIndex[Rule] = MatcherIndex()
        # By the pods that they must not be near, and by the rules of other pods that keep them away.
        self._anti_affinity: dict[Rule, Waiting] = {}
        self._anti_affinity_rules: MatcherIndex[Rule] = MatcherIndex()
        self._existing_anti_affinity: dict[PodAffinityTerm, Waiting] = {}
        self._claims: dict[tuple[str, str], Waiting] = {}
        self._volumes: Waiting = {}
        self._namespaces: Waiting = {}
        # By the queues whose limits may keep them away.
        self._limited: dict[str, Waiting] = {}
        # Unschedulable jobs that an event may have helped, and the first of them in the order of the queue.
        self.woken: Waiting = {}
        self.first_woken = LazyHeap(self.woken)

    def note(self, job: Job, tried: Iterable[Task], *, anywhere: bool, limits: tuple[str, ...] = ()) -> None:
        """Keep what the tried tasks of an unschedulable job wait for; `anywhere` if all room may help it.

        The limits are names of queues of which each may keep the job away. What is known of the job is kept if its
        members are tried a few kinds at a time.
        """
        key = job.key
        if job.untried is None:
            self.forget(key)
        self.woken.pop(key, None)
        job.has_hints = True
        requests: dict[Amounts, None] = {}
        rules: dict[Rule, None] = {}
        anti_affinity: dict[Rule, None] = {}
        repelling: dict[PodAffinityTerm, None] = {}
        claims: dict[tuple[str, str], None] = {}
        namespaces, last, like, asked = False, None, None, None
        for task in tried:
            pod = task.pod
            if pod.volume_claims:
                claims.update(((pod.namespace, name), None) for name in pod.volume_claims)
            # Equal pods follow each other and mostly share one spec.
            if pod.request is not asked:
                asked = pod.request
                requests[asked] = None
            if pod.spec is not last or task.entry.labelset is not like:
                last, like = pod.spec, task.entry.labelset
                rules.update((rule, None) for rule in company_of(last))
                anti_affinity.update(((term.matcher,), None) for term in last.anti_affinity)
                repelling.update((anti.term, None) for anti in self._labelsets.repelling(like))
                namespaces = namespaces or self._reads_namespaces(task)
        for name in limits:
            self._limited.setdefault(name, {})[key] = job
        if anywhere or not (requests or limits):
            self._anywhere[key] = job
        else:
            for request in requests:
                if request not in self._rooms:
                    self._requests.add(request)
                self._rooms.setdefault(request, {})[key] = job
        self._interests[key] = Interests(
            tuple(requests),
            tuple(rules),
            tuple(anti_affinity),
            tuple(repelling),
            tuple(claims),
            limits,
            self._interests.get(key),
        )
        _enlist(self._affinity, self._rules, rules, job)
        _enlist(self._anti_affinity, self._anti_affinity_rules, anti_affinity, job)
        for term in repelling:
            self._existing_anti_affinity.setdefault(term, {})[key] = job
        for claim in claims:
            self._claims.setdefault(claim, {})[key] = job
        if claims:
            self._volumes[key] = job
        if namespaces:
            self._namespaces[key] = job

    def limited_by(self, queues: Iterable[str]) -> Iterator[list[Job]]:
        """Yield the jobs that the limits of these queues may have kept away."""
        for name in queues:
            # The jobs are noted again if they fail again.
            yield list(self._limited.pop(name, {}).values())

    def _reads_namespaces(self, task: Task) -> bool:
        spec, repelling = task.pod.spec, self._labelsets.repelling(task.entry.labelset)
        if not (spec.affinity or spec.anti_affinity or repelling):
            return False
        own = [term.matcher for term in (*spec.affinity, *spec.anti_affinity)]
        others = (anti.term.matcher for anti in repelling)
        return any(matcher.namespace_selector is not None for matcher in (*own, *others))

    def forget(self, key: GroupKey) -> None:
        """Drop the job; it is not unschedulable any more."""
        interests = self._interests.pop(key, None)
        if interests is None:
            return
        self.woken.pop(key, None)
        for waiting in (self._anywhere, self._volumes, self._namespaces):
            waiting.pop(key, None)
        # Jobs that have been helped are not among these any more.
        while interests is not None:
            for request in interests.requests:
                if _leave(self._rooms, request, key):
                    self._requests.discard(request)
            for rule in interests.rules:
                if _leave(self._affinity, rule, key):
                    self._rules.discard(rule[0], rule)
            for rule in interests.anti_affinity:
                if _leave(self._anti_affinity, rule, key):
                    self._anti_affinity_rules.discard(rule[0], rule)
            for term in interests.repelling:
                _leave(self._existing_anti_affinity, term, key)
            for claim in interests.claims:
                _leave(self._claims, claim, key)
            for name in interests.limits:
                _leave(self._limited, name, key)
            interests = interests.before

    def pod_placed(self, labelset: LabelSet) -> None:
        """Wake the jobs with rules that count a pod of this label set."""
        self._wake(self._affinity, self._rules, labelset)

    def pod_left(self, left: Departure) -> None:
        """Wake the jobs with a rule or a claim that kept them away because of a pod that has left its node.

        `helped_by` finds the jobs that need the pod's room. A job with required affinity is woken too, because a pod
        that matches its own affinity may begin where no other is left. A spread is less uneven now.
        """
        self._wake(self._affinity, self._rules, left.labelset)
        self._wake(self._anti_affinity, self._anti_affinity_rules, left.labelset)
        for term in left.pod.spec.anti_affinity:
            self._add_woken(self._existing_anti_affinity.get(term, {}))
        if left.frees_volumes:
            self.volumes_changed()
        for name in left.pod.volume_claims:
            self._add_woken(self._claims.get((left.pod.namespace, name), {}))

    def helped_by(self, columns: NodeColumns, rows: Sequence[int]) -> Iterator[list[Job]]:
        """Yield jobs of which a tried pod has room on one of these rows, and those that any room may help.

        Room on a row is the least that a job needs there. Other rules that keep it from the row are not looked at.
        """
        # The jobs are noted again if they fail again.
        anywhere, self._anywhere = self._anywhere, {}
        yield list(anywhere.values())
        for requests in self._requests.fitting(columns.free[:, rows]):
            # A comparison is work too, after which the caller may pause.
            yield []
            for request in requests:
                self._requests.discard(request)
                yield list(self._rooms.pop(request).values())

    def _wake(self, waiting: dict[Rule, Waiting], index: MatcherIndex[Rule], labelset: LabelSet) -> None:
        """Wake the jobs of the rules that are about pods of this label set."""
        if not waiting:
            return
        candidates = index.candidates(labelset.namespace, labelset.labels)
        for rule in [rule for rule in candidates if self._labelsets.matches(rule, labelset)]:
            # The jobs are noted again if they fail again.
            self._add_woken(waiting.pop(rule))
            index.discard(rule[0], rule)

    def wake(self, job: Job) -> None:
        """Have an unschedulable job tried again, in its turn among those that events have woken."""
        if job.key not in self.woken:
            # A job that something else pushes meanwhile must not be parked again: its place here would be stale.
            job.unschedulable_at = -1
            self.woken[job.key] = job
            self.first_woken.add(job)

    def forget_orders(self) -> None:
        """Drop the order of the woken jobs: the keys of other plugins cannot be compared with theirs."""
        self.first_woken = LazyHeap(self.woken)

    def _add_woken(self, jobs: Waiting) -> None:
        for job in jobs.values():
            job.stirred = True
            self.wake(job)

    def claims_changed(self, claims: Iterable[Object]) -> None:
        """Wake the jobs that name one of these claims."""
        for claim in claims:
            if isinstance(claim, PersistentVolumeClaim):
                self._add_woken(self._claims.get(claim.key, {}))

    def volumes_changed(self) -> None:
        """Wake the jobs with volumes: other nodes may reach them now."""
        self._add_woken(self._volumes)

    def namespaces_changed(self) -> None:
        """Wake the jobs that are subject to a rule which selects namespaces by their labels."""
        self._add_woken(self._namespaces)


def _enlist(waiting: dict[Rule, Waiting], index: MatcherIndex[Rule], rules: Iterable[Rule], job: Job) -> None:
    for rule in rules:
        if rule not in waiting:
            index.add(rule[0], rule)
        waiting.setdefault(rule, {})[job.key] = job


def _leave(waiting: dict[Interest, Waiting], interest: Interest, key: GroupKey) -> bool:
    """Drop the job from those with this interest; return whether it was the last of them."""
    jobs = waiting.get(interest)
    if jobs is None or jobs.pop(key, None) is None or jobs:
        return False
    del waiting[interest]
    return True


def company_of(spec: PodSpec) -> Iterator[Rule]:
    """Yield the rules that let such a pod in where pods which they match are placed."""
    if spec.affinity:
        yield tuple(term.matcher for term in spec.affinity)
    for constraint in spec.spread:
        # A pod in the emptiest domain lets others into the fuller ones.
        if constraint.hard:
            yield (constraint.matcher,)
