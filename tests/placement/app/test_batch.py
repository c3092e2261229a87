# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The batch system's threads: who leads reads and submits, nobody else, and what failed is said and not guessed."""

import threading
import time

import pytest
from placement.app.batch_worker import BatchWorker, backing_settings, identities_of, ledger_of
from placement.app.settings.settings import Settings
from placement.ledger.pbs import PbsError
from placement.model.batch import BatchJob
from placement.model.messages.action import AskHosts, Bind, Release, Submit
from placement.model.messages.event import HostsRead, JobsRead, JobsUnread, SubmitEnded

SUBMIT = Submit(uid="u", namespace="team", name="p", queue="q", namespace_labels=(), chunks=(), mark="0a1b2c3d")
BIND = Bind(uid="u", namespace="team", name="p", node="n1")


class Part:
    """A batch system, and the API's carrier; both note what they are asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.answers: list[object] = []
        self.events: list[object] = []
        self.binding = 0
        self.leads = True
        self.broken = ""

    def jobs(self):
        self.asked.append(time.monotonic())
        if self.broken:
            raise PbsError(self.broken)
        return (BatchJob(id="7.srv", run=1, state="R", tag="u"), BatchJob(id="8.srv", run=1, state="R"))

    def submit(self, action):
        if self.broken:
            raise PbsError(self.broken)
        return "7.srv"

    def release(self, action):
        self.answers.append(action)

    def down(self, hosts):
        if self.broken:
            raise PbsError(self.broken)
        return frozenset(hosts[:1])

    def carry(self, actions):
        self.answers += actions


@pytest.fixture
def part():
    return Part()


@pytest.fixture
def side(part):
    stop = threading.Event()
    made = BatchWorker(
        part,
        part,
        put=part.events.extend,
        stop=stop,
        may_write=lambda: part.leads,
        observe=lambda *_said: None,
        log=lambda *_words: None,
    )
    threads = [threading.Thread(target=body) for _name, body in made.bodies()]
    yield made, lambda: [thread.start() for thread in threads]
    stop.set()
    for thread in threads:
        if thread.ident is not None:
            thread.join()


def until(holds):
    deadline = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_jobs_are_read_at_most_once_a_second(part, side):
    side[1]()
    until(lambda: len(part.events) >= 3)
    assert part.events[2].begun - part.events[0].begun >= 1.9
    assert len(part.asked) <= len(part.events) + 1
    assert isinstance(part.events[0], JobsRead)
    assert (side[0].jobs, side[0].read) == (2, part.events[-1].begun)


def test_what_is_no_answer_is_said_to_be_none(part, side):
    part.broken = "exit status 255"
    side[1]()
    until(lambda: part.events)
    assert part.events[0] == JobsUnread("exit status 255")
    assert side[0].trouble == "exit status 255"


def test_who_does_not_lead_reads_nothing_and_submits_nothing(part, side):
    part.leads = False
    side[0].carry((SUBMIT,))
    side[1]()
    until(lambda: part.events)
    assert part.asked == []
    (event,) = part.events
    assert (type(event), event.uid, event.job) == (SubmitEnded, "u", "")


@pytest.mark.parametrize(("broken", "job"), [("", "7.srv"), ("qsub: Unknown queue", "")])
def test_a_submission_ends_with_a_job_or_with_why_there_is_none(part, side, broken, job):
    part.broken = broken
    side[0].carry((SUBMIT,))
    side[1]()
    until(lambda: any(isinstance(event, SubmitEnded) for event in part.events))
    (event,) = [event for event in part.events if isinstance(event, SubmitEnded)]
    assert (event.job, event.message) == (job, broken)


@pytest.mark.parametrize(("broken", "down"), [("", [frozenset({"n1"})]), ("pbsnodes: exit status 1", [])])
def test_that_nothing_is_known_of_hosts_is_no_event(part, side, broken, down):
    part.broken = broken
    side[0].carry((AskHosts(hosts=("n1", "n2")), SUBMIT))
    side[1]()
    until(lambda: any(isinstance(event, SubmitEnded) for event in part.events))
    if down:
        until(lambda: any(isinstance(event, HostsRead) for event in part.events))
    assert [event.down for event in part.events if isinstance(event, HostsRead)] == down


def test_what_concerns_the_api_goes_there(part, side):
    release = Release(uid="u", name="7.srv")
    side[0].carry((BIND, release))
    assert part.answers == [BIND]
    side[1]()
    until(lambda: release in part.answers)


def test_a_job_that_is_to_end_is_asked_once_however_often_that_was_wanted_before_its_turn(part, side):
    release, other = Release(uid="u", name="7.srv"), Release(uid="u", name="8.srv")
    for _unused in range(1000):
        side[0].carry((release, SUBMIT, other))
    part.leads = True
    side[1]()
    until(lambda: sum(isinstance(event, SubmitEnded) for event in part.events) == 1000)
    assert sorted(action.name for action in part.answers) == ["7.srv", "8.srv"]
    side[0].carry((release,))
    until(lambda: len(part.answers) == 3)


def test_without_a_batch_system_nothing_is_asked():
    assert ledger_of(Settings(), identities_of(Settings())) is None
    assert backing_settings(Settings(), identities_of(Settings())).holds_good is None


def test_the_settings_become_rules():
    settings = Settings(
        pbs_bin_dir="/opt/pbs/bin", pbs_cores="pack", pbs_labels="example.org/zone=zone", pbs_timeout=30
    )
    backing = backing_settings(settings, identities_of(settings))
    assert (backing.pack, backing.devices, backing.labels, backing.holds_good) == (
        True,
        {"nvidia.com/gpu": "ngpus"},
        {"example.org/zone": "zone"},
        90.0,
    )


def test_a_submission_ends_before_another_daemon_may_lead():
    settings = Settings(pbs_bin_dir="/opt/pbs/bin", lease_duration=15.0, renew_deadline=10.0)
    ledger = ledger_of(settings, identities_of(settings))
    assert ledger._terms.submit_timeout == 5.0


def test_what_each_node_of_a_job_must_be_is_said_for_each():
    settings = Settings(pbs_bin_dir="/opt/pbs/bin", pbs_chunk="converged=True, rack=7")
    assert ledger_of(settings, identities_of(settings))._terms.chunk == (("converged", "True"), ("rack", "7"))
