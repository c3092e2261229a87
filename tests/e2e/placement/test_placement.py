# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement daemon beside the default scheduler, at a real API server, with the rights that its role gives it."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from e2e.placement import proxy as faults
from e2e.placement.behind_proxy import behind
from e2e.placement.clock import Clock
from e2e.placement.cluster import GROUP_NAME, LEASES, NODES, Cluster, Namespace
from e2e.placement.daemon import LEASE_SECONDS, Daemon
from e2e.placement.proxy import Proxy
from e2e.playing import until
from testbed.kube_api import Json

MIN_MEMBER = "scheduling.k8s.io/group-min-member"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
CONVERGED = "scheduling.converged.hpc/v1alpha1"
NAMES = (f"pair-{os.getpid()}-{number}" for number in itertools.count())

# Some of what every daemon asks for when it starts, as the audit log shows it.
READS = [(verb, resource, "", "") for verb in ("list", "watch") for resource in ("pods", "nodes", "podgroups")]

# Dialect, spec of a gang of three, and how pods name it.
DIALECTS = {
    "scheduling.k8s.io/v1alpha2": (
        {"schedulingPolicy": {"gang": {"minCount": 3}}},
        {"schedulingGroup": {"podGroupName": "gang"}},
    ),
    "scheduling.incubator.k8s.io/v1alpha1": ({"minMember": 3}, {"annotations": {GROUP_NAME: "gang"}}),
    "scheduling.sigs.dev/v1alpha2": ({"minMember": 3}, {"annotations": {GROUP_NAME: "gang"}}),
    "scheduling.volcano.sh/v1beta1": ({"minMember": 3}, {"annotations": {GROUP_NAME: "gang"}}),
    "scheduling.x-k8s.io/v1alpha1": ({"minMember": 3}, {"labels": {COSCHEDULING_LABEL: "gang"}}),
}


def test_plain_pods_get_nodes_and_one_event_each(daemon: Daemon, team: Namespace) -> None:
    for number in range(10):
        team.pod(f"pod-{number}")
    until(lambda: len(team.bound()) == 10, "ten pods are bound")
    until(lambda: [reason for reason, _note in team.events("pod-3")] == ["Scheduled"], "one Event")


def test_pods_of_the_default_scheduler_are_left_to_it(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    team.pod("theirs", scheduler="default-scheduler")
    until(lambda: team.bound() == {"theirs"}, "the default scheduler binds its pod")
    assert not any(event.name == "theirs" and event.resource == "pods/binding" for event in cluster.audit())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_gang_of_every_dialect_starts_whole_or_not_at_all(daemon: Daemon, team: Namespace, dialect: str) -> None:
    spec, reference = DIALECTS[dialect]
    team.create(dialect, "PodGroup", "gang", spec)
    team.pod("gang-0", **reference)
    team.pod("gang-1", **reference)
    until(lambda: "needs 3 pods" in team.condition("gang-1")[1], "the second pod is told what is missing")
    assert team.bound() == set()
    team.pod("gang-2", **reference)
    until(lambda: len(team.bound()) == 3, "all three are bound")
    until(lambda: is_started(team.api.get(f"{team.group_path(dialect)}/gang")), "the group's status says so")


def is_started(group: Json) -> bool:
    """Each API has its own way to say it."""
    status = group.get("status", {})
    if "PodGroupScheduled" in json.dumps(status):
        return bool(status["conditions"][0]["status"] == "True") and set(status) == {"conditions"}
    return status.get("phase") == "Running" and status.get("running") == 3


def test_annotations_alone_make_a_gang(daemon: Daemon, team: Namespace) -> None:
    notes = {GROUP_NAME: "by-note", MIN_MEMBER: "2"}
    team.pod("first", annotations=notes)
    until(lambda: "needs 2 pods" in team.condition("first")[1], "the first pod waits")
    team.pod("second", annotations=notes)
    until(lambda: len(team.bound()) == 2, "both are bound")


def test_a_gang_that_can_never_fit_is_told_and_holds_up_nobody(daemon: Daemon, team: Namespace) -> None:
    members = NODES + 1
    team.create("scheduling.incubator.k8s.io/v1alpha1", "PodGroup", "huge", {"minMember": members})
    for number in range(members):
        team.pod(f"huge-{number}", cpu="30", annotations={GROUP_NAME: "huge"})
    team.pod("small")
    until(lambda: team.bound() == {"small"}, "the small pod runs and the gang holds nothing")
    path = f"{team.group_path('scheduling.incubator.k8s.io/v1alpha1')}/huge"
    until(
        lambda: any(c["type"] == "Unschedulable" for c in team.api.get(path).get("status", {}).get("conditions", [])),
        "the group has a condition",
    )


# Specs of PodGroups that a CRD without a schema lets through, and what their conditions and Events must name.
BAD_GROUPS: dict[str, tuple[object, str]] = {
    "text": ({"minMember": "many"}, "minMember"),
    "zero": ({"minMember": 0}, "spec.minMember: 0"),
    "negative": ({"minMember": -1}, "spec.minMember: -1"),
    "list": ({"minMember": [1]}, "minMember"),
    "overflow": ({"minMember": 1 << 62}, f"spec.minMember: {1 << 62}"),
    "not-a-number": ({"minMember": 1, "minResources": {"cpu": "NaN"}}, "minResources"),
    "no-queue": ({"minMember": 1, "queue": "nowhere"}, "there is no queue 'nowhere'"),
    "circle": ({"minMember": 1, "queue": "circle-a"}, "circle"),
    "no-spec": ([], "spec"),
}


def test_bad_groups_are_answered_by_the_name_of_their_field_and_hold_up_nobody(
    cluster: Cluster, daemon: Daemon, team: Namespace
) -> None:
    dialect = "scheduling.volcano.sh/v1beta1"
    for name, parent in (("circle-a", "circle-b"), ("circle-b", "circle-a")):
        body = {"apiVersion": CONVERGED, "kind": "Queue", "metadata": {"name": name}, "spec": {"parent": parent}}
        cluster.api.create(f"/apis/{CONVERGED}/queues", body)
    for name, (spec, _said) in BAD_GROUPS.items():
        team.create(dialect, "PodGroup", name, spec)
        team.pod(name, annotations={GROUP_NAME: name})
    # A group of another namespace is none, and as many characters as etcd takes are no reason to stop.
    team.pod("elsewhere", annotations={GROUP_NAME: "another-namespace/gang"})
    team.create(dialect, "PodGroup", "large", {"minMember": 1, "notes": "x" * 1_500_000})
    team.pod("large", annotations={GROUP_NAME: "large"})
    team.pod("good")
    until(lambda: team.bound() == {"good", "large"}, "good ones run")
    until(lambda: team.condition("elsewhere")[0] == "False", "who names what is not there is told")
    for name, (_spec, said) in BAD_GROUPS.items():
        path = f"{team.group_path(dialect)}/{name}"
        until(lambda path=path, said=said: said in conditions(team.api.get(path)), f"{name}: a condition")
        until(
            lambda name=name, said=said: any(said in note for _reason, note in team.events(name)), f"{name}: an Event"
        )
    for name in ("circle-a", "circle-b"):
        queue = f"/apis/{CONVERGED}/queues/{name}"
        until(lambda queue=queue: "circle" in conditions(team.api.get(queue)), "the queue says so")
        cluster.api.delete(queue)


def test_a_bad_group_that_was_there_before_the_daemon_is_answered_as_well(cluster: Cluster, team: Namespace) -> None:
    name = next(NAMES)
    spec, said = BAD_GROUPS["list"]
    team.create("scheduling.volcano.sh/v1beta1", "PodGroup", "early", spec)
    team.pod("early", scheduler=name, annotations={GROUP_NAME: "early"})
    daemon = cluster.daemon(name, scheduler_name=name, lease_name=name).start()
    try:
        until(lambda: said in team.condition("early")[1], "its pod is told what is wrong with it")
    finally:
        daemon.stop()


# Each step is proved without a cluster in tests/placement: policy/test_letting_in.py, and what each dialect is written
# in kube/test_performer.py.
@pytest.mark.soak
def test_a_job_of_volcanos_gets_its_pods_where_it_is_us_that_its_group_waits_for(
    cluster: Cluster, daemon: Daemon, team: Namespace
) -> None:
    volcano, others = "scheduling.volcano.sh/v1beta1", "scheduling.sigs.dev/v1alpha2"
    name, path, member = "volcano", cluster.folder / "volcano.yml", {"annotations": {GROUP_NAME: "job"}}
    path.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n')

    def phase(group: str, version: str = volcano) -> str:
        found: str = team.api.get(f"{team.group_path(version)}/{group}").get("status", {}).get("phase", "")
        return found

    room = {"minMember": 2, "minResources": {"cpu": "2", "requests.cpu": "2", "count/pods": "2", "pods": "2"}}
    team.create(volcano, "PodGroup", "job", room)
    team.create(volcano, "PodGroup", "huge", {"minMember": 1, "minResources": {"cpu": f"{64 * NODES}"}})
    # What came after them is told, and they are not: to a daemon of another name they are another scheduler's.
    team.create(others, "PodGroup", "after", {"minMember": 1})
    until(lambda: phase("after", others) == "Pending", "a group without pods of another API is told")
    assert {phase("job"), phase("huge")} == {""}
    standing = cluster.daemon(name, scheduler_name=name, lease_name=name, policy=str(path)).start()
    try:
        until(lambda: phase("job") == "Inqueue", "the group is let in, so that its pods are created")
        until(lambda: phase("huge") == "Pending", "the other waits for room")
        team.pod("job-0", scheduler=name, **member)
        until(lambda: "needs 2 pods" in team.condition("job-0")[1], "the first pod waits")
        assert phase("job") == "Inqueue"
        team.pod("job-1", scheduler=name, **member)
        until(lambda: phase("job") == "Running", "both are bound, and the group's status says so")
    finally:
        standing.stop()


def conditions(found: Json) -> str:
    """All that an object's conditions say."""
    return " ".join(item.get("message", "") for item in found.get("status", {}).get("conditions") or ())


def test_a_pod_that_fits_nowhere_is_explained(daemon: Daemon, team: Namespace) -> None:
    team.pod("big", cpu="64")
    until(lambda: "nodes are available" in team.condition("big")[1], "the condition counts nodes by reason")
    answer = daemon.ask("why", f"{team.name}/big")
    assert "big" in answer
    assert "cpu" in answer


def test_what_is_not_supported_is_refused_in_words(daemon: Daemon, team: Namespace) -> None:
    team.pod("devices", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])
    team.pod("other")
    until(lambda: team.bound() == {"other"}, "the other pod is bound")
    until(lambda: "spec.resourceClaims" in team.condition("devices")[1], "the condition names the field")
    until(lambda: [reason for reason, _note in team.events("devices")] == ["FailedScheduling"], "one Event")
    assert "spec.resourceClaims" in daemon.ask("why", f"{team.name}/devices")


def disk(team: Namespace, number: int) -> None:
    """A volume of one node that nobody has claimed."""
    node = team.api.items("/api/v1/nodes?labelSelector=converged.hpc/load")[number]["metadata"]
    hosts = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node["labels"]["kubernetes.io/hostname"]]}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": team.name}
    spec |= {"local": {"path": "/disk"}, "persistentVolumeReclaimPolicy": "Delete"}
    spec |= {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}}}
    team.api.create("/api/v1/persistentvolumes", {"metadata": {"name": f"{team.name}-{number}"}, "spec": spec})


def test_a_gang_gets_a_disk_for_each_of_its_pods_or_none(daemon: Daemon, team: Namespace) -> None:
    waits = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    team.api.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": team.name}, **waits})
    disk(team, 0)
    team.create(next(iter(DIALECTS)), "PodGroup", "gang", {"schedulingPolicy": {"gang": {"minCount": 2}}})
    for name in ("one", "two"):
        asked = {"accessModes": ["ReadWriteOnce"], "storageClassName": team.name}
        asked |= {"resources": {"requests": {"storage": "1Gi"}}}
        team.api.create(f"{team.path}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": asked})
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        team.pod(name, volumes=[volume], schedulingGroup={"podGroupName": "gang"})
    until(lambda: "there is no volume" in "".join(team.condition(name)[1] for name in ("one", "two")), "one is missing")
    assert team.bound() == set()
    disk(team, 1)
    until(lambda: team.bound() == {"one", "two"}, "both are bound")
    claims = team.api.items(f"{team.path}/persistentvolumeclaims")
    volumes = {claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in claims}
    assert set(volumes.values()) == {f"{team.name}-0", f"{team.name}-1"}
    hosts = {name: team.api.get(f"/api/v1/persistentvolumes/{volume}") for name, volume in volumes.items()}
    assert {name: _host(volume) for name, volume in hosts.items()} == team.places()


def _host(volume: Json) -> str:
    """The node of a disk."""
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(term["matchExpressions"][0]["values"][0])


def test_metrics_say_what_waits_and_how_long_things_take(daemon: Daemon, team: Namespace) -> None:
    team.pod("runs")
    until(lambda: team.bound() == {"runs"}, "one pod is bound")
    team.pod("waits", cpu="33")
    until(lambda: team.condition("waits")[0] == "False", "another waits")
    counted = [
        *('queue_pending_pods{queue="default"}', 'api_latency_seconds_count{request="bind",status="201"}'),
        *("watch_lag_seconds_count", "cycle_seconds_count", "gc_pause_seconds_count"),
        "e2e_scheduling_latency_milliseconds_count",
    ]
    for name in counted:
        until(lambda name=name: daemon.figure(name) > 0, name)
    until(lambda: 0 < daemon.figure('watch_silence_seconds{source="pods"}') < 30, "the watch has been heard of lately")
    assert [daemon.page(path) for path in ("/healthz", "/readyz")] == ["ok\n"] * 2


def test_a_bad_policy_is_refused_while_the_old_one_stays_in_force(
    cluster: Cluster, daemon: Daemon, team: Namespace
) -> None:
    policy = cluster.folder / "policy.yml"
    good = policy.read_text(encoding="utf-8")

    def reloads(text: str, result: str) -> None:
        # The daemon must not meet a file that is half written.
        policy.with_suffix(".new").write_text(text, encoding="utf-8")
        policy.with_suffix(".new").replace(policy)
        number = f'placement_settings_reloads_total{{result="{result}"}} 1.0\n'
        until(lambda: number in daemon.page("/metrics"), f"the policy is {result}")

    reloads(good.replace("backfill", "conquer"), "refused")
    team.job("gang", replicas=3)
    until(lambda: len(team.bound()) == 3, "a gang is bound")
    reloads(f"{good}# as before\n", "taken")


def test_a_queue_holds_its_groups_to_its_capability(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    queue = {
        "apiVersion": CONVERGED,
        "kind": "Queue",
        "metadata": {"name": team.name},
        "spec": {"capability": {"cpu": "4"}},
    }
    cluster.api.create(f"/apis/{CONVERGED}/queues", queue)
    dialect = "scheduling.sigs.dev/v1alpha2"
    for number in range(3):
        team.create(dialect, "PodGroup", f"job-{number}", {"minMember": 1, "queue": team.name})
        team.pod(f"job-{number}", cpu="2", annotations={GROUP_NAME: f"job-{number}"})
    until(lambda: len(team.bound()) == 2, "two of three have room in the queue")
    until(lambda: sum(team.condition(f"job-{number}")[0] == "False" for number in range(3)) == 1, "the third waits")
    assert team.name in daemon.ask("queues")
    assert len(team.bound()) == 2


def test_the_daemon_uses_no_right_that_its_role_does_not_give(
    cluster: Cluster, daemon: Daemon, team: Namespace
) -> None:
    team.pod("last")
    until(lambda: team.bound() == {"last"}, "the pod is bound")
    asked = [event for event in cluster.audit() if event.resource]
    assert {(event.verb, event.resource) for event in asked} <= cluster.allowed()
    # Before it there may have been an API server that had just started and knew no roles yet.
    since = [event for event in asked if event.received >= daemon.started]
    shown = {(event.verb, event.resource, event.namespace, event.name) for event in since}
    assert shown >= {("create", "pods/binding", team.name, "last"), *READS}, "the log lacks what the daemon has done"
    assert not [event for event in since if event.code == 403]


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[tuple[Daemon, Daemon]]:
    """Two replicas, of which the first leads; pods are for them alone."""
    name = next(NAMES)
    first, second = (cluster.daemon(f"{name}-{side}", scheduler_name=name, lease_name=name) for side in "ab")
    try:
        first.start()
        until(first.leads, "the first leads")
        second.start()
        yield first, second
    finally:
        first.stop()
        second.stop()


def scheduler_of(daemon: Daemon) -> str:
    return daemon.settings.parent.name.rpartition("-")[0]


def test_a_leader_that_was_stopped_writes_nothing_when_it_goes_on(
    cluster: Cluster, proxy: Proxy, team: Namespace
) -> None:
    name = next(NAMES)
    first = behind(cluster, proxy, f"{name}-a", scheduler_name=name, lease_name=name)
    second = cluster.daemon(f"{name}-b", scheduler_name=name, lease_name=name)
    clocks = [Clock(cluster.folder / f"{name}-clock-{side}") for side in "ab"]
    for daemon, clock in zip((first, second), clocks, strict=True):
        daemon.variables = clock.variables
    try:
        first.start()
        until(first.leads, "the first leads")
        second.start()
        # Nothing tells the first that another leads but its own clock, and it hears of pods, but not of their nodes.
        proxy.lines = lambda path, line: [] if "/pods?" in path and b'"nodeName":' in line else [line]
        with proxy.fault("GET", f"{LEASES}/{name}", faults.lost_before) as rule:
            until(lambda: rule.met > 0, "no renewal is on its way")
            first.signal(signal.SIGSTOP)
            for number in range(20):
                team.pod(f"pod-{number}", scheduler=name)
            for clock in clocks:
                clock.sleep(LEASE_SECONDS + 1)
            until(second.leads, "the second takes the lease, which its clock calls over", seconds=LEASE_SECONDS / 2)
            until(lambda: len(team.bound()) == 20, "it binds all pods")
            goes_on = datetime.now(UTC)
            first.signal(signal.SIGCONT)
            assert first.wait() == 3
    finally:
        proxy.lines = lambda _path, line: [line]
        first.stop()
        second.stop()
    tried = [event for event in cluster.audit() if event.namespace == team.name and event.resource == "pods/binding"]
    assert len(tried) >= 20
    assert not [event for event in tried if event.received >= goes_on]


def test_after_a_kill_the_other_goes_on(cluster: Cluster, pair: tuple[Daemon, Daemon], team: Namespace) -> None:
    first, second = pair
    for number in range(30):
        team.pod(f"pod-{number}", scheduler=scheduler_of(first))
    first.signal(signal.SIGKILL)
    first.wait()
    cluster.end_lease(scheduler_of(first))
    until(second.leads, "the second leads")
    until(lambda: len(team.bound()) == 30, "all pods are bound")


def test_a_leader_that_is_asked_to_end_hands_over_at_once(pair: tuple[Daemon, Daemon], team: Namespace) -> None:
    first, second = pair
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    until(second.leads, "the second leads long before the lease is over", seconds=LEASE_SECONDS / 2)
    team.pod("pod", scheduler=scheduler_of(second))
    until(lambda: team.bound() == {"pod"}, "it binds")
