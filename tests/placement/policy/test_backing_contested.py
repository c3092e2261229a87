# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backed queues under users who forge and batch systems, hosts and nodes that fail, in random histories.

Whoever forges pays for it himself; no job of another user takes a pod off its node; and when all is well again every
gang is whole, every job has its pods, and nothing happens any more.
"""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, example, given, note, settings
from hypothesis import strategies as st
from placement.model.batch import BatchJob, Chunk
from placement.model.messages.action import Bind, Evict, Release, Submit
from placement.model.objects.pod import Pod
from placement_kit.backed import CORES, HOSTS
from placement_kit.contested import GANGS, MEMBERS, OWNERS, QUEUE, SINGLES, Contested

# What a user can do to his own pods, groups and jobs. He has the tags of everybody.
BY_USER = ("strip", "forge", "claim", "delete", "force", "ungroup", "qdel", "qrerun", "qhold", "qrls", "rename")
# What only he does who means harm.
BY_FORGER = ("squat", "squat", "namesake", "namesake", "express", "alias", "busy")
# What fails without anybody having to leave, and what takes nodes from jobs or jobs from nodes.
HARMLESS = ("pass", "pass", "lose", "fail", "late", "hang", "restart", "die", "older")
HARMFUL = ("mom down", "mom up", "lose node", "regain", "requeue", "vanish", "shut", "open")

# Longer than it takes for a job without pods to be ended, and not as long as a job that does not end is left alone.
QUIET = 40

# An operation, whose it is, and a number by which its object is chosen.
Step = tuple[str, str, int]


def steps(*kinds: tuple[str, tuple[str, ...]], most: int, least: int = 0) -> st.SearchStrategy[list[Step]]:
    """Operations by user."""
    known = [(what, user) for user, operations in kinds for what in operations]
    step = st.tuples(st.sampled_from(known), st.integers(0, 7)).map(lambda found: (*found[0], found[1]))
    return st.lists(step, min_size=least, max_size=most)


FORGED = (("evil", BY_USER), ("evil", BY_FORGER), ("", HARMLESS))
ALL = (*FORGED, ("team", BY_USER), ("", HARMFUL))


def chosen(items, number):
    """One of them, or None."""
    items = list(items)
    return items[number % len(items)] if items else None


def do(world: Contested, step: Step) -> None:
    what, who, number = step
    note(f"{what} {who} {number}")
    if who:
        pods = [one for one in world.pods.values() if one.namespace == who and one.node and one.charged]
        one = chosen(pods, number)
        if what in ("strip", "forge", "delete", "force") and one is not None:
            to_a_pod(world, what, one, number)
        elif what in ("claim", "ungroup", *BY_FORGER):
            to_others(world, what, who, number)
        else:
            job = chosen([job for job in world.batch.jobs.values() if job.owner == OWNERS[who]], number)
            if job is not None:
                to_a_job(world, what, job, number)
    else:
        to_the_site(world, what, number)


def to_a_pod(world: Contested, what: str, one: Pod, number: int) -> None:
    if what in ("strip", "forge"):
        tags = [*world.tags_of("team"), *world.tags_of("evil"), "nobody"]
        world.see(replace(one, tag="" if what == "strip" else chosen(tags, number)))
    elif what == "delete":
        world.see(replace(one, terminating=True))
    else:
        world.delete_by_force(one)


def to_others(world: Contested, what: str, who: str, number: int) -> None:
    tag = chosen(world.tags_of("team"), number)
    match what:
        case "claim":
            for one in [one for one in world.pods.values() if one.namespace == who and not one.node]:
                world.see(replace(one, tag=tag))
        case "ungroup":
            group = next(iter(world.scheduler.cache.jobs.by_key[key].group for key in groups(world, who)), None)
            if group is not None:
                world.gone(group)
        case "squat":
            world.forge(who, tag, GANGS["team"] if number % 2 else "", chosen(HOSTS, number // 2))
        case "namesake":
            world.impersonate(OWNERS[who], tag, namespace=chosen(OWNERS, number))
        case "express":
            world.impersonate(OWNERS[who], tag, queue="express")
        case "alias":
            job = chosen([job for job in world.batch.jobs.values() if job.owner == OWNERS[who]], number)
            if job is not None:
                world.rename(job, tag)
        case "busy":
            name = world.batch.submit("", (Chunk(count=1, cores=1),), OWNERS[who])
            world.batch.jobs[name] = replace(world.batch.jobs[name], mark="")


def groups(world: Contested, who: str) -> list[object]:
    return [
        key for key, job in world.scheduler.cache.jobs.by_key.items() if job.group is not None and key.namespace == who
    ]


def to_a_job(world: Contested, what: str, job: BatchJob, number: int) -> None:
    """What its owner can do by PBS's own commands."""
    match what:
        case "qdel":
            del world.batch.jobs[job.id]
        case "qrerun" | "qhold":
            world.requeue(job, held=what == "qhold")
        case "qrls":
            world.batch.stays_queued.discard(job.id)
        case "rename":
            # Nobody knows it for one of ours any more.
            world.rename(job, "")


def to_the_site(world: Contested, what: str, number: int) -> None:
    host = chosen(HOSTS, number)
    match what:
        case "lose" | "fail" | "late":
            world.fault = what
        case "hang":
            world.silent = 3 + number
        case "restart":
            world.silent = 2
            world.batch.restart()
        case "die":
            world.successor()
        case "older" if world.before:
            world.tell(world.before[0])
            world.run()
        case "mom down":
            world.down.setdefault(host, int(world.now))
            world.batch.down.add(host)
        case "mom up":
            world.regain_hosts()
        case "lose node":
            world.lose_node(host)
        case "regain":
            world.regain_nodes()
        case "requeue" if world.jobs_on(host):
            world.requeue(chosen(world.jobs_on(host), number))
        case "vanish" if world.batch.jobs:
            del world.batch.jobs[chosen(world.batch.jobs, number)]
        case "shut" | "open":
            world.batch.closed = what == "shut"


def settled() -> Contested:
    """Everybody has his place."""
    world = Contested()
    for _unused in range(8):
        world.second()
    assert is_whole(world)
    world.evicted.clear()
    return world


def is_whole(world: Contested, *namespaces: str) -> bool:
    """Every pod that somebody backs has its node and its job, every job its pod, and none has two."""
    found = True
    for namespace in namespaces or OWNERS:
        names = {*MEMBERS[namespace], *SINGLES[namespace]}
        pods = [one for one in world.pods.values() if one.namespace == namespace and one.name in names]
        owner, tags = OWNERS[namespace], {tag for one in pods for tag in (one.uid, world.group_tag(one)) if tag}
        jobs = [job for job in world.batch.jobs.values() if job.tag in tags]
        backing = {job.tag: set(job.hosts) for job in jobs if job.runs and (job.owner, job.queue) == (owner, QUEUE)}
        found = (
            found
            and {one.name for one in pods} == names
            and all(one.charged and by_tag(world, one, backing) for one in pods)
            and all(any(tag in (one.uid, world.group_tag(one)) for one in pods) for tag in backing)
            and len(jobs) == len(backing)
        )
    return found


def by_tag(world: Contested, one: Pod, backing: dict[str, set[str]]) -> bool:
    """Whether one of its jobs is where it is; what its owner has written on it does not matter."""
    return any(one.node in backing.get(tag, ()) for tag in (one.uid, world.group_tag(one)))


def come_to_rest(world: Contested) -> None:
    """All is well again: everybody has what he wants, and that is the end of it."""
    world.silent, world.fault, world.batch.closed = 0, "", False
    world.regain_hosts()
    world.regain_nodes()
    world.batch.stays_queued.clear()
    for name in [name for name, job in world.batch.jobs.items() if not job.tag]:
        # Those of users would fill the hosts for ever.
        del world.batch.jobs[name]
    quiet = 0
    for _unused in range(600):
        quiet = quiet + 1 if second_of_rest(world) and (is_whole(world) or is_full(world)) else 0
        if quiet == QUIET:
            return
    raise AssertionError(f"no rest: {world.actions[-20:]} {world.pods.values()} {world.batch.jobs}")


def is_full(world: Contested) -> bool:
    """Whether who has no node waits for cores.

    A member with a job of his own leaves his gang's with one to spare, and who forges may keep what he has so.
    """
    free = CORES * len(HOSTS) - sum(share.cores for job in world.batch.jobs.values() for share in job.shares)
    waiting = Counter((one.namespace, world.group_tag(one) or one.uid) for one in world.pods.values() if not one.node)
    return free == 0 or (len(waiting) > 0 and min(waiting.values()) > free)


def second_of_rest(world: Contested) -> bool:
    """Whether nothing is done to pods and jobs in a second."""
    world.actions.clear()
    world.second()
    world.create()
    return not any(isinstance(action, Bind | Evict | Submit | Release) for action in world.actions)


def live(operations: list[Step]) -> None:
    world = settled()
    for step in operations:
        do(world, step)
        world.second()
        world.create()
    come_to_rest(world)


def live_beside_a_forger(operations: list[Step]) -> None:
    world = settled()
    for step in operations:
        do(world, step)
        world.second()
        world.create()
        assert not [one for one in world.evicted if one[0] == "team"], world.evicted
        assert is_backed(world), (world.pods.values(), world.batch.jobs)
    event(f"evicted {min(len(world.evicted), 3)}")
    come_to_rest(world)
    assert not [one for one in world.evicted if one[0] == "team"], world.evicted


def is_backed(world: Contested) -> bool:
    """Alice's pods are where her jobs are, whatever jobs of others bear their names."""
    jobs = [job for job in world.batch.jobs.values() if job.runs and job.owner == "alice"]
    there = {(job.tag, host) for job in jobs for host in job.hosts}
    return all((one.tag, one.node) in there for one in world.pods.values() if one.namespace == "team")


# He keeps two cores by a job that bears another's name, and a pod of his that does: his own gang waits for them.
@example([("squat", "evil", 5), ("alias", "evil", 0)])
@given(steps(*FORGED, most=20))
def test_whoever_forges_pays_for_it_himself(operations):
    live_beside_a_forger(operations)


@given(steps(*ALL, most=20))
def test_whatever_users_and_the_site_do_gangs_and_jobs_come_to_rest(operations):
    live(operations)


@pytest.mark.soak
@settings(max_examples=settings().max_examples // 2)
@given(steps(*FORGED, least=10, most=60))
def test_whoever_forges_for_long_pays_for_it_himself(operations):
    live_beside_a_forger(operations)


@pytest.mark.soak
@settings(max_examples=settings().max_examples // 2)
@given(steps(*ALL, least=10, most=60))
def test_whatever_users_and_the_site_do_for_long_gangs_and_jobs_come_to_rest(operations):
    live(operations)
