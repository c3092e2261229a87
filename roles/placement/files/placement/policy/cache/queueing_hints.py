# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which unschedulable jobs an event can help, as kube-scheduler's queueing hints say.

Every unschedulable job is tried again when there may be more room. Other events are frequent, and each helps few jobs:

- a placed pod helps the jobs that count it in their affinity or hard topology spread;
- a claim helps the jobs that name it;
- other storage objects help the jobs with volumes;
- labels of namespaces help the jobs with a rule that reads them.

No job waits for what its pods merely prefer.
"""

from collections.abc import Iterable, Iterator
from typing import Final

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
from placement.policy.jobs.group_key import GroupKey
from placement.policy.jobs.job import Job, Task
from placement.state.affinity.labelsets import LabelSet, LabelSets, Rule
from placement.state.affinity.matchers import MatcherIndex

# Objects that say which nodes reach a volume; an event of a claim helps fewer jobs.
VOLUME_KINDS: Final[frozenset[type[Object]]] = frozenset(
    {PersistentVolume, StorageClass, CSINode, CSIDriver, StorageCapacity}
)

Waiting = dict[GroupKey, Job]


class Hints:
    """Find unschedulable jobs by what they wait for besides room."""

    def __init__(self, labelsets: LabelSets) -> None:
        self._labelsets = labelsets
        # Rules and claims of each job, so that it can be forgotten.
        self._wishes: dict[GroupKey, tuple[tuple[Rule, ...], tuple[tuple[str, str], ...]]] = {}
        self._company: dict[Rule, Waiting] = {}
        self._rules: MatcherIndex[Rule] = MatcherIndex()
        self._claims: dict[tuple[str, str], Waiting] = {}
        self._volumes: Waiting = {}
        self._namespaces: Waiting = {}
        # Unschedulable jobs that an event may have helped, in the order of the events.
        self.woken: Waiting = {}

    def __bool__(self) -> bool:
        return bool(self._wishes)

    def note(self, job: Job, tried: Iterable[Task]) -> None:
        """Keep what the tried tasks of an unschedulable job wait for."""
        self.forget(job.key)
        rules: dict[Rule, None] = {}
        claims: dict[tuple[str, str], None] = {}
        namespaces, last = False, None
        for task in tried:
            pod = task.pod
            if pod.volume_claims:
                claims.update(((pod.namespace, name), None) for name in pod.volume_claims)
            # Equal pods follow each other and mostly share one spec.
            if pod.spec is not last:
                last = pod.spec
                rules.update((rule, None) for rule in company_of(last))
                namespaces = namespaces or self._reads_namespaces(task)
        if not (rules or claims or namespaces):
            return
        self._wishes[job.key] = tuple(rules), tuple(claims)
        for rule in rules:
            if rule not in self._company:
                self._rules.add(rule[0], rule)
            self._company.setdefault(rule, {})[job.key] = job
        for claim in claims:
            self._claims.setdefault(claim, {})[job.key] = job
        if claims:
            self._volumes[job.key] = job
        if namespaces:
            self._namespaces[job.key] = job

    def _reads_namespaces(self, task: Task) -> bool:
        spec, repelling = task.pod.spec, self._labelsets.repelling(task.entry.labelset)
        if not (spec.affinity or spec.anti_affinity or repelling):
            return False
        own = [term.matcher for term in (*spec.affinity, *spec.anti_affinity)]
        others = (anti.term.matcher for anti in repelling)
        return any(matcher.namespace_selector is not None for matcher in (*own, *others))

    def forget(self, key: GroupKey) -> None:
        """Drop the job; it is not unschedulable any more."""
        # Hashing a key is expensive, and mostly no job waits for anything besides room.
        if not self._wishes or key not in self._wishes:
            return
        self.woken.pop(key, None)
        rules, claims = self._wishes.pop(key)
        for rule in rules:
            company = self._company.get(rule)
            if company is not None and company.pop(key, None) is not None and not company:
                self._disband(rule)
        for claim in claims:
            waiting = self._claims[claim]
            del waiting[key]
            if not waiting:
                del self._claims[claim]
        self._volumes.pop(key, None)
        self._namespaces.pop(key, None)

    def pod_placed(self, labelset: LabelSet) -> None:
        """Wake the jobs with rules that count a pod of this label set."""
        if not self._company:
            return
        candidates = self._rules.candidates(labelset.namespace, labelset.labels)
        for rule in [rule for rule in candidates if self._labelsets.matches(rule, labelset)]:
            self.woken.update(self._company[rule])
            # The jobs are noted again if they fail again.
            self._disband(rule)

    def claims_changed(self, claims: Iterable[Object]) -> None:
        """Wake the jobs that name one of these claims."""
        for claim in claims:
            if isinstance(claim, PersistentVolumeClaim):
                self.woken.update(self._claims.get(claim.key, {}))

    def volumes_changed(self) -> None:
        """Wake the jobs with volumes: other nodes may reach them now."""
        self.woken.update(self._volumes)

    def namespaces_changed(self) -> None:
        """Wake the jobs that are subject to a rule which selects namespaces by their labels."""
        self.woken.update(self._namespaces)

    def _disband(self, rule: Rule) -> None:
        del self._company[rule]
        self._rules.discard(rule[0], rule)


def company_of(spec: PodSpec) -> Iterator[Rule]:
    """Yield the rules that let such a pod in where pods which they match are placed."""
    if spec.affinity:
        yield tuple(term.matcher for term in spec.affinity)
    for constraint in spec.spread:
        # A pod in the emptiest domain lets others into the fuller ones.
        if constraint.hard:
            yield (constraint.matcher,)
