# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes of a binding, an eviction and a status, whatever the API answers."""

import json
from dataclasses import replace

import pytest
from placement.kube.write import requests
from placement.kube.write.executor import Executor, told
from placement.kube.write.retrying_client import RetryingClient
from placement.model.messages.action import (
    Bind,
    BindVolume,
    Evict,
    GroupPhase,
    GroupStatus,
    PodCondition,
    QueueStatus,
    SelectNode,
)
from placement.model.messages.event import BindFailed, Deleted, EvictRefused, Undetermined, Unreadable, Unsent, Upserted
from placement.model.objects.pod import Pod
from placement.model.objects.workload import DIALECTS, UPSTREAM, UPSTREAM_ALPHA
from placement_kit.fake_api import LOST, ScriptedConnection, SkippingClock

BIND = Bind(uid="u", namespace="team", name="pod", node="n1")
EVICT = Evict(uid="u", namespace="team", name="pod", reason="Preempted", message="for team/other")
CREATED = (201, {"kind": "Status"})


def pod(node: str = "", uid: str = "u", **metadata) -> tuple[int, dict]:
    meta = {"uid": uid, "name": "pod", "namespace": "team", "resourceVersion": "7", **metadata}
    return 200, {"metadata": meta, "spec": {"nodeName": node, "containers": []}}


def said(status: int, message: str, **more) -> tuple[int, dict]:
    return status, {"kind": "Status", "message": message, **more}


def missing(kind: str = "pods", name: str = "pod") -> tuple[int, dict]:
    """What an API server says of an object that is not there."""
    return said(404, f'{kind} "{name}" not found', reason="NotFound", code=404, details={"name": name, "kind": kind})


# What stands before an API server, or in its place, says of whatever it is asked for.
FOREIGN = [
    pytest.param((404, b"<html>default backend - 404</html>"), id="a proxy's page"),
    pytest.param((404, b"404 page not found\n"), id="plain text"),
    pytest.param((404, {"message": "no Route matched with those values"}), id="a proxy's JSON"),
    pytest.param(said(404, "x", reason="NotFound", code=404, details={"name": "other", "kind": "pods"}), id="another"),
    pytest.param(said(404, "x", reason="NotFound", code=404, details={"kind": "namespaces"}), id="another kind"),
    pytest.param((403, b"<html>forbidden</html>"), id="no right"),
    pytest.param((302, b""), id="elsewhere"),
]


class Case:
    """A performer on a scripted connection."""

    def __init__(self, *script, may_write=lambda: True) -> None:
        self.connection = ScriptedConnection(*script)
        self.tellings, self.refusals = [], []
        self.time = SkippingClock()
        sender = RetryingClient(
            self.connection,
            stop=self.time,
            may_write=may_write,
            observe=lambda *_unused: None,
            clock=lambda: self.time.now,
        )
        self.performer = Executor(
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
    assert [type(event) for event in events] == [Upserted]
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
        (volume("c"), [Upserted]),
        (volume("another"), [Upserted, BindFailed]),
        (volume("another", uid="w"), [Deleted, Upserted, BindFailed]),
        (missing("persistentvolumes", "pv"), [Deleted, BindFailed]),
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


@pytest.mark.parametrize("action", [BIND, EVICT])
def test_a_pod_that_is_gone_is_gone(action):
    case = Case(missing(), missing())
    assert case.perform(action) == [Deleted(Pod, "u", 0)]
    assert case.refusals == []


@pytest.mark.parametrize("action", [BIND, EVICT])
@pytest.mark.parametrize("foreign", FOREIGN)
def test_an_answer_that_says_nothing_of_the_pod_is_no_deletion(action, foreign):
    case = Case(foreign, foreign, foreign, pod())
    events = case.perform(action)
    assert not any(isinstance(event, Deleted) for event in events)
    assert isinstance(events[0], Upserted)
    assert [type(event) for event in events[1:]] == [BindFailed if action is BIND else EvictRefused]


@pytest.mark.parametrize("action", [BIND, GIVEN])
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_binding_that_may_have_landed_has_not_failed_while_the_truth_cannot_be_read(action, foreign):
    case = Case(LOST, said(409, "already assigned"), *[foreign] * 1000)
    assert case.perform(action) == [Undetermined(action)]
    assert [status for status, _message in case.refusals] == [409]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_what_cannot_be_read_for_half_a_minute_holds_up_no_other_action(foreign):
    case = Case(*[foreign] * 1000)
    assert case.perform(BIND) == [Undetermined(BIND)]
    assert 30 <= case.time.now < 60
    before = case.time.now
    assert [type(event) for event in case.perform(EVICT)] == [EvictRefused]
    assert case.time.now < before + 10


def test_a_pod_that_is_there_and_cannot_be_decoded_is_where_it_says():
    def odd(node: str) -> tuple[int, dict]:
        status, body = pod(node)
        return status, {**body, "status": {"phase": "Strange"}}

    assert [type(event) for event in Case(said(409, "no"), odd("")).perform(BIND)] == [Unreadable, BindFailed]
    case = Case(said(409, "already assigned"), odd("n1"))
    assert [type(event) for event in case.perform(BIND)] == [Unreadable]
    assert [telling.reason for telling in case.tellings] == ["Scheduled"]


def test_a_namesake_is_another_pod():
    gone, seen = Case(said(409, "uid mismatch"), pod(uid="other")).perform(BIND)
    assert gone == Deleted(Pod, "u", 0)
    assert seen.item.uid == "other"


CONDITION = PodCondition(uid="u", namespace="team", name="pod", reason="Unschedulable", message="0/3 nodes")
SELECT = SelectNode(uid="c", namespace="team", name="data", node="n1")
GROUP = GroupStatus(
    uid="g",
    namespace="team",
    name="gang",
    dialect="scheduling.volcano.sh/v1beta1",
    phase=GroupPhase.RUNNING,
    scheduled=True,
)
QUEUE = QueueStatus(uid="q", name="night", dialect="scheduling.volcano.sh/v1beta1")
ALL = [BIND, GIVEN, EVICT, CONDITION, SELECT, GROUP, QUEUE]


@pytest.mark.parametrize("action", ALL)
def test_what_was_not_sent_for_want_of_the_right_to_write_comes_back(action):
    case = Case(may_write=lambda: False)
    assert case.perform(action) == [Unsent(action)]
    assert case.asked == case.tellings == case.refusals == []


@pytest.mark.parametrize("action", ALL)
def test_what_was_not_answered_before_everything_stops_comes_back(action):
    case = Case(LOST)
    case.time.set()
    assert case.perform(action) == [Unsent(action)]
    assert len(case.asked) == 1


@pytest.mark.parametrize("action", [BIND, GIVEN, EVICT])
def test_what_was_refused_and_could_not_be_read_any_more_comes_back(action):
    right = iter([True, False])
    case = Case(said(409, "no"), may_write=lambda: next(right))
    assert case.perform(action) == [Unsent(action)]
    assert case.tellings == case.refusals == []


def test_a_disruption_budget_that_holds_a_pod_is_named():
    causes = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget quorum needs 2 pods"}]}
    case = Case(said(429, "Cannot evict: it would violate the pod's disruption budget.", details=causes), pod("n1"))
    refused = case.perform(EVICT)[-1]
    assert isinstance(refused, EvictRefused)
    assert refused.budget
    assert "quorum" in refused.message


@pytest.mark.parametrize("status", [403, 409, 422])
def test_an_eviction_that_is_refused_otherwise_says_nothing_of_budgets(status):
    refused = Case(said(status, "no"), pod("n1")).perform(EVICT)[-1]
    assert refused == EvictRefused("u", "no", budget=False)


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
    case = Case((404, b""), (200, {}))
    case.perform(GROUP)
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
