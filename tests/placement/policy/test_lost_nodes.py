# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod that hangs on a dead node keeps its job no longer than Kubernetes and the batch system both need to say so."""

from dataclasses import replace

import pytest
from placement.kube.write.executor import told
from placement.model.batch import BackingSettings
from placement.model.messages.action import AskHosts, PodLost, Release
from placement.model.rules.selector import Effect, Taint
from placement_kit.backed import Backed
from placement_kit.builders import gang, node

LOST = 100.0
UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", Effect.NO_EXECUTE)


class Site(Backed):
    """A backed pod that is deleted while its node is dead."""

    def __init__(self) -> None:
        super().__init__(settings=BackingSettings(lost=LOST))
        self.stubborn = True

    def node_dies(self, name: str) -> None:
        """Kubernetes hears no more of the node."""
        self.see(node(name, taints=(UNREACHABLE,)))

    def node_is_back(self, name: str) -> None:
        """Its kubelet has written again."""
        self.see(node(name))

    def delete(self, name: str) -> None:
        """Delete the pod, as a user or an eviction does: it is gone when its kubelet says so."""
        self.see(replace(self.named(name), terminating=True))

    def of(self, kind):
        """All actions of a kind."""
        return [action for action in self.actions if isinstance(action, kind)]


@pytest.fixture
def site() -> Site:
    made = Site()
    made.see(made.pod("p"))
    made.settle()
    assert made.named("p").node == "n1"
    return made


def test_the_job_of_a_pod_on_a_dead_node_ends_once_both_say_so(site):
    site.node_dies("n1")
    site.batch.down.add("n1")
    site.delete("p")
    site.settle(seconds=int(LOST) - 10)
    assert site.batch.jobs
    assert not site.of(AskHosts)
    site.settle(seconds=50)
    assert not site.batch.jobs
    assert site.of(Release)[-1].force
    (lost,) = site.of(PodLost)
    assert (lost.namespace, lost.name) == ("team", "p")
    event = told(lost)
    assert event is not None
    assert (event.reason, event.subject.kind, event.subject.uid) == ("NodeLost", "Pod", lost.uid)
    assert "node n1 has been unreachable for 1" in event.text
    assert "host n1 is down" in event.text


@pytest.mark.parametrize("witness", ["kubernetes", "batch", "silent", "alive", "late"])
def test_one_witness_alone_is_no_proof(site, witness):
    if witness != "batch":
        site.node_dies("n1")
    if witness != "kubernetes":
        site.batch.down.add("n1")
    if witness == "silent":
        site.batch.tells_of_hosts = False
    if witness != "alive":
        site.delete("p")
    seconds = int(LOST) * 4
    if witness == "late":
        # Unreachable now and then, but never for so long.
        for _unused in range(6):
            site.settle(seconds=int(LOST) - 20)
            site.node_is_back("n1")
            site.settle(seconds=2)
            site.node_dies("n1")
        seconds = int(LOST) - 20
    site.settle(seconds=seconds)
    assert site.batch.jobs
    assert not site.of(PodLost)


def test_no_answer_about_hosts_from_before_counts(site):
    site.batch.down.add("n1")
    site.node_dies("n1")
    site.delete("p")
    site.settle(seconds=int(LOST) + 1)
    assert site.of(AskHosts)
    again = Site()
    again.batch = site.batch
    again.batch.down.discard("n1")
    again.see(*site.pods.values())
    again.node_dies("n1")
    again.settle(seconds=int(LOST) * 3)
    assert again.batch.jobs


def test_a_node_that_is_gone_altogether_proves_nothing_by_itself(site):
    site.batch.down.add("n1")
    site.delete("p")
    site.gone(node("n1"))
    site.settle(seconds=int(LOST) * 3)
    assert not site.of(PodLost)


def test_a_gang_keeps_its_job_for_those_that_live():
    site = Site()
    site.see(gang("team", 5, queue="backed"), *(site.pod(f"p{number}", group="team") for number in range(5)))
    site.settle()
    assert {site.named(f"p{number}").node for number in range(5)} == {"n1", "n2"}
    site.batch.down.add("n1")
    site.node_dies("n1")
    dead = [f"p{number}" for number in range(5) if site.named(f"p{number}").node == "n1"]
    for name in dead:
        site.delete(name)
    site.settle(seconds=int(LOST) * 3)
    assert {lost.name for lost in site.of(PodLost)} == {*dead}
    assert site.batch.jobs
    assert not site.of(Release)
    for number in range(5):
        if f"p{number}" not in dead:
            site.finish(f"p{number}")
    site.settle(seconds=60)
    assert not site.batch.jobs


def test_the_next_pods_of_a_gang_get_a_job_although_one_hangs_for_ever(site):
    site.node_dies("n1")
    site.batch.down.add("n1")
    site.delete("p")
    site.settle(seconds=int(LOST) + 60)
    site.see(site.pod("q"))
    site.settle(seconds=10)
    assert site.named("q").node == "n2"
    asked = len(site.of(AskHosts))
    site.settle(seconds=100)
    # There is no job that the answer would matter for.
    assert len(site.of(AskHosts)) == asked


def test_a_pod_whose_node_is_back_in_time_holds_its_job_again(site):
    site.batch.endless = True
    site.node_dies("n1")
    site.batch.down.add("n1")
    site.delete("p")
    site.settle(seconds=int(LOST) + 20)
    assert site.of(PodLost)
    assert site.of(Release)
    site.node_is_back("n1")
    site.batch.down.clear()
    site.settle(seconds=2)
    asked = len(site.of(Release))
    site.settle(seconds=400)
    assert len(site.of(Release)) == asked
    site.gone(site.named("p"))
    site.batch.endless = False
    site.settle(seconds=400)
    assert not site.batch.jobs
