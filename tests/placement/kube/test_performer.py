# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes of a binding, an eviction and a status, whatever the API answers."""

import json
import threading
from dataclasses import replace

import pytest
from placement.kube import requests
from placement.kube.performer import Performer, told
from placement.kube.sender import Sender
from placement.model.action import Bind, BindVolume, Evict, GroupPhase, GroupStatus, PodCondition, QueueStatus
from placement.model.event import BindFailed, EvictRefused, Gone, Seen
from placement.model.pod import Pod
from placement.model.workload import DIALECTS, UPSTREAM, UPSTREAM_ALPHA
from placement_kit.fake_api import LOST, ScriptedConnection

BIND = Bind(uid="u", namespace="team", name="pod", node="n1")
EVICT = Evict(uid="u", namespace="team", name="pod", reason="Preempted", message="for team/other")
CREATED = (201, {"kind": "Status"})


def pod(node: str = "", uid: str = "u", **metadata) -> tuple[int, dict]:
    meta = {"uid": uid, "name": "pod", "namespace": "team", "resourceVersion": "7", **metadata}
    return 200, {"metadata": meta, "spec": {"nodeName": node, "containers": []}}


def said(status: int, message: str, **more) -> tuple[int, dict]:
    return status, {"kind": "Status", "message": message, **more}


class Case:
    """A performer on a scripted connection."""

    def __init__(self, *script, may_write=lambda: True) -> None:
        self.connection = ScriptedConnection(*script)
        self.tellings, self.refusals = [], []
        sender = Sender(self.connection, stop=threading.Event(), may_write=may_write, observe=lambda *_unused: None)
        self.performer = Performer(
            sender,
            tell=self.tellings.append,
            refused=lambda action, status, message: self.refusals.append((status, message)),
        )

    def perform(self, action):
        return self.performer.perform(action)

    @property
    def asked(self) -> list[str]:
        return [method for method, _path, _body in self.connection.asked]


def test_an_accepted_binding_is_told_and_the_watch_brings_the_rest():
    case = Case(CREATED)
    assert case.perform(BIND) == []
    assert [telling.reason for telling in case.tellings] == ["Scheduled"]
    body = json.loads(case.connection.asked[0][2])
    assert (body["metadata"], body["target"]) == ({"name": "pod", "uid": "u"}, {"name": "n1", "kind": "Node"})


@pytest.mark.parametrize("tag", ["group", ""])
def test_what_a_pod_is_bound_for_goes_with_its_binding(tag):
    case = Case(CREATED)
    case.perform(replace(BIND, tag=tag))
    assert json.loads(case.connection.asked[0][2])["metadata"]["annotations"] == {"converged.hpc/job-tag": tag}


@pytest.mark.parametrize("trouble", [LOST, (429, b""), (500, b""), (503, b""), (401, b"")])
def test_without_an_answer_the_same_binding_is_sent_again(trouble):
    case = Case(trouble, trouble, CREATED)
    assert case.perform(BIND) == []
    bodies = {body for _method, _path, body in case.connection.asked}
    assert (case.asked, len(bodies)) == (["POST"] * 3, 1)


def test_a_binding_that_had_landed_though_its_answer_was_lost_is_a_success():
    case = Case(LOST, said(409, "pod is already assigned to node n1"), pod("n1"))
    events = case.perform(BIND)
    assert [type(event) for event in events] == [Seen]
    assert [telling.reason for telling in case.tellings] == ["Scheduled"]


GIVEN = BindVolume(
    uid="u",
    namespace="team",
    name="pod",
    node="n1",
    volume="pv",
    volume_uid="v",
    version=7,
    claim="data",
    claim_uid="c",
    chosen=True,
)


def volume(claim: str = "", uid: str = "v") -> tuple[int, dict]:
    return 200, {"metadata": {"uid": uid, "name": "pv", "resourceVersion": "8"}, "spec": {"claimRef": {"uid": claim}}}


def test_a_volume_is_given_to_a_claim_as_it_was_when_it_was_chosen():
    case = Case(volume("c"))
    assert case.perform(GIVEN) == []
    (_method, path, body) = case.connection.asked[0]
    sent = json.loads(body)
    assert path == "/api/v1/persistentvolumes/pv"
    assert (sent["metadata"]["uid"], sent["metadata"]["resourceVersion"]) == ("v", "7")
    assert sent["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert (sent["spec"]["claimRef"]["name"], sent["spec"]["claimRef"]["uid"]) == ("data", "c")


def test_the_claim_for_which_a_volume_was_made_is_not_called_our_choice():
    assert b"bound-by-controller" not in requests.bind_volume(replace(GIVEN, chosen=False)).body


@pytest.mark.parametrize(
    ("there", "events"),
    [
        (volume("c"), [Seen]),
        (volume("another"), [Seen, BindFailed]),
        (volume("another", uid="w"), [Gone, Seen, BindFailed]),
        (said(404, "not found"), [Gone, BindFailed]),
    ],
)
def test_a_volume_that_is_refused_may_be_the_claims_already(there, events):
    case = Case(LOST, said(409, "modified"), there)
    found = case.perform(GIVEN)
    assert [type(event) for event in found] == events
    assert case.refusals == ([(409, "volume pv: modified")] if BindFailed in events else [])


def test_a_pod_that_another_has_bound_stays_where_it_is():
    case = Case(said(409, "already assigned"), pod("n2"))
    (event,) = case.perform(BIND)
    assert event.item.node == "n2"
    assert case.tellings == []


@pytest.mark.parametrize("status", [400, 403, 409, 422])
def test_a_refused_binding_fails_only_when_the_pod_is_read_without_a_node(status):
    case = Case(said(status, "no"), pod())
    events = case.perform(BIND)
    assert events[1:] == [BindFailed("u", "n1", "no")]
    assert case.refusals == [(status, "no")]


def test_a_refused_binding_says_nothing_until_the_pod_could_be_read():
    case = Case(said(422, "no"), LOST, (503, b""), pod())
    assert case.perform(BIND)[-1] == BindFailed("u", "n1", "no")


def test_a_pod_that_is_gone_is_gone():
    assert Case(said(404, "not found"), (404, b"")).perform(BIND) == [Gone(Pod, "u", 0)]


def test_a_namesake_is_another_pod():
    gone, seen = Case(said(409, "uid mismatch"), pod(uid="other")).perform(BIND)
    assert gone == Gone(Pod, "u", 0)
    assert seen.item.uid == "other"


def test_who_has_lost_the_right_to_write_concludes_nothing():
    right = iter([True, False])
    case = Case(LOST, may_write=lambda: next(right))
    assert case.perform(BIND) == []
    assert case.asked == ["POST"]
    assert case.tellings == case.refusals == []


def test_a_disruption_budget_that_holds_a_pod_is_named():
    causes = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget quorum needs 2 pods"}]}
    case = Case(said(429, "Cannot evict: it would violate the pod's disruption budget.", details=causes), pod("n1"))
    refused = case.perform(EVICT)[-1]
    assert isinstance(refused, EvictRefused)
    assert "quorum" in refused.message


@pytest.mark.parametrize(("grace", "options"), [(None, {}), (60, {"gracePeriodSeconds": 60})])
def test_an_eviction_for_a_job_that_ends_does_not_wait_as_long_as_the_pod_would(grace, options):
    body = json.loads(requests.evict(replace(EVICT, grace=grace)).body)
    assert body["deleteOptions"] == {"preconditions": {"uid": "u"}, **options}


def test_an_overloaded_server_is_not_a_disruption_budget():
    case = Case((429, {"message": "too many requests"}), (201, {}))
    assert case.perform(EVICT) == []
    assert [telling.reason for telling in case.tellings] == ["Preempted"]


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if "converged" not in name])
def test_each_dialect_gets_what_its_api_defines(dialect):
    case = Case((200, {}))
    status = GroupStatus(
        uid="g",
        namespace="team",
        name="gang",
        dialect=dialect,
        phase=GroupPhase.INQUEUE,
        scheduled=False,
        reason="NotEnoughResources",
        message="2 more nodes",
    )
    case.perform(status)
    ((method, path, body),) = case.connection.asked
    written = json.loads(body)
    assert (method, path) == ("PATCH", f"/apis/{dialect}/namespaces/team/podgroups/gang/status")
    assert written["metadata"] == {"uid": "g"}
    fields = set(written["status"])
    if dialect in (UPSTREAM, UPSTREAM_ALPHA):
        assert fields == {"conditions"}
    else:
        assert {"phase", "running", "succeeded", "failed"} <= fields
        assert ("conditions" in fields) is ("x-k8s" not in dialect)


def test_a_status_without_its_subresource_is_written_with_the_object():
    group = GroupStatus(
        uid="g",
        namespace="team",
        name="gang",
        dialect="scheduling.volcano.sh/v1beta1",
        phase=GroupPhase.RUNNING,
        scheduled=True,
    )
    case = Case((404, b""), (200, {}))
    case.perform(group)
    assert [path.endswith("/status") for _method, path, _body in case.connection.asked] == [True, False]


def test_the_status_of_what_is_gone_is_not_written_elsewhere():
    case = Case((404, b""))
    case.perform(QueueStatus(uid="q", name="night", dialect="scheduling.converged.hpc/v1alpha1"))
    assert [path for _method, path, _body in case.connection.asked] == [
        "/apis/scheduling.converged.hpc/v1alpha1/queues/night/status"
    ]
    assert case.refusals == []


def test_a_condition_has_an_event_that_says_the_same():
    condition = PodCondition(uid="u", namespace="team", name="pod", reason="Unschedulable", message="0/3 nodes")
    case = Case((200, {}))
    case.perform(condition)
    patch = json.loads(case.connection.asked[0][2])
    assert patch["status"]["conditions"][0]["message"] == "0/3 nodes"
    telling = told(condition)
    assert telling is not None
    assert (telling.reason, telling.text) == ("FailedScheduling", "0/3 nodes")
