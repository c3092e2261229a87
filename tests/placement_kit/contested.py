# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two users' gangs in a backed queue, and all that can go wrong beneath them: what is true, and what must always hold.

Alice has namespace `team`, Mallory has `evil`. Who is asked to leave is noted with the reason, for the tests say whose
fault that may be.
"""

from dataclasses import replace

from placement.model.batch import BackingSettings, BatchJob, Chunk, Whose
from placement.model.messages.action import Action, Bind, Evict, Release, Submit
from placement.model.messages.event import JobsRead, JobsUnread, SubmitEnded
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.workload import Namespace, PodGroup
from placement.model.rules.selector import LabelPairs

from placement_kit.backed import Backed, Batch
from placement_kit.builders import amounts, gang, node, pairs

OWNERS = {"team": "alice", "evil": "mallory"}
GANGS = {"team": "gang", "evil": "loot"}
MEMBERS = {"team": ("g0", "g1", "g2"), "evil": ("m0", "m1")}
SINGLES = {"team": ("p1",), "evil": ("x1",)}
QUEUE = "pods"
# Seconds in which a job ends that has no pods, while nothing else happens: the linger, and a request or two.
SOON = 90
# Seconds until the server takes jobs off a host that is down, and Kubernetes pods off a node that is lost.
PATIENCE = 4


def whose(_namespace: str, labels: LabelPairs, _queue: str) -> Whose | None:
    """By the namespace's label."""
    return Whose(dict(labels)["user"], QUEUE)


SETTINGS = BackingSettings(whose=whose)


class Contested(Backed):
    """The truth, and the daemon that is told of it second by second."""

    def __init__(self, batch: Batch | None = None) -> None:
        super().__init__(batch=batch, settings=SETTINGS)
        self.serial = 0
        # How the next submission fails, those that the server gets to later, and for how long it says nothing.
        self.fault = ""
        self.late: list[Submit] = []
        self.silent = 0
        # The last read, and of this daemon's the one before.
        self.seen = JobsRead((), 0.0)
        self.before: list[JobsRead] = []
        # Since when hosts are down, and nodes lost.
        self.down: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        # Where containers may run, and for which jobs their pods were bound.
        self.containers: dict[str, str] = {}
        self.under: dict[str, set[str]] = {}
        self.evicted: list[tuple[str, str, str]] = []
        # Jobs that nobody needs, and since when nothing has kept the daemon from ending them.
        self.idle: dict[str, int] = {}
        # Tags that somebody else but the daemon has submitted for, too.
        self.doubled: set[str] = set()
        for namespace, user in OWNERS.items():
            self.see(namespace_of(namespace, user))
        self.create()

    # What happens by itself

    def create(self) -> None:
        """Groups and pods that are not there, as controllers would make them."""
        known = {(pod.namespace, pod.name) for pod in self.pods.values()}
        for namespace, group in GANGS.items():
            self.see(group_of(namespace))
            for name in (*MEMBERS[namespace], *SINGLES[namespace]):
                if (namespace, name) not in known:
                    self.serial += 1
                    of = group if name in MEMBERS[namespace] else ""
                    more = {"namespace": namespace, "request": amounts(cpu="1")}
                    self.see(self.pod(name, uid=f"{name}-{self.serial}", group=of, **more))

    def second(self) -> None:
        """A second passes."""
        self.read()
        self.run()
        self.batch.start()
        self.kubelets()
        self._outages()
        self._watch_idle()

    def read(self) -> None:
        """The server first does what has reached it."""
        self.now += 1.0
        if self.silent:
            self.silent -= 1
            self.tell(JobsUnread("no answer"))
            return
        for action in self.late:
            self.enqueue(action)
        self.late.clear()
        self.seen = JobsRead(tuple(self.batch.jobs.values()), self.now - 0.1)
        self.before = [*self.before[-1:], self.seen]
        self.tell(self.seen)

    def kubelets(self) -> None:
        """Containers of pods that were asked to leave end, where there is somebody to end them."""
        for one in list(self.pods.values()):
            if one.terminating and one.node not in self.lost:
                self.see(replace(one, phase=Phase.FAILED))
                self.containers.pop(one.uid, None)
                self.run()
                self.gone(self.pods[one.uid])

    def _outages(self) -> None:
        for host, since in self.down.items():
            if self.now - since == PATIENCE:
                for job in self.jobs_on(host):
                    self.requeue(job)
        for name, since in self.lost.items():
            if self.now - since == PATIENCE:
                for one in [one for one in self.pods.values() if one.node == name]:
                    self.delete_by_force(one)

    def _watch_idle(self) -> None:
        needed = {tag for one in self.pods.values() for tag in (one.uid, self.group_tag(one))}
        needed |= {job for uid in self.containers for job in self.under[uid]}
        idle = {name for name, job in self.batch.jobs.items() if job.tag and not {job.tag, name} & needed}
        if self.silent:
            self.idle.clear()
        self.idle = {name: self.idle.get(name, 0) + 1 for name in idle}
        for name, seconds in self.idle.items():
            assert seconds < SOON, f"nobody ends {self.batch.jobs[name]}"

    # What the daemon has done

    def carry_out(self, action: Action) -> None:
        """As the API, the ledger and the batch system would."""
        if isinstance(action, Submit):
            self.submit(action)
        elif isinstance(action, Release):
            self.release(action)
        elif isinstance(action, Evict):
            one = self.pods[action.uid]
            self.evicted.append((one.namespace, one.name, action.reason))
            self.see(replace(one, terminating=True))
        else:
            if isinstance(action, Bind):
                self.bound(action)
            super().carry_out(action)

    def submit(self, action: Submit) -> None:
        """The answer may be lost, or there is none."""
        fault, self.fault = self.fault, ""
        if self.silent or fault == "late":
            self.late.append(action)
            self.tell(SubmitEnded(action.uid, "", "no answer", self.now))
            return
        job = "" if fault == "fail" else self.enqueue(action)
        self.tell(SubmitEnded(action.uid, "" if fault else job, fault, self.now))

    def enqueue(self, action: Submit) -> str:
        """A job of ours, of which there must be no other."""
        owner = self.whose(action).user
        for job in self.batch.jobs.values():
            twice = (job.tag, job.owner, job.queue) == (action.uid, owner, QUEUE)
            assert action.uid in self.doubled or not twice, f"submitted twice: {job}"
        return self.batch.submit(action.uid, action.chunks, owner, mark=action.mark, namespace=action.namespace)

    def release(self, action: Release) -> None:
        """No container may be left that has no other job on its node."""
        job = self.batch.jobs.get(action.name)
        if job is None or self.silent:
            return
        assert job.tag == action.uid, "released a job that is none of ours"
        assert job.owner == action.user, f"{job.owner}'s job is to be ended as {action.user}"
        for uid, where in self.containers.items():
            others = self.under[uid] - {action.name}
            alone = action.name in self.under[uid] and not any(where in self.batch.hosts_of_job(one) for one in others)
            assert not alone, f"{job} was released under {self.pods.get(uid, uid)}"
        del self.batch.jobs[action.name]

    def bound(self, action: Bind) -> None:
        """Only on a node that a job of the pod's own user has, and to no more of it than the job has."""
        one = self.pods[action.uid]
        tag, owner = action.tag, OWNERS[one.namespace]
        assert tag in (one.uid, self.group_tag(one)), f"{one} was bound for {tag}"
        jobs = [job for job in self.seen.jobs if job.runs and (job.tag, job.owner, job.queue) == (tag, owner, QUEUE)]
        there = {job.id for job in jobs if action.node in job.hosts}
        assert there, f"{one.name} was bound beside its job"
        # What its owner has renamed since the last read is none of his pods' any more.
        still = {name for name in there if name in self.batch.jobs and self.batch.jobs[name].tag == tag}
        self.containers[one.uid], self.under[one.uid] = action.node, still
        for name in still:
            job = next(job for job in jobs if job.id == name)
            cores = sum(share.cores for share in job.shares if share.host == action.node)
            users = [uid for uid, where in self.containers.items() if where == action.node and name in self.under[uid]]
            assert len(users) <= cores, f"{users} on {cores} cores of {job}"

    # What others do

    def group_tag(self, one: Pod) -> str:
        """The tag of the gang's job, for a member."""
        return f"group-{GANGS[one.namespace]}" if one.name in MEMBERS[one.namespace] else ""

    def tags_of(self, namespace: str) -> list[str]:
        """By which jobs of its gang and pods are known."""
        pods = [one.uid for one in self.pods.values() if one.namespace == namespace]
        return [f"group-{GANGS[namespace]}", *pods]

    def jobs_on(self, host: str) -> list[BatchJob]:
        """Those that run there."""
        return [job for job in self.batch.jobs.values() if host in job.hosts]

    def requeue(self, job: BatchJob, *, held: bool = False) -> None:
        """It waits again, and starts no more where it is held."""
        self.batch.jobs[job.id] = replace(job, runs=False, state="H" if held else "Q", shares=(), hosts=())
        if held:
            self.batch.stays_queued.add(job.id)

    def delete_by_force(self, one: Pod) -> None:
        """Nobody waits for its containers, which have ended all the same."""
        self.gone(one)
        self.containers.pop(one.uid, None)

    def forge(self, namespace: str, tag: str, group: str, host: str) -> None:
        """A pod that asks for nothing and has its node from its owner."""
        self.serial += 1
        made = self.pod(f"forged-{self.serial}", namespace=namespace, group=group, request=(), tag=tag)
        self.see(replace(made, node=host, phase=Phase.RUNNING))

    def impersonate(self, user: str, tag: str, *, queue: str = QUEUE, namespace: str = "team") -> str:
        """A user's own job of a name that one of ours could have."""
        self.doubled.add(tag)
        return self.batch.submit(tag, (Chunk(count=1, cores=1),), user, queue=queue, namespace=namespace)

    def rename(self, job: BatchJob, tag: str) -> None:
        """Its owner changes its name, by which he takes it from his own pods as if he had deleted it."""
        for jobs in self.under.values():
            jobs.discard(job.id)
        self.doubled |= {tag, job.tag}
        self.batch.jobs[job.id] = replace(job, tag=tag, mark=self.batch.mark if tag else "")

    def lose_node(self, name: str) -> None:
        """Kubernetes has it no more, and nothing runs on it."""
        if name not in self.lost:
            self.lost[name] = int(self.now)
            self.gone(node(name))
            for uid in [uid for uid, where in self.containers.items() if where == name]:
                del self.containers[uid]

    def regain_nodes(self) -> None:
        """All are back."""
        self.see(*(node(name) for name in self.lost))
        self.lost.clear()

    def regain_hosts(self) -> None:
        """All are up."""
        self.down.clear()
        self.batch.down.clear()

    def successor(self) -> None:
        """The daemon dies, and another one sees what is there."""
        fresh = Backed(batch=self.batch, settings=SETTINGS)
        self.scheduler = fresh.scheduler
        self.idle.clear()
        self.before.clear()
        self.see(*(namespace_of(*item) for item in OWNERS.items()), *map(group_of, GANGS), *self.pods.values())
        self.gone(*(node(name) for name in self.lost))


def namespace_of(name: str, user: str) -> Namespace:
    """A namespace that says whose it is."""
    return Namespace(uid=f"uid-{name}", name=name, version=1, labels=pairs(user=user))


def group_of(namespace: str) -> PodGroup:
    """The gang of a namespace."""
    return gang(GANGS[namespace], len(MEMBERS[namespace]), namespace=namespace, queue="backed")
