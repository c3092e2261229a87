# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that change while they wait or run, ours and others': the figures follow, and whoever waited for it is tried."""

from dataclasses import replace
from typing import Any

import pytest
from placement.model.objects.pod import Phase, PodSpec
from placement.model.rules.selector import Effect, Taint, Toleration
from placement_kit.builders import amounts, gang, mine, near, node, pairs, pod, queue
from placement_kit.simulated import Simulated

QUEUE = "scheduling.converged.hpc/queue"


def mend(simulated: Simulated, name: str, **more: Any) -> None:
    simulated.see(replace(simulated.named(name), **more))


@pytest.mark.parametrize("cores", ["1", "3"])
@pytest.mark.parametrize("group", ["", "g"])
def test_a_running_pod_that_is_resized_counts_for_what_it_asks_for_now(cores: str, group: str) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), gang("g", 1), mine("p", group=group, request=amounts(cpu="2")))
    simulated.run()
    mend(simulated, "p", request=amounts(cpu=cores))
    simulated.run()
    (report,) = simulated.scheduler.queues()
    assert dict(report.allocated)["cpu"] == 1000 * int(cores)
    simulated.gone(simulated.named("p"))
    simulated.run()
    (report,) = simulated.scheduler.queues()
    assert not dict(report.allocated).get("cpu")
    assert simulated.scheduler.cache.total["cpu"] == 4000


def test_what_a_smaller_pod_gives_back_is_somebody_elses() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), mine("p", node="n1", phase=Phase.RUNNING, request=amounts(cpu="4")), mine("next"))
    simulated.run()
    assert "next" not in simulated.placements()
    mend(simulated, "p", request=amounts(cpu="3"))
    simulated.run()
    assert sorted(simulated.placements()) == ["next", "p"]


def test_what_anothers_smaller_pod_gives_back_is_for_those_who_wait_and_for_their_equals() -> None:
    simulated = Simulated()
    other = pod("other", node="n1", phase=Phase.RUNNING, request=amounts(cpu="3"))
    simulated.see(node("n1"), other, mine("p", request=amounts(cpu="2")))
    simulated.run()
    assert "p" not in simulated.placements()
    mend(simulated, "other", request=amounts(cpu="0"))
    simulated.run()
    simulated.see(mine("like-p", request=amounts(cpu="2")))
    simulated.run()
    assert sorted(simulated.placements()) == ["like-p", "other", "p"]


def test_a_waiting_pod_goes_to_the_queue_that_its_annotation_names_now() -> None:
    simulated = Simulated()
    simulated.see(node("n1"), queue("q"), mine("p", annotations=((QUEUE, "nowhere"),)))
    simulated.run()
    assert not simulated.placements()
    mend(simulated, "p", annotations=((QUEUE, "q"),))
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_a_waiting_pod_that_tolerates_more_is_tried_again() -> None:
    simulated = Simulated()
    simulated.see(node("n1", taints=(Taint("own", "", Effect.NO_SCHEDULE),)), mine("p"))
    simulated.run()
    assert not simulated.placements()
    mend(
        simulated,
        "p",
        spec=PodSpec(scheduler_name="placement", tolerations=(Toleration(key="own", operator="Exists"),)),
    )
    simulated.run()
    assert simulated.placements() == {"p": "n1"}


def test_company_may_come_from_another_scheduler() -> None:
    simulated = Simulated()
    simulated.see(node("n1", labels=pairs(host="n1")), mine("p", affinity=(near("host", app="db"),)))
    simulated.see(pod("db", labels=pairs(app="db")))
    simulated.run()
    assert not simulated.placements()
    simulated.see(pod("passes-by"))
    simulated.run()
    mend(simulated, "db", node="n1", phase=Phase.RUNNING)
    simulated.run()
    assert simulated.placements()["p"] == "n1"


@pytest.mark.parametrize("make", [pod, mine])
def test_whoever_keeps_away_from_labels_is_tried_when_they_change(make: Any) -> None:
    simulated = Simulated()
    simulated.see(
        node("n1", labels=pairs(host="n1")), make("db", node="n1", phase=Phase.RUNNING, labels=pairs(app="db"))
    )
    simulated.see(mine("p", anti_affinity=(near("host", app="db"),)))
    simulated.run()
    assert "p" not in simulated.placements()
    mend(simulated, "db", labels=pairs(app="other"))
    simulated.run()
    assert simulated.placements()["p"] == "n1"
