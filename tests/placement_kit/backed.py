# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler whose queue `backed` a batch system of a few lines stands behind; time passes when it is told to."""

from dataclasses import replace
from typing import Any

from placement.core.scheduler import Scheduler
from placement.model.batch import BackingSettings, BatchJob, Chunk, HostShare, Whose
from placement.model.messages.action import Action, AskHosts, Evict, Release, Submit
from placement.model.messages.event import HostsRead, JobsRead, SubmitEnded
from placement.model.objects.pod import Pod
from placement.model.objects.workload import Namespace
from placement.policy.jobs.batch_jobs import mark_of
from placement.policy.plugins.configuration import DEFAULT

from placement_kit.builders import mine, node, queue
from placement_kit.simulated import OURS, Simulated

CORES = 4
HOSTS = ("n1", "n2")


class Batch:
    """Jobs on two hosts of four cores, first come first served."""

    def __init__(self) -> None:
        self.jobs: dict[str, BatchJob] = {}
        self.asked: dict[str, tuple[Chunk, ...]] = {}
        self.closed = False
        self.loses_answers = False
        # Whether jobs do not end that are asked to.
        self.endless = False
        # With what it refuses every submission.
        self.refusal = ""
        # Hosts that it keeps out of use, and jobs that it never starts; whether it says of hosts how they are.
        self.down: set[str] = set()
        self.tells_of_hosts = True
        self.stays_queued: set[str] = set()
        # Whose jobs are, where nothing else is said.
        self.mark = ""
        self._number = 0

    def submit(
        self,
        tag: str,
        chunks: tuple[Chunk, ...],
        owner: str = "",
        *,
        mark: str = "",
        queue: str = "pods",
        namespace: str = "team",
    ) -> str:
        """A job that waits."""
        self._number += 1
        name = f"{self._number}.srv"
        self.jobs[name] = BatchJob(
            id=name,
            run=0,
            state="Q",
            comment="Not Running: wait",
            tag=tag,
            mark=mark or self.mark,
            owner=owner,
            queue=queue,
            namespace=namespace,
        )
        self.asked[name] = chunks
        return name

    def start(self) -> None:
        """Whatever fits runs."""
        for name, job in self.jobs.items():
            stays = self.closed or job.runs or name in self.stays_queued
            shares = () if stays else self._shares(self.asked.get(name, ()))
            if shares:
                hosts = tuple(dict.fromkeys(share.host for share in shares))
                running = replace(job, state="R", runs=True, run=job.run + 1, shares=shares, hosts=hosts, comment="")
                self.jobs[name] = running

    def _shares(self, chunks: tuple[Chunk, ...]) -> tuple[HostShare, ...]:
        free = {host: CORES if host not in self.down else 0 for host in HOSTS}
        for job in self.jobs.values():
            for share in job.shares:
                free[share.host] -= share.cores
        found = []
        for chunk in (one for one in chunks for _unused in range(one.count)):
            wanted = dict(chunk.properties).get("host")
            host = next((h for h in HOSTS if free[h] >= chunk.cores and wanted in (None, h)), None)
            if host is None:
                return ()
            free[host] -= chunk.cores
            found.append(HostShare(host=host, cores=chunk.cores, memory=chunk.memory, devices=chunk.devices))
        return tuple(found)

    def hosts_of_job(self, name: str) -> tuple[str, ...]:
        """Where a job runs."""
        return self.jobs[name].hosts if name in self.jobs else ()

    def unreachable(self, name: str) -> bool:
        """Whether a host of a job is down, so that it ends by force only."""
        return bool(self.down & {*self.hosts_of_job(name)})

    def requeue(self, owner: str = "") -> None:
        """A user's jobs run no more, and say nothing of where they did; nothing runs again."""
        self.closed = True
        for name, job in self.jobs.items():
            if job.owner == owner:
                self.jobs[name] = replace(job, runs=False, state="Q", shares=(), hosts=())

    def restart(self) -> None:
        """What numbers were given out is not known for certain any more."""
        self._number += 1000

    def leave(self, seconds: float) -> None:
        """So much is left of the time of all that run."""
        self.jobs = {name: replace(job, left=seconds) for name, job in self.jobs.items()}

    def hosts_of(self, tag: str) -> list[str]:
        """Where the jobs of a tag run."""
        return [share.host for job in self.jobs.values() if job.tag == tag for share in job.shares]


class Backed(Simulated):
    """Both together."""

    def __init__(
        self, *, batch: Batch | None = None, settings: BackingSettings | None = None, cluster: str = "cluster"
    ) -> None:
        super().__init__()
        self.scheduler = Scheduler(DEFAULT, scheduler_name=OURS, backing=settings)
        self.batch = batch or Batch()
        self.see(Namespace(uid=cluster, name="kube-system", version=1))
        self.batch.mark = mark_of(self.scheduler.cluster, OURS)
        # Whether pods that are asked to leave take their time.
        self.stubborn = False
        self.see(*(node(name) for name in HOSTS), queue("backed", placed_by="pbs"), queue("default"))

    def pod(self, name: str, *, group: str = "", **more: Any) -> Pod:
        """A pod of the backed queue."""
        key = "scheduling.k8s.io/group-name" if group else "scheduling.converged.hpc/queue"
        return mine(name, annotations=((key, group or "backed"),), **more)

    def whose(self, action: Submit) -> Whose:
        """For whom the ledger submits."""
        settings = self.scheduler.session.batch_jobs.settings
        return settings.whose(action.namespace, action.namespace_labels, action.queue) or Whose()

    def read(self) -> None:
        """A second later all jobs are read."""
        self.now += 1.0
        self.tell(JobsRead(tuple(self.batch.jobs.values()), self.now - 0.1))

    def settle(self, *, seconds: int = 6) -> None:
        """So many seconds pass."""
        for _unused in range(seconds):
            self.read()
            self.run()
            self.batch.start()

    def carry_out(self, action: Action) -> None:
        """Submits and releases, too."""
        if isinstance(action, Submit):
            refusal = self.batch.refusal
            owner = self.whose(action).user
            whose = {"mark": action.mark, "namespace": action.namespace}
            job = "" if refusal else self.batch.submit(action.uid, action.chunks, owner, **whose)
            answer = "" if self.batch.loses_answers else job
            said = "" if answer else refusal or "timed out"
            self.tell(SubmitEnded(action.uid, answer, said, self.now + 0.01))
        elif isinstance(action, AskHosts):
            if self.batch.tells_of_hosts:
                self.tell(HostsRead(frozenset(self.batch.down & {*action.hosts}), self.now))
        elif isinstance(action, Release):
            if not (self.batch.endless or (self.batch.unreachable(action.name) and not action.force)):
                self.batch.jobs.pop(action.name, None)
        elif isinstance(action, Evict) and self.stubborn:
            self.see(replace(self.pods[action.uid], terminating=True))
        else:
            super().carry_out(action)
