# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backed queues under random faults: answers lost, failed, late or absent, daemons that die, jobs that vanish."""

from dataclasses import replace

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st
from placement.model.batch import BackingSettings, BatchJob, Chunk, HostShare, Whose
from placement.model.messages.action import Action, Bind, Evict, Release, Submit
from placement.model.messages.event import JobsRead, JobsUnread, SubmitEnded
from placement.model.objects.pod import Phase, Pod
from placement.model.objects.workload import Namespace
from placement.model.rules.selector import LabelPairs
from placement_kit.backed import CORES, HOSTS, Backed
from placement_kit.builders import amounts, gang, node, pairs, pod

SINGLES = ("p1", "p2")
GANG = ("g0", "g1", "g2")
OPERATIONS = (
    *("pass", "pass", "unread", "lose", "fail", "late", "die", "close", "open", "delete", "force", "end", "requeue"),
    *("vanish", "double", "reuse", "older", "ungroup", "orphan", "move"),
    *("namesake", "express", "alice", "bob", "nobody", "squat", "squat", "begin", "begin"),
)
BESIDE_JOBS = pairs(
    **{
        "node-restriction.kubernetes.io/converged-share-mode": "placeholder",
        "node-restriction.kubernetes.io/converged-share-fence": "cores",
    }
)
NODES = tuple(node(name, labels=BESIDE_JOBS) for name in HOSTS)


def whose(_namespace: str, labels: LabelPairs, _queue: str) -> Whose | None:
    user = dict(labels).get("user", "")
    return Whose(user, "pods") if user else None


SETTINGS = BackingSettings(whose=whose)


class World(Backed):
    """What is true, and what the daemon is told of it."""

    def __init__(self) -> None:
        super().__init__(settings=SETTINGS)
        self.see(*NODES)
        self.fault = ""
        self.belongs_to("alice")
        self.late: list[Submit] = []
        self.before = JobsRead((), 0.0)
        # Pods of which containers may still run, by their node.
        self.containers: dict[str, str] = {}
        # The jobs that they may have been bound for.
        self.under: dict[str, set[str]] = {}
        self.doubled = False
        # Hosts on which a job lacks cores.
        self.lacking: set[str] = set()
        self.create()

    def belongs_to(self, user: str) -> None:
        """The namespace is this user's from now on."""
        self.user = user
        self.see(Namespace(uid="uid-team", name="team", version=1, labels=pairs(user=user)))

    def create(self) -> None:
        """Pods that are not there, as controllers would make them."""
        self.serial = getattr(self, "serial", 0) + 1
        known = {pod.name for pod in self.pods.values()}
        self.see(gang("gang", len(GANG), queue="backed"))
        for name in {*SINGLES, *GANG} - known:
            group = "gang" if name in GANG else ""
            self.see(self.pod(name, uid=f"{name}-{self.serial}", group=group, request=amounts(cpu="1")))

    def carry_out(self, action: Action) -> None:
        if isinstance(action, Submit):
            self.submit(action)
        elif isinstance(action, Release):
            self.release(action)
        elif isinstance(action, Evict):
            leaves = self.pods[action.uid]
            if action.reason == "JobBegins":
                assert self.missing(leaves.node) > 0, f"{leaves.name} left in vain"
                jobs = [job for job in self.seen.jobs if job.runs and self.backs(job, leaves.uid)]
                jobs = [job for job in jobs if job.owner == self.user]
                squatters = [one.name for one in self.there(leaves.node) if one.name.startswith("squatter")]
                assert leaves.name in squatters or not (jobs and squatters), f"{leaves.name} left for {squatters}"
            self.see(replace(leaves, terminating=True))
        else:
            if isinstance(action, Bind):
                self.bound(action)
            super().carry_out(action)

    def submit(self, action: Submit) -> None:
        fault, self.fault = self.fault, ""
        if not self.user:
            # As the ledger does where the settings name nobody.
            self.scheduler.apply(SubmitEnded(action.uid, "", "no user", self.now))
            return
        if fault == "late":
            # The program was killed, and the server gets to it all the same before it answers anything else.
            self.late.append(action)
            self.scheduler.apply(SubmitEnded(action.uid, "", "no answer", self.now))
            return
        if not self.doubled:
            ours = (action.uid, self.user, "pods")
            same = [job for job in self.batch.jobs.values() if (job.tag, job.owner, job.queue) == ours]
            assert not same, "submitted twice"
        job = "" if fault == "fail" else self.batch.submit(action.uid, action.chunks, self.user)
        answer = "" if fault else job
        self.scheduler.apply(SubmitEnded(action.uid, answer, fault, self.now))

    def release(self, action: Release) -> None:
        job = self.batch.jobs.get(action.name)
        if job is None:
            return
        assert job.tag == action.uid, "released somebody else's job"
        holders = [
            uid
            for uid, node in self.containers.items()
            if action.name in self.under[uid]
            and not any(node in self.batch.hosts_of_job(one) for one in self.under[uid] - {action.name})
        ]
        assert not holders, f"{job.id} was released under {holders}"
        del self.batch.jobs[action.name]

    def missing(self, host: str) -> int:
        """Thousandths of a core that jobs that begin there lack, once those have left who are leaving."""
        shares = [share for job in self.seen.jobs if not job.tag for share in job.shares if share.host == host]
        asked = sum(dict(one.request)["cpu"] for one in self.there(host))
        return asked + min(CORES, sum(share.cores for share in shares)) * 1000 - CORES * 1000 if shares else 0

    def there(self, host: str) -> list[Pod]:
        """Pods that stay if nobody asks them."""
        return [one for one in self.pods.values() if one.node == host and one.charged and not one.terminating]

    def backs(self, job: BatchJob, uid: str) -> bool:
        return job.tag == uid or (job.tag == "group-gang" and uid[:2] in GANG)

    def bound(self, action: Bind) -> None:
        backing = [job for job in self.seen.jobs if job.runs and self.backs(job, action.uid)]
        ours = [job for job in backing if (job.owner, job.queue) == (self.user, "pods")]
        there = {job.id for job in ours if action.node in job.hosts}
        assert there, "bound beside its job"
        self.containers[action.uid] = action.node
        self.under[action.uid] = there

    def read(self) -> None:
        """The server first does what has reached it."""
        for action in self.late:
            if not [job for job in self.batch.jobs.values() if job.tag == action.uid]:
                self.batch.submit(action.uid, action.chunks, self.whose(action).user)
        self.late.clear()
        self.now += 1.0
        self.before = self.seen = JobsRead(tuple(self.batch.jobs.values()), self.now - 0.1)
        self.scheduler.apply(self.seen)

    def kubelets(self) -> None:
        """Containers of pods that were asked to leave end."""
        for one in list(self.pods.values()):
            if one.terminating:
                self.see(replace(one, phase=Phase.FAILED))
                self.containers.pop(one.uid, None)
                self.run()
                self.gone(self.pods[one.uid])

    def second(self) -> None:
        self.read()
        self.run()
        self.batch.start()
        self.kubelets()
        # A gang that was just bound may take the place of a job: the next second makes room again.
        before, self.lacking = self.lacking, {host for host in HOSTS if self.missing(host) > 0}
        assert not before & self.lacking, "no room was made"


def apply(world: World, operation: str) -> None:
    jobs, pods = list(world.batch.jobs.values()), list(world.pods.values())
    note(operation)
    match operation:
        case "unread":
            world.scheduler.apply(JobsUnread("exit status 255"))
            world.run()
        case "lose" | "fail" | "late":
            world.fault = operation
        case "die":
            successor(world)
        case "close" | "open":
            world.batch.closed = operation == "close"
        case "delete" if pods:
            world.see(replace(pods[0], terminating=True))
            if not pods[0].node:
                world.gone(world.pods[pods[0].uid])
        case "force" if pods:
            world.gone(pods[-1])
            # Its containers have ended before anybody may take them for gone.
            world.containers.pop(pods[-1].uid, None)
        case "end" if world.placements():
            name = min(world.placements())
            world.containers.pop(world.named(name).uid)
            world.finish(name)
            world.run()
            world.gone(world.named(name))
        case "requeue" if jobs:
            job = jobs[-1]
            world.batch.jobs[job.id] = replace(job, runs=False, state="Q", shares=())
        case "vanish" if jobs:
            del world.batch.jobs[jobs[0].id]
        case "double" if jobs:
            world.doubled = True
            world.batch.submit(jobs[0].tag, (Chunk(count=1, cores=1),), jobs[0].owner)
        case "reuse" if jobs:
            # The server has lost the job, and its id is now that of somebody else's.
            shares = jobs[0].shares[:1]
            hosts = tuple(share.host for share in shares) or HOSTS[:1]
            world.batch.jobs[jobs[0].id] = replace(jobs[0], tag="", runs=True, state="R", shares=shares, hosts=hosts)
        case "squat" | "begin":
            beside(world, operation)
        case "older":
            world.scheduler.apply(world.before)
            world.run()
        case _:
            about_owners(world, operation)
    world.second()


def beside(world: World, what: str) -> None:
    """A pod comes that the batch system does not know of, or a job of others that no node has heard of yet."""
    world.serial += 1
    for host in HOSTS:
        free = CORES * 1000 - sum(dict(one.request)["cpu"] for one in world.pods.values() if one.node == host)
        if what == "squat" and free >= 2000:
            squatter = pod(f"squatter-{world.serial}", node=host, phase=Phase.RUNNING, request=amounts(cpu="2"))
            world.see(squatter)
            world.containers[squatter.uid], world.under[squatter.uid] = host, set()
            return
        taken = sum(share.cores for job in world.batch.jobs.values() for share in job.shares if share.host == host)
        if what == "begin" and taken <= CORES - 2:
            name, share = f"{world.serial}.other", HostShare(host=host, cores=2)
            world.batch.jobs[name] = BatchJob(
                id=name, run=1, state="R", system="pbs", runs=True, hosts=(host,), shares=(share,)
            )
            return


def about_owners(world: World, how: str) -> None:
    """The group is none any more, the namespace changes hands, or somebody else's job has the name of one of ours."""
    if how in ("ungroup", "orphan", "move"):
        without_group(world, how)
    elif how in ("alice", "bob", "nobody"):
        world.belongs_to(how.replace("nobody", ""))
    elif how == "namesake" and world.batch.jobs:
        *_others, last = world.batch.jobs.values()
        world.batch.submit(last.tag, (Chunk(count=1, cores=1),), "mallory")
    elif how == "express" and world.batch.jobs:
        *_others, last = world.batch.jobs.values()
        world.batch.submit(last.tag, (Chunk(count=1, cores=1),), "alice", queue="express")


def without_group(world: World, how: str) -> None:
    """The group is deleted, before or while a daemon is there to see it, or is in no queue; the pods stay for long."""
    if how == "move":
        world.see(gang("gang", len(GANG), queue="nowhere"))
    elif how == "ungroup":
        world.gone(gang("gang", len(GANG), queue="backed"))
    else:
        successor(world, group=False)
    for _unused in range(40):
        world.read()
        world.run()
        world.batch.start()


def successor(world: World, *, group: bool = True) -> None:
    """The daemon dies, and another one sees what is there."""
    fresh = Backed(batch=world.batch, settings=SETTINGS)
    world.scheduler = fresh.scheduler
    world.belongs_to(world.user)
    for item in [*NODES, *([gang("gang", len(GANG), queue="backed")] if group else ()), *world.pods.values()]:
        world.see(item)


def come_together(operations: list[str]) -> None:
    world = World()
    world.second()
    for operation in operations:
        apply(world, operation)
        world.create()
    for _unused in range(3):
        world.second()
    for squatter in [one for one in world.pods.values() if one.name.startswith("squatter")]:
        world.gone(squatter)
    foreign = {name for name, job in world.batch.jobs.items() if not job.tag}
    world.batch.closed = False
    world.belongs_to("bob")
    for name in foreign:
        # Those that wait would fill the hosts for ever.
        world.batch.asked.pop(name, None)
        world.batch.jobs[name] = replace(world.batch.jobs[name], shares=())
    for _unused in range(700):
        world.second()
        world.create()
        if is_whole(world):
            break
    for _unused in range(5):
        world.second()
        assert is_whole(world), (world.pods.values(), world.batch.jobs)
    assert foreign <= world.batch.jobs.keys()


def is_whole(world: World) -> bool:
    """Every pod has its node and its job, every job its pod, and none has two."""
    jobs = [job for job in world.batch.jobs.values() if job.tag]
    return (
        {pod.name for pod in world.pods.values() if pod.node} == {*SINGLES, *GANG}
        and len({job.tag for job in jobs}) == len(jobs)
        and {job.owner for job in jobs} == {world.user}
        and all(any(job.runs and world.backs(job, uid) for job in jobs) for uid in world.pods)
        and all(any(world.backs(job, uid) for uid in world.pods) for job in jobs)
    )


@given(st.lists(st.sampled_from(OPERATIONS), max_size=25))
# The gang is bound in the last of the three seconds in which room is made.
@example(["squat", "reuse", "bob", "pass", "pass", "alice", "pass"])
def test_whatever_fails_jobs_and_pods_come_together_again(operations):
    come_together(operations)


@pytest.mark.soak
@given(st.lists(st.sampled_from(OPERATIONS), min_size=5, max_size=60))
@example(["fail", "requeue", "squat", "squat", "pass", "pass", "begin"])  # the same, of a pod alone
def test_whatever_fails_for_long_jobs_and_pods_come_together_again(operations):
    come_together(operations)
