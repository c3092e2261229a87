# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods that others made can do to a node: be charged, and no more."""

import json
from typing import Any

import pytest
from placement.kube.decode.decoder import Decoder
from placement.model.messages.event import Unreadable, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement_kit.builders import amounts, mine, node, pod
from placement_kit.decoded import accepted, decode
from placement_kit.decoded import pod as pod_json
from placement_kit.simulated import Simulated


def guest(*, status: dict[str, Any] | None = None, **spec: Any) -> Any:
    """The event of a pod that its owner has put on n1."""
    spec = {"nodeName": "n1", **spec}
    written = pod_json(metadata={"uid": "guest", "name": "guest", "namespace": "guest"}, status=status, **spec)
    written["metadata"]["resourceVersion"] = "5000"
    return Decoder().decode_watch_event(Pod, json.dumps({"type": "ADDED", "object": written}).encode())


def asking(**requests: str) -> dict[str, Any]:
    """The containers of a pod that requests these."""
    return {"containers": [{"name": "c", "resources": {"requests": requests}}]}


FOO = "example.com/foo"
UNREADABLE = {
    "an absurd amount of a resource that no node has": asking(**{FOO: "2000000000000000"}),
    "an absurd overhead": {"overhead": {FOO: "9000000000000000000"}},
    "an amount that cannot be read": asking(**{FOO: "-1"}),
    "a toleration that cannot be read": {"tolerations": [{"key": 1}]},
    "an affinity that cannot be read": {
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "", "x": 1}]}
        }
    },
    "a spread constraint that cannot be read": {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "x"}]},
}


@pytest.mark.parametrize("spec", UNREADABLE.values(), ids=UNREADABLE)
def test_no_pod_that_its_owner_puts_on_a_node_closes_it(spec: dict[str, Any]) -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    simulated.tell(guest(**spec))
    simulated.see(mine("honest"))
    simulated.run()
    assert simulated.placements() == {"honest": "n1"}


@pytest.mark.parametrize("spec", UNREADABLE.values(), ids=UNREADABLE)
def test_the_same_pod_is_refused_while_it_waits_for_a_node(spec: dict[str, Any]) -> None:
    assert isinstance(guest(nodeName=None, **spec), Unreadable)


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_node_is_closed_where_the_cpu_or_memory_of_a_pod_on_it_cannot_be_read(resource: str) -> None:
    simulated = Simulated()
    simulated.see(node("n1"))
    simulated.tell(guest(**asking(**{resource: "-1"})))
    simulated.see(mine("p"))
    simulated.run()
    assert "unreadable Node or pod" in simulated.conditions()["p"]


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_pod_that_asks_for_more_than_any_node_has_is_charged_and_takes_nothing_from_other_nodes(
    resource: str,
) -> None:
    simulated = Simulated()
    simulated.see(node("n1"), node("n2"))
    event = guest(**asking(**{resource: "9000000000000000000"}))
    assert isinstance(event, Upserted)
    simulated.tell(event)
    simulated.see(mine("p"))
    simulated.run()
    assert simulated.placements() == {"p": "n2"}
    assert simulated.scheduler.cache.total[resource] == dict(node().allocatable)[resource]


def test_resources_of_a_name_that_the_node_has_not_got_are_not_charged_as_its_kubelet_ignores_them() -> None:
    simulated = Simulated()
    offering = amounts(cpu="4", memory="8Gi", pods="10", gpu="8")
    simulated.see(node("with", allocatable=offering), node("without"))
    simulated.see(*(mine(f"on-{name}", node=name, request=amounts(gpu="4")) for name in ("with", "without")))
    assert free(simulated, "with") == 4
    assert free(simulated, "without") == 0
    # It gets some after all, and loses them again.
    simulated.see(node("without", allocatable=offering))
    assert free(simulated, "without") == 4
    simulated.see(node("without"))
    assert free(simulated, "without") == 0
    simulated.gone(simulated.named("on-without"))
    assert free(simulated, "without") == 0


def test_a_node_that_has_none_of_a_device_at_present_is_charged_for_it() -> None:
    simulated = Simulated()
    simulated.see(node("n1", allocatable=amounts(cpu="4", memory="8Gi", pods="10", gpu="8")))
    simulated.see(mine("p", node="n1", request=amounts(gpu="4")))
    simulated.see(node("n1", allocatable=(*amounts(cpu="4", memory="8Gi", pods="10"), ("example.com/gpu", 0))))
    assert free(simulated, "n1") == -4


def free(simulated: Simulated, name: str) -> int:
    columns = simulated.scheduler.cluster.columns
    return int(columns.free[columns.axis.names.index("example.com/gpu"), columns.rows[name]])


def test_a_node_keeps_the_names_of_devices_of_which_it_has_none() -> None:
    offered = {"cpu": "4", FOO: "0", "hugepages-2Mi": "0"}
    found = decode(
        Node, {"metadata": {"uid": "n", "name": "n", "resourceVersion": "1"}, "status": {"allocatable": offered}}
    )
    assert found.allocatable == (("cpu", 4000), (FOO, 0))


def test_what_a_resource_claim_stands_for_is_not_requested() -> None:
    mapped = {
        "resourceClaimName": "x",
        "requestMappings": [{"containerName": "c", "resourceName": FOO, "requestName": "r"}],
    }
    containers = [
        {"name": "c", "resources": {"requests": {"cpu": "1", FOO: "4"}}},
        {"name": "d", "resources": {"requests": {FOO: "1"}}},
    ]
    assert accepted(pod_json(nodeName="n1", containers=containers)).request == (("cpu", 1000), (FOO, 5))
    claimed = pod_json(nodeName="n1", containers=containers, status={"extendedResourceClaimStatus": mapped})
    assert accepted(claimed).request == (("cpu", 1000), (FOO, 1))


def test_devices_that_a_driver_of_claims_gives_are_neither_overfull_nor_taken_from_other_nodes() -> None:
    simulated = Simulated()
    simulated.see(node("plugin", allocatable=amounts(cpu="8", memory="8Gi", pods="10", gpu="8")), node("claims"))
    simulated.see(pod("theirs", node="claims", request=amounts(cpu="1", gpu="4")))
    for second in range(12):
        simulated.now = float(second)
        simulated.run()
    assert not [action for action in simulated.actions if type(action).__name__ == "NodeOverfull"]
    assert simulated.scheduler.cache.total["example.com/gpu"] == 8
