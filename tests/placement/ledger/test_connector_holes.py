# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the connector before us did wrong as a scheduler: its holes R1, R5 to R8, and its bugs 1.4.1 to 1.4.17.

Tests bear the numbers, and those of the other bugs stand with what they are about: `grep -rn test_1_4_ tests`.
"""

from dataclasses import replace

import pytest
from placement.ledger.command import Answer
from placement.ledger.identity import Identities, Identity
from placement.ledger.pbs import Pbs, PbsError, Terms, select
from placement.model.batch import BackingSettings
from placement.model.messages.action import Evict, PodCondition, Release, Submit
from placement.model.objects.pod import Phase
from placement.policy.backing.job_request import chunks_of, demand_of
from placement_kit.backed import Backed
from placement_kit.builders import amounts, node, pairs, pod, queue

HOSTILE = ["1;touch pwned", "$(touch pwned)", "1\ntouch pwned", "x" * 100_000]


@pytest.fixture
def site() -> Backed:
    return Backed()


def submitted(site: Backed) -> list[Submit]:
    return [action for action in site.actions if isinstance(action, Submit)]


def words(submit: Submit) -> list[str]:
    terms = Terms(bin_dir="/opt/pbs/bin", identities=Identities(queue="'pods'"), owner="placement")
    return Pbs(terms).words(submit, Identity("pods"))


@pytest.mark.parametrize("text", HOSTILE)
def test_r1_1_4_10_no_annotation_reaches_a_command(site, text):
    annotations = (("JobID", text), ("scheduling.converged.hpc/queue", "backed"), ("converged.hpc/account", text))
    site.see(pod("p1", scheduler_name="placement", annotations=annotations))
    site.settle()
    (submit,) = submitted(site)
    assert not [word for word in words(submit) if "touch" in word or "xxx" in word]
    assert set(site.placements()) == {"p1"}


def test_r5_a_crash_after_the_submission_leaves_one_job(site):
    site.see(site.pod("p1"))
    site.read()
    site.run()
    # The daemon dies before it has read anything about its job.
    again = Backed(batch=site.batch)
    again.see(site.named("p1"))
    again.settle()
    assert submitted(again) == []
    assert set(again.placements()) == {"p1"}


@pytest.mark.parametrize("answer", [Answer(1, "", ""), Answer(0, "", ""), Answer(0, "{", ""), Answer(-9, "{}", "x")])
def test_r6_1_4_8_a_bad_reply_is_an_error_with_a_text_and_ends_nothing(answer):
    pbs = Pbs(Terms(bin_dir="", identities=Identities(queue="'pods'"), owner="", run=lambda _argv, timeout: answer))
    with pytest.raises(PbsError, match="qstat"):
        pbs.jobs()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"cpu": "500m"}, "1:ncpus=1"),
        ({"cpu": "0.5"}, "1:ncpus=1"),
        ({"cpu": "2.5"}, "1:ncpus=3"),
        ({"cpu": "2"}, "1:ncpus=2"),
        ({}, "1:ncpus=1"),
        ({"cpu": "1", "memory": "1Gi"}, "1:ncpus=1:mem=1048576kb"),
        ({"cpu": "1", "memory": "1M"}, "1:ncpus=1:mem=977kb"),
        ({"cpu": "1", "memory": "1"}, "1:ncpus=1:mem=1kb"),
    ],
)
def test_r7_1_4_3_1_4_4_amounts_are_what_the_pod_asks_for(request_, said):
    demand = demand_of(pod(request=amounts(**request_)), BackingSettings())
    assert select(chunks_of([demand], 1 << 30)) == said


def test_r8_1_4_2_pods_of_one_name_in_two_namespaces_are_two_jobs(site):
    annotations = (("scheduling.converged.hpc/queue", "backed"),)
    for namespace in ("red", "blue"):
        name = {"uid": f"uid-{namespace}", "namespace": namespace}
        site.see(pod("same", **name, annotations=annotations, scheduler_name="placement"))
    site.settle()
    assert {(submit.uid, submit.namespace) for submit in submitted(site)} == {("uid-red", "red"), ("uid-blue", "blue")}
    # One name for people, and two tags.
    assert [words(submit)[1] for submit in submitted(site)] == ["same", "same"]
    assert len({words(submit)[3] for submit in submitted(site)}) == 2


def test_1_4_1_a_pod_of_another_scheduler_is_left_to_it(site):
    site.see(pod("theirs", annotations=(("scheduling.converged.hpc/queue", "backed"),)))
    site.settle()
    assert submitted(site) == []


def test_1_4_14_a_failing_submission_is_tried_again_later_and_no_event_floods(site):
    site.batch.refusal = "qsub: Queue is not enabled"
    site.see(site.pod("p1"))
    site.settle(seconds=60)
    # After 1, 2, 4, 8, 16 s, and not in every cycle.
    assert len(submitted(site)) == 6
    assert len([action for action in site.actions if isinstance(action, PodCondition)]) <= 3
    assert site.batch.refusal in site.conditions()["p1"]
    site.batch.refusal = ""
    site.settle(seconds=60)
    assert len(submitted(site)) == 7
    assert set(site.placements()) == {"p1"}


def test_1_4_13_an_image_that_takes_long_does_not_end_the_job(site):
    site.once_bound = Phase.PENDING
    site.see(site.pod("p1"))
    site.settle(seconds=300)
    bound = site.named("p1")
    assert (bound.phase, bound.node) == (Phase.PENDING, "n1")
    site.see(replace(bound, phase=Phase.RUNNING))
    site.settle()
    assert not [action for action in site.actions if isinstance(action, Release | Evict)]
    assert len(submitted(site)) == 1


def test_1_4_16_a_host_need_not_be_called_as_its_node_is():
    site = Backed()
    site.gone(*(node(name) for name in ("n1", "n2")))
    site.see(
        node("worker-1", labels=pairs(**{"node-restriction.kubernetes.io/converged-batch-node": "n1"})),
        node("n2.cluster.example.org"),
        queue("backed", placed_by="pbs"),
    )
    site.see(*(site.pod(f"p{number}", request=amounts(cpu="3")) for number in range(2)))
    site.settle()
    assert set(site.placements().values()) == {"worker-1", "n2.cluster.example.org"}
    nodes = [item for item in site.scheduler.cluster.columns.nodes if item is not None]
    again = Backed(batch=site.batch)
    again.gone(*(node(name) for name in ("n1", "n2")))
    again.see(*(replace(item, uid=f"again-{item.name}") for item in nodes), *site.pods.values())
    again.settle()
    assert not [action for action in again.actions if isinstance(action, Evict | Release | Submit)]


def test_a_host_that_is_no_node_takes_no_pod(site):
    site.gone(*(node(name) for name in ("n1", "n2")))
    site.see(site.pod("p1"))
    site.settle()
    assert site.placements() == {}
    assert "n1 are no nodes" in site.conditions()["p1"]
