# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod that leaves has those jobs tried again that this can help, and no others."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from placement.model.messages.action import Action, Bind, Evict
from placement.model.messages.event import BindFailed
from placement.model.objects.pod import HostPort, Phase, Pod
from placement.model.objects.workload import PodGroup
from placement.policy.plugins.configuration import Configuration, load
from placement_kit.builders import amounts, gang, mine, near, node, pairs, pod, queue, spread
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated

HTTP = (HostPort("0.0.0.0", "TCP", 80),)


class Watched:
    """A cluster, and the names of the jobs that are tried."""

    def __init__(
        self,
        actions: str = "allocate, backfill",
        *,
        nodes: int = 2,
        cpu: str = "4",
        api: Callable[[Configuration], Simulated] = Simulated,
    ) -> None:
        self.simulated = api(load(policy(actions), "test"))
        room = amounts(cpu=cpu, memory="64Gi", pods="100")
        self.see(
            *(node(f"n{index}", labels=pairs(zone=f"z{index % 2}"), allocatable=room) for index in range(nodes)),
            # Without any free room no queue deserves anything, and none is visited.
            node("spare", allocatable=amounts(cpu="100m", memory="1Gi", pods="1")),
        )
        self._tried: list[str] = []
        selector = self.simulated.scheduler.session.host_selector
        place = selector.place

        def counted(tasks: Sequence[Any], statement: Any) -> Any:
            self._tried += [task.pod.name for task in tasks]
            return place(tasks, statement)

        selector.place = counted  # type: ignore[method-assign]

    def see(self, *items: Any) -> None:
        """Objects come."""
        self.simulated.see(*items)

    def tried(self) -> set[str]:
        """Run until nothing happens; return the pods that were tried."""
        self.simulated.run()
        found, self._tried = set(self._tried), []
        return found

    def leaves(self, name: str) -> set[str]:
        """The pod is gone; return the pods that are tried."""
        assert self.tried() is not None
        self.simulated.gone(self.simulated.named(name))
        return self.tried()


def test_only_jobs_that_have_room_on_the_node_are_tried() -> None:
    watched = Watched()
    watched.see(pod("a", node="n0", request=amounts(cpu="2")), pod("b", node="n0", request=amounts(cpu="2")))
    watched.see(pod("c", node="n1", request=amounts(cpu="3")), pod("d", node="n1", request=amounts(cpu="1")))
    watched.see(*(mine(f"small{index}", request=amounts(cpu="1")) for index in range(2)))
    watched.see(*(mine(f"large{index}", request=amounts(cpu="4")) for index in range(200)))
    assert watched.tried() >= {"small0", "large0"}
    assert watched.leaves("d") == {"small0", "small1"}
    assert watched.simulated.placements()["small0"] == "n1"
    # Now the other small one, and no large one until its node is empty.
    assert watched.leaves("a") == {"small1"}
    assert watched.leaves("b") == set()
    watched.simulated.gone(watched.simulated.named("small1"))
    assert "large0" in watched.tried()


@pytest.mark.parametrize("ends", ["deleted", "done"])
def test_a_pod_of_ours_that_ends_has_only_jobs_tried_that_have_room_on_its_node(ends: str) -> None:
    watched = Watched()
    running: dict[str, Any] = {"phase": Phase.RUNNING, "request": amounts(cpu="2")}
    watched.see(*(mine(f"own{index}", node=f"n{index % 2}", **running) for index in range(4)))
    watched.see(*(mine(f"large{index}", request=amounts(cpu="4")) for index in range(200)))
    assert "large0" in watched.tried()
    if ends == "done":
        watched.simulated.finish("own0")
        assert watched.tried() == set()
    else:
        assert watched.leaves("own0") == set()
    watched.see(mine("small", request=amounts(cpu="1")))
    assert watched.tried() == {"small"}
    assert watched.leaves("small") == set()
    assert "large0" in watched.leaves("own2")


def in_queue(name: str, queue_name: str, cpu: str, **more: Any) -> tuple[PodGroup, Pod]:
    """A job of one pod in this queue."""
    return gang(f"g-{name}", 1, queue=queue_name), mine(name, group=f"g-{name}", request=amounts(cpu=cpu), **more)


def test_a_job_at_the_limit_of_its_queue_is_tried_when_a_pod_below_that_limit_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(nodes=4)
    limit = {"capability": amounts(cpu="2")}
    watched.see(queue("org", **limit), queue("a", parent="org"), queue("b", parent="org"), queue("else"))
    for name, at in (("first", "a"), ("second", "else")):
        watched.see(*in_queue(name, at, "2"))
    tried: list[str] = []
    cache = watched.simulated.scheduler.cache
    limit_of = cache.tree.limit

    def noted(node: Any, *more: Any) -> str:
        tried.append(node.name)
        return limit_of(node, *more)

    watched.see(*(item for index in range(50) for item in in_queue(f"waits{index}", "b", "1")))
    watched.simulated.run()
    assert len(cache.queue.unschedulable) == 50
    monkeypatch.setattr(cache.tree, "limit", noted)
    # A pod of a queue that is not below the limit helps none of them.
    watched.leaves("second")
    assert tried == []
    watched.leaves("first")
    assert {name for name in watched.simulated.placements() if name.startswith("waits")} == {"waits0", "waits1"}


def test_a_binding_that_fails_has_the_jobs_tried_that_its_room_helps() -> None:
    watched = Watched(nodes=1)
    watched.see(mine("first", request=amounts(cpu="3"), priority=1))
    (binding,) = [action for action in watched.simulated.run_once() if isinstance(action, Bind)]
    watched.see(mine("waits", request=amounts(cpu="2")))
    assert watched.tried() == {"first", "waits"}
    # It is not bound at once again: it has failed before.
    watched.simulated.scheduler.cache.jobs.tasks[binding.uid].job.failures = 3
    watched.simulated.tell(BindFailed(binding.uid, binding.node, "webhook says no"))
    assert watched.tried() == {"waits"}
    assert watched.simulated.placements() == {"waits": "n0"}


def test_what_room_helps_is_tried_in_the_order_of_the_queue() -> None:
    watched = Watched(nodes=1)
    watched.see(pod("a", node="n0", request=amounts(cpu="4")))
    watched.see(*(mine(f"p{index}", request=amounts(cpu="4"), priority=index) for index in range(600)))
    watched.leaves("a")
    assert watched.simulated.placements() == {"p599": "n0"}


def test_a_gang_is_tried_when_one_of_its_pods_has_room_and_begins_when_all_have() -> None:
    watched = Watched(cpu="2")
    watched.see(*(pod(f"a{index}", node=f"n{index}", request=amounts(cpu="2")) for index in range(2)))
    watched.see(gang("g", 2), *(mine(f"p{index}", group="g", request=amounts(cpu="2")) for index in range(2)))
    assert watched.leaves("a0") == {"p0", "p1"}
    assert watched.simulated.placements().keys() == {"a1"}
    assert watched.leaves("a1") == {"p0", "p1"}
    assert watched.simulated.placements().keys() == {"p0", "p1"}


# What keeps a job away that has the room: the foreign pod, and the job. The other node is full.
KEPT_AWAY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "its anti-affinity": ({"labels": pairs(app="db")}, {"anti_affinity": (near("zone", app="db"),)}),
    "anti-affinity of the other": ({"anti_affinity": (near("zone", app="web"),)}, {"labels": pairs(app="web")}),
    "its spread": (
        {"labels": pairs(app="web")},
        {"labels": pairs(app="web"), "spread": (spread("zone", labels={"app": "web"}),)},
    ),
    "a port": ({"host_ports": HTTP}, {"host_ports": HTTP}),
}


@pytest.mark.parametrize("kind", KEPT_AWAY)
@pytest.mark.parametrize("there", ["n0", "n2"])
def test_a_job_that_the_pod_kept_away_is_tried_also_where_the_pod_was_on_another_node(kind: str, there: str) -> None:
    if kind == "a port" and there == "n2":
        there = "n0"
    foreign, own = KEPT_AWAY[kind]
    watched = Watched(nodes=3)
    watched.see(pod("full", node="n1", request=amounts(cpu="4")))
    # In zone z0 there are n0, with room, and n2, without.
    watched.see(pod("some", node="n0", request=amounts(cpu="1")), pod("rest", node="n2", request=amounts(cpu="3500m")))
    watched.see(pod("other", node=there, request=amounts(cpu="10m"), **foreign))
    watched.see(mine("unlike", request=amounts(cpu="4"), labels=pairs(app="else")))
    watched.see(mine("waits", request=amounts(cpu="2"), **own))
    watched.tried()
    assert "waits" not in watched.simulated.placements()
    assert watched.leaves("other") == {"waits"}
    assert watched.simulated.placements()["waits"] == "n0"


def test_a_pod_that_begins_to_leave_counts_no_more_for_a_spread() -> None:
    watched = Watched()
    foreign, own = KEPT_AWAY["its spread"]
    watched.see(pod("full", node="n1", request=amounts(cpu="4")))
    other = pod("other", node="n0", request=amounts(cpu="10m"), **foreign)
    watched.see(other, mine("waits", request=amounts(cpu="2"), **own))
    watched.tried()
    assert "waits" not in watched.simulated.placements()
    watched.see(replace(other, version=2, terminating=True))
    watched.tried()
    assert watched.simulated.placements()["waits"] == "n0"


def test_victims_are_looked_for_when_a_pod_that_could_not_be_evicted_leaves() -> None:
    watched = Watched("allocate, preempt", nodes=1)
    watched.see(mine("low", node="n0", phase=Phase.RUNNING, request=amounts(cpu="1")))
    watched.see(pod("other", node="n0", request=amounts(cpu="3")), mine("high", priority=9, request=amounts(cpu="4")))
    watched.tried()
    assert not [action for action in watched.simulated.actions if isinstance(action, Evict)]
    watched.leaves("other")
    assert [action.name for action in watched.simulated.actions if isinstance(action, Evict)] == ["low"]


def test_a_job_that_could_not_be_tried_when_the_pod_left_is_tried_as_soon_as_it_can() -> None:
    watched = Watched(nodes=1)
    watched.see(pod("other", node="n0", request=amounts(cpu="4")))
    group = gang("g", 1)
    watched.see(group, mine("waits", group="g", request=amounts(cpu="4")))
    watched.tried()
    watched.see(replace(group, version=2, min_member=-1))
    assert watched.leaves("other") == set()
    watched.see(replace(group, version=3))
    assert watched.tried() == {"waits"}
    assert watched.simulated.placements() == {"waits": "n0"}


def test_all_jobs_are_tried_again_every_five_minutes_also_when_nothing_has_happened() -> None:
    watched = Watched()
    watched.see(*(mine(f"own{index}", node=f"n{index}", request=amounts(cpu="3")) for index in range(2)))
    watched.see(mine("large", request=amounts(cpu="4")), mine("tiny", node="n0", request=amounts(cpu="1m")))
    assert watched.leaves("tiny") == set()
    for _unused in range(3):
        watched.simulated.now += 299
        assert watched.tried() == set()
        watched.simulated.now += 1
        assert watched.tried() == {"large"}
        assert watched.tried() == set()


SPECS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"affinity": (near("zone", app="x"),)},
    {"anti_affinity": (near("zone", app="x"),)},
    {"anti_affinity": (near("kubernetes.io/hostname", app="y"),)},
    {"spread": (spread("zone", labels={"app": "x"}),)},
    {"host_ports": HTTP},
    {"volume_claims": ("none",)},
)


def some_pod(draw: random.Random, name: str) -> Pod:
    """A pod of ours or of another, with rules or without, that has its node or waits."""
    more: dict[str, Any] = {
        "request": amounts(cpu=draw.choice(("500m", "1", "2", "4"))),
        "labels": draw.choice(((), pairs(app="x"), pairs(app="y"))),
        "priority": draw.randint(0, 2),
        **draw.choice(SPECS),
    }
    if draw.random() < 0.6:
        return pod(name, node=draw.choice(("n0", "n1", "n2", "")), **more)
    return mine(name, **draw.choice(({}, {"owner": "set"}, {"group": draw.choice("ghij")})), **more)


class Failing(Simulated):
    """An API that refuses some bindings."""

    def __init__(self, configuration: Configuration, draw: random.Random) -> None:
        super().__init__(configuration)
        self._draw = draw

    def carry_out(self, action: Action) -> None:
        """One of ten bindings fails."""
        if isinstance(action, Bind) and action.uid in self.pods and self._draw.random() < 0.1:
            self.tell(BindFailed(action.uid, action.node, "webhook says no"))
        else:
            super().carry_out(action)


def assert_nothing_was_missed(simulated: Simulated, version: int) -> None:
    """All jobs are tried again: one that was not tried although it could be placed would be placed now."""
    simulated.run()
    before = simulated.placements()
    simulated.see(node("none", version=version, allocatable=amounts(cpu="0", pods="0")))
    simulated.scheduler.cache.versions.room += 1
    simulated.run()
    assert simulated.placements() == before


@pytest.mark.parametrize("seed", range(60))
def test_after_any_history_trying_all_jobs_again_places_none(seed: int) -> None:
    draw = random.Random(seed)
    actions = draw.choice(("allocate, backfill", "allocate, backfill, preempt"))
    watched = Watched(actions, nodes=3, cpu="8", api=lambda configuration: Failing(configuration, draw))
    simulated = watched.simulated
    watched.see(queue("org", capability=amounts(cpu=draw.choice(("4", "8")))), queue("low", parent="org"))
    watched.see(queue("tight", parent="org", capability=amounts(cpu="2", pods="3")))
    watched.see(gang("g", 2), gang("h", 3), gang("i", 2, queue="low"), gang("j", 1, queue="tight"))
    there: dict[str, Pod] = {}
    for number in range(60):
        simulated.now += 1
        name = draw.choice(sorted(there)) if there else ""
        kind = draw.choice(("new", "new", "new", "new", "gone", "leaving", "ended"))
        known = simulated.scheduler.cluster.pods.by_uid.get(f"uid-{name}")
        if kind == "new":
            there[f"p{number}"] = some_pod(draw, f"p{number}")
            watched.see(there[f"p{number}"])
        elif known is not None and kind == "leaving":
            watched.see(replace(known.pod, version=known.pod.version + 1, terminating=True))
        elif known is not None and kind == "ended" and known.pod.node:
            simulated.finish(name)
        elif known is not None and kind == "gone":
            simulated.gone(known.pod)
            del there[name]
        if draw.random() < 0.7:
            assert_nothing_was_missed(simulated, number + 2)
    known_pods = [entry.pod for entry in simulated.scheduler.cluster.pods.by_uid.values()]
    draw.shuffle(known_pods)
    for number, one in enumerate(known_pods):
        simulated.gone(one)
        assert_nothing_was_missed(simulated, number + 100)


def test_a_pod_of_ours_that_leaves_before_it_is_taken_in_has_jobs_tried_that_this_helps() -> None:
    watched = Watched(nodes=1)
    simulated, cache = watched.simulated, watched.simulated.scheduler.cache
    simulated.run()
    watched.see(mine("waits", request=amounts(cpu="4")))
    # More new pods than one slice takes in; the last has the whole node.
    watched.see(*(mine(f"ended{index}", phase=Phase.SUCCEEDED, node="n0") for index in range(300)))
    watched.see(mine("holder", node="n0", phase=Phase.RUNNING, request=amounts(cpu="4")))
    holder = simulated.named("holder")
    while not cache.queue.unschedulable:
        simulated.run_once()
    assert simulated.named("ended0").uid in cache.jobs.tasks
    assert holder.uid not in cache.jobs.tasks
    simulated.gone(holder)
    simulated.run()
    assert simulated.placements() == {"waits": "n0"}
