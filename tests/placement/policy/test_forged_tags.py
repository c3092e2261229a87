# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others write at their pods and name their jobs neither keeps nor ends a job of the batch system."""

from dataclasses import replace

import pytest
from placement.model.batch import Chunk
from placement.model.messages.action import Evict, Release
from placement.model.objects.pod import Phase
from placement_kit.backed import Backed
from placement_kit.builders import gang, mine

TEAM = gang("team", 2, queue="backed")
SMALL = (Chunk(count=1, cores=1),)


def of(kind, site):
    return [action for action in site.actions if isinstance(action, kind)]


@pytest.fixture
def site():
    """A gang of two that has its job, and takes its time to leave."""
    made = Backed()
    made.see(TEAM, *(made.pod(f"p{number}", group="team") for number in range(2)))
    made.settle()
    assert set(made.placements()) == {"p0", "p1"}
    made.stubborn = True
    return made


def test_a_tag_that_a_pod_was_not_bound_with_is_nobody_s(site):
    late = mine("late", namespace=site.named("p0").namespace, node="n1", phase=Phase.RUNNING)
    site.see(late)
    site.settle()
    site.see(replace(late, tag="group-team"))
    site.settle(seconds=5)
    assert [(evict.name, evict.reason) for evict in of(Evict, site)] == [("late", "NotBacked")]
    site.gone(TEAM)
    site.finish("p0", "p1", phase=Phase.FAILED)
    site.settle(seconds=60)
    assert not site.batch.jobs, "it kept the job of a gang that it was never bound for"


def test_that_a_tag_was_late_is_forgotten_with_its_pod(site):
    tags = site.scheduler.cache.tags
    late = mine("late", node="n1", phase=Phase.RUNNING)
    site.see(late, replace(late, tag="group-team"))
    assert (set(tags.bare), set(tags.altered)) == ({late.uid}, {late.uid})
    site.gone(late)
    site.settle()
    assert not {late.uid} & (tags.bare.keys() | tags.altered.keys() | tags.of.keys())


def test_a_pod_that_comes_and_goes_between_two_looks_leaves_no_tag_behind(site):
    passing = mine("passing", node="n1", phase=Phase.RUNNING, tag="group-team")
    site.see(passing)
    site.gone(passing)
    site.settle()
    assert passing.uid not in site.scheduler.cache.tags.of


def test_a_job_that_names_the_tag_and_another_namespace_lets_no_pod_of_that_keep_the_job(site):
    (own,) = site.batch.jobs
    site.batch.submit("group-team", SMALL, owner="eve", namespace="evil")
    site.batch.start()
    again = Backed(batch=site.batch)
    again.stubborn = True
    pods = [mine("m0", namespace="evil", node="n1", phase=Phase.RUNNING, tag="group-team")]
    again.see(*pods, *site.pods.values())
    again.settle(seconds=5)
    again.finish("p0", "p1", phase=Phase.FAILED)
    again.settle(seconds=60)
    assert own not in again.batch.jobs
    assert again.named("m0").phase is Phase.RUNNING


def test_a_job_that_was_named_for_another_namespace_takes_none_its_job_where_nobody_knows_whose_it_is():
    site = Backed()
    names = [site.batch.submit("group-gone", SMALL, namespace=namespace) for namespace in ("evil", "team")]
    site.batch.start()
    assert {site.batch.hosts_of_job(name) for name in names} == {("n1",)}, "the first is taken for the unit's"
    site.stubborn = True
    site.see(mine("p", namespace="team", node="n1", phase=Phase.RUNNING, tag="group-gone"))
    site.settle(seconds=120)
    assert names[1] in site.batch.jobs
    assert names[1] not in {release.name for release in of(Release, site)}
    site.finish("p")
    site.settle(seconds=60)
    assert not site.batch.jobs
