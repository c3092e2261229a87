# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On generated clusters, a pod may go to the same nodes as kube-scheduler would let it go to.

`make test` compares the clusters of KEPT, `make soak` draws others by the seed of its round.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import msgspec
import pytest
import yaml
from e2e.placement import generated
from e2e.placement.cluster import Cluster
from e2e.placement.generated import LABEL, NAMESPACES, Draw, Json
from e2e.placement.reference import SCHEDULER, Reference
from e2e.playing import until
from payloads import seeds
from placement.core.scheduler import Scheduler
from placement.kube.decode.decoder import Decoder
from placement.kube.watch.watched_resources import BUILT_IN
from placement.model.messages.event import Upserted
from placement.model.messages.refusal import Refusal
from placement.policy.jobs.job import Status
from placement.policy.plugins.configuration import DEFAULT
from placement.state.nodes.score_table import INFEASIBLE
from testbed.controlplane import kubeconfig
from testbed.kube_api import STRATEGIC_PATCH, ApiError

CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
# In the namespace of their driver.
ROOMS = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
VOLUMES = "/api/v1/persistentvolumes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
CLUSTERS, BOUND, PROBES = 10, 10, 14
# Seed and number of clusters for every change. Of 21 drawn clusters, these six together show the most of 32 fields of
# pods, nodes and volumes to decide: without such a field another answer would be given. A cluster that ever showed a
# difference is added.
KEPT = [(34, 8), (9, 5), (36, 6), (33, 7), (37, 7), (1, 0)]
# How many pods of a cluster have to choose among its nodes at least, on average.
CHOICES = 2
# A view that lags is no difference: the same is asked again.
TRIES = 3


@pytest.fixture(scope="module")
def reference(cluster: Cluster) -> Iterator[Reference]:
    """kube-scheduler, and what every cluster needs besides nodes and pods."""
    for name, labels in NAMESPACES.items():
        cluster.namespace(name, labels=labels)
    objects = [*generated.storage_classes(), generated.runtime_class(), generated.driver()]
    cluster.bed.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    with Reference(kubeconfig(cluster.bed.bed), cluster.folder) as running:
        yield running


def populate(cluster: Cluster, draw: Draw) -> None:
    """Nodes, and pods on them: running ones, some that are about to go and some that have ended."""
    api = cluster.api
    for name in draw.names:
        node = draw.node(name)
        api.create("/api/v1/nodes", node)
        # Admission calls every new node not ready.
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": node["spec"]["taints"]}})
        limit = {"name": generated.DRIVER, "nodeID": name, "allocatable": {"count": draw.some(0, 1, 3)}}
        drivers = [limit] if draw.chance(0.5) else []
        api.create(CSI_NODES, {"metadata": node["metadata"], "spec": {"drivers": drivers}})
    for room in draw.rooms():
        api.create(ROOMS, room)
    for disk in draw.disks():
        api.create(VOLUMES, disk)
    for namespace in NAMESPACES:
        volumes, claims = generated.claims(draw.number, namespace)
        for volume in volumes:
            api.create(VOLUMES, volume)
        for claim in claims:
            api.create(claims_of(namespace), claim)
    for attachment in generated.attachments(draw.number, draw.names):
        api.create(ATTACHMENTS, attachment)
    for index in range(BOUND):
        pod = draw.pod(f"bound-{draw.number}-{index}", small=True)
        pod["spec"]["nodeName"] = draw.some(*draw.names)
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        api.create(path, pod)
        fate = draw.some("runs", "runs", "resized", "leaves", "ended")
        if fate == "leaves":
            # No kubelet is there to let it go.
            api.delete(f"{path}/{pod['metadata']['name']}")
        elif fate == "resized":
            status = {"status": draw.resizing(pod)}
            api.patch(f"{path}/{pod['metadata']['name']}/status", status, content_type=STRATEGIC_PATCH)
        elif fate == "ended":
            phase = {"status": {"phase": "Succeeded"}}
            api.patch(f"{path}/{pod['metadata']['name']}/status", phase, content_type=STRATEGIC_PATCH)


def claims_of(namespace: str) -> str:
    """Where the claims of a namespace are."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def clean(cluster: Cluster, number: int) -> None:
    """Nothing of a cluster is left."""
    for namespace in NAMESPACES:
        cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        cluster.api.delete(claims_of(namespace))
        for claim in cluster.api.items(claims_of(namespace)):
            if generated.KEPT in claim["metadata"].get("finalizers", ()):
                path = f"{claims_of(namespace)}/{claim['metadata']['name']}"
                cluster.api.patch(path, {"metadata": {"finalizers": None}})
    for path in ("/api/v1/nodes", CSI_NODES, ROOMS, ATTACHMENTS, VOLUMES):
        cluster.api.delete(f"{path}?labelSelector={LABEL}={number}")
    # The controllers let claims and volumes go a moment later, and another cluster may have the same names.
    until(lambda: not cluster.api.items(f"{VOLUMES}?labelSelector={LABEL}={number}"), "its volumes are gone")


def settled(cluster: Cluster, number: int) -> bool:
    """Whether the volume controller has bound what is to be bound, and knows what is lost and what is to be had."""
    phases = {f"claim-{number}-{name}": "Bound" for name in generated.BOUND} | {f"claim-{number}-lost": "Lost"}
    claims = {
        (namespace, claim["metadata"]["name"]): claim["status"].get("phase")
        for namespace in NAMESPACES
        for claim in cluster.api.items(claims_of(namespace))
    }
    volumes = cluster.api.items(f"{VOLUMES}?labelSelector={LABEL}={number}")
    unclaimed = [volume["status"].get("phase") for volume in volumes if "claimRef" not in volume["spec"]]
    return set(unclaimed) <= {"Available"} and all(
        claims.get((namespace, name)) == phase for namespace in NAMESPACES for name, phase in phases.items()
    )


def delete_kept(cluster: Cluster, number: int) -> None:
    """Claims that are about to be deleted, and stay."""
    for namespace in NAMESPACES:
        cluster.api.delete(f"{claims_of(namespace)}/claim-{number}-deleted")


def probe(cluster: Cluster, reference: Reference, pods: list[Json]) -> dict[str, set[str]]:
    """Where kube-scheduler would let each of these pods go, by name."""
    uids: dict[str, str] = {}
    for pod in pods:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
        foreign = generated.foreign_claim(pod)
        if foreign is not None:
            cluster.api.create(claims_of(pod["metadata"]["namespace"]), foreign)
        made = cluster.api.create(path, {**pod, "spec": {**pod["spec"], "schedulerName": SCHEDULER}})
        uids[made["metadata"]["name"]] = made["metadata"]["uid"]

    def refused() -> bool:
        found = [pod for name in NAMESPACES for pod in cluster.api.items(f"/api/v1/namespaces/{name}/pods")]
        told = {
            pod["metadata"]["uid"]
            for pod in found
            for condition in pod.get("status", {}).get("conditions") or ()
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        }
        return told >= set(uids.values())

    until(refused, "kube-scheduler has looked at all pods")
    return {name: reference.survivors.get(uid, set()) for name, uid in uids.items()}


def ours(cluster: Cluster) -> dict[str, set[str]]:
    """The same from the daemon's own code, fed with the API's own bytes."""
    scheduler = Scheduler(DEFAULT, scheduler_name=SCHEDULER)
    decoder = Decoder()
    for source in BUILT_IN:
        page = msgspec.json.decode(cluster.api.send("GET", source.path, None), type=dict[str, msgspec.Raw])
        for raw in msgspec.json.decode(page["items"], type=list[msgspec.Raw]):
            item = decoder.decode_object(source.kind, raw)
            assert not isinstance(item, Refusal), item
            scheduler.apply(Upserted(item))
    scheduler.cache.sync()
    while scheduler.cache.arriving:
        scheduler.cache.sync()
    chooser, columns = scheduler.session.host_selector, scheduler.cluster.columns
    found = {}
    for task in scheduler.cache.jobs.tasks.values():
        if task.status is not Status.PENDING:
            continue
        fits = chooser.shapes.row(task.pod.spec, task.pod.request).scores > INFEASIBLE
        allowed = chooser.feasibility.allowed(task)
        fits = fits if allowed is None else fits & allowed
        found[task.pod.name] = {name for name, row in columns.rows.items() if fits[row]}
    return found


def compare(cluster: Cluster, reference: Reference, pods: list[Json]) -> tuple[list[set[str]], list[str]]:
    """Where each pod may go, and each that one would let go where the other would not, with all that it asks for."""
    for attempt in range(TRIES):
        tried = [
            {**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-{attempt}"}} for pod in pods
        ]
        theirs = probe(cluster, reference, tried)
        mine = ours(cluster)
        found = [
            f"they alone {sorted(theirs[name] - mine[name])}, we alone {sorted(mine[name] - theirs[name])}: {pod}"
            for name, pod in ((pod["metadata"]["name"], pod) for pod in tried)
            if theirs[name] != mine[name]
        ]
        if not found:
            break
        for pod in tried:
            meta = pod["metadata"]
            cluster.api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0")
    return list(theirs.values()), found


def compare_cluster(cluster: Cluster, reference: Reference, seed: int, number: int) -> tuple[int, set[str]]:
    """Compare one cluster; return how many pods had to choose among its nodes, and which features they had."""
    draw = Draw(random.Random(f"{seed}-{number}"), number)
    repeated = f"cluster {number} of seed {seed}; add ({seed}, {number}) to KEPT to compare it again"
    features: set[str] = set()
    try:
        populate(cluster, draw)
        until(partial(settled, cluster, number), "claims are bound")
        delete_kept(cluster, number)
        pods = []
        for index in range(PROBES):
            pods.append(draw.pod(f"probe-{number}-{index}", small=False))
            features.update(draw.features)
        places, differences = compare(cluster, reference, pods)
        assert not differences, f"{repeated}:\n" + "\n".join(differences)
    except ApiError as error:
        raise AssertionError(f"{repeated}: {error}") from error
    finally:
        clean(cluster, number)
    return sum(0 < len(names & set(draw.names)) < len(draw.names) for names in places), features


def test_feasible_nodes_are_those_of_kube_scheduler(cluster: Cluster, reference: Reference) -> None:
    found = [compare_cluster(cluster, reference, seed, number) for seed, number in KEPT]
    assert sum(choices for choices, _features in found) >= CHOICES * len(KEPT), "hardly a pod had to choose"
    assert {name for _choices, features in found for name in features} == set(generated.FEATURES)


@pytest.mark.soak
@pytest.mark.drawn
def test_feasible_nodes_of_fresh_clusters_are_those_of_kube_scheduler(cluster: Cluster, reference: Reference) -> None:
    seed = seeds.first()
    print(f"CONVERGED_SEED={seed} repeats these clusters")
    choices = sum(compare_cluster(cluster, reference, seed, number)[0] for number in range(CLUSTERS))
    assert choices >= CHOICES * CLUSTERS, "hardly a pod had to choose"
