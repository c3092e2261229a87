# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the batch system's jobs that back our pods, and what has been asked of it. Pure.

Only reads of all jobs say what is true. A job is looked for by its tag before it is submitted, and after every
submission, whatever became of that. So a job that was submitted by a daemon that died, or whose answer was lost, is
found again and never submitted twice. That a job is gone needs two reads in a row, and no read says nothing.

A tag is under a mark, which is this cluster's and this scheduler's: jobs of another daemon are foreign, though both
submit as one user. And a job is only for the user that the site says now, or that it was for when the site submitted
all jobs as the daemon.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from placement.model.batch import BackingSettings, BatchJob, ForeignRun, Whose
from placement.model.messages.event import BatchEvent, HostsRead, JobsRead, JobsUnread, SubmitEnded
from placement.model.objects.workload import Namespace
from placement.model.rules.selector import LabelPairs
from placement.policy.jobs.job import Task
from placement.state.cluster import Cluster

NEVER: Final = float("-inf")
# Seconds between two submissions for one gang, or until a job that is still there is asked to end once more: twice as
# many each time.
_LONGEST: Final = 300.0
_AGAIN: Final = 10.0
_ABSENCES: Final = 2
# Every cluster has this namespace, and its UID is as good as one of the cluster.
_HOME: Final = "kube-system"


def mark_of(cluster: Cluster, scheduler_name: str) -> str:
    """Return the mark of jobs of this scheduler in this cluster; empty while the cluster is not known."""
    home = cluster.objects.find(Namespace, _HOME)
    return hashlib.sha256(f"{home.uid}/{scheduler_name}".encode()).hexdigest()[:8] if home is not None else ""


@dataclass(slots=True)
class BackedUnit:
    """A gang, or a pod by itself, and its job."""

    uid: str
    # The user that its jobs belong to; None if that is not known.
    owner: Whose | None = None
    batch_job: BatchJob | None = None
    # Other jobs of the same tag, also of other users: once the owner is known they are not needed.
    extra: tuple[BatchJob, ...] = ()
    # Whether it is a pod that came when its gang had a job already; false if it has a part of the gang's job after all.
    has_own_job: bool | None = None
    # A submission is under way; when the last one ended, how many there were in a row, and when the next may be.
    submitting: bool = False
    submit_ended: float = NEVER
    tries: int = 0
    not_before: float = NEVER
    # Why the last submission came to nothing, or its job was not taken; and which job that was.
    trouble: str = ""
    rejected_job: str = ""
    absences: int = 0
    # The status of a pod by itself when there was nothing more to do for it.
    done_status: int = -1
    # Pods that its job has held, and until when their containers may be there; how many pods there are just now.
    pods_until: dict[str, float] = field(default_factory=dict)
    members: int = 0
    # Since when its job is not needed; when each job of the tag was last asked to end, and for how long it has time.
    unused_since: float | None = None
    asked: dict[str, tuple[float, float]] = field(default_factory=dict)

    def holds(self, now: float) -> bool:
        """Whether containers of its pods may be there."""
        return any(until > now for until in self.pods_until.values())


@dataclass(slots=True)
class ForeignJobs:
    """What jobs that are not ours have of nodes, or will have, by node; `update_foreign_jobs` renews it."""

    held: dict[str, list[ForeignRun]] = field(default_factory=dict)
    expected: dict[str, list[ForeignRun]] = field(default_factory=dict)
    # Leases that their nodes have announced, and nodes that are closed for those that they have not.
    announced: dict[str, set[str]] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    # Whether it is unknown what jobs have, and for which generation of the nodes that was noted.
    doubted: tuple[bool, int] = (False, -1)


class BatchJobs:
    """All units."""

    def __init__(self) -> None:
        self.settings = BackingSettings()
        # By which jobs are this daemon's, and how many in the last good read are.
        self.mark = ""
        self.ours = 0
        self.units: dict[str, BackedUnit] = {}
        # When the last good read was begun, and why there was none since.
        self.read = NEVER
        self.trouble = "the batch system has not been asked yet"
        # Units about which something has changed; and whether a read has come, since the policy last looked.
        self.changed: dict[str, None] = {}
        self.has_new_read = False
        # Jobs that are not ours and have nodes or are expected on some.
        self.others: tuple[BatchJob, ...] = ()
        self.foreign = ForeignJobs()
        # Nodes by the batch system's names of their hosts, where those are others.
        self.aliases: dict[str, str] = {}
        # The other way round: the batch system's names of hosts by all that a pod may call their nodes.
        self.hosts: dict[str, str] = {}
        # Nodes that are unreachable although pods are to leave them, and since when; pods that are lost with theirs, by
        # UID with the host (see `lost_pods`). Hosts that are down, when that was asked, and when it may be asked again.
        self.silent: dict[str, float] = {}
        self.lost: dict[str, str] = {}
        self.down: frozenset[str] = frozenset()
        self.heard = NEVER
        self.ask_hosts = NEVER
        # Labels of namespaces when units were last looked at, for they say whose jobs are.
        self.labels: dict[str, LabelPairs] = {}

    def take(self, event: BatchEvent) -> None:
        """Take in what is true now."""
        match event:
            case JobsRead():
                self._read(event)
            case JobsUnread(message):
                self.trouble = message
            case HostsRead(down, begun):
                self.down, self.heard = down, begun
            case SubmitEnded(uid, job, message, ended):
                unit = self.unit(uid)
                unit.submitting, unit.submit_ended = False, ended
                unit.trouble = "" if job else message
                self.changed[uid] = None

    def unit(self, uid: str) -> BackedUnit:
        """Return the unit of this UID, known or new."""
        found = self.units.get(uid)
        if found is None:
            found = self.units[uid] = BackedUnit(uid)
        return found

    def job_of(self, task: Task) -> BatchJob | None:
        """Return the job that a task is part of, or would be."""
        group = task.job.group
        for uid in (task.uid, group.uid if group is not None else ""):
            unit = self.units.get(uid)
            # Others may have made a job of a member's name: that makes no unit of it.
            if unit is not None and unit.has_own_job is not False and (unit.batch_job is not None or unit.has_own_job):
                return unit.batch_job
        return None

    def live(self, uid: str) -> bool:
        """Whether there is a job for this UID, as far as is known."""
        found = self.units.get(uid)
        return found is not None and found.batch_job is not None

    def belongs(self, unit: BackedUnit, whose: Whose | None) -> None:
        """Take jobs of this user as the unit's from now on; a job of another user with the same tag is none of it."""
        if whose == unit.owner:
            return
        unit.owner = whose
        job = _choose(unit, (*((unit.batch_job,) if unit.batch_job is not None else ()), *unit.extra))
        if job is not unit.batch_job:
            unit.batch_job, unit.absences = job, 0
        # What was refused to one may be given to another.
        unit.tries, unit.not_before = 0, NEVER

    def may_submit(self, unit: BackedUnit, now: float) -> bool:
        """Whether it is certain that there is no job for it, and that nothing is left on one of another's."""
        known = not unit.submitting and unit.batch_job is None and self.read > unit.submit_ended
        return known and unit.not_before <= now and not (unit.extra and unit.holds(now))

    def submitted(self, unit: BackedUnit, now: float) -> None:
        """Note that a job is asked for."""
        unit.submitting, unit.pods_until = True, {}
        self._wait(unit, now)

    def give_up(self, unit: BackedUnit, job: BatchJob, now: float, why: str) -> None:
        """Its job is of no use: it is to end, and another one is asked for after a while."""
        unit.trouble, unit.rejected_job = why, job.id
        self._wait(unit, now)

    def is_gone(self, unit: BackedUnit) -> bool:
        """Whether its job has ended, or there never was one: two reads in a row say so."""
        return unit.batch_job is None and unit.absences >= _ABSENCES and not unit.submitting

    def _wait(self, unit: BackedUnit, now: float) -> None:
        unit.not_before = now + min(_LONGEST, 2.0**unit.tries)
        unit.tries = min(unit.tries + 1, 16)

    def ask(self, unit: BackedUnit, job: BatchJob, now: float) -> bool:
        """Whether the job is to be asked to end now; that it has been is noted."""
        last, wait = unit.asked.get(job.id, (NEVER, _AGAIN / 2))
        if now - last < wait:
            return False
        unit.asked[job.id] = (now, min(_LONGEST, 2 * wait))
        return True

    def forget(self, unit: BackedUnit) -> None:
        """Nothing of it is left."""
        del self.units[unit.uid]
        self.changed.pop(unit.uid, None)

    def _read(self, event: JobsRead) -> None:
        if event.begun <= self.read:
            return
        if not self.mark:
            self.trouble = f"namespace {_HOME} is not known, and with it whose jobs of the batch system are ours"
            return
        self.read, self.trouble, self.has_new_read = event.begun, "", True
        ours = [job for job in event.jobs if job.tag and job.mark == self.mark]
        self.ours = len(ours)
        self.others = tuple(job for job in event.jobs if job.hosts and not (job.tag and job.mark == self.mark))
        found: dict[str, list[BatchJob]] = {}
        for job in ours:
            if not job.ends:
                found.setdefault(job.tag, []).append(job)
        for tag in found:
            self.unit(tag)
        for uid, unit in self.units.items():
            jobs = found.get(uid, [])
            unit.asked = {job.id: unit.asked[job.id] for job in jobs if job.id in unit.asked}
            chosen = _choose(unit, jobs)
            if chosen is not None:
                self._found(unit, chosen)
            # What is read while a submission is under way may be from before it.
            elif not unit.submitting and event.begun > unit.submit_ended:
                self._absent(unit)

    def _found(self, unit: BackedUnit, job: BatchJob) -> None:
        over = job.left is not None and job.left <= self.settings.grace
        if over or unit.batch_job is None or _news(unit.batch_job) != _news(job):
            self.changed[unit.uid], unit.done_status = None, -1
        unit.batch_job, unit.absences = job, 0

    def _absent(self, unit: BackedUnit) -> None:
        unit.absences = min(unit.absences + 1, _ABSENCES)
        if unit.absences == _ABSENCES and unit.batch_job is not None:
            unit.batch_job, unit.done_status = None, -1
            self.changed[unit.uid] = None


def is_for(job: BatchJob, whose: Whose | None) -> bool:
    """Return whether a job with the tag may be this user's; any user's may be, if the user is not known.

    The daemon's own always is. A user's is by the queue, too: a job that the user submits to another queue is not by
    the site's settings. Where jobs are not submitted as users any more the queue alone says that it was: it admits no
    other job.
    """
    if whose is None or not job.owner:
        return True
    if whose.user:
        return job.owner == whose.user and (not whose.queue or job.queue == whose.queue)
    return bool(whose.queue) and job.queue == whose.queue


def _choose(unit: BackedUnit, jobs: Iterable[BatchJob]) -> BatchJob | None:
    """Return a unit's job among those of its tag: the known one, else one that runs, else the first submitted."""
    jobs, known = tuple(jobs), unit.batch_job.id if unit.batch_job is not None else ""
    job = min(
        (one for one in jobs if is_for(one, unit.owner)),
        key=lambda one: (one.id != known, not one.runs, len(one.id), one.id),
        default=None,
    )
    unit.extra = tuple(one for one in jobs if one is not job)
    return job


def _news(job: BatchJob) -> tuple[object, ...]:
    """Return what has to be acted upon or told."""
    return (job.id, job.run, job.runs, job.shares, "" if job.runs else job.comment)
