# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods in the way of a job that begins: asked on all its nodes at once, as the nodes would, and no others."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nodeshare.decide import room
from nodeshare.kube.node_client import STATIC
from nodeshare.kube.room_reader import believed, read_guest
from nodeshare.model.jobs.job_key import JobKey
from nodeshare.model.jobs.lease import Lease
from nodeshare.model.node import observed
from nodeshare.model.pods import placeholder, pod_resources
from nodeshare.model.settings import Settings
from placement.model.batch import BackingSettings, BatchJob, HostShare
from placement.model.messages.action import Evict
from placement.model.messages.event import EvictRefused
from placement.model.objects.pod import Phase, Pod
from placement.policy.jobs.group_key import gang_of
from placement.shared.victims import MIRROR
from placement_kit.backed import Backed
from placement_kit.builders import amounts, mine, node, pod
from placement_kit.decoded import Json, accepted

MODE = "node-restriction.kubernetes.io/converged-share-mode"
FENCE = "node-restriction.kubernetes.io/converged-share-fence"
BEGINS = BatchJob(
    id="15.srv",
    run=1,
    state="R",
    system="pbs",
    runs=True,
    hosts=("n1", "n2"),
    shares=(HostShare(host="n1", cores=2), HostShare(host="n2", cores=2)),
)


def shared(mode: str = "placeholder", fence: str = "cores") -> tuple[tuple[str, str], ...]:
    """The labels of a node; an empty fence is none."""
    return ((MODE, mode), *(((FENCE, fence),) if fence else ()))


def site_of(
    *, mode: str = "placeholder", fence: str = "cores", make_room: bool = True, job: BatchJob = BEGINS
) -> Backed:
    """Two nodes of four cores, each with three pods of one core and priorities 1 to 3; then a job begins on both."""
    made = Backed(settings=BackingSettings(make_room=make_room, devices={"example.com/gpu": "ngpus"}))
    offered = amounts(cpu="4", memory="8Gi", pods="10", gpu="2")
    made.see(*(node(name, labels=shared(mode, fence), allocatable=offered) for name in ("n1", "n2")))
    for name in ("n1", "n2"):
        for number in range(1, 4):
            who = mine if number % 2 else pod
            made.see(replace(who(f"{name}-{number}", priority=number), node=name, phase=Phase.RUNNING))
    made.run()
    made.batch.jobs[job.id] = job
    return made


def asked(site: Backed) -> list[str]:
    return [action.name for action in site.actions if isinstance(action, Evict)]


def test_room_is_made_on_all_nodes_at_once_whoever_placed_the_pods_and_once():
    site = site_of()
    site.stubborn = True
    site.settle()
    assert sorted(asked(site)) == ["n1-1", "n2-1"]
    assert {(action.reason, action.grace) for action in site.actions if isinstance(action, Evict)} == {
        ("JobBegins", None)
    }


@pytest.mark.parametrize(
    "other",
    [
        {"mode": "handover"},
        {"mode": "backed"},
        {"make_room": False},
        # Nobody has said what a job takes of such a node.
        {"fence": ""},
        # Its cores are not those of pods.
        {"fence": "split"},
        # PBS says what a job has while it begins; later its nodes know of it, or never will.
        {"job": replace(BEGINS, shares=())},
        # Another daemon's, which say so for as long as they run: what they have, their pods have.
        {"job": replace(BEGINS, tag="uid-theirs", mark="0a1b2c3d", queue="pods")},
        {"job": replace(BEGINS, shares=(HostShare(host="n1", cores=1), HostShare(host="n2", cores=1)))},
        {"job": replace(BEGINS, runs=False, state="Q")},
    ],
)
def test_nobody_is_asked_where_nothing_has_to_be_made_or_the_node_does_all_itself(other):
    site = site_of(**other)
    site.settle()
    assert asked(site) == []


def test_who_is_leaving_already_is_counted():
    site = site_of()
    site.see(replace(site.named("n1-3"), terminating=True))
    site.settle(seconds=1)
    assert asked(site) == ["n2-1"]


def test_a_node_that_has_announced_the_job_sees_to_it_itself():
    site = site_of()
    found = site.scheduler.cluster.columns
    site.see(replace(found.nodes[found.rows["n1"]], leases='["pbs/15.srv/1"]'))
    site.settle(seconds=1)
    assert asked(site) == ["n2-1"]


def test_two_jobs_that_begin_get_room_for_both():
    site = site_of()
    site.batch.jobs["16.srv"] = replace(BEGINS, id="16.srv", shares=(HostShare(host="n1", cores=1),), hosts=("n1",))
    site.settle(seconds=1)
    assert sorted(asked(site)) == ["n1-1", "n1-2", "n2-1"]


def test_a_job_that_has_its_hosts_for_itself_gets_all_but_pods_that_stay():
    site = site_of(job=replace(BEGINS, whole=True, shares=BEGINS.shares[:1]))
    site.see(replace(site.named("n1-1"), daemon=True), replace(site.named("n1-2"), mirror=True))
    site.settle(seconds=1)
    assert asked(site) == ["n1-3"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_pod_as_critical_as_a_placeholder_stays_and_one_that_is_less_so_leaves(whole):
    site = site_of(job=replace(BEGINS, whole=whole, shares=(HostShare(host="n1", cores=4),)))
    first, second = (site.named(f"n1-{number}") for number in (1, 2))
    site.see(replace(first, spec=replace(first.spec, priority=placeholder.PRIORITY)))
    site.see(replace(second, spec=replace(second.spec, priority=placeholder.PRIORITY - 1000)))
    site.settle(seconds=1)
    assert sorted(asked(site)) == ["n1-2", "n1-3"]


def test_a_device_is_made_free_by_who_has_it():
    site = site_of(job=replace(BEGINS, shares=(HostShare(host="n1", cores=0, devices=(("ngpus", 2),)),)))
    holder = pod("holder", priority=9, request=amounts(gpu="1"))
    site.see(replace(holder, node="n1", phase=Phase.RUNNING))
    site.settle(seconds=1)
    assert asked(site) == ["holder"]


def test_who_may_not_be_disturbed_is_asked_again_only_later_and_nobody_else_for_it():
    site = site_of()
    site.stubborn = True
    site.read()
    site.run_once()
    for uid in ("uid-n1-1", "uid-n2-1"):
        site.scheduler.apply(EvictRefused(uid, "a budget"))
    site.settle(seconds=10)
    assert asked(site) == []
    site.settle(seconds=30)
    assert sorted(asked(site)) == ["n1-1", "n2-1"]


@pytest.mark.parametrize(
    ("job", "who"),
    [
        ({"shares": (HostShare(host="n1", cores=4, memory=6 << 20),)}, ["n1-1"]),
        ({"shares": BEGINS.shares[:1], "whole": True}, ["n1-1", "n1-2", "n1-3"]),
    ],
)
def test_with_a_split_only_memory_is_made_free_unless_a_job_has_the_node_for_itself(job, who):
    site = site_of(fence="split", job=replace(BEGINS, hosts=("n1",), **job))
    for name in ("n1-1", "n1-2", "n1-3"):
        site.see(replace(site.named(name), request=amounts(cpu="1", memory="1Gi")))
    site.settle(seconds=1)
    assert sorted(asked(site)) == who


def test_a_node_that_is_gone_a_moment_later_needs_no_room():
    site = site_of()
    found = site.scheduler.cluster.columns
    first = found.nodes[found.rows["n2"]]
    site.read()
    while not [action for action in site.run_once(expired=lambda: True) if isinstance(action, Evict)]:
        pass
    site.gone(first)
    site.run()
    assert asked(site) == []


@pytest.mark.parametrize(("cores", "who"), [(2, ["ordinary"]), (4, ["backed", "ordinary"])])
def test_pods_that_have_a_job_there_themselves_are_asked_after_all_others(cores, who):
    site = Backed()
    offered = amounts(cpu="4", memory="8Gi", pods="10")
    site.see(*(node(name, labels=shared(), allocatable=offered) for name in ("n1", "n2")))
    site.see(site.pod("backed", request=amounts(cpu="2")))
    site.settle()
    there = site.placements()["backed"]
    site.see(replace(mine("ordinary", priority=9, request=amounts(cpu="2")), node=there, phase=Phase.RUNNING))
    site.run()
    site.stubborn = True
    site.batch.jobs["15.srv"] = replace(BEGINS, hosts=(there,), shares=(HostShare(host=there, cores=cores),))
    site.settle(seconds=2)
    assert sorted(asked(site)) == who


# Where a pod may name its gang, whichever scheduler it is for.
NAMED = [{}, {"scheduling_group": "a"}, {"scheduling_group": "b"}]
NAMED += [
    {held: ((name, gang),)} for held in ("annotations", "labels") for name in pod_resources.GANG_NAMES for gang in "ab"
]
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}
OWNERS = [
    [],
    [DAEMON_SET],
    # Forged ones, which the garbage collector never finds out.
    [{**DAEMON_SET, "apiVersion": "no.such/v1"}],
    [{**DAEMON_SET, "name": "../agent"}],
    [DAEMON_SET, {"apiVersion": "no.such/v1", "kind": "Thing", "name": "t", "uid": "t"}],
]
# Of a mirror that stands for a static pod of the node, and of forged ones.
RUNS = "0123456789abcdef" * 2
MIRRORS = [
    {},
    {MIRROR: RUNS, STATIC: RUNS},
    {MIRROR: RUNS},
    {MIRROR: "x", STATIC: "f" * 32},
    {MIRROR: "f" * 32, STATIC: "uid-of-a-pod"},
]
SHOWN = st.fixed_dictionaries(
    {
        "priority": st.sampled_from([0, 0, 1, placeholder.PRIORITY]),
        "gang": st.sampled_from(["", "", "a", "b"]),
        "cpu": st.integers(0, 4),
        "memory": st.integers(0, 3),
        "owners": st.sampled_from(OWNERS),
        "mirror": st.sampled_from(MIRRORS),
        "leaving": st.booleans(),
        "forged": st.booleans(),
    }
)


@given(st.lists(SHOWN, max_size=6), st.booleans(), st.integers(0, 12), st.integers(0, 6))
def test_pods_as_the_api_shows_them_leave_by_the_daemon_as_by_the_node_itself(drawn, whole, cores, memory):
    offered = {"cpu": 12_000, "memory": 6 << 30, "pods": 8}
    shown = [as_shown(f"p{index}", **one) for index, one in enumerate(drawn)]
    site = Backed()
    site.see(node("n1", labels=shared(), allocatable=tuple(sorted(offered.items()))), *map(accepted, shown))
    site.run()
    share = HostShare(host="n1", cores=cores, memory=memory << 20)
    site.batch.jobs["15.srv"] = replace(BEGINS, hosts=("n1",), shares=(share,), whole=whole)
    site.settle(seconds=1)
    guests = believed(tuple(map(read_guest, shown)), lambda: frozenset({RUNS}))
    there = observed.Room(True, "", thousandths(offered), guests)
    lease = Lease(JobKey("pbs", "15.srv", 1), "", 0.0, cores=cores, memory=memory << 30, devices=(), exclusive=whole)
    need = placeholder.need(placeholder.plan((lease,), room.left_by_stayers(there), Settings(node="n1")))
    assert set(asked(site)) == {one.pod.name for one in room.victims(need, there)}


@pytest.mark.parametrize(("phase", "who"), [(Phase.PENDING, []), (Phase.RUNNING, ["n1-3"])])
def test_a_pod_leaves_in_the_place_of_a_mirror_only_if_a_kubelet_tells_that_the_mirror_runs(phase, who):
    site = site_of(job=replace(BEGINS, shares=BEGINS.shares[:1]))
    for name in ("n1-1", "n1-2"):
        site.gone(site.named(name))
    site.see(replace(pod("said", request=amounts(cpu="2")), node="n1", mirror=True, phase=phase))
    site.settle(seconds=1)
    assert asked(site) == who


@given(st.lists(st.sampled_from(NAMED), max_size=3))
def test_a_gang_is_what_it_is_to_the_node(named):
    fields: dict[str, tuple[tuple[str, str], ...]] = {"annotations": (), "labels": ()}
    for one in named:
        fields.update({held: (*fields[held], *one[held]) for held in one if held in fields})
    several = pod("p", **{held: tuple(dict(pairs).items()) for held, pairs in fields.items()})
    assert gang_of(several) == guest(several).gang


ASKED = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu", "ephemeral-storage", "hugepages-2Mi"]), st.integers(1, 2)
)


@given(
    st.lists(st.tuples(ASKED, st.sampled_from([0, 0, placeholder.PRIORITY - 1000, placeholder.PRIORITY])), max_size=4),
    st.booleans(),
    st.integers(0, 4),
    st.integers(0, 2),
    st.sampled_from(["cores", "split", "counts"]),
)
def test_a_job_needs_of_a_node_what_the_node_itself_takes_for_it(asking, whole, cores, gpus, fence):
    site = Backed(settings=BackingSettings(make_room=True, devices={"example.com/gpu": "ngpus"}))
    offered = {"cpu": 4000, "memory": 4, "example.com/gpu": 2, "ephemeral-storage": 4, "hugepages-2Mi": 4, "pods": 4}
    site.see(node("n1", labels=shared(fence=fence), allocatable=tuple(sorted(offered.items()))))
    requests = [
        ({name: 1000 * amount if name == "cpu" else amount for name, amount in one.items()}, priority)
        for one, priority in asking
    ]
    pods = [
        pod(f"p{index}", request=tuple(sorted(one.items())), priority=priority)
        for index, (one, priority) in enumerate(requests)
    ]
    site.see(*(replace(one, node="n1", phase=Phase.RUNNING) for one in pods))
    site.run()
    share = HostShare(host="n1", cores=cores, devices=(("ngpus", gpus),))
    site.batch.jobs["15.srv"] = replace(BEGINS, hosts=("n1",), shares=(share,), whole=whole)
    site.settle(seconds=1)
    there = observed.Room(True, "", thousandths(offered), tuple(map(guest, pods)))
    told = (f"example.com/gpu={gpus}",) if gpus else ()
    lease = Lease(JobKey("pbs", "15.srv", 1), "", 0.0, cores=cores, memory=0, devices=told, exclusive=whole)
    need = placeholder.need(placeholder.plan((lease,), room.left_by_stayers(there), Settings(node="n1", fence=fence)))
    assert set(asked(site)) == {one.pod.name for one in room.victims(need, there)}


def as_shown(name: str, *, priority: int, gang: str, cpu: int, memory: int, owners, mirror, leaving, forged) -> Json:
    """A pod in the API's words, which any user may write but the status, its own uid, and the time of its deletion."""
    meta = {"uid": f"uid-{name}", "name": name, "namespace": "team", "resourceVersion": "1", "ownerReferences": owners}
    meta["annotations"] = {**mirror, **({pod_resources.GANG_NAMES[0]: gang} if gang else {})}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    requests = {key: value for key, value in (("cpu", str(cpu)), ("memory", f"{memory}Gi")) if value[0] != "0"}
    # A kubelet writes the status of pods that it runs. It runs no pod that calls itself a mirror, whatever its hash.
    runs = MIRROR not in mirror or (mirror.get(STATIC) == RUNS and not forged)
    return {
        "metadata": meta,
        "spec": {
            "nodeName": "n1",
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"} if runs else {"phase": "Pending"},
    }


def guest(one: Pod) -> observed.Guest:
    requests = {**thousandths(dict(one.request)), "pods": 1000}
    meta = {"annotations": dict(one.annotations), "labels": dict(one.labels)}
    gang = pod_resources.gang_of(meta, {"schedulingGroup": {"podGroupName": one.scheduling_group}})
    return observed.Guest(observed.Pod(one.namespace, one.name, one.uid), one.spec.priority, gang, requests)


def thousandths(quantities: dict[str, int]) -> dict[str, int]:
    return {name: amount if name == "cpu" else 1000 * amount for name, amount in quantities.items()}
