# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sites where jobs are submitted as the users that namespaces belong to: a job of somebody else's backs nothing."""

from collections import Counter

import pytest
from placement.model.action import Evict, Release, Submit
from placement.model.batch import BackingRules, Chunk
from placement.model.workload import Namespace
from placement_kit.backed import Backed, Batch
from placement_kit.builders import pairs


def user_of(_namespace, labels, _queue):
    return dict(labels).get("site/user")


def site_of(user: str = "alice", batch: Batch | None = None) -> Backed:
    made = Backed(batch=batch, rules=BackingRules(user_of=user_of, linger=5.0))
    made.see(Namespace(uid="uid-team", name="team", version=1, labels=pairs(**{"site/user": user})))
    return made


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
    again.scheduler.session.backing.rules = BackingRules(user_of=lambda *_who: None)
    again.settle(seconds=20)
    assert kinds(again) == {}
