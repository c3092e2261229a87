# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queues backed by a batch system: when jobs are submitted and released, and who is bound or evicted for them."""

from dataclasses import replace

import pytest
from placement.model.batch import BackingSettings, Chunk
from placement.model.messages.action import Bind, Evict, Release, Submit
from placement.model.messages.event import EvictRefused, JobsUnread
from placement.model.objects.pod import HostPort, Phase
from placement.model.objects.volume import PersistentVolume, PersistentVolumeClaim
from placement.model.objects.workload import Namespace
from placement.model.rules.selector import (
    ANY_NODE,
    Effect,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    Toleration,
)
from placement.policy.backing.node_fit import BATCH_NODE_LABEL, aliases
from placement_kit.backed import HOSTS, Backed
from placement_kit.builders import amounts, gang, mine, near, node, pairs, pod


@pytest.fixture
def site() -> Backed:
    """Two nodes of four cores, and a batch system with the same hosts."""
    return Backed()


def of(kind, actions):
    return [action for action in actions if isinstance(action, kind)]


def test_1_4_11_a_pod_is_submitted_once_it_is_certain_that_it_has_no_job(site):
    site.see(site.pod("p1"))
    assert not of(Submit, site.run())
    site.read()
    (submit,) = of(Submit, site.run())
    assert (submit.uid, submit.name, submit.queue) == ("uid-p1", "p1", "backed")
    assert submit.chunks == (Chunk(count=1, cores=1),)
    site.read()
    assert not of(Submit, site.run())


def test_its_job_s_node_is_the_pod_s(site):
    site.see(site.pod("p1"))
    site.settle()
    assert site.placements() == {"p1": site.batch.hosts_of("uid-p1")[0]}
    assert not of(Evict | Release, site.actions)


def test_a_gang_is_one_job_with_a_chunk_for_each_shape(site):
    site.see(gang("team", 3, queue="backed"))
    site.see(*(site.pod(f"p{n}", group="team", request=amounts(cpu="1", memory="1Gi")) for n in range(2)))
    site.settle()
    assert not of(Submit, site.actions)
    site.see(site.pod("head", group="team", request=amounts(cpu="2")))
    site.settle()
    (submit,) = of(Submit, site.actions)
    assert submit.uid == "group-team"
    assert submit.chunks == (Chunk(count=1, cores=2), Chunk(count=2, cores=1, memory=1 << 20))
    assert len(site.placements()) == 3


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("what", ["deleted", "moved", "no queue"])
def test_pods_of_a_gang_that_is_backed_no_more_leave_before_their_job_ends(site, what, again):
    whole = gang("team", 2, queue="backed")
    site.see(whole, site.pod("p0", group="team"), site.pod("p1", group="team"))
    site.settle()
    assert len(site.placements()) == 2
    there = list(site.pods.values())
    if again:
        site = Backed(batch=site.batch)
        site.see(*there)
    site.stubborn = True
    if what != "deleted":
        site.see(replace(whole, queue="default" if what == "moved" else "nowhere"))
    elif not again:
        site.gone(whole)
    site.settle(seconds=40)
    evicted = [evict for evict in of(Evict, site.actions) if evict.reason == "NotBacked"]
    assert {evict.name for evict in evicted} == {"p0", "p1"}
    assert not of(Release, site.actions)
    site.finish("p0", "p1", phase=Phase.FAILED)
    site.settle(seconds=40)
    assert len(of(Release, site.actions)) == 1
    assert not site.batch.jobs


def test_a_pod_that_names_another_queue_leaves_before_its_job_ends(site):
    site.see(site.pod("p1"))
    site.settle()
    again = Backed(batch=site.batch)
    again.stubborn = True
    again.see(replace(site.named("p1"), annotations=()))
    again.settle(seconds=40)
    assert {evict.name for evict in of(Evict, again.actions)} == {"p1"}
    assert not of(Release, again.actions)


def test_a_gang_that_only_its_pods_describe_is_not_taken_for_one_that_was_backed(site):
    site.batch.submit("uid-of-nobody", (Chunk(count=1, cores=1),))
    site.batch.start()
    described = (("scheduling.k8s.io/group-name", "g"), ("scheduling.k8s.io/group-min-member", "1"))
    site.see(mine("p1", annotations=described, request=amounts(cpu="1"), node="n1", phase=Phase.RUNNING))
    site.settle(seconds=40)
    assert not of(Evict, site.actions)


def test_a_member_that_comes_later_has_a_job_by_itself(site):
    site.see(gang("team", 2, queue="backed"))
    site.see(site.pod("p0", group="team"), site.pod("p1", group="team"))
    site.settle()
    site.see(site.pod("p2", group="team"))
    site.settle()
    assert [submit.uid for submit in of(Submit, site.actions)] == ["group-team", "uid-p2"]
    assert len(site.placements()) == 3


def test_members_wait_for_nothing_that_their_own_gang_has_free_once_its_node_is_back(site):
    site.see(gang("team", 3, queue="backed"))
    site.see(*(site.pod(f"p{n}", group="team", request=amounts(cpu="2")) for n in range(3)))
    site.settle()
    (job,) = site.batch.jobs
    first = [pod for pod in site.pods.values() if pod.node == "n1"]
    assert len(first) == 2
    site.gone(node("n1"), *first)
    site.see(*(site.pod(f"q{n}", group="team", request=amounts(cpu="2")) for n in range(2)))
    site.settle(seconds=60)
    # All that is free for a job of their own is on the other node.
    assert set(site.placements().values()) == {"n2"}
    assert len(site.placements()) == 2
    site.see(node("n1"))
    site.settle(seconds=60)
    assert {"q0", "q1"} < set(site.placements())
    assert list(site.placements().values()).count("n1") == 1
    assert len(site.batch.jobs) == 2
    assert {"group-team"} < {one.tag for one in site.batch.jobs.values()}
    assert job in site.batch.jobs
    assert not of(Evict, site.actions)


def test_a_pod_whose_job_has_moved_to_a_node_that_was_away_leaves_when_that_is_back(site):
    site.see(site.pod("p1"))
    site.settle()
    (job,), (there,) = site.batch.jobs.values(), site.placements().values()
    other = next(host for host in HOSTS if host != there)
    site.gone(node(other))
    moved = replace(job, run=2, hosts=(other,), shares=(replace(job.shares[0], host=other),))
    site.batch.jobs[job.id] = moved
    site.settle()
    assert not of(Evict, site.actions)
    site.see(node(other))
    site.settle()
    assert [evict.reason for evict in of(Evict, site.actions)] == ["NotInJob"]


def test_nobody_is_bound_for_a_job_that_has_too_little_for_his_gang(site):
    site.batch.submit("group-team", (Chunk(count=1, cores=1),))
    site.batch.start()
    site.see(gang("team", 2, queue="backed"), site.pod("p0", group="team"))
    site.settle()
    assert not site.placements()
    site.see(site.pod("p1", group="team"))
    site.settle(seconds=60)
    assert set(site.placements()) == {"p0", "p1"}
    assert len(of(Release, site.actions)) == len(of(Submit, site.actions)) == 1
    assert not of(Evict, site.actions)


def test_1_4_12_a_pod_that_is_deleted_while_its_job_waits_takes_the_job_with_it(site):
    site.batch.closed = True
    site.see(site.pod("p1"))
    site.settle()
    assert "waits" in site.conditions()["p1"] or "nodes to give" in site.conditions()["p1"]
    site.gone(site.named("p1"))
    site.settle()
    assert [release.uid for release in of(Release, site.actions)] == ["uid-p1"]
    assert not site.batch.jobs


def test_a_job_that_is_deleted_takes_its_pods_with_it(site):
    site.see(site.pod("p1"))
    site.settle()
    site.batch.jobs.clear()
    site.read()
    assert not of(Evict, site.run())
    site.read()
    (evict,) = of(Evict, site.run())
    assert evict.reason == "JobEnded"


@pytest.mark.parametrize(
    "claims", [{"priority_class": "system-node-critical"}, {"daemon": True}, {"namespace": "kube-system"}]
)
def test_what_a_pod_claims_of_itself_does_not_keep_it_there_without_its_job(site, claims):
    site.see(site.pod("p1", **{**claims, "daemon": False}))
    site.settle()
    site.see(replace(site.named("p1"), daemon=claims.get("daemon", False)))
    site.batch.jobs.clear()
    site.settle()
    (evict,) = of(Evict, site.actions)
    assert (evict.reason, evict.grace) == ("JobEnded", 60)


def test_no_answer_says_nothing(site):
    site.see(site.pod("p1"))
    site.settle()
    for _unused in range(5):
        site.scheduler.apply(JobsUnread("connection refused"))
        assert not of(Evict | Submit | Release, site.run())
    assert set(site.placements()) == {"p1"}


def test_who_has_just_begun_submits_nothing_before_an_answer(site):
    site.scheduler.apply(JobsUnread("connection refused"))
    site.see(site.pod("p1"))
    assert not of(Submit, site.run())
    assert "connection refused" in site.conditions()["p1"]


def test_a_pod_that_its_budget_keeps_beyond_its_job_is_asked_again_and_gets_no_other_job(site):
    site.stubborn = True
    site.see(site.pod("p1"))
    site.settle()
    site.batch.jobs.clear()
    asked = []
    for _unused in range(70):
        site.read()
        asked += of(Evict, site.run())
        # The API does not let it go, and it is as it was.
        if site.named("p1").terminating:
            site.see(replace(site.named("p1"), terminating=False))
            site.scheduler.apply(EvictRefused("uid-p1", "disruption budget team/web"))
    assert len(asked) == 3
    assert [evict.reason for evict in asked] == ["JobEnded"] * 3
    assert len(of(Submit, site.actions)) == 1


def test_a_job_is_released_when_the_containers_have_ended_and_not_before(site):
    site.see(site.pod("p1"))
    site.settle()
    site.see(replace(site.named("p1"), terminating=True))
    site.settle()
    assert not of(Release, site.actions)
    site.finish("p1")
    site.settle()
    assert len(of(Release, site.actions)) == 1


def test_a_pod_deleted_by_force_may_still_run_for_a_while(site):
    site.see(site.pod("p1"))
    site.settle()
    site.gone(site.named("p1"))
    site.settle(seconds=20)
    assert not of(Release, site.actions)
    site.settle(seconds=20)
    assert len(of(Release, site.actions)) == 1


def test_a_job_found_again_is_not_submitted_again(site):
    site.see(site.pod("p1"))
    site.settle()
    again = Backed(batch=site.batch)
    again.see(site.named("p1"), again.pod("p2"))
    again.settle()
    assert [submit.uid for submit in of(Submit, again.actions)] == ["uid-p2"]
    assert not of(Evict | Release, again.actions)


def test_a_submission_whose_answer_was_lost_is_found_by_its_tag(site):
    site.batch.loses_answers = True
    site.see(site.pod("p1"))
    site.settle()
    assert len(of(Submit, site.actions)) == 1
    assert set(site.placements()) == {"p1"}


def test_of_two_jobs_with_one_tag_one_goes(site):
    site.see(site.pod("p1"))
    site.settle()
    site.batch.submit("uid-p1", (Chunk(count=1, cores=1),))
    site.settle()
    assert len(of(Release, site.actions)) == 1
    assert len(site.batch.jobs) == 1
    assert set(site.placements()) == {"p1"}
    assert not of(Evict, site.actions)


def test_jobs_that_nobody_needs_are_released_after_a_while(site):
    site.batch.submit("uid-of-nobody", (Chunk(count=1, cores=1),))
    site.settle(seconds=20)
    assert site.batch.jobs
    site.settle(seconds=20)
    assert not site.batch.jobs


def test_pods_leave_before_their_job_reaches_its_walltime(site):
    site.see(site.pod("p1", deadline=100))
    site.settle()
    assert of(Submit, site.actions)[0].walltime == 100
    site.batch.leave(59)
    site.settle()
    assert [evict.reason for evict in of(Evict, site.actions)] == ["WalltimeReached"]
    assert not of(Release, site.actions)


def on_each(name, **more):
    """A pod of another scheduler on each node."""
    return [pod(f"{name}-{host}", node=host, phase=Phase.RUNNING, **more) for host in HOSTS]


def nodes(**more):
    return [node(name, **more) for name in HOSTS]


PORT = (HostPort("0.0.0.0", "TCP", 80),)
IN_ZONE_A = (NodeSelectorTerm((Requirement("zone", Operator.IN, ("a",)),)),)
NOT_ON_THESE = (NodeSelectorTerm((), (Requirement("metadata.name", Operator.NOT_IN, HOSTS),)),)
VOLUME = PersistentVolume(uid="volume", name="pv", version=1, node_terms=IN_ZONE_A)
CLAIM = PersistentVolumeClaim(uid="claim", namespace="team", name="data", version=1, volume="pv")


@pytest.mark.parametrize(
    ("there", "wants", "said"),
    [
        (nodes(taints=(Taint("other", "", Effect.NO_SCHEDULE),)), {}, "has taint other"),
        (nodes(unschedulable=True), {}, "has taint node.kubernetes.io/unschedulable"),
        (nodes(held_by="slurm/7"), {}, "is held by batch jobs"),
        (nodes(labels=pairs(zone="b")), {"selector": NodeSelector(pairs(zone="a"))}, "node selector or affinity"),
        (nodes(labels=pairs(zone="b")), {"selector": NodeSelector((), IN_ZONE_A)}, "node selector or affinity"),
        ([], {"selector": NodeSelector((), NOT_ON_THESE)}, "node selector or affinity"),
        (on_each("web", host_ports=PORT), {"host_ports": PORT}, "no free host port"),
        (on_each("large", request=amounts(cpu="3500m")), {}, "too little left"),
        (nodes(allocatable=amounts(cpu="4", memory="8Gi", pods="0")), {}, "too little left"),
        ([*nodes(labels=pairs(zone="b")), VOLUME, CLAIM], {"volume_claims": ("data",)}, "refused by its volumes"),
        ([], {"volume_claims": ("missing",)}, "refused by its volumes"),
        (nodes(labels=pairs(zone="b")), {"affinity": (near("zone", app="db"),)}, "rules about other pods"),
        (
            [*nodes(labels=pairs(zone="b")), *on_each("db", labels=pairs(app="db"))],
            {"anti_affinity": (near("zone", app="db"),)},
            "rules about other pods",
        ),
    ],
)
def test_1_4_5_a_node_that_the_pod_may_not_have_is_not_taken(site, there, wants, said):
    site.see(*there, site.pod("p1", **wants))
    site.settle()
    assert not of(Bind, site.actions)
    assert of(Release, site.actions)
    assert said in site.conditions()["p1"]


def test_the_taint_that_keeps_others_away_does_not_keep_backed_pods_away(site):
    site.see(*(node(name, taints=(Taint("converged.hpc/backed", "", Effect.NO_SCHEDULE),)) for name in ("n1", "n2")))
    tolerant = mine("tolerant", tolerations=(Toleration(operator="Exists"),))
    site.see(site.pod("p1"), mine("plain"), tolerant)
    site.settle()
    assert set(site.placements()) == {"p1"}


def test_who_names_a_host_gets_it(site):
    site.see(site.pod("p1", selector=NodeSelector(pairs(**{"kubernetes.io/hostname": "n2"}))))
    site.read()
    (submit,) = of(Submit, site.run())
    assert submit.chunks[0].properties == (("host", "n2"),)


@pytest.mark.parametrize(
    ("named", "host"),
    [("n1.example", "n1"), ("hn1", "n1"), ("n2.example", "blue"), ("hn2", "blue"), ("n9", "")],
)
def test_a_host_is_asked_for_by_the_batch_system_s_own_name(site, named, host):
    site.see(node("n1.example", labels=pairs(**{"kubernetes.io/hostname": "hn1"})))
    site.see(
        node(
            "n2.example",
            labels=pairs(
                **{"kubernetes.io/hostname": "hn2", "node-restriction.kubernetes.io/converged-batch-node": "blue"}
            ),
        )
    )
    site.see(site.pod("p1", selector=NodeSelector(pairs(**{"kubernetes.io/hostname": named}))))
    site.read()
    site.run()
    assert [submit.chunks[0].properties for submit in of(Submit, site.actions)] == [(("host", host),)] * bool(host)
    assert bool(host) != ("there is no node" in site.conditions()["p1"])


def test_a_host_that_several_nodes_claim_is_none_of_them(site):
    for name, host in (("a.example", "red"), ("b.example", "red"), ("n9.example", "blue"), ("n8.example", "n8")):
        site.see(node(name, labels=pairs(**{BATCH_NODE_LABEL: host})))
    site.see(node("c.example"), node("c.other"), node("n8.other"))
    found = aliases(site.scheduler.session)
    assert [found[host] for host in ("red", "blue", "c", "n8")] == ["", "n9.example", "", "n8.example"]


def test_a_job_that_is_shorter_than_the_grace_is_said_to_be(site):
    site.see(site.pod("p1"))
    site.read()
    site.run()
    site.batch.start()
    site.batch.leave(seconds=5)
    site.read()
    site.run()
    assert not site.placements()
    assert "has less time left than the 60 s that pods have to end" in site.conditions()["p1"]


def test_a_job_on_hosts_that_are_no_nodes_says_what_helps(site):
    site.gone(node("n1"))
    site.see(site.pod("p1"))
    site.settle()
    assert "n1 are no nodes; where only some hosts are, pbs_chunk says which" in site.conditions()["p1"]


def test_pods_with_and_without_devices_stay_in_their_job():
    site = Backed(settings=BackingSettings(devices={"example.com/gpu": "ngpus"}))
    site.see(*(node(name, version=2, allocatable=amounts(cpu="4", memory="8Gi", pods="10", gpu="1")) for name in HOSTS))
    site.see(gang("team", 2, queue="backed"))
    for name, more in (("cpu", {}), ("gpu", {"gpu": "1"})):
        site.see(site.pod(name, group="team", request=amounts(cpu="1", memory="1Gi", **more)))
    site.settle()
    assert set(site.placements()) == {"cpu", "gpu"}
    site.see(*(replace(one, phase=Phase.RUNNING) for one in site.pods.values()))
    site.settle()
    assert not of(Evict, site.actions)
    assert len(of(Submit, site.actions)) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"request": amounts(cpu="1", gpu="1")}, "no name for example.com/gpu"),
        ({"daemon": True}, "DaemonSet"),
        ({"annotations": (("converged.hpc/walltime", "$(reboot)"),)}, "converged.hpc/walltime"),
        ({"annotations": (("converged.hpc/walltime", "00:00:00"),)}, "converged.hpc/walltime"),
        (
            {"annotations": (("scheduling.k8s.io/group-name", "g"), ("scheduling.k8s.io/group-min-member", "1"))},
            "PodGroup",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_said_and_not_submitted(site, more, said):
    annotations = (*more.pop("annotations", ()), ("scheduling.converged.hpc/queue", "backed"))
    site.see(mine("p1", annotations=annotations, **more))
    site.settle()
    assert not of(Submit, site.actions)
    assert said in site.conditions()["p1"]


def test_the_namespace_and_the_queue_go_along_and_nothing_that_the_pod_says_of_itself(site):
    site.see(Namespace(uid="ns", name="team", version=1, labels=pairs(account="physics")))
    site.see(site.pod("p1", labels=pairs(account="others")))
    site.settle()
    (submit,) = of(Submit, site.actions)
    assert (submit.namespace, submit.namespace_labels) == ("team", (("account", "physics"),))


def test_pods_that_pack_share_cores_within_their_gang():
    site = Backed(settings=BackingSettings(pack=True))
    site.see(gang("team", 5, queue="backed"))
    site.see(*(site.pod(f"p{n}", group="team", request=amounts(cpu="500m", memory="1Mi")) for n in range(5)))
    site.settle()
    (submit,) = of(Submit, site.actions)
    assert submit.chunks == (Chunk(count=2, cores=1, memory=2048), Chunk(count=1, cores=1, memory=1024))
    assert len(site.placements()) == 5


def test_a_pod_ends_its_namesake_does_not_inherit_its_job(site):
    site.see(site.pod("p1"))
    site.settle()
    site.finish("p1")
    site.gone(site.named("p1"))
    site.see(site.pod("p1", uid="uid-another"))
    site.settle()
    assert [submit.uid for submit in of(Submit, site.actions)] == ["uid-p1", "uid-another"]
    assert site.named("p1").phase is Phase.RUNNING
    assert site.named("p1").spec.selector == ANY_NODE


def test_jobs_of_another_cluster_s_daemon_are_nobody_s_here():
    one, other = Backed(cluster="one"), Backed(cluster="other")
    other.batch = one.batch
    one.see(one.pod("p1"))
    other.see(other.pod("p1"), other.pod("p2"))
    for _unused in range(60):
        for site in (one, other):
            site.read()
            site.run()
        one.batch.start()
    assert len(one.batch.jobs) == 3
    assert len({job.mark for job in one.batch.jobs.values()}) == 2
    assert [of(Release, site.actions) for site in (one, other)] == [[], []]
    assert (set(one.placements()), set(other.placements())) == ({"p1"}, {"p1", "p2"})
    # They hold their nodes like anybody's.
    assert {job.mark for job in one.scheduler.session.batch_jobs.others} == {
        job.mark for job in one.batch.jobs.values()
    } - {one.scheduler.session.batch_jobs.mark}


def test_before_it_is_known_which_cluster_this_is_no_job_is_anybody_s(site):
    site.see(site.pod("p1"))
    site.settle()
    again = Backed(batch=site.batch)
    home = Namespace(uid="cluster", name="kube-system", version=1)
    again.gone(home)
    again.see(*site.pods.values(), again.pod("p2"))
    again.settle(seconds=20)
    assert not of(Submit | Release | Evict, again.actions)
    assert "namespace kube-system is not known" in again.conditions()["p2"]
    again.see(home)
    again.settle()
    assert set(again.placements()) == {"p1", "p2"}
    assert len(of(Submit, again.actions)) == 1


def test_i5_a_job_that_is_too_small_for_its_gang_takes_nobody_and_gives_way_to_one_that_is_not(site):
    site.batch.submit("group-team", (Chunk(count=2, cores=1),))
    site.batch.start()
    site.see(gang("team", 3, queue="backed"), *(site.pod(f"p{number}", group="team") for number in range(3)))
    site.settle(seconds=2)
    assert site.placements() == {}
    site.settle(seconds=20)
    assert set(site.placements()) == {"p0", "p1", "p2"}
    assert [len(job.shares) for job in site.batch.jobs.values()] == [3]
