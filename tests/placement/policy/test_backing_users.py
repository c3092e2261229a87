# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sites where jobs are submitted as the users that namespaces belong to: a job of somebody else's backs nothing."""

from collections import Counter
from dataclasses import replace

import pytest
from placement.model.batch import BackingSettings, Chunk, Whose
from placement.model.messages.action import Evict, Release, Submit
from placement.model.objects.pod import Phase
from placement.model.objects.workload import Namespace
from placement_kit.backed import Backed, Batch
from placement_kit.builders import amounts, gang, mine, pairs


def whose(_namespace, labels, _queue):
    user = dict(labels).get("site/user")
    return Whose(user, "pods") if user else None


def site_of(user: str = "alice", batch: Batch | None = None) -> Backed:
    made = Backed(batch=batch, settings=BackingSettings(whose=whose, linger=5.0))
    made.see(owned_by(user))
    return made


def owned_by(user: str) -> Namespace:
    return Namespace(uid="uid-team", name="team", version=1, labels=pairs(**{"site/user": user}))


def unmapped(batch: Batch) -> Backed:
    """A daemon that submits as itself."""
    return Backed(batch=batch, settings=BackingSettings(whose=lambda *_namespace: Whose("", "pods"), linger=5.0))


def kinds(site: Backed) -> Counter[str]:
    return Counter(type(action).__name__ for action in site.actions if isinstance(action, Submit | Release | Evict))


def test_a_job_is_the_user_s_from_beginning_to_end():
    site = site_of()
    site.see(site.pod("p1"))
    site.settle()
    assert [job.owner for job in site.batch.jobs.values()] == ["alice"]
    assert set(site.placements()) == {"p1"}
    site.gone(site.named("p1"))
    site.settle(seconds=10)
    assert [(action.name, action.user) for action in site.actions if isinstance(action, Release)] == [
        ("1.srv", "alice")
    ]
    assert site.batch.jobs == {}


@pytest.mark.parametrize("runs", [True, False])
def test_a_job_that_another_user_gave_the_same_name_backs_nobody_and_ends(runs):
    site = site_of()
    site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), "mallory")
    if runs:
        site.batch.start()
    site.see(site.pod("p1"))
    site.settle(seconds=8)
    assert [job.owner for job in site.batch.jobs.values()] == ["alice"]
    assert kinds(site) == {"Submit": 1, "Release": 1}
    assert set(site.placements()) == {"p1"}


def test_one_made_later_does_not_disturb_who_runs():
    site = site_of()
    site.see(site.pod("p1"))
    site.settle()
    for _unused in range(5):
        site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), "mallory")
        site.settle(seconds=1)
    site.settle()
    assert [job.owner for job in site.batch.jobs.values()] == ["alice"]
    assert kinds(site) == {"Submit": 1, "Release": 5}


def test_the_next_daemon_finds_the_user_s_job_again():
    site = site_of()
    site.see(site.pod("p1"))
    site.settle()
    again = site_of(batch=site.batch)
    again.see(*site.pods.values())
    again.settle(seconds=20)
    assert kinds(again) == {}
    assert set(again.placements()) == {"p1"}


def test_a_namespace_that_has_changed_hands_gets_its_pods_a_new_job_and_none_is_under_a_pod_when_it_ends():
    site = site_of()
    site.see(site.pod("p1"))
    site.settle()
    again = site_of("bob", batch=site.batch)
    again.stubborn = True
    again.see(*site.pods.values())
    again.settle(seconds=20)
    # The pod is asked to leave, and while it has not the job stays.
    assert kinds(again) == {"Evict": 1}
    assert [job.owner for job in again.batch.jobs.values()] == ["alice"]
    again.finish("p1")
    again.run()
    again.gone(again.named("p1"))
    again.settle(seconds=20)
    assert again.batch.jobs == {}


def test_where_nobody_can_say_whose_a_job_is_all_stays_as_it_is():
    site = site_of()
    site.see(site.pod("p1"))
    site.settle()
    again = site_of("", batch=site.batch)
    again.see(*site.pods.values())
    again.settle(seconds=20)
    assert kinds(again) == {}


def test_pods_of_a_requeued_job_leave_although_nobody_can_say_whose_it_is_so_no_daemon_loses_sight_of_them():
    site = site_of()
    site.see(gang("team", 2, queue="backed"), *(site.pod(f"p{n}", group="team") for n in range(2)))
    site.settle()
    site.see(owned_by(""))
    site.settle()
    assert set(site.placements()) == {"p0", "p1"}
    site.batch.requeue("alice")
    site.settle(seconds=2)
    # Its successor finds no group, and a job that says of no host that it has been there.
    again = site_of("", batch=site.batch)
    again.see(*site.pods.values())
    again.settle(seconds=20)
    assert again.batch.jobs == {}
    assert again.placements() == {}
    assert kinds(site) == {"Submit": 1, "Evict": 2}


def test_pods_without_their_group_leave_before_any_job_ends_that_may_be_theirs():
    site = site_of("")
    site.stubborn = True
    for owner in ("mallory", "alice"):
        site.batch.submit("group-team", (Chunk(count=1, cores=3),), owner)
    site.batch.start()
    (rightful,) = [job for job in site.batch.jobs.values() if job.owner == "alice"]
    there = site.pod("p1", group="team", node=rightful.shares[0].host, phase=Phase.RUNNING, tag="group-team")
    site.see(there)
    site.settle(seconds=60)
    assert kinds(site) == {"Evict": 1}
    site.gone(site.named("p1"))
    site.settle(seconds=60)
    assert site.batch.jobs == {}


def test_while_nobody_can_say_whose_they_are_a_pod_stays_as_long_as_a_job_of_its_name_runs_on_its_node():
    site = site_of("")
    for owner in ("mallory", "alice"):
        site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), owner)
    site.batch.start()
    site.see(replace(site.pod("p1"), node="n1", phase=Phase.RUNNING))
    site.settle()
    # The first of two that run is taken for its own.
    site.batch.requeue("mallory")
    site.settle(seconds=20)
    assert kinds(site) == {}
    site.batch.requeue("alice")
    site.settle(seconds=2)
    assert kinds(site)["Evict"] == 1


def test_a_job_that_anybody_has_named_after_a_pod_that_is_not_backed_costs_nobody_that_pod():
    site = site_of()
    site.see(mine("plain", node="n1", phase=Phase.RUNNING))
    site.batch.submit("uid-plain", (Chunk(count=1, cores=1),), "mallory")
    site.batch.start()
    site.settle(seconds=60)
    assert kinds(site) == {"Release": 1}


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("user", ["alice", ""])
def test_a_job_that_anybody_has_named_after_a_member_takes_nobody_out_of_its_gang(bound, user):
    site = site_of("alice" if bound else user)
    site.see(gang("team", 2, queue="backed"), *(site.pod(f"p{n}", group="team") for n in range(2)))
    site.settle(seconds=6 if bound else 0)
    site.see(owned_by(user))
    site.batch.endless = True
    name = site.batch.submit("uid-p0", (Chunk(count=1, cores=1),), "mallory")
    site.batch.start()
    site.settle()
    del site.batch.jobs[name]
    site.see(owned_by("alice"))
    site.settle(seconds=10)
    site.batch.submit("uid-p0", (Chunk(count=1, cores=1),), "mallory")
    site.settle()
    assert not kinds(site)["Evict"]
    assert [action.uid for action in site.actions if isinstance(action, Submit)] == ["group-team"]
    backing, tasks = site.scheduler.session.batch_jobs, site.scheduler.cache.jobs.tasks
    assert [backing.job_of(tasks[f"uid-p{n}"]).tag for n in range(2)] == ["group-team"] * 2
    assert set(site.placements()) == {"p0", "p1"}


@pytest.mark.parametrize("first", ["mallory", "alice"])
def test_a_namesake_costs_nobody_his_job_when_another_daemon_takes_over(first):
    site = site_of()
    second = "alice" if first == "mallory" else "mallory"
    for owner in (first, second):
        site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), owner)
    site.batch.start()
    (rightful,) = [job for job in site.batch.jobs.values() if job.owner == "alice"]
    site.see(replace(site.pod("p1"), node=rightful.shares[0].host, phase=Phase.RUNNING))
    site.settle(seconds=20)
    assert list(site.batch.jobs) == [rightful.id]
    assert kinds(site) == {"Release": 1}


def test_while_nobody_can_say_whose_they_are_no_job_of_a_name_is_used_or_ends():
    site = site_of("")
    for owner in ("mallory", "alice"):
        site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), owner)
    site.see(site.pod("p1"))
    site.settle(seconds=20)
    assert kinds(site) == {}
    assert "the settings name no user for namespace team" in site.conditions()["p1"]
    # It takes effect as soon as it is said, without a new daemon.
    site.see(owned_by("alice"))
    site.settle(seconds=3)
    assert set(site.placements()) == {"p1"}
    assert [job.owner for job in site.batch.jobs.values()] == ["alice"]


def test_a_namespace_that_changes_hands_is_taken_note_of_at_once_and_once():
    site = site_of()
    site.see(site.pod("p1"), site.pod("p2"))
    site.settle()
    site.stubborn = True
    site.see(owned_by("bob"))
    site.settle(seconds=30)
    assert kinds(site) == {"Submit": 2, "Evict": 2}
    assert [job.owner for job in site.batch.jobs.values()] == ["alice", "alice"]
    for name in ("p1", "p2"):
        site.finish(name)
        site.gone(site.named(name))
    site.see(site.pod("p3"))
    site.settle(seconds=30)
    assert [(job.tag, job.owner) for job in site.batch.jobs.values()] == [("uid-p3", "bob")]
    assert kinds(site) == {"Submit": 3, "Evict": 2, "Release": 2}


def test_a_gang_whose_namespace_changes_hands_has_no_second_job_before_all_have_left_the_first():
    site = site_of()
    site.see(gang("team", 2, queue="backed"), *(site.pod(f"p{n}", group="team") for n in range(2)))
    site.settle()
    site.see(owned_by("bob"))
    # Deleted by force: its containers may be there for a while.
    site.gone(site.named("p0"), site.named("p1"))
    site.see(*(site.pod(f"p{n}", group="team") for n in range(2, 4)))
    site.settle(seconds=3)
    assert [job.owner for job in site.batch.jobs.values()] == ["alice"]
    site.settle(seconds=20)
    assert [job.owner for job in site.batch.jobs.values()] == ["bob"]
    assert set(site.placements()) == {"p2", "p3"}


def test_a_user_that_the_host_does_not_know_is_said_and_mended_without_waiting():
    site = site_of("nobody-knows")
    site.batch.refusal = "pbs_user gives 'nobody-knows': there is no such user on this host"
    site.see(site.pod("p1"))
    site.settle(seconds=60)
    assert site.batch.refusal in site.conditions()["p1"]
    site.batch.refusal = ""
    site.see(owned_by("alice"))
    site.settle(seconds=4)
    assert set(site.placements()) == {"p1"}


def test_to_submit_as_users_from_now_on_takes_no_pod_its_job():
    before = unmapped(Batch())
    before.see(before.pod("p1"), before.pod("big", request=amounts(cpu="4")), before.pod("waits"))
    before.settle()
    again = site_of(batch=before.batch)
    again.see(*before.pods.values(), again.pod("new"))
    again.settle(seconds=20)
    assert kinds(again) == {"Submit": 1}
    assert sorted(job.owner for job in again.batch.jobs.values()) == ["", "", "", "alice"]


def test_to_submit_as_users_no_more_takes_no_pod_its_job():
    before = site_of()
    before.see(before.pod("p1"))
    before.batch.closed = False
    before.settle()
    before.batch.closed = True
    before.see(before.pod("queued"))
    before.settle()
    again = unmapped(before.batch)
    again.see(*before.pods.values())
    again.batch.closed = False
    again.settle(seconds=20)
    assert kinds(again) == {}
    assert set(again.placements()) == {"p1", "queued"}
    again.gone(again.named("p1"))
    again.settle(seconds=20)
    assert [(action.uid, action.user) for action in again.actions if isinstance(action, Release)] == [
        ("uid-p1", "alice")
    ]


def test_where_the_daemon_submits_all_no_job_of_another_queue_backs_anybody():
    site = unmapped(Batch())
    site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), "mallory", queue="workq")
    site.batch.start()
    site.see(site.pod("p1"))
    site.settle(seconds=3)
    assert kinds(site)["Submit"] == 1
    site.batch.start()
    site.settle(seconds=3)
    assert site.placements() == {"p1": site.batch.hosts_of("uid-p1")[-1]}
    assert "" in [job.owner for job in site.batch.jobs.values()]


@pytest.mark.parametrize("runs", [True, False])
def test_a_user_s_own_job_in_another_queue_backs_nobody_and_ends(runs):
    site = site_of()
    site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), "alice", queue="express")
    if runs:
        site.batch.start()
    site.see(site.pod("p1"))
    site.settle(seconds=8)
    assert [(job.owner, job.queue) for job in site.batch.jobs.values()] == [("alice", "pods")]
    assert kinds(site) == {"Submit": 1, "Release": 1}
    assert set(site.placements()) == {"p1"}


@pytest.mark.parametrize("group", ["", "team"])
def test_a_job_that_does_not_end_is_asked_less_and_less_often(group):
    site = site_of()
    site.batch.submit("uid-p1", (Chunk(count=1, cores=1),), "mallory")
    site.batch.closed = site.batch.endless = True
    site.see(gang("team", 1, queue="backed"), site.pod("p1", group=group))
    site.settle(seconds=300)
    assert kinds(site) == {"Submit": 1, "Release": 5}
