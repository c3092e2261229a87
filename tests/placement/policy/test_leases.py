# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Others' jobs of the batch system: nodes that they have or are expected on, and what people are told of them."""

import json
from dataclasses import asdict, replace

import pytest
from nodeshare.model.jobs import lease
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.pods import placeholder
from nodeshare.model.settings import Settings
from placement.app.endpoints.render import explanation, queues
from placement.kube.decode.pod import decode_pod
from placement.kube.fields.metadata import Sharing
from placement.model.batch import BackingSettings, BatchJob, HostShare
from placement.model.messages.event import JobsRead, JobsUnread
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement.model.rules.topology import TopologyRequest
from placement.shared.victims import MIRROR
from placement_kit.backed import Backed
from placement_kit.builders import amounts, mine, node

THEIRS = BatchJob(id="15.srv", run=1, state="R", system="pbs", runs=True, hosts=("n1",), left=3600.0)
NEXT = BatchJob(id="16.srv", run=0, state="Q", system="pbs", hosts=("n2",), begins=600.0)


@pytest.fixture
def site() -> Backed:
    """Where `n1` has a job of somebody else's that its node does not know of yet, and one is expected on `n2`."""
    made = Backed()
    made.batch.jobs = {job.id: job for job in (THEIRS, NEXT)}
    made.read()
    return made


def told(site: Backed, name: str):
    site.run()
    found = site.explain("team", name)
    assert found is not None
    return found


def announce(site: Backed, text: str, host: str = "n1") -> None:
    site.see(node(host, leases=text))
    site.settle(seconds=1)


def mirror(*, run: int = 1, mirrored: bool = True) -> Pod:
    """What the API has of the placeholder that `n1` makes for three cores of a run of their job."""
    held = lease.Lease(JobKey("pbs", "15.srv", run), "boot", 100.0, cores=3)
    (planned,) = placeholder.plan((held,), (), Settings(node="n1")).values()
    manifest = placeholder.make(planned, Settings(node="n1")).manifest
    manifest["metadata"].update(uid="of-the-api", resourceVersion="7")
    manifest["metadata"]["annotations"].update({MIRROR: planned.stem + "00"} if mirrored else {})
    manifest["spec"]["nodeName"] = "n1"
    return decode_pod(json.dumps({**manifest, "status": {"phase": "Running"}}).encode(), Sharing())


def test_nobody_is_bound_where_a_job_has_begun_before_the_node_says_what_it_takes(site):
    site.see(mine("small"), mine("fixed", request=amounts(cpu="4")))
    site.settle()
    assert set(site.placements().values()) == {"n2"}
    waits = told(site, "fixed" if "small" in site.placements() else "small")
    assert {item.reason: item.examples for item in waits.nodes}["on which batch jobs begin"] == ("n1",)
    announce(site, json.dumps(["slurm/1/0", "pbs/15.srv/1"]))
    site.settle()
    assert set(site.placements().values()) == {"n1", "n2"}


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '"pbs/15.srv/1"', "[7, null]", '["pbs/15.srv/0"]', '["pbs/1.srv/1"]', "[" * 100_000]
)
def test_an_announcement_of_anything_else_opens_no_node(site, text):
    announce(site, text)
    site.see(mine("p1"))
    site.settle()
    assert site.placements() == {"p1": "n2"}


def test_a_placeholder_opens_its_node_but_for_what_it_takes_itself(site):
    site.see(mine("p1", request=amounts(cpu="4")), mine("p2"), mine("p3"))
    site.settle()
    assert "n1" not in site.placements().values()
    site.see(mirror())
    site.settle()
    ours = {name: host for name, host in site.placements().items() if name.startswith("p")}
    assert sorted(ours.values()) == ["n1", "n2"]
    assert ours["p1"] == "n2"
    # Its end comes before that of the job in the batch system's list.
    site.gone(mirror())
    site.settle()
    assert set(site.placements()) == {"p1", "p2", "p3"}


@pytest.mark.parametrize(
    "other",
    [
        mirror(run=2),
        mirror(mirrored=False),
        replace(mirror(), namespace="team"),
        replace(mirror(), node="n2"),
        replace(mirror(), node="", nominated_node="n1"),
        replace(mirror(), phase=Phase.FAILED),
        *(
            replace(mirror(), annotations=(("converged.hpc/lease", text),))
            for text in ("", "{", "[]", '"pbs/15.srv/1"', "[" * 100_000)
        ),
    ],
)
def test_no_other_pod_opens_a_node(site, other):
    site.see(other)
    site.see(mine("p1"))
    site.settle()
    assert site.placements()["p1"] == "n2"


def test_a_lease_that_its_node_has_ended_first_does_not_close_it_again(site):
    announce(site, '["pbs/15.srv/1"]')
    announce(site, "")
    site.see(mine("p1", request=amounts(cpu="4")), mine("p2", request=amounts(cpu="4")))
    site.settle()
    assert set(site.placements().values()) == {"n1", "n2"}


@pytest.mark.parametrize("after", [None, replace(THEIRS, run=2), replace(THEIRS, id="17.srv")])
def test_another_run_or_job_closes_the_node_until_it_is_announced_itself(site, after):
    announce(site, '["pbs/15.srv/1"]')
    del site.batch.jobs["15.srv"]
    if after is not None:
        site.batch.jobs[after.id] = after
    site.read()
    site.see(mine("p1", request=amounts(cpu="4")), mine("p2", request=amounts(cpu="4")))
    site.settle()
    assert set(site.placements().values()) == ({"n1", "n2"} if after is None else {"n2"})


def test_a_node_opens_with_the_end_of_the_job_and_not_with_a_read_that_failed(site):
    site.see(mine("p1", request=amounts(cpu="4")), mine("p2", request=amounts(cpu="4")))
    site.settle(seconds=2)
    site.scheduler.apply(JobsUnread("exit status 255"))
    site.run()
    assert set(site.placements().values()) == {"n2"}
    site.scheduler.apply(JobsRead((), site.now + 1.0))
    site.run()
    assert set(site.placements().values()) == {"n1", "n2"}


def test_a_node_that_is_deleted_and_comes_back_is_closed_as_it_was(site):
    site.run()
    site.gone(node("n1"))
    site.see(replace(node("n1"), uid="again"), mine("p1", request=amounts(cpu="4")))
    site.settle(seconds=1)
    site.see(mine("p2", request=amounts(cpu="4")))
    site.settle()
    assert "n2" in site.placements().values()
    assert site.scheduler.session.batch_jobs.foreign.closed == {"n1"}


def test_the_batch_system_s_own_choice_is_not_in_its_own_way(site):
    site.see(site.pod("backed"))
    site.settle()
    assert site.placements() == {"backed": "n1"}


def test_who_waits_is_told_until_when_nodes_are_taken(site):
    site.see(mine("first", request=amounts(cpu="4"), priority=9), mine("large", request=amounts(cpu="4")))
    found = told(site, "large")
    assert found.batch == ("on node n1 job 15.srv ends in 1:00:00 at the latest",)
    assert "  batch jobs:\n    on node n1 job 15.srv" in explanation(asdict(found))


def test_no_job_is_named_of_nodes_that_are_too_small_for_a_pod(site):
    site.see(mine("large", request=amounts(cpu="5")))
    assert told(site, "large").batch == ()


def test_who_is_in_the_way_of_the_next_job_is_told_when_it_comes(site):
    site.see(mine("small"))
    site.settle(seconds=2)
    assert told(site, "small").batch == ("on node n2 job 16.srv is expected to start in 0:10:00",)


def test_a_backed_pod_is_told_when_its_own_job_starts_and_ends(site):
    site.batch.closed = True
    site.see(site.pod("p1"))
    site.settle()
    (name,) = [name for name, job in site.batch.jobs.items() if job.tag]
    site.batch.jobs[name] = replace(site.batch.jobs[name], begins=90.0)
    site.read()
    assert told(site, "p1").batch == (f"job {name} is expected to start in 0:01:30",)
    reports = {report.name: report.begins for report in site.scheduler.queues()}
    assert reports == {"default": None, "backed": pytest.approx(90.0, abs=2)}
    assert "in 90 s" in queues([asdict(report) for report in site.scheduler.queues()])
    shares = (HostShare(host="n1", cores=1),)
    site.batch.jobs[name] = replace(
        site.batch.jobs[name], begins=None, left=7200.0, runs=True, state="R", shares=shares
    )
    site.read()
    assert told(site, "p1").batch == (f"job {name} ends in 2:00:00 at the latest",)


OLD = 80.0


def doubtful(*nodes: Node) -> Backed:
    """Where a read holds good for a while, and there has been none."""
    made = Backed(settings=BackingSettings(holds_good=OLD))
    made.see(*nodes)
    return made


def test_i9_before_the_batch_system_has_been_read_nobody_is_placed_where_its_jobs_may_be():
    site = doubtful()
    site.see(mine("p1"))
    site.run()
    site.scheduler.apply(JobsUnread("qstat: exit status 255"))
    site.run()
    assert site.placements() == {}
    assert "2 of which it is not known whether batch jobs have them" in site.conditions()["p1"]
    assert told(site, "p1").batch == ("jobs of the batch system are not known: qstat: exit status 255",)
    site.batch.jobs["15.srv"] = THEIRS
    site.read()
    site.run()
    assert site.placements() == {"p1": "n2"}
    assert told(site, "p1").batch == ()


def test_i9_a_read_that_is_too_old_places_nobody_and_a_new_one_does():
    site = doubtful()
    site.read()
    site.now += OLD + 1.0
    site.see(mine("p1"), mine("large", request=amounts(cpu="9")))
    site.run()
    assert site.placements() == {}
    # A node that comes meanwhile may be one of the batch system's, too.
    site.see(node("n3"))
    site.run()
    assert site.placements() == {}
    site.read()
    site.run()
    assert set(site.placements()) == {"p1"}


def test_i9_a_backed_pod_is_not_placed_by_a_read_that_is_too_old():
    site = doubtful()
    site.batch.closed = True
    site.see(site.pod("p1"))
    site.settle()
    site.batch.closed = False
    site.batch.start()
    site.read()
    site.now += OLD + 1.0
    site.run()
    assert site.placements() == {}
    site.settle()
    assert set(site.placements()) == {"p1"}


@pytest.mark.parametrize(
    "mark",
    ["node-restriction.kubernetes.io/converged-share-mode", "node-restriction.kubernetes.io/converged-batch-node"],
)
def test_i9_where_nodes_of_the_batch_system_are_marked_others_are_none(mark):
    site = doubtful(node("n1", labels=((mark, "placeholder"),)))
    site.see(mine("p1", request=amounts(cpu="3")), mine("p2", request=amounts(cpu="3")))
    site.run()
    assert list(site.placements().values()) == ["n2"]
    site.read()
    site.run()
    assert sorted(site.placements().values()) == ["n1", "n2"]


def test_why_says_when_the_job_ends_that_keeps_a_group_from_a_whole_node(site):
    site.gone(node("n2"))
    site.see(mine("whole", topology=TopologyRequest(exclusive=True)))
    found = told(site, "whole")
    assert found.must_end == ("in the cluster, on node n1: job 15.srv ends in 1:00:00 at the latest",)
