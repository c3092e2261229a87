# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backed queues under random faults: answers lost, failed, late or absent, daemons that die, jobs that vanish."""

from dataclasses import replace

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from placement.model.action import Action, Bind, Evict, Release, Submit
from placement.model.batch import BatchJob, Chunk, Share
from placement.model.event import JobsRead, JobsUnread, SubmitEnded
from placement.model.pod import Phase
from placement_kit.backed import Backed
from placement_kit.builders import amounts, gang

SINGLES = ("p1", "p2")
GANG = ("g0", "g1", "g2")
OPERATIONS = (
    *("pass", "pass", "unread", "lose", "fail", "late", "die", "close", "open", "delete", "force", "end", "requeue"),
    *("vanish", "double", "reuse", "older", "ungroup", "orphan", "move"),
)


class World(Backed):
    """What is true, and what the daemon is told of it."""

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""
        self.late: list[Submit] = []
        self.before = JobsRead((), 0.0)
        # Pods of which containers may still run, by their node.
        self.containers: dict[str, str] = {}
        self.doubled = False
        self.create()

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
            pod = self.pods[action.uid]
            self.see(replace(pod, terminating=True))
        else:
            if isinstance(action, Bind):
                self.bound(action)
            super().carry_out(action)

    def submit(self, action: Submit) -> None:
        fault, self.fault = self.fault, ""
        if fault == "late":
            # The program was killed, and the server gets to it all the same before it answers anything else.
            self.late.append(action)
            self.scheduler.apply(SubmitEnded(action.uid, "", "no answer", self.now))
            return
        if not self.doubled:
            assert not [job for job in self.batch.jobs.values() if job.tag == action.uid], "submitted twice"
        job = "" if fault == "fail" else self.batch.submit(action.uid, action.chunks)
        answer = "" if fault else job
        self.scheduler.apply(SubmitEnded(action.uid, answer, fault, self.now))

    def release(self, action: Release) -> None:
        job = self.batch.jobs.get(action.name)
        if job is None:
            return
        assert job.tag == action.uid, "released somebody else's job"
        others = [one for one in self.batch.jobs.values() if one.tag == job.tag and one is not job and one.runs]
        hosts = {share.host for share in job.shares} - {share.host for one in others for share in one.shares}
        holders = [uid for uid, node in self.containers.items() if node in hosts and self.backs(job, uid)]
        assert not holders, f"{job.job} was released under {holders}"
        del self.batch.jobs[action.name]

    def backs(self, job: BatchJob, uid: str) -> bool:
        return job.tag == uid or (job.tag == "group-gang" and uid[:2] in GANG)

    def bound(self, action: Bind) -> None:
        backing = [job for job in self.seen.jobs if job.runs and self.backs(job, action.uid)]
        assert any(share.host == action.node for job in backing for share in job.shares), "bound beside its job"
        self.containers[action.uid] = action.node

    def read(self) -> None:
        """The server first does what has reached it."""
        for action in self.late:
            if not [job for job in self.batch.jobs.values() if job.tag == action.uid]:
                self.batch.submit(action.uid, action.chunks)
        self.late.clear()
        self.now += 1.0
        self.before = self.seen = JobsRead(tuple(self.batch.jobs.values()), self.now - 0.1)
        self.scheduler.apply(self.seen)

    def kubelets(self) -> None:
        """Containers of pods that were asked to leave end."""
        for pod in list(self.pods.values()):
            if pod.terminating:
                self.see(replace(pod, phase=Phase.FAILED))
                self.containers.pop(pod.uid, None)
                self.run()
                self.gone(self.pods[pod.uid])

    def second(self) -> None:
        self.read()
        self.run()
        self.batch.start()
        self.kubelets()


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
            world.batch.jobs[job.job] = replace(job, runs=False, state="Q", shares=())
        case "vanish" if jobs:
            del world.batch.jobs[jobs[0].job]
        case "double" if jobs:
            world.doubled = True
            world.batch.submit(jobs[0].tag, (Chunk(count=1, cores=1),))
        case "reuse" if jobs:
            # The server has lost the job, and its id is now that of somebody else's.
            share = Share(host="n1", cores=1)
            world.batch.jobs[jobs[0].job] = replace(jobs[0], tag="", runs=True, state="R", shares=(share,))
        case "older":
            world.scheduler.apply(world.before)
            world.run()
        case "ungroup" | "orphan" | "move":
            without_group(world, operation)
    world.second()


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
    fresh = Backed(batch=world.batch)
    world.scheduler = fresh.scheduler
    for item in [*([gang("gang", len(GANG), queue="backed")] if group else ()), *world.pods.values()]:
        world.see(item)


def come_together(operations: list[str]) -> None:
    world = World()
    world.second()
    for operation in operations:
        apply(world, operation)
        world.create()
    foreign = {name for name, job in world.batch.jobs.items() if not job.tag}
    world.batch.closed = False
    for name in foreign:
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
        and all(any(job.runs and world.backs(job, uid) for job in jobs) for uid in world.pods)
        and all(any(world.backs(job, uid) for uid in world.pods) for job in jobs)
    )


@given(st.lists(st.sampled_from(OPERATIONS), max_size=25))
def test_whatever_fails_jobs_and_pods_come_together_again(operations):
    come_together(operations)


@pytest.mark.soak
@settings(max_examples=2000)
@given(st.lists(st.sampled_from(OPERATIONS), min_size=5, max_size=60))
def test_whatever_fails_for_long_jobs_and_pods_come_together_again(operations):
    come_together(operations)
