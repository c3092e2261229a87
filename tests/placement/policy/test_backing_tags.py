# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod was bound for is at the pod: no daemon that comes later mistakes its job for nobody's, and nobody gains by
writing there himself.
"""

from dataclasses import replace

import pytest
from placement.model.batch import Chunk
from placement.model.messages.action import Bind, Evict, Release
from placement.model.messages.event import BindFailed, Unreadable
from placement.model.messages.refusal import Refusal
from placement.model.objects.pod import Phase
from placement.model.objects.workload import VOLCANO, PodGroup
from placement_kit.backed import Backed
from placement_kit.builders import amounts, gang, mine, node

TEAM = gang("team", 2, queue="backed")


@pytest.fixture
def site() -> Backed:
    """A gang of two that has its job."""
    made = Backed()
    made.see(TEAM, *(made.pod(f"p{number}", group="team") for number in range(2)))
    made.settle()
    assert set(made.placements()) == {"p0", "p1"}
    return made


def successor(site: Backed, *more: object) -> Backed:
    """The daemon is gone, and the next one sees the same pods; they take their time to leave."""
    made = Backed(batch=site.batch)
    made.stubborn = True
    made.see(*more, *site.pods.values())
    return made


def of(kind, site: Backed):
    return [action for action in site.actions if isinstance(action, kind)]


def test_a_pod_is_bound_with_the_tag_of_its_job(site):
    site.see(site.pod("late", group="team"), site.pod("alone"), mine("plain"))
    site.settle()
    tags = {bind.name: bind.tag for bind in of(Bind, site)}
    assert tags == {"p0": "group-team", "p1": "group-team", "late": "uid-late", "alone": "uid-alone", "plain": None}


@pytest.mark.parametrize("job", ["requeued", "elsewhere", "gone"])
@pytest.mark.parametrize("group", ["deleted", "in another queue", "made again"])
def test_whatever_becomes_of_group_job_and_daemon_pods_leave_and_no_job_ends_under_them(site, group, job):
    (name,) = site.batch.jobs
    site.batch.requeue()
    if job == "elsewhere":
        running = {"runs": True, "state": "R", "shares": ()}
        site.batch.jobs[name] = replace(site.batch.jobs[name], **running)
    elif job == "gone":
        del site.batch.jobs[name]
    found = {"in another queue": replace(TEAM, queue="default"), "made again": replace(TEAM, uid="group-again")}
    again = successor(site, *([found[group]] if group in found else ()))
    again.settle(seconds=60)
    assert {evict.name for evict in of(Evict, again)} == {"p0", "p1"}
    assert not of(Release, again)
    again.finish("p0", "p1", phase=Phase.FAILED)
    again.settle(seconds=60)
    assert not again.batch.jobs


def test_a_pod_that_has_left_its_gang_holds_the_gang_s_job_until_it_has_ended(site):
    again = successor(site, TEAM)
    for pod in site.pods.values():
        again.see(replace(pod, annotations=(("scheduling.converged.hpc/queue", "backed"),)))
    again.settle(seconds=60)
    assert {(evict.name, evict.reason) for evict in of(Evict, again)} == {("p0", "JobEnded"), ("p1", "JobEnded")}
    assert not of(Release, again)


def test_a_forged_tag_keeps_nobody_else_s_job_and_its_pod_does_not_stay(site):
    forged = [
        mine(f"m{number}", namespace="evil", node=f"n{number}", phase=Phase.RUNNING, tag="group-team", **more)
        for number, more in enumerate(({}, {"group": "of-nobody"}))
    ]
    again = successor(site, *forged)
    again.settle(seconds=5)
    assert {evict.name for evict in of(Evict, again)} == {"p0", "p1", "m0", "m1"}
    again.finish("p0", "p1", phase=Phase.FAILED)
    again.settle(seconds=3)
    assert not again.batch.jobs


def test_a_forged_tag_disturbs_no_gang_that_waits_or_runs(site):
    forged = mine("m", namespace="evil", node="n1", phase=Phase.RUNNING, tag="group-team", request=())
    other = gang("other", 1, queue="backed")
    site.see(forged, other, replace(forged, uid="uid-x", name="x", tag="group-other"), site.pod("q", group="other"))
    site.settle(seconds=60)
    assert not of(Evict | Release, site)
    assert {"p0", "p1", "q"} <= set(site.placements())


@pytest.mark.parametrize("again", [False, True])
def test_what_a_pod_says_before_it_is_bound_is_void(site, again):
    site.see(mine("copy", tag="group-team"), site.pod("backed", tag="group-team"))
    site.settle()
    assert {pod.name: pod.tag for pod in site.pods.values() if pod.name in ("copy", "backed")} == {
        "copy": "",
        "backed": "uid-backed",
    }
    site = successor(site, TEAM) if again else site
    site.settle(seconds=60)
    assert not of(Evict | Release, site)


@pytest.mark.parametrize("tag", ["", "group-other", "uid-p0"])
def test_who_changes_the_tag_of_a_pod_that_is_bound_loses_it(site, tag):
    site.stubborn = True
    site.see(replace(site.named("p0"), tag=tag))
    site.settle(seconds=5)
    assert [(evict.name, evict.reason) for evict in of(Evict, site)] == [("p0", "NotBacked")]
    assert not of(Release, site)


def test_a_group_of_the_same_name_in_another_api_takes_the_gang_over_and_no_job_is_left(site):
    site.gone(TEAM)
    first = replace(TEAM, uid="group-volcano", dialect=VOLCANO)
    site.see(first, *(site.pod(f"q{number}", group="team") for number in range(2)))
    site.settle(seconds=60)
    assert [job.tag for job in site.batch.jobs.values()] == ["group-volcano"]
    site.see(TEAM)
    site.settle(seconds=60)
    site.see(*(site.pod(f"r{number}", group="team") for number in range(2)))
    site.settle(seconds=60)
    assert [job.tag for job in site.batch.jobs.values()] == ["group-team"]
    assert set(site.placements()) == {"r0", "r1"}


def test_a_group_that_cannot_be_read_takes_nobody_the_job_that_he_runs_on(site):
    again = successor(site)
    about = {"kind": "PodGroup", "namespace": TEAM.namespace, "name": TEAM.name, "uid": TEAM.uid}
    refusal = Refusal(**about, version=7, field="spec.minMember", reason="no number")
    again.scheduler.apply(Unreadable(PodGroup, refusal))
    again.settle(seconds=60)
    assert not of(Evict | Release, again)
    again.batch.requeue()
    again.settle(seconds=5)
    assert {evict.name for evict in of(Evict, again)} == {"p0", "p1"}
    assert not of(Release, again)


def test_of_two_jobs_that_run_none_ends_under_a_pod_when_another_daemon_takes_over():
    site = Backed()
    site.batch.closed = True
    site.batch.submit("uid-p1", (Chunk(count=1, cores=3),))
    site.batch.closed = False
    name = site.batch.submit("uid-p1", (Chunk(count=1, cores=3),))
    site.batch.start()
    (host,) = site.batch.hosts_of_job(name)
    again = successor(site, site.pod("p1", node=host, phase=Phase.RUNNING, tag="uid-p1"))
    again.settle(seconds=60)
    assert name in again.batch.jobs
    again.finish("p1")
    again.settle(seconds=60)
    assert not again.batch.jobs


def test_a_pod_that_has_failed_because_its_node_is_gone_may_still_run_for_a_while(site):
    site.stubborn = True
    for name in ("p0", "p1"):
        site.gone(node(site.named(name).node))
        site.finish(name, phase=Phase.FAILED)
    site.settle(seconds=1)
    site.gone(site.named("p0"), site.named("p1"))
    site.settle(seconds=20)
    assert not of(Release, site)
    site.settle(seconds=20)
    assert len(of(Release, site)) == 1


def test_a_job_s_name_says_whose_namespace_it_is_for():
    site = Backed()
    site.see(site.pod("p1", namespace="other", request=amounts(cpu="1")))
    site.settle()
    assert [job.namespace for job in site.batch.jobs.values()] == ["other"]


class Slow(Backed):
    """An API that gets to bindings when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[Bind] = []

    def carry_out(self, action):
        if isinstance(action, Bind):
            self.late.append(action)
        else:
            super().carry_out(action)


@pytest.fixture
def slow() -> Slow:
    """A gang whose bindings are under way, and whose group is deleted."""
    made = Slow()
    made.see(TEAM, *(made.pod(f"p{number}", group="team") for number in range(2)))
    made.settle(seconds=3)
    assert len(made.late) == 2
    made.gone(TEAM)
    made.settle(seconds=60)
    return made


def test_a_job_waits_for_bindings_that_are_under_way(slow):
    assert not of(Release, slow)
    slow.stubborn = True
    for bind in slow.late:
        slow.see(replace(slow.pods[bind.uid], node=bind.node, phase=Phase.RUNNING, tag=bind.tag))
    slow.settle(seconds=60)
    assert {evict.name for evict in of(Evict, slow)} == {"p0", "p1"}
    assert not of(Release, slow)


def test_a_job_waits_for_no_binding_that_has_failed(slow):
    for bind in slow.late:
        slow.scheduler.apply(BindFailed(bind.uid, bind.node, "no"))
    slow.settle(seconds=3)
    assert not slow.batch.jobs


def test_nobody_is_bound_for_a_job_that_was_asked_to_end(site):
    site.batch.endless = True
    for name in ("p0", "p1"):
        site.finish(name)
        site.gone(site.named(name))
    site.settle(seconds=60)
    assert of(Release, site)
    site.see(*(site.pod(f"q{number}", group="team") for number in range(2)))
    site.settle(seconds=10)
    assert not site.placements()
    site.batch.jobs.clear()
    site.settle()
    assert set(site.placements()) == {"q0", "q1"}
    assert not of(Evict, site)
