# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that cannot be read are answered once, by who leads, and only where they are ours."""

import pytest
from placement.kube.dialects import BY_NAME as BY_DIALECT
from placement.kube.watch.watched_resources import sources
from placement.kube.write import requests
from placement.kube.write.unreadable_objects import UnreadableReporter
from placement.model.messages.action import GroupStatus, PodCondition, QueueStatus
from placement.model.messages.refusal import Refusal
from placement.model.objects.pod import Pod
from placement.model.objects.workload import (
    CONVERGED,
    COSCHEDULING,
    INCUBATOR,
    SIGS,
    UPSTREAM,
    UPSTREAM_ALPHA,
    VOLCANO,
    PodGroup,
    Queue,
)

BY_NAME = {source.name: source for source in sources()}
PODS = BY_NAME["pods"]
GROUPS = BY_NAME["podgroups.scheduling.volcano.sh/v1beta1"]
QUEUES = BY_NAME["queues.scheduling.converged.hpc/v1alpha1"]


def refusal(kind: str, field: str = "spec.x", **more) -> Refusal:
    return Refusal(kind=kind, field=field, reason="is odd", namespace="team", name="it", uid="u", **more)


class Answers:
    """What was answered, and whether we lead."""

    def __init__(self, *, leads: bool = True) -> None:
        self.leads = leads
        self.told, self.written, self.logged = [], [], []
        self.refusals = UnreadableReporter(
            "placement",
            may_write=lambda: self.leads,
            tell=self.told.append,
            carry=self.written.extend,
            log=lambda source, text: self.logged.append(f"{source}: {text}"),
        )


def test_a_group_and_a_queue_get_an_event_and_a_condition_that_name_the_field():
    answers = Answers()
    answers.refusals.note(GROUPS, refusal("PodGroup"))
    answers.refusals.note(QUEUES, Refusal(kind="Queue", field="spec.y", reason="is odd", name="q", uid="v"))
    assert [telling.text for telling in answers.told] == ["spec.x: is odd", "spec.y: is odd"]
    assert [telling.subject.api_version for telling in answers.told] == [
        "scheduling.volcano.sh/v1beta1",
        "scheduling.converged.hpc/v1alpha1",
    ]
    assert [type(action) for action in answers.written] == [GroupStatus, QueueStatus]


def test_a_group_that_becomes_unreadable_while_it_runs_keeps_its_phase_and_its_numbers():
    answers = Answers()
    answers.refusals.note(GROUPS, refusal("PodGroup"))
    (status,) = answers.written
    written = {
        name: dialect.group_status(status, "now") for name, dialect in BY_DIALECT.items() if dialect.group_status
    }
    assert {name: set(fields) for name, fields in written.items() if fields} == {
        name: {"conditions"} for name in (UPSTREAM, UPSTREAM_ALPHA, INCUBATOR, SIGS, VOLCANO)
    }
    assert written[VOLCANO]["conditions"][0]["message"] == "spec.x: is odd"
    assert requests.group_status(status, BY_DIALECT[COSCHEDULING], "now") is None


def test_a_queue_that_becomes_unreadable_keeps_its_numbers():
    answers = Answers()
    answers.refusals.note(QUEUES, Refusal(kind="Queue", field="spec.y", reason="is odd", name="q", uid="v"))
    (status,) = answers.written
    written = {
        name: dialect.queue_status(status, "now") for name, dialect in BY_DIALECT.items() if dialect.queue_status
    }
    assert {name: set(fields) for name, fields in written.items() if fields} == {CONVERGED: {"conditions"}}
    assert requests.queue_status(status, BY_DIALECT[VOLCANO], "now") is None


def test_the_same_is_said_once_and_another_field_again():
    answers = Answers()
    for field in ("spec.x", "spec.x", "spec.y"):
        answers.refusals.note(GROUPS, refusal("PodGroup", field))
    assert len(answers.told) == 2


def test_a_pod_is_answered_by_its_own_scheduler_only():
    answers = Answers()
    answers.refusals.note(PODS, refusal("Pod", scheduler_name="default-scheduler"))
    assert answers.told == []
    answers.refusals.note(PODS, refusal("Pod", scheduler_name="placement"))
    assert [type(action) for action in answers.written] == [PodCondition]


def test_a_pod_that_sits_on_a_node_is_no_longer_ours_to_answer():
    answers = Answers()
    answers.refusals.note(PODS, refusal("Pod", scheduler_name="placement", node="n1"))
    assert answers.written == []


def test_who_begins_to_lead_answers_what_came_before():
    answers = Answers(leads=False)
    answers.refusals.note(GROUPS, refusal("PodGroup"))
    answers.refusals.catch_up()
    assert answers.told == []
    answers.leads = True
    answers.refusals.catch_up()
    answers.refusals.catch_up()
    assert len(answers.told) == 1


@pytest.mark.parametrize("source", [source for source in sources() if source.kind not in (Pod, PodGroup, Queue)])
@pytest.mark.parametrize("leads", [True, False])
def test_an_object_of_another_kind_is_named_in_the_log_once(source, leads):
    answers = Answers(leads=leads)
    for _unused in range(2):
        answers.refusals.note(source, refusal(source.kind.__name__))
    answers.leads = True
    answers.refusals.catch_up()
    assert (answers.told, answers.written) == ([], [])
    assert answers.logged == [f"{source.name}: 'it' cannot be read: spec.x: is odd"]
