# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plugin of the site holds wherever it is asked where a pod may go, and nothing it does stops the daemon."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from placement.model.objects.pod import Phase, Pod
from placement.policy.framework import feasibility
from placement.policy.jobs.job import Task
from placement.policy.plugins.configuration import Configuration, ConfigurationError, load
from placement.policy.plugins.filters.filters import Filter
from placement.policy.plugins.site_check import PluginError, plugin_type
from placement.policy.plugins.site_plugin import Asking, Bools, Nodes, Rooms, Scores, SitePlugin
from placement_kit.backed import Backed
from placement_kit.builders import amounts, gang, mine, node, pairs
from placement_kit.kube_batch import policy
from placement_kit.simulated import Simulated
from placement_kit.site_nodes import GPU, LICENCE, SiteNodes

GPU_NODE = {**dict(amounts(cpu="4", memory="8Gi", pods="10")), GPU: 2}


class OnlyOld(SitePlugin):
    """Nodes with a label only, by the Node objects alone."""

    def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
        return nodes.labelled("age", "old")


class OnlyOldForNow(SitePlugin):
    """The same, as things stand."""

    def allowed(self, asking: Asking, nodes: Rooms) -> Bools | None:
        return nodes.labelled("age", "old")


class Likes(SitePlugin):
    """One node."""

    def score(self, spec: Any, request: Any, nodes: Rooms) -> Scores | None:
        return np.where(nodes.named("n3"), 500, 0).astype(np.float32)


def configured(*plugins: type[SitePlugin], actions: str = "allocate", options: str = "") -> Configuration:
    named = {plugin.__name__.lower(): plugin for plugin in plugins}
    lines = "".join(f"  - name: {name}\n{options}" for name in named)
    return load(f"{policy(actions)}- plugins:\n{lines}", "test", named.get)


def labels(**more: str) -> dict[str, Any]:
    return {"labels": tuple(sorted(more.items()))}


def refused(plugin: type[SitePlugin], text: str = "") -> str:
    with pytest.raises(ConfigurationError) as caught:
        configured(plugin, options=text)
    return str(caught.value)


@pytest.mark.parametrize("plugin", [OnlyOld, OnlyOldForNow])
def test_pods_go_only_where_the_plugin_lets_them(plugin: type[SitePlugin]) -> None:
    simulated = Simulated(configured(plugin))
    simulated.see(node("n1"), node("n2", labels=pairs(age="old")), gang("g", 3))
    simulated.see(*(mine(f"p{index}", group="g") for index in range(3)), mine("late", request=amounts(cpu="2")))
    simulated.run()
    assert simulated.placements() == {"p0": "n2", "p1": "n2", "p2": "n2"}
    said = simulated.conditions()["late"]
    assert f"1 refused by plugin {plugin.__name__.lower()}" in said
    assert "1 Insufficient cpu" in said
    found = simulated.explain("team", "late")
    assert found is not None
    assert (found.nodes[1].reason, found.nodes[1].examples) == (f"refused by plugin {plugin.__name__.lower()}", ("n1",))


@pytest.mark.parametrize("plugin", [OnlyOld, OnlyOldForNow])
def test_no_pod_is_evicted_where_the_plugin_lets_none_go(plugin: type[SitePlugin]) -> None:
    simulated = Simulated(configured(plugin, actions="allocate, preempt"))
    running = {"phase": Phase.RUNNING, "request": amounts(cpu="4")}
    simulated.see(node("n1"), node("n2", labels=pairs(age="old")))
    simulated.see(mine("cheap", node="n1", **running), mine("dear", node="n2", priority=5, **running))
    simulated.see(mine("high", priority=9, request=amounts(cpu="4")))
    simulated.run()
    assert simulated.placements() == {"cheap": "n1", "high": "n2"}


def test_a_promise_is_not_kept_on_a_node_that_the_plugin_refuses_by_now() -> None:
    class Slow(Simulated):
        def carry_out(self, action: Any) -> None:
            if type(action).__name__ == "Evict":
                self.see(replace(self.pods[action.uid], terminating=True))
            else:
                super().carry_out(action)

    simulated = Slow(configured(OnlyOld, actions="allocate, preempt"))
    running = {"phase": Phase.RUNNING, "request": amounts(cpu="4")}
    simulated.see(node("n1", labels=pairs(age="old")), node("n2"), mine("low", node="n1", **running))
    simulated.see(mine("high", priority=9, request=amounts(cpu="4")))
    simulated.run()
    explained = simulated.explain("team", "high")
    assert explained is not None
    assert explained.limit == "room on node n1 is kept for it until others have left"
    simulated.see(node("n1"))
    simulated.gone(simulated.named("low"))
    simulated.run()
    assert simulated.placements() == {}
    # The try after that knows better why it waits than the promise that was given up.
    assert simulated.conditions()["high"] == "0/2 nodes are available: 2 refused by plugin onlyold"


@pytest.mark.parametrize("plugin", [OnlyOld, OnlyOldForNow])
def test_a_pod_that_the_batch_system_places_is_refused_too(plugin: type[SitePlugin]) -> None:
    site = Backed()
    site.scheduler.configure(configured(plugin), partial_gang_seconds=120, reserve_after=300)
    site.see(site.pod("p1"))
    site.settle()
    assert site.placements() == {}
    assert f"node n1 is one refused by plugin {plugin.__name__.lower()}" in site.conditions()["p1"]
    site.see(node("n1", labels=pairs(age="old")))
    site.settle(seconds=60)
    assert site.placements() == {"p1": "n1"}


def test_plugins_join_the_score_and_agree_with_runs_of_equal_pods() -> None:
    simulated = Simulated(configured(Likes))
    simulated.see(*(node(f"n{index}") for index in range(6)), gang("g", 5))
    simulated.see(*(mine(f"p{index}", group="g") for index in range(5)))
    simulated.run()
    # The first four fill the node, the fifth goes to the best of the others.
    assert sorted(simulated.placements().values()) == ["n0", "n3", "n3", "n3", "n3"]
    off = Simulated(configured(Likes, options="    enableNodeOrder: false\n"))
    off.see(*(node(f"n{index}") for index in range(6)), mine("p"))
    off.run()
    assert off.placements() == {"p": "n0"}


def test_the_example_keeps_the_partition_the_licences_and_the_gpus() -> None:
    simulated = Simulated(configured(SiteNodes))
    gpu = tuple(sorted(GPU_NODE.items()))
    simulated.see(
        node("big", labels=(("site.example/partition", "gpu"),), allocatable=gpu),
        node("idle", allocatable=gpu),
        node("plain", allocatable=amounts(cpu="2", memory="4Gi", pods="10")),
    )
    with_gpu = tuple(sorted((*amounts(cpu="1"), (GPU, 2))))
    simulated.see(*(mine(f"p{index}") for index in range(3)))
    simulated.run()
    # The last finds no room where there is no GPU.
    assert simulated.placements() == {"p0": "plain", "p1": "plain", "p2": "idle"}
    simulated.see(mine("g1", request=with_gpu), mine("g2", request=with_gpu))
    simulated.run()
    assert {simulated.placements()[name] for name in ("g1", "g2")} == {"big", "idle"}
    licensed = ((LICENCE, "matlab"),)
    simulated.see(*(mine(f"l{index}", labels=licensed, request=amounts(cpu="100m")) for index in range(3)))
    simulated.run()
    assert len([name for name in simulated.placements() if name.startswith("l")]) == 2
    assert "refused by plugin sitenodes" in simulated.conditions()["l2"]
    # One that ends makes its licence free.
    simulated.finish("l0")
    simulated.run()
    assert "l2" in simulated.placements()


def test_members_of_a_gang_do_not_share_the_last_licence() -> None:
    simulated = Simulated(configured(SiteNodes))
    simulated.see(node("n1"), gang("g", 3))
    licensed = ((LICENCE, "matlab"),)
    simulated.see(*(mine(f"p{index}", group="g", labels=licensed, request=amounts(cpu="1m")) for index in range(3)))
    simulated.run()
    assert simulated.placements() == {}
    simulated.see(gang("h", 2))
    simulated.see(*(mine(f"q{index}", group="h", labels=licensed, request=amounts(cpu="1m")) for index in range(2)))
    simulated.run()
    assert simulated.placements() == {"q0": "n1", "q1": "n1"}


def test_equal_pods_with_another_label_are_told_apart_once_a_plugin_reads_it() -> None:
    simulated = Simulated(load(policy("allocate"), "test"))
    simulated.see(node("n1", unschedulable=True))
    request = amounts(cpu="1m")
    for index in range(4):
        simulated.see(mine(f"p{index}", owner="o", labels=((LICENCE, "a" if index else "b"),), request=request))
    simulated.run()
    simulated.scheduler.configure(configured(SiteNodes), partial_gang_seconds=120, reserve_after=300)
    simulated.see(node("n1"))
    simulated.run()
    # Two licences each of `a` and `b`: of `a` there is one pod too many.
    assert sorted(simulated.placements()) == ["p0", "p1", "p2"]


def test_what_only_the_plugin_knows_is_asked_again_after_a_while() -> None:
    open_now = [False]

    class Hours(SitePlugin):
        def allowed(self, asking: Asking, nodes: Rooms) -> Bools | None:
            return np.full(len(nodes), open_now[0])

    simulated = Simulated(configured(Hours))
    simulated.see(node("n1"), mine("p"))
    simulated.run()
    assert simulated.placements() == {}
    open_now[0] = True
    simulated.now = 10
    simulated.run()
    assert simulated.placements() == {}
    simulated.now = 31
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


class Judges(SitePlugin):
    """Does what a test tells it to, once the trial is over."""

    answer: Any = None

    def _answer(self, nodes: Nodes) -> Any:
        made = type(self).answer
        return made(nodes) if callable(made) else made

    def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
        return self._answer(nodes) if requested_by_many(request) else None


def requested_by_many(request: Any) -> bool:
    return dict(request).get("cpu", 0) >= 2000


class JudgesNow(Judges):
    mask = SitePlugin.mask

    def allowed(self, asking: Asking, nodes: Rooms) -> Bools | None:
        return self._answer(nodes) if requested_by_many(asking.request) else None


class JudgesBest(Judges):
    mask = SitePlugin.mask

    def score(self, spec: Any, request: Any, nodes: Rooms) -> Scores | None:
        return self._answer(nodes) if requested_by_many(request) else None


def _exits(_nodes: Nodes) -> None:
    raise SystemExit(3)


class _MuteError(BaseException):
    def __str__(self) -> str:
        raise ValueError


def _interrupts(_nodes: Nodes) -> None:
    raise _MuteError


def _recurses(nodes: Nodes) -> None:
    _recurses(nodes)


NONSENSE = {
    "raises": lambda nodes: 1 / 0,
    "exits": _exits,
    "interrupts": _interrupts,
    "recurses": _recurses,
    "writes": lambda nodes: nodes.allocatable("cpu").__setitem__(0, 7),
    "a list": lambda nodes: [True] * len(nodes),
    "numbers": lambda nodes: np.ones(len(nodes), np.complex128),
    "too short": lambda nodes: np.ones(1, np.bool_),
    "two lines": lambda nodes: np.ones((2, len(nodes)), np.bool_),
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
@pytest.mark.parametrize("plugin", [Judges, JudgesNow])
def test_pods_that_a_plugin_fails_for_wait_and_the_others_go_on(plugin: type[Judges], nonsense: Any) -> None:
    simulated = Simulated(configured(plugin, actions="allocate, preempt, reclaim"))
    simulated.see(node("n1"), node("n2"))
    plugin.answer = staticmethod(nonsense)
    try:
        simulated.see(mine("judged", request=amounts(cpu="2")), mine("other"))
        simulated.run()
    finally:
        plugin.answer = None
    name = plugin.__name__.lower()
    assert sorted(simulated.placements()) == ["other"]
    assert f"2 that plugin {name} could not judge" in simulated.conditions()["judged"]
    faults = simulated.scheduler.plugin_faults
    method = "mask" if plugin is Judges else "allowed"
    assert faults.counts[name, method] >= 1
    (sentence,) = faults.take()
    assert sentence.startswith(f"plugin {name}: {method} failed: ")
    assert sentence.endswith("; pods that it is asked about wait")
    # Once it can judge, the next change lets the pod in.
    simulated.see(node("n3"))
    simulated.run()
    assert sorted(simulated.placements()) == ["judged", "other"]


@pytest.mark.parametrize(
    "nonsense",
    [
        *NONSENSE.values(),
        lambda nodes: np.full(len(nodes), np.nan),
        lambda nodes: np.full(len(nodes), -np.inf),
        lambda nodes: np.full(len(nodes), 1e9),
        lambda nodes: nodes.free("cpu").fill(0),
    ],
)
def test_a_score_that_fails_counts_for_nothing(nonsense: Any) -> None:
    simulated = Simulated(configured(JudgesBest))
    JudgesBest.answer = staticmethod(nonsense)
    try:
        simulated.see(node("n1"), node("n2"), gang("g", 2))
        simulated.see(*(mine(f"p{index}", group="g", request=amounts(cpu="3")) for index in range(2)))
        simulated.run()
    finally:
        JudgesBest.answer = None
    assert sorted(simulated.placements().values()) == ["n1", "n2"]
    (sentence,) = simulated.scheduler.plugin_faults.take()
    assert sentence.endswith("; its scores count for nothing")


def test_points_that_an_array_masks_are_plain_points() -> None:
    class Masks(SitePlugin):
        def score(self, spec: Any, request: Any, nodes: Rooms) -> Scores | None:
            return np.ma.masked_array(np.where(nodes.named("n2"), 500.0, 0.0), mask=nodes.named("n1"))

    simulated = Simulated(configured(Masks))
    simulated.see(node("n1"), node("n2"), mine("p"))
    simulated.run()
    assert simulated.placements() == {"p": "n2"}


def test_a_plugin_may_keep_and_alter_what_it_has_answered() -> None:
    kept: list[Bools] = []

    class Keeps(SitePlugin):
        def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
            kept.append(np.ones(len(nodes), np.bool_))
            return kept[-1]

    simulated = Simulated(configured(Keeps))
    simulated.see(node("n1"), mine("p1"))
    simulated.run()
    for rows in kept:
        rows[:] = False
    simulated.see(mine("p2"))
    simulated.run()
    assert sorted(simulated.placements()) == ["p1", "p2"]


def test_a_mask_is_asked_for_once_until_a_node_changes() -> None:
    asked: list[int] = []

    class Counts(SitePlugin):
        def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
            asked.append(len(nodes))
            return None

    simulated = Simulated(configured(Counts))
    simulated.see(*(node(f"n{index}") for index in range(20)))
    before = len(asked)
    simulated.see(*(mine(f"p{index}") for index in range(50)))
    simulated.run()
    assert len(simulated.placements()) == 50
    assert len(asked) == before + 1


def test_a_mask_follows_nodes_that_change_and_go() -> None:
    nodes = [node(f"n{index}", labels=pairs(age="old" if index % 2 else "new")) for index in range(30)]
    simulated = Simulated(configured(OnlyOld))
    simulated.see(*nodes)
    mask = simulated.scheduler.session.feasibility.mask
    spec, request = Pod(uid="u", namespace="a", name="b", version=1).spec, amounts(cpu="1")
    assert int(mask(spec, request).allows.sum()) == 15
    for index in range(3):
        simulated.see(node(f"n{index}", labels=pairs(age="old")))
    assert int(mask(spec, request).allows.sum()) == 17
    simulated.gone(node("n1"))
    assert int(mask(spec, request).allows.sum()) == 16


def test_a_plugin_that_is_taken_out_says_nothing_any_more() -> None:
    simulated = Simulated(configured(OnlyOld, Likes))
    simulated.see(node("n1"), mine("p"))
    simulated.run()
    assert simulated.placements() == {}
    simulated.scheduler.configure(load(policy("allocate"), "test"), partial_gang_seconds=120, reserve_after=300)
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_arguments_are_typed_and_defaults_hold() -> None:
    given: list[dict[str, Any]] = []

    class Tells(SitePlugin):
        arguments: ClassVar = {"most": 4, "strict": True}

        def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
            given.append(dict(self.given))
            return None

    configured(Tells)
    configured(Tells, options="    arguments: {most: 7, strict: 'false'}\n")
    assert (given[0], given[-1]) == ({"most": 4, "strict": True}, {"most": 7, "strict": False})
    assert refused(Tells, "    arguments: {most: many}\n") == "test:14: most: 'many' is not an integer from 0 to 1000"
    assert "unknown key 'least' in arguments of tells; known are most, strict" in refused(
        Tells, "    arguments: {least: 1}\n"
    )
    assert "enableJobOrder is not for plugin 'tells'" in refused(Tells, "    enableJobOrder: false\n")


def test_what_cannot_be_a_plugin_is_refused_before_anything_starts() -> None:
    class Empty(SitePlugin):
        pass

    class Short(SitePlugin):
        def mask(self, nodes: Nodes) -> Bools | None:  # type: ignore[override]
            return None

    class Float(SitePlugin):
        arguments: ClassVar = {"x": 1.5}

        def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
            return None

    class Word(SitePlugin):
        labels = "app"  # type: ignore[assignment]

        def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
            return None

    class Breaks(SitePlugin):
        def __init__(self, given: Any) -> None:
            raise OSError("no such file")

        def mask(self, spec: Any, request: Any, nodes: Nodes) -> Bools | None:
            return None

    class Shape(SitePlugin):
        def score(self, spec: Any, request: Any, nodes: Rooms) -> Scores | None:
            return np.ones(64, np.float32)

    class Unread(SitePlugin):
        def allowed(self, asking: Asking, nodes: Rooms) -> Bools | None:
            return nodes.pods("app", "x") > 0

    for plugin, said in [
        (Breaks, "it cannot be made: OSError: no such file; mend its __init__"),
        (
            Shape,
            "score failed on trial: the answer is an array of shape (64,); expected None or a numpy",
        ),
        (
            Unread,
            "allowed failed on trial: ValueError: label 'app' of pods is read, but is not in the plugin's `labels`",
        ),
    ]:
        message = refused(plugin)
        assert message.startswith(f"test:13: plugin '{plugin.__name__.lower()}': {said}"), message
        assert "\n" not in message
    for found, said in [
        (Empty, "decides nothing; override mask, allowed, score or one of them"),
        (Short, "expected mask(self, spec, request, nodes)"),
        (Float, "the default of argument 'x' is neither bool nor int"),
        (Word, "labels is 'app'; expected a tuple of label keys"),
        (dict, "its entry point is the class dict; let it name a class derived from SitePlugin"),
        ("text", "its entry point is of type str; let it name a class derived from SitePlugin"),
    ]:
        with pytest.raises(PluginError, match=said.replace("(", r"\(").replace(")", r"\)")):
            plugin_type(found)


def test_every_filter_that_is_listed_is_asked_in_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    class NotHere(Filter):
        reason = "that are not here"

        def allowed(self, task: Task) -> Bools | None:
            found = np.ones(self._columns.capacity, np.bool_)
            found[self._columns.rows["n1"]] = False
            return found

    before = feasibility.filters_of
    monkeypatch.setattr(feasibility, "filters_of", lambda cluster, *more: (*before(cluster, *more), NotHere(cluster)))
    simulated = Simulated(load(policy("allocate, preempt"), "test"))
    running = {"phase": Phase.RUNNING, "request": amounts(cpu="4")}
    simulated.see(node("n1"), node("n2"), mine("mid", node="n2", priority=5, **running))
    simulated.see(mine("high", priority=9, request=amounts(cpu="4")), mine("wide", request=amounts(cpu="4")))
    simulated.run()
    assert simulated.placements() == {"high": "n2"}
    assert "1 Insufficient cpu, 1 that are not here" in simulated.conditions()["wide"]
