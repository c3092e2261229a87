# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `status` says: each host in one line, and all hosts together with those that need a look."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.converged.hpc.plugins.filter import share_status

STATUS = share_status.FilterModule().filters()["share_status"]
SUMMARY = share_status.FilterModule().filters()["share_summary"]


def fact(**sharing: Any) -> dict[str, Any]:
    state = {"enabled": True, "services": {"kubelet": "active"}, "node": {}, "error": "", **sharing}
    return {"present": True, "roles": ["node_share"], "summary": "held by node_share: 1 path", "sharing": state}


def host(**sharing: Any) -> dict[str, Any]:
    return {
        "inventory_hostname": "n1.site",
        "inventory_hostname_short": "n1",
        "group_names": ["converged_nodes"],
        "converged_wlm": "slurm",
        "converged_kubeconfig": "/admin.conf",
        "ansible_facts": {"converged_share": fact(**sharing)},
    }


SHOWN = {"phase": "held", "way": "quiesce", "off": False, "leases": [{"wlm": "slurm", "job": "7", "run": "0"}]}
KUBE = {
    "n1": {"ready": True, "unschedulable": True, "taints": ["converged.hpc/batch:NoSchedule"], "held_by": "slurm/7/0"}
}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([{"name": "n1", "host": "n1", "states": ["offline", "down"]}], "PBS down+offline"),
        (
            [{"name": f"n1[{one}]", "host": "n1", "states": [state]} for one, state in enumerate(["free", "job-busy"])],
            "PBS free+job-busy",
        ),
        ([{"name": "n2", "host": "n2", "states": ["free"]}], "not in PBS"),
        (None, "PBS unknown"),
    ],
)
def test_a_node_of_pbs_is_told_by_the_states_of_its_vnodes(nodes: list[dict[str, Any]] | None, said: str) -> None:
    known = {**host(), "converged_wlm": "pbs"}
    answer = {"msg": "no answer"} if nodes is None else {"nodes": nodes}
    assert f"; {said}; Kubernetes unknown" in STATUS(known, None, answer)


def test_a_node_is_told_as_it_sees_itself_and_as_both_clusters_see_it() -> None:
    slurm = {"nodes": [{"name": "n1", "state": "ALLOCATED", "flags": ["DRAIN"]}]}
    assert STATUS(host(node=SHOWN), {"nodes": KUBE}, slurm) == (
        "n1.site: held by node_share: 1 path; mode handover; batch scripts act; node held by quiesce; "
        "leases slurm/7/0; kubelet active; Slurm ALLOCATED+DRAIN; "
        "Kubernetes Ready cordoned converged.hpc/batch:NoSchedule, held by slurm/7/0"
    )


def test_what_did_not_answer_is_unknown_and_never_nothing() -> None:
    line = STATUS(host(error="disk is full", services={}), {"failed": True}, None)
    assert "state not known: disk is full" in line
    assert line.endswith("kubelet unknown; Slurm unknown; Kubernetes unknown")


def summed(**hosts: dict[str, Any]) -> list[str]:
    return list(SUMMARY(hosts, list(hosts)))


def looks(**hosts: dict[str, Any]) -> list[str]:
    """Return all lines but the first, which counts."""
    return summed(**hosts)[1:]


BARE = {
    "present": False,
    "roles": [],
    "summary": "nothing",
    "sharing": {"enabled": False, "services": {}, "node": {}, "error": ""},
}
OPEN = {"phase": "open", "way": "", "off": False, "leases": []}
GOING_OFF = {**OPEN, "phase": "taking", "way": "stop", "off": True}
SWITCHED_OFF = {**GOING_OFF, "phase": "held"}
UNREACHED = {name: value for name, value in host().items() if name != "ansible_facts"}


def test_a_site_is_summed_up_with_the_hosts_that_need_a_look() -> None:
    ready = {"ready": True, "unschedulable": False}
    nodes = {"n1": ready, "n2": {**ready, "ready": False}}
    kept = {**host(), "inventory_hostname_short": "n5", "ansible_facts": {"converged_share": BARE}}
    assert summed(
        n1={**host(node=SHOWN), "__status_kube": {"nodes": nodes}},
        n2={**host(node=OPEN), "inventory_hostname_short": "n2"},
        n3={**host(node=SWITCHED_OFF), "inventory_hostname_short": "n3"},
        n4=UNREACHED,
        n5=kept,
        n6={**kept, "group_names": ["converged_nodes", "converged_shared"]},
        ctl={**host(services={"converged-controller": "failed"}), "group_names": ["converged_controllers"]},
    ) == [
        "5 nodes: 1 shared, held, 1 shared, open, 1 shared, switched off, 2 with jobs alone",
        "look at n6: in converged_shared, and not converted",
        "look at n3: not in Kubernetes",
        "look at n4: not reached",
        "look at n2: open, and not Ready in Kubernetes",
        "look at ctl: the controller's service is not active",
    ]


def test_where_nothing_needs_a_look_the_summary_says_so() -> None:
    assert summed(n1=host(node=SHOWN)) == ["1 node: 1 shared, held", "nothing needs a look"]


UNCONVERTED = "look at n1: in converged_shared, and not converted"
INERT = "look at n1: batch scripts are inert, so pods do not make way for jobs"
SERVICELESS = "look at ctl: a batch controller without the controller's service"


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        ({"node": OPEN, "enabled": False}, INERT),
        ({"node": SHOWN, "enabled": False}, INERT),
        ({"node": SWITCHED_OFF, "enabled": False}, "nothing needs a look"),
        ({"node": {}, "enabled": False}, "nothing needs a look"),
        ({"node": OPEN, "enabled": True}, "nothing needs a look"),
    ],
)
def test_a_node_with_nodeshare_and_inert_scripts_needs_a_look_unless_it_is_switched_off(
    sharing: dict[str, Any], said: str
) -> None:
    assert looks(n1=host(**sharing)) == [said]


def test_inert_scripts_are_no_look_at_a_host_that_is_no_node() -> None:
    serves = {"converged-controller": "active"}
    ctl = {**host(node=OPEN, enabled=False, services=serves), "group_names": ["converged_controllers"]}
    assert looks(ctl=ctl) == ["nothing needs a look"]


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        ({"node": {}, "enabled": False}, UNCONVERTED),
        ({"node": None, "enabled": False}, UNCONVERTED),
        ({"node": {}, "error": "exit 1"}, "look at n1: its state is not known: see its line above"),
        ({"node": OPEN}, "nothing needs a look"),
    ],
)
def test_a_node_that_has_the_scripts_alone_is_not_converted(sharing: dict[str, Any], said: str) -> None:
    assert looks(n1={**host(**sharing), "group_names": ["converged_nodes", "converged_shared"]}) == [said]


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("__status_kube", "Kubernetes"),
        ("__status_slurm", "Slurm"),
        ("__status_pbs", "PBS"),
        ("__status_torque", "Torque"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "silent"),
    [
        ({"failed": False, "msg": "no answer"}, True),
        ({"unreachable": True, "msg": "refused"}, True),
        ({"skipped": True}, False),
        ({"nodes": {"n1": {"ready": True}}}, False),
        (None, False),
    ],
)
def test_a_cluster_that_was_asked_and_did_not_answer_needs_one_look(
    name: str, system: str, answer: dict[str, Any] | None, silent: bool
) -> None:
    known = {**host(node=OPEN), name: answer} if answer else host(node=OPEN)
    said = f"look at {system}: it did not answer" if silent else "nothing needs a look"
    assert looks(n1=known, n2={**known, "inventory_hostname_short": "n1"}) == [said]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (host(node=OPEN), SERVICELESS),
        (host(), "nothing needs a look"),
        ({**UNREACHED, "group_names": []}, "look at n1: not reached"),
    ],
)
def test_a_controller_on_which_nothing_is_needs_a_look_where_a_node_is_shared(node: dict[str, Any], said: str) -> None:
    ctl = {**host(), "group_names": ["converged_controllers"], "ansible_facts": {"converged_share": BARE}}
    assert looks(ctl=ctl, n1=node) == [said]


PODS_RUN_ON = "look at n1: switched off, and pods may run on: read `nodeshare show` there"


@pytest.mark.parametrize(
    ("node", "line", "state", "said"),
    [
        (GOING_OFF, "node taking by stop, being switched off", "being switched off", [PODS_RUN_ON]),
        ({**OPEN, "off": True}, "node open, being switched off", "being switched off", [PODS_RUN_ON]),
        (SWITCHED_OFF, "node held by stop, switched off", "switched off", ["nothing needs a look"]),
    ],
)
def test_a_node_is_switched_off_only_once_nodeshare_holds_it(
    node: dict[str, Any], line: str, state: str, said: list[str]
) -> None:
    known = host(node=node)
    assert f"; {line}; " in STATUS(known)
    assert summed(n1=known) == [f"1 node: 1 shared, {state}", *said]


def test_inert_scripts_need_a_look_on_a_node_that_is_still_being_switched_off() -> None:
    assert looks(n1=host(node=GOING_OFF, enabled=False)) == [INERT, PODS_RUN_ON]


def left(roles: list[str], kubelet: str, **sharing: Any) -> dict[str, Any]:
    """Return a node without nodeshare: its record names these roles."""
    known = host(enabled=False, services={"kubelet": kubelet}, **sharing)
    known["ansible_facts"]["converged_share"]["roles"] = roles
    return known


ALONE = "look at n1: a kubelet runs there without nodeshare: converged.hpc.restore ends it"


@pytest.mark.parametrize("role", ["node_kubelet", "kubelet_config", "kube_join"])
@pytest.mark.parametrize("kubelet", ["active", "activating", "deactivating"])
def test_a_kubelet_that_a_way_back_has_left_needs_a_look(role: str, kubelet: str) -> None:
    assert summed(n1=left(["slurm_share", role], kubelet)) == ["1 node: 1 with a kubelet and no nodeshare", ALONE]


@pytest.mark.parametrize(
    ("roles", "kubelet"),
    [
        (["node_kubelet"], "inactive"),
        (["node_kubelet"], "failed"),
        (["node_kubelet"], "unknown"),
        (["slurm_share"], "active"),  # the site's own kubelet, on a node with scripts alone
    ],
)
def test_a_node_without_a_kubelet_of_ours_is_with_jobs_alone(roles: list[str], kubelet: str) -> None:
    assert summed(n1=left(roles, kubelet)) == ["1 node: 1 with jobs alone", "nothing needs a look"]


@pytest.mark.parametrize("fact_of", [left(["node_kubelet"], "active", error="exit 1"), host(error="exit 1")])
def test_a_node_on_which_nodeshare_does_not_answer_is_in_no_known_state(fact_of: dict[str, Any]) -> None:
    assert summed(n1=fact_of) == ["1 node: 1 unknown", "look at n1: its state is not known: see its line above"]


def test_a_host_of_which_systemd_does_not_answer_is_in_no_known_state_although_it_has_no_record() -> None:
    bare = {**BARE, "sharing": {**BARE["sharing"], "error": "systemctl: timed out"}}  # type: ignore[dict-item]
    known = {**host(), "ansible_facts": {"converged_share": bare}}
    assert summed(n1=known) == ["1 node: 1 unknown", "look at n1: its state is not known: see its line above"]


DAMAGED = {"failed": True, "msg": "record /var/lib/converged/record is damaged"}
REFUSED = {"unreachable": True, "msg": "Connection refused"}


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (DAMAGED, "look at n1: its record could not be read: see its error above"),
        (REFUSED, "look at n1: not reached"),
        ({"failed": True, "msg": "Timed out", "timedout": {"period": 300}}, "look at n1: no answer in time"),
        (None, "look at n1: not reached"),
    ],
)
def test_a_host_that_answered_with_an_error_was_reached(read: dict[str, Any] | None, said: str) -> None:
    assert looks(n1={**UNREACHED, "__status_share": read}) == [said]


SKIPPED = {"skipped": True}
NOT_ASKED = {"__status_slurm": SKIPPED, "__status_pbs": SKIPPED, "__status_torque": SKIPPED}
WRONG = "expected one of slurm, pbs, torque, so no batch system was asked"


@pytest.mark.parametrize(
    ("wlm", "found"), [("Slurm", "'Slurm'"), ("pbspro", "'pbspro'"), ("", "not set"), (None, "not set")]
)
def test_a_batch_system_that_was_not_asked_for_its_wrong_name_needs_a_look(wlm: str | None, found: str) -> None:
    known = {**host(node=OPEN), **NOT_ASKED, "converged_wlm": wlm}
    assert looks(n1=known) == [f"look at converged_wlm: it is {found}, {WRONG}"]
    del known["converged_wlm"]
    assert looks(n1=known, n2=known) == [f"look at converged_wlm: it is not set, {WRONG}"]
    other = {**known, "converged_wlm": "PBS"}
    assert looks(n1=known, n2=other) == [f"look at converged_wlm: it is not set and 'PBS', {WRONG}"]


@pytest.mark.parametrize("wlm", ["slurm", "pbs", "torque"])
def test_a_batch_system_that_is_served_has_a_right_name(wlm: str) -> None:
    assert looks(n1={**host(node=OPEN), **NOT_ASKED, "converged_wlm": wlm}) == ["nothing needs a look"]


def test_a_wrong_name_on_a_host_that_asks_nothing_is_no_look() -> None:
    known = {**host(node=OPEN), "__status_slurm": {"nodes": []}}
    assert looks(n1=known, n2={**known, "converged_wlm": "Slurm"}) == ["nothing needs a look"]


def test_kubernetes_that_was_not_asked_needs_a_look() -> None:
    known = {**host(node=OPEN), "__status_kube": SKIPPED}
    assert looks(n1=known) == ["nothing needs a look"]
    del known["converged_kubeconfig"]
    assert looks(n1=known, n2=known) == [
        "look at converged_kubeconfig: it is not set, so Kubernetes was not asked",
    ]


def test_a_site_that_has_converted_nothing_may_leave_both_unset() -> None:
    known = {name: value for name, value in host().items() if not name.startswith("converged_")}
    assert looks(n1=known) == ["nothing needs a look"]
