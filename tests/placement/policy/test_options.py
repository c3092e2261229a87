# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of a plugin that is supported changes what is decided when it is switched off."""

from collections.abc import Callable

import pytest
from placement.model.objects.pod import Phase
from placement.policy.plugins.configuration import load
from placement_kit.builders import amounts, gang, mine, node, pod, priority_class, queue
from placement_kit.simulated import Simulated

Scene = Callable[[Simulated], None]


def cores(number: int) -> object:
    return node("n1", allocatable=amounts(cpu=str(number), memory="8Gi", pods="20"))


def priorities(simulated: Simulated) -> None:
    """Room for one pod, and jobs of two priorities."""
    simulated.see(cores(1), priority_class("urgent", 10))
    simulated.see(gang("old", 1, created="1"), gang("new", 1, created="2", priority_class="urgent"))
    simulated.see(mine("old", group="old"), mine("new", group="new"))


def members(simulated: Simulated) -> None:
    """Room for one pod, and a job with pods of two priorities."""
    simulated.see(cores(1), gang("g", 1))
    simulated.see(mine("old", group="g", created="1"), mine("new", group="g", created="2", priority=10))


def large_gang(simulated: Simulated) -> None:
    """Room for one of two members."""
    simulated.see(cores(1), gang("g", 2))
    simulated.see(mine("one", group="g", created="1"), mine("two", group="g", created="2"))


def one_that_runs(simulated: Simulated) -> None:
    """Room for one more pod, of a job that has one or of a later one that has none."""
    simulated.see(cores(2), gang("old", 1, created="1"), gang("new", 1, created="2"))
    simulated.see(mine("first", group="old", node="n1", phase=Phase.RUNNING))
    simulated.see(mine("old", group="old"), mine("new", group="new"))


def queues(simulated: Simulated) -> None:
    """Room for one more pod, of a queue that has one or of one that has none; each deserves more."""
    simulated.see(cores(8), *(queue(name) for name in "abc"), *(gang(name, 1, queue=name) for name in "abc"))
    simulated.see(mine("large", group="c", node="n1", phase=Phase.RUNNING, request=amounts(cpu="6")))
    simulated.see(mine("first", group="a", node="n1", phase=Phase.RUNNING))
    simulated.see(mine("old", group="a"), mine("new", group="b"))


def full_queue(simulated: Simulated) -> None:
    """One queue has everything."""
    simulated.see(cores(2), queue("a"), queue("b"), gang("a", 1, queue="a"), gang("b", 1, queue="b"))
    simulated.see(*(mine(f"a{index}", group="a", node="n1", phase=Phase.RUNNING) for index in range(2)))
    simulated.see(mine("new", group="b"))


def full_of_low(simulated: Simulated) -> None:
    """Pods of low priority have everything."""
    simulated.see(cores(1), mine("low", node="n1", phase=Phase.RUNNING), mine("new", priority=10))


def full_of_one_job(simulated: Simulated) -> None:
    """A job has everything, and another of the same priority nothing."""
    simulated.see(cores(2), gang("a", 1), gang("b", 1))
    simulated.see(*(mine(f"a{index}", group="a", node="n1", phase=Phase.RUNNING) for index in range(2)))
    simulated.see(mine("new", group="b"))


def used_and_empty(simulated: Simulated) -> None:
    """Two nodes, of which the first is used in part."""
    simulated.see(node("n1"), node("n2"), pod("theirs", node="n1", request=amounts(cpu="1", memory="2Gi")))
    simulated.see(mine("new", request=amounts(cpu="1", memory="2Gi")))


@pytest.mark.parametrize(
    ("plugin", "key", "scene", "on", "off"),
    [
        ("priority", "enableJobOrder", priorities, "new", "old"),
        ("priority", "enableTaskOrder", members, "new", "old"),
        ("priority", "enablePreemptable", full_of_low, "new", ""),
        ("gang", "enableJobReady", large_gang, "", "one"),
        ("gang", "enableJobOrder", one_that_runs, "new", "old"),
        ("drf", "enableJobOrder", one_that_runs, "new", "old"),
        ("drf", "enablePreemptable", full_of_one_job, "new", ""),
        ("proportion", "enableQueueOrder", queues, "new", "old"),
        ("proportion", "enableReclaimable", full_queue, "new", ""),
    ],
)
def test_an_option_that_is_off_changes_who_starts(plugin: str, key: str, scene: Scene, on: str, off: str) -> None:
    for value, started in (("true", on), ("false", off)):
        # No action that evicts where the order alone is looked at.
        simulated = deciding(plugin, key, value, "allocate" if key.endswith("Order") else "allocate, preempt, reclaim")
        scene(simulated)
        before = set(simulated.placements())
        simulated.run()
        assert set(simulated.placements()) - before == ({started} if started else set()), value


def test_nodes_are_all_alike_where_their_order_is_off() -> None:
    for value, chosen in (("true", "n2"), ("false", "n1")):
        simulated = deciding("nodeorder", "enableNodeOrder", value)
        used_and_empty(simulated)
        simulated.run()
        assert simulated.placements()["new"] == chosen


def deciding(plugin: str, key: str, value: str, actions: str = "allocate") -> Simulated:
    """Under one plugin with one option."""
    text = f'actions: "{actions}"\ntiers:\n- plugins:\n  - name: {plugin}\n    {key}: {value}\n'
    return Simulated(load(text, "test"))
