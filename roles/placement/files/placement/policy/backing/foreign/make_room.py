# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clearing: pods in the way of a job that begins are asked to leave as soon as the batch system has chosen its nodes.

The node's own program asks them, too, when the job begins there. But a job's other hosts begin after its first, and
jobs of one host one after the other. So pods that are asked on all of them at once have left when their turn comes.
Both programs choose by `shared/victims`. No more pods are chosen than the job's part of the node needs for certain.
What a node alone knows of a job or of a pod, the node alone acts upon. But pods that have a job there themselves come
last of all: the batch system has counted them, and gives the job what others have.

What a job takes from pods goes by the node's fence. With a fixed split that is no core, unless it is there alone; and
where no label says which fence there is, all is left to the node.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from placement.model.amounts.quantity import CPU, MEMORY, PODS
from placement.model.batch import BatchJob, ForeignRun, HostShare
from placement.model.messages.action import Evict
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement.model.slicing import Steps, finish, paced
from placement.policy.backing.node_fit import SHARE_FENCE_LABEL, SHARE_MODE_LABEL, node_of
from placement.policy.framework.session import Session
from placement.policy.jobs.group_key import gang_of, value_of
from placement.policy.jobs.job import counted
from placement.shared.victims import Candidate, select_victims
from placement.state.pods.pod_table import PodEntry

PLACEHOLDER: Final = "placeholder"
SPLIT: Final = "split"
_STEP: Final = 1024
_CORE: Final = 1000
_KIB: Final = 1024

Sums = dict[str, int]
# A job, and what it has of one node.
Part = tuple[BatchJob, list[HostShare]]


def make_room(session: Session) -> Steps[None]:
    """After each read of all jobs, once it is known which nodes have announced theirs."""
    if not session.batch_jobs.settings.make_room:
        return
    beginning = yield from _beginning(session)
    for name, parts in beginning.items():
        node = _node(session, name)
        if node is not None:
            # It may be gone since the step before.
            _make_room(session, node, parts)
        yield


def _beginning(session: Session) -> Steps[dict[str, list[Part]]]:
    """Return the parts of jobs on nodes where they have not begun and will have placeholders."""
    found: dict[str, list[Part]] = {}
    leases = session.batch_jobs.foreign
    for job, pause in paced(session.batch_jobs.others, _STEP):
        if pause:
            yield
        # What jobs have is read while they begin, and of another daemon's for as long as they run; those are pods.
        if not job.shares or job.tag:
            continue
        shares: dict[str, list[HostShare]] = {}
        for share in job.shares:
            shares.setdefault(node_of(session, share.host), []).append(share)
        key = ForeignRun(system=job.system, job=job.id, run=job.run).key
        for name in shares:
            node = _node(session, name) if name in leases.closed else None
            if node is not None and key not in leases.announced.get(name, ()) and _is_cleared(node):
                found.setdefault(name, []).append((job, shares[name]))
        yield
    return found


def _is_cleared(node: Node) -> bool:
    """Whether it has placeholders, and says what they take."""
    return value_of(node.labels, SHARE_MODE_LABEL) == PLACEHOLDER and bool(value_of(node.labels, SHARE_FENCE_LABEL))


def _make_room(session: Session, node: Node, parts: Sequence[Part]) -> None:
    here = [entry for entry in session.cache.cluster.pods.at_node(node.name) if entry.charged]
    missing = _missing(session, node, parts, here)
    for entry in _victims(session, _others(here), missing):
        _ask(session, entry, f"job {parts[0][0].id} begins on node {node.name} and needs its place")


def _node(session: Session, name: str) -> Node | None:
    columns = session.cache.cluster.columns
    row = columns.rows.get(name)
    return columns.nodes[row] if row is not None else None


def _missing(session: Session, node: Node, parts: Sequence[Part], here: Sequence[PodEntry]) -> Sums:
    """Return what the jobs need of the node beyond what is free, now or when leaving pods have left."""
    columns = session.cache.cluster.columns
    row, names = columns.rows[node.name], columns.axis.names
    most = dict(zip(names, columns.allocatable[:, row].tolist(), strict=True))
    for entry in here:
        if entry.pod.stays and not _is_unconfirmed_mirror(entry):
            _add(most, entry, -1)
    need: Sums = {PODS: len(parts)}
    for job, shares in parts:
        taken = {key: most[key] for key in most if _is_asked_whole(key)} if job.whole else _taken(session, node, shares)
        for key, amount in taken.items():
            need[key] = need.get(key, 0) + amount
    room = dict(zip(names, (columns.free[:, row] + columns.releasing[:, row]).tolist(), strict=True))
    for entry in here:
        if _is_unconfirmed_mirror(entry) and not entry.leaving:
            _add(room, entry, 1)
    # A placeholder never asks for more than the node can give, and where that is nothing, for nothing.
    asked = {key: min(amount, most.get(key, 0)) for key, amount in need.items()}
    return {key: amount - room.get(key, 0) for key, amount in asked.items() if amount > 0}


def _is_asked_whole(name: str) -> bool:
    """Cores, memory and devices; neither slots for pods, nor disk, nor huge pages."""
    return name in (CPU, MEMORY) or ("/" in name and not name.startswith("hugepages-"))


def _taken(session: Session, node: Node, shares: Sequence[HostShare]) -> Sums:
    """Return what a job takes from the pods of a node, in Kubernetes' names."""
    split = value_of(node.labels, SHARE_FENCE_LABEL) == SPLIT
    devices = {theirs: ours for ours, theirs in session.batch_jobs.settings.devices.items()}
    found: Sums = {}
    for share in shares:
        told = {CPU: 0 if split else share.cores * _CORE, MEMORY: share.memory * _KIB}
        told.update((devices[key], amount) for key, amount in share.devices if key in devices)
        for key, amount in told.items():
            found[key] = found.get(key, 0) + amount
    return found


def _has_job(session: Session, uid: str) -> bool:
    """Whether a pod is part of a job that runs."""
    task = session.cache.jobs.tasks.get(uid)
    job = session.batch_jobs.job_of(task) if task is not None else None
    return job is not None and job.runs


def _victims(session: Session, others: Sequence[PodEntry], missing: Mapping[str, int]) -> list[PodEntry]:
    by_uid = {entry.pod.uid: entry for entry in others}
    candidates = [_candidate(entry.pod, has_job=_has_job(session, uid)) for uid, entry in by_uid.items()]
    return [by_uid[uid] for uid in select_victims(candidates, missing)]


def _candidate(pod: Pod, *, has_job: bool) -> Candidate:
    requests = dict(counted(pod.request))
    return Candidate(pod.uid, pod.namespace, pod.spec.priority, gang_of(pod), requests, has_job=has_job)


def _is_unconfirmed_mirror(entry: PodEntry) -> bool:
    """Whether the pod has the annotation of a mirror, and no kubelet has said yet that it runs such a static pod.

    Any user may create such a pod. It takes no room from jobs, or other pods would leave in its place.
    """
    return entry.pod.mirror and entry.pod.phase is Phase.PENDING


def _others(here: Sequence[PodEntry]) -> list[PodEntry]:
    return [entry for entry in here if not entry.pod.stays and not entry.leaving and entry.pod.node]


def _add(sums: Sums, entry: PodEntry, number: int) -> None:
    for name, amount in counted(entry.pod.request):
        if name in sums:
            sums[name] += amount * number


def _ask(session: Session, entry: PodEntry, message: str) -> None:
    """Ask the pod to leave in its own grace; a pod that may not be disturbed is asked again later."""
    pod, cache = entry.pod, session.cache
    if pod.uid in session.unevictable:
        return
    task = cache.jobs.tasks.get(pod.uid)
    if task is not None:
        statement = session.statement()
        statement.evict(task)
        finish(statement.commit())
    else:
        cache.cluster.pods.evict(pod.uid)
        cache.cluster.pods.settle()
    session.actions.append(
        Evict(uid=pod.uid, namespace=pod.namespace, name=pod.name, reason="JobBegins", message=message)
    )
