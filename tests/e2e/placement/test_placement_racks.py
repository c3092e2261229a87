# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Racks of nodes on which pods seem to run, and a rack of two real kubelets that Slurm's jobs share.

Gangs must be within one rack. Whatever takes room from a rack is seen by the graph, and what gives it back, too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e.beds import own_bed
from e2e.handover.sharing import Sharing
from e2e.placement.cluster import CONVERGED, GROUP_NAME, KUBE_BATCH, NODES, Cluster, Namespace
from e2e.placement.daemon import Daemon, free_port
from e2e.playing import until
from e2e.site_of import IMAGE
from testbed.kube_api import Json

BED = f"racks-{os.getpid()}"
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
LEVELS = f"zone={ZONE}, rack={RACK}"
# Four racks of five nodes, two in each zone; the real nodes have a zone and a rack of their own.
SIZE = 5
RACKS = {f"load-{number:05}": f"r{number // SIZE}" for number in range(NODES)}
PATHS = {"r0": "east/r0", "r1": "east/r1", "r2": "west/r2", "r3": "west/r3"}
REAL = {"n1": "batch", "n2": "batch"}
# A pod that takes a whole node.
WHOLE = "32"
QUEUE = "near"
ANNOTATION = "converged.hpc/required-topology"
PATH = "converged.hpc/topology-path"
CONTAINER = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
# A pod that a real kubelet runs.
SMALL: Json = {
    "containers": [{**CONTAINER, "resources": {"requests": {"cpu": "100m"}}}],
    "nodeSelector": {RACK: "batch"},
    "terminationGracePeriodSeconds": 1,
    "automountServiceAccountToken": False,
}
PROLOG, WAITS, GO = "/etc/slurm/prolog.sh", "/run/e2e-prolog-waits", "/run/e2e-prolog-go"
LOST = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    """Two nodes that pods and jobs of Slurm share."""
    with own_bed(request, BED, "--nodes", "2") as bed:
        sharing = Sharing(bed, tmp_path_factory.mktemp("racks-site"))
        if not request.config.getoption("--bed"):
            sharing.play("site")
        yield sharing


@pytest.fixture(scope="module")
def cluster(site: Sharing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of that site, with nodes on which pods seem to run beside it, and a place for each node."""
    made = Cluster(site.bed, tmp_path_factory.mktemp("racks"))
    made.prepare()
    places = {**{node: PATHS[rack] for node, rack in RACKS.items()}, **{node: f"site/{REAL[node]}" for node in REAL}}
    for node, path in places.items():
        zone, _slash, rack = path.partition("/")
        made.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {ZONE: zone, RACK: rack}}})
    queue = {"apiVersion": CONVERGED, "kind": "Queue", "metadata": {"name": QUEUE}, "spec": {"placedBy": "graph"}}
    made.apply(f"/apis/{CONVERGED}/queues", queue)
    yield made
    made.api.close()


@pytest.fixture(scope="module")
def daemon(cluster: Cluster) -> Iterator[Daemon]:
    """A daemon that knows the racks."""
    running = cluster.daemon("racks", lease_name="racks", listen=f"127.0.0.1:{free_port()}", topology_levels=LEVELS)
    running.start()
    until(running.leads, "it leads")
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def in_step(daemon: Daemon) -> Iterator[None]:
    """Whatever a test has done, the graph agrees with the pods, and has all the time."""
    yield
    daemon.assert_graph_in_step()


def gang(team: Namespace, name: str, size: int = SIZE, *, level: str = "rack", **more: Any) -> None:
    """Pods that each take a whole node unless told otherwise, in the queue that the graph places."""
    metadata: Json = {"name": name}
    if level:
        metadata["annotations"] = {ANNOTATION: level}
    spec = {"minMember": size, "queue": QUEUE}
    group = {"apiVersion": KUBE_BATCH, "kind": "PodGroup", "metadata": metadata, "spec": spec}
    team.api.create(team.group_path(KUBE_BATCH), group)
    for number in range(size):
        pod: Json = {"annotations": {GROUP_NAME: name}, "labels": {"gang": name}, "cpu": WHOLE, **more}
        team.pod(f"{name}-{number}", **pod)


def apart(name: str) -> Json:
    """No two pods of this gang on one node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"gang": name}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def racks(team: Namespace, name: str) -> Counter[str]:
    """How many pods of a gang are in each rack."""
    return Counter({**RACKS, **REAL}[node] for node in team.places(f"{name}-").values())


def lands(daemon: Daemon, team: Namespace, name: str, rack: str, size: int = SIZE) -> None:
    """The gang is placed as a whole, in that rack and nowhere else."""
    until(lambda: sum(racks(team, name).values()) == size, f"gang {name} is placed")
    assert racks(team, name) == {rack: size}
    daemon.assert_graph_in_step()


def waits(daemon: Daemon, team: Namespace, name: str, *words: str) -> None:
    """No pod of the gang has a node, and `why` and the pod itself have each of these words."""
    pod = f"{name}-0"

    def why() -> str:
        return daemon.ask("why", f"{team.name}/{pod}")

    said = ""

    def says() -> bool:
        nonlocal said
        said = why()
        return all(word in said for word in words)

    try:
        until(says, f"why says {words}", 60)
    except AssertionError as error:
        raise AssertionError(f"{error}: {said}") from None
    assert not team.bound(f"{name}-")
    until(lambda: words[0] in team.condition(pod)[1], "the pod says so, too")
    daemon.assert_graph_in_step()


def end(team: Namespace, name: str) -> None:
    """The pods of a gang are deleted."""
    for number in range(SIZE):
        team.api.delete(f"{team.path}/pods/{name}-{number}?gracePeriodSeconds=0")


def cordon(cluster: Cluster, node: str, *, closed: bool) -> None:
    cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": closed}})


def taint(cluster: Cluster, node: str, *taints: dict[str, str]) -> None:
    cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": list(taints)}})


def make(cluster: Cluster, node: Json) -> None:
    """A node that was deleted is there again, with its labels."""
    metadata = {key: node["metadata"][key] for key in ("name", "labels")}
    cluster.api.create("/api/v1/nodes", {"metadata": metadata, "status": node["status"]})
    # Admission calls every new node not ready.
    taint(cluster, metadata["name"])


@pytest.fixture
def put_right(cluster: Cluster) -> Iterator[None]:
    """However a test ends, all nodes are there and open."""
    before = cluster.api.items("/api/v1/nodes")
    yield
    there = {node["metadata"]["name"] for node in cluster.api.items("/api/v1/nodes")}
    for node in before:
        if node["metadata"]["name"] not in there:
            make(cluster, node)
    for name in RACKS:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": False, "taints": []}})


@pytest.mark.usefixtures("put_right")
def test_gangs_land_in_one_rack_and_follow_foreign_pods_and_cordons(
    cluster: Cluster, daemon: Daemon, team: Namespace
) -> None:
    # One node of each of three racks is taken: by hand, by the default scheduler, by a cordon.
    team.pod("foreign", cpu="1", scheduler="by-hand", nodeName="load-00002")
    where = {"nodeSelector": {"kubernetes.io/hostname": "load-00007"}}
    team.pod("of-default", cpu="1", scheduler="default-scheduler", **where)
    cordon(cluster, "load-00012", closed=True)
    until(lambda: team.bound() == {"foreign", "of-default"}, "the others' pods have their nodes")
    gang(team, "a")
    lands(daemon, team, "a", "r3")
    paths = {pod["metadata"]["annotations"].get(PATH) for pod in team.pods() if pod["metadata"]["name"][0] == "a"}
    assert paths == {"west/r3"}
    gang(team, "b")
    fits = f"rack: at most {SIZE - 1} of {SIZE} pods fit, in east/r0"
    waits(daemon, team, "b", fits, "would have to end first:", f"on node load-00002: {team.name}/foreign")
    # Each of them gives way in turn, and the next gang has the rack.
    team.finish("foreign", "Succeeded")
    lands(daemon, team, "b", "r0")
    gang(team, "c")
    fits = f"rack: at most {SIZE - 1} of {SIZE} pods fit, in east/r1"
    waits(daemon, team, "c", fits, f"on node load-00007: {team.name}/of-default")
    cordon(cluster, "load-00012", closed=False)
    lands(daemon, team, "c", "r2")
    gang(team, "d")
    waits(daemon, team, "d", fits, f"on node load-00007: {team.name}/of-default")
    team.api.delete(f"{team.path}/pods/of-default?gracePeriodSeconds=0")
    lands(daemon, team, "d", "r1")


@pytest.mark.usefixtures("put_right")
def test_gangs_follow_nodes_that_are_lost_deleted_and_made_again(
    cluster: Cluster, daemon: Daemon, team: Namespace
) -> None:
    for name, rack in zip("abc", ("r0", "r1", "r2"), strict=True):
        gang(team, name)
        lands(daemon, team, name, rack)
    # As the controller of node lifecycles marks a node of which it hears nothing.
    taint(cluster, "load-00016", LOST)
    gang(team, "d")
    waits(daemon, team, "d", f"rack: at most {SIZE - 1} of {SIZE} pods fit, in west/r3")
    taint(cluster, "load-00016")
    lands(daemon, team, "d", "r3")
    gone = cluster.api.get("/api/v1/nodes/load-00001")
    cluster.api.delete("/api/v1/nodes/load-00001")
    gang(team, "e")
    end(team, "a")
    # Nor would all racks together do, which is said first.
    waits(daemon, team, "e", "cluster: cpu: 160 wanted", f"{SIZE - 1} would do alone")
    make(cluster, gone)
    lands(daemon, team, "e", "r0")


def test_a_gang_that_no_rack_can_ever_hold_is_told_so_at_once(daemon: Daemon, team: Namespace) -> None:
    gang(team, "large", SIZE + 1)
    waits(daemon, team, "large", f"rack: at most {SIZE} of {SIZE + 1} pods fit", "NeverFits", "if all nodes were empty")
    # Two racks of a zone do.
    gang(team, "wide", SIZE + 1, level="zone")
    until(lambda: sum(racks(team, "wide").values()) == SIZE + 1, "the gang is placed")
    assert set(racks(team, "wide")) in ({"r0", "r1"}, {"r2", "r3"})


def test_a_gang_that_asks_for_nothing_is_kept_together_by_its_queue(daemon: Daemon, team: Namespace) -> None:
    gang(team, "free", SIZE, level="")
    until(lambda: sum(racks(team, "free").values()) == SIZE, "the gang is placed")
    assert len(racks(team, "free")) == 1


def test_a_rack_of_real_nodes_gives_way_to_a_slurm_job_and_has_the_next_gang_after_it(
    site: Sharing, daemon: Daemon, team: Namespace
) -> None:
    gang(team, "first", 2, **SMALL, affinity=apart("first"))
    lands(daemon, team, "first", "batch", 2)
    running = {"first-0": "Running", "first-1": "Running"}
    until(lambda: {pod["metadata"]["name"]: pod["status"].get("phase") for pod in team.pods()} == running, "they run")
    on_n1 = next(pod for pod, node in team.places("first-").items() if node == "n1")
    job = site.batch("-w", "n1", "-N1")
    try:
        until(lambda: site.state(job).startswith("RUNNING"), "the job has its node")
        until(lambda: on_n1 not in team.bound(), "the pod there has made room")
        gang(team, "second", 2, **SMALL, affinity=apart("second"))
        why = ("rack site/batch: rules about other pods leave too little room", "1  held by batch jobs  (n1)")
        waits(daemon, team, "second", *why)
        assert "held by batch jobs" in daemon.ask("graph", "show", "--html")
    finally:
        site.ctl(f"scancel {job}")
    lands(daemon, team, "second", "batch", 2)
    until(lambda: not site.tainted(), "the node is open again")


@pytest.fixture
def waiting_prolog(site: Sharing) -> Iterator[None]:
    """The site's own script has jobs on n1 wait for GO before ours begins, and says so at WAITS."""
    line = f"touch {WAITS}; i=0; until test -e {GO} || test $i -ge 600; do sleep 0.1; i=$((i + 1)); done"
    site.node("n1", f"rm -f {WAITS} {GO}; cp -p {PROLOG} {PROLOG}.before; sed -i '1a {line}' {PROLOG}")
    yield
    site.node("n1", f"touch {GO}; mv {PROLOG}.before {PROLOG}")


@pytest.mark.usefixtures("waiting_prolog")
def test_a_job_that_is_cancelled_in_its_prolog_evicts_no_pod_that_has_come_since(
    site: Sharing, daemon: Daemon, team: Namespace
) -> None:
    job = site.batch("-w", "n1", "-N1")
    try:
        until(lambda: "there" in site.node("n1", f"test -e {WAITS} && echo there || true"), "the Prolog waits")
        assert site.tainted() == {"n1"}
    finally:
        site.ctl(f"scancel {job}")
    until(lambda: not site.tainted(), "the controllers have given the node up")
    gang(team, "next", 2, **SMALL, affinity=apart("next"))
    lands(daemon, team, "next", "batch", 2)
    before = {pod["metadata"]["uid"] for pod in team.pods()}
    site.node("n1", f"touch {GO}")
    told = f"journalctl -t nodeshare -o cat | grep 'job={job} ' | grep -o 'event=end\\|job ends already' || true"
    until(lambda: "event=end" in site.node("n1", told), "the job's Epilog has run")
    assert "job ends already" in site.node("n1", told)
    site.node("n1", "nodeshare repair")
    assert not site.tainted()
    assert {pod["metadata"]["uid"] for pod in team.pods()} == before
    assert all("deletionTimestamp" not in pod["metadata"] for pod in team.pods())


def test_the_graph_of_a_daemon_that_starts_now_is_the_same(cluster: Cluster, daemon: Daemon, team: Namespace) -> None:
    gang(team, "a")
    lands(daemon, team, "a", "r0")
    anew = cluster.daemon("anew", lease_name="racks", topology_levels=LEVELS).start()

    def same(*words: str) -> Callable[[], bool]:
        return lambda: bool(daemon.ask("graph", *words)) and daemon.ask("graph", *words) == anew.ask("graph", *words)

    try:
        until(same("show", "--nodes"), "both show the same use")
        until(same("dump"), "both write the same JGF")
        assert "rack r0  5 nodes  cpu 160/160" in anew.ask("graph", "show")
        assert all(f'"{node}"' in anew.ask("graph", "dump") for node in (*RACKS, *REAL))
        anew.assert_graph_in_step()
    finally:
        anew.stop()
