# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Some end-to-end tests could pass without seeing what they claim: each must fail when that is broken on purpose.

The test itself runs here, on a stand-in for its bed: once on a sound one, and then on broken ones.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from e2e import test_slurm_share, test_testbed_life
from e2e.handover import sharing, test_handover, test_handover_jobs
from e2e.handover.recording import Recording
from e2e.handover.sharing import Job, Sharing, parse
from e2e.job_times import AFTER, BEFORE, DURING
from e2e.placement import test_placement, test_placement_kube_batch, test_placement_role
from e2e.playing import until
from testbed.kube_audit import AuditEvent
from testbed.run import Completed

pytestmark = pytest.mark.prose
NODES = ("n1", "n2")
# What is asked of a daemon or an API that no stand-in needs.
NOTHING: Any = SimpleNamespace()


def fails(broken: bool) -> AbstractContextManager[object]:
    return pytest.raises(AssertionError) if broken else nullcontext()


def says(word: str, node: str) -> str:
    """Return what a task says now, which is later than anything before."""
    time.sleep(0.001)
    return f"{word} {time.time()!r} {node} active 0\n"


# A job that is to run while something is done


class StandIn(Sharing):
    """A converted site without hosts. Tasks on `short` end at once, all others when they are told to."""

    def __init__(self, *, short: Collection[str] = (), lifts: bool = False) -> None:
        self.nodes, self.short, self.lifts = list(NODES), short, lifts
        self.cordoned: set[str] = set()
        self.out = ""

    @contextmanager
    def while_job(self, *options: str, command: str = "") -> Iterator[Callable[[], Job]]:
        self.out = "".join(says("began", node) for node in NODES)
        self.out += "".join(says("ended", node) for node in self.short)
        yield lambda: parse(self.out)

    def node(self, host: str, command: str, *, check: bool = True, input: str | None = None) -> str:
        if command.startswith("touch ") and host not in self.short:
            self.out += says("ended", host)
        return ""

    def kubectl(self, *words: str, input: str | None = None) -> str:
        self.cordoned |= {words[1]} if words[0] == "cordon" else set()
        return ""

    def free(self, *nodes: str, seconds: float = 300.0) -> None:
        self.cordoned = set() if self.lifts else self.cordoned

    def objects(self, kind: str) -> dict[str, dict[str, Any]]:
        return {node: {"spec": {"unschedulable": node in self.cordoned}} for node in NODES}


@pytest.mark.parametrize("short", [(), ("n1",), ("n2",), NODES])
def test_a_job_that_is_told_to_end_must_have_run_until_then(short: Collection[str]) -> None:
    site = StandIn(short=short)
    with site.while_job() as ended, fails(bool(short)):
        assert site.tell_to_end(ended).nodes == set(NODES)


@pytest.mark.parametrize(
    ("moment", "lifts", "short"),
    [(moment, lifts, ()) for moment in (BEFORE, DURING, AFTER) for lifts in (False, True)]
    + [(DURING, False, ("n1",)), (DURING, False, NODES)],
)
def test_a_cordon_must_be_set_at_its_moment_and_stay(moment: str, lifts: bool, short: Collection[str]) -> None:
    with fails(lifts or bool(short)):
        test_handover.test_an_administrators_cordon_is_never_lifted(StandIn(lifts=lifts, short=short), moment)


@pytest.mark.parametrize("other", ["BEFORE", "AFTER"])
def test_a_cordon_that_is_set_at_another_moment_is_found(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_handover, "DURING", "never")
    monkeypatch.setattr(test_handover, other, DURING)
    with pytest.raises(AssertionError):
        test_handover.test_an_administrators_cordon_is_never_lifted(StandIn(), DURING)


# In place of ssh and srun: the tasks begin, wait for a file, and end. Those of a job that is too short do not wait.
SRUN = """
import pathlib, sys, time
def say(word):
    print(word, repr(time.time()), flush=True)
say("began"), say("began")
for wait in sys.argv[2].split():
    while wait == "waits" and not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.01)
    say("ended")
"""


@pytest.mark.parametrize(
    ("tasks", "jobs", "broken"),
    [
        pytest.param("waits waits", 1, False, id="sound"),
        pytest.param("ends waits", 1, True, id="one task ends early"),
        pytest.param("ends ends", 1, True, id="the job ends early"),
        pytest.param("waits waits", 0, True, id="Slurm has lost the job"),
    ],
)
def test_plays_during_a_job_must_lie_within_all_of_its_tasks(
    tasks: str, jobs: int, broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, log = tmp_path / "go", tmp_path / "job"
    srun = [sys.executable, "-c", SRUN, str(go), tasks]
    monkeypatch.setattr(test_slurm_share, "keys", SimpleNamespace(ssh_command=lambda *_host, user: srun))
    bed = SimpleNamespace(host=lambda name: name)
    site = SimpleNamespace(
        bed=SimpleNamespace(bed=bed), folder=tmp_path, jobs=lambda _states: jobs, ask=lambda *_touch: go.touch()
    )
    with fails(broken), test_slurm_share.during_a_job(cast(Any, site)):
        until(
            lambda: log.read_text(encoding="utf-8").count("ended") == tasks.count("ends"), "what ends early has ended"
        )


# Pods that are said not to have started


class RecordedStandIn(StandIn):
    """A site whose recorder has written these lines on n1; a pod that a test makes there is heard, if any is."""

    def __init__(self, lines: list[dict[str, Any]], *, hears_later: bool) -> None:
        super().__init__()
        self.claims = {}
        self.lines, self.hears_later = lines, hears_later

    def recording(self, node: str) -> Recording:
        return Recording(self.lines)

    def kubectl(self, *words: str, input: str | None = None) -> str:
        self.lines = [*self.lines, *([started(30.0)] if self.hears_later else [])]
        return ""


def started(at: float) -> dict[str, Any]:
    return {"what": "start", "at": at, "container": "of-web", "pod": "web", "heard": True}


HEARS = {"what": "hears", "at": 10.0, "since": 1.0}


@pytest.mark.parametrize(
    ("lines", "hears_later", "broken"),
    [
        pytest.param([HEARS], True, False, id="a pod of the control is heard"),
        pytest.param([HEARS, started(25.0)], False, False, id="a pod that came back was heard"),
        pytest.param([HEARS], False, True, id="hears no start"),
        pytest.param([], True, True, id="does not run"),
        pytest.param([{**HEARS, "at": 18.0}], True, True, id="late"),
        pytest.param([HEARS, {**HEARS, "at": 18.0}], True, True, id="died"),
        pytest.param([HEARS, started(17.0)], True, True, id="a pod started"),
    ],
)
def test_no_pod_started_must_be_said_by_a_recorder_that_would_hear_one(
    lines: list[dict[str, Any]], hears_later: bool, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "RECORDER_SECONDS", 0.0)
    site = RecordedStandIn(lines, hears_later=hears_later)
    with fails(broken):
        assert site.pods_started("n1", since=15.0, until=20.0) == set()
        with pytest.raises(AssertionError, match="nothing shows that the recorder would have seen a pod start"):
            site.stop_recording()
        site.prove_recorded()
        site.stop_recording()


# Taints of a node that was held


class ArrayStandIn(StandIn):
    """An array of five tasks on n1, and the changes of the taint that the audit log is said to have."""

    def __init__(self, changes: dict[str, list[bool]]) -> None:
        super().__init__()
        self.changes = changes

    def lingering(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    def ctl(self, command: str, *, check: bool = True, input: str | None = None) -> str:
        return ""

    def node(self, host: str, command: str, *, check: bool = True, input: str | None = None) -> str:
        return 5 * (says("began", "n1") + says("ended", "n1")) if host == "n1" else ""

    def srun(self, *words: str, check: bool = True, timeout: float = 300.0) -> Completed:
        return Completed(0, 2 * "began ended ", "")

    def objects(self, kind: str) -> dict[str, dict[str, Any]]:
        status = {"phase": "Running", "containerStatuses": [{"ready": True}]}
        return {
            f"web-{node}": {"metadata": {"labels": {"app": "web"}}, "spec": {"nodeName": node}, "status": status}
            for node in NODES
        }

    def taint_patches(self, *, since: float) -> list[tuple[float, str, bool]]:
        return [(since, node, on) for node, changes in self.changes.items() for on in changes]


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        pytest.param({"n1": [True, False]}, False, id="sound"),
        pytest.param({}, True, id="no change was ever seen"),
        pytest.param({"n1": [True]}, True, id="never lifted"),
        pytest.param({"n1": [False]}, True, id="never set"),
        pytest.param({"n1": [True, False, True, False]}, True, id="flaps"),
        pytest.param({"n1": [True, False], "n2": [True, False]}, True, id="on a node without a task"),
    ],
)
def test_the_taint_of_an_array_must_be_seen_and_only_once(changes: dict[str, list[bool]], broken: bool) -> None:
    with fails(broken):
        test_handover_jobs.test_array_tasks_and_components_of_a_heterogeneous_job_are_jobs_like_others(
            ArrayStandIn(changes)
        )


# Where pods of a rule are

ZONES = {f"node-{number}": f"zone-{number}" for number in range(1, 5)}
# Where each rule has the four pods of its job: all on one node, or spread over the zones as without a rule.
SPREAD = dict(zip(("a", "b", "c", "d"), ZONES, strict=True))


def together(node: str) -> dict[str, str]:
    return dict.fromkeys(SPREAD, node)


OBEYED = {
    "node affinity": together("node-3"),
    "preferred node affinity": together("node-4"),
    "pod affinity": together("node-2"),
    "preferred pod affinity": together("node-2"),
}


def affinity(rule: str, places: dict[str, str]) -> None:
    """Run the test of a rule, or the one without a rule, on a cluster that has the pods at these places."""
    nodes = [{"metadata": {"name": node, "labels": {test_placement_kube_batch.ZONE: ZONES[node]}}} for node in ZONES]
    cluster: Any = SimpleNamespace(api=SimpleNamespace(items=lambda _path: nodes))
    team: Any = SimpleNamespace(
        job=lambda *_job, **_more: None, bound=lambda: set(places), places=lambda *_name: places
    )
    if rule:
        test_placement_kube_batch.test_affinity(cluster, NOTHING, team, rule)
    else:
        test_placement_kube_batch.test_without_a_rule_a_job_is_where_no_rule_would_have_it(cluster, NOTHING, team)


@pytest.mark.parametrize("rule", test_placement_kube_batch.RULES)
def test_pods_that_do_not_obey_their_rule_are_found(rule: str) -> None:
    affinity(rule, OBEYED[rule])
    with pytest.raises(AssertionError):
        affinity(rule, SPREAD)
    with pytest.raises(AssertionError):
        affinity("", OBEYED[rule])


def test_pods_without_a_rule_are_spread_in_the_control() -> None:
    affinity("", SPREAD)


# What the daemon asks the API for

NOW = datetime(2026, 11, 27, tzinfo=UTC)
ALLOWED = {("create", "pods/binding"), *(read[:2] for read in test_placement.READS)}


def event(verb: str, resource: str, namespace: str = "", name: str = "", *, user: str = "daemon") -> AuditEvent:
    return AuditEvent(verb, user, resource, namespace, name, 200, NOW, NOW, None)


DONE = [event(*read) for read in test_placement.READS] + [event("create", "pods/binding", "team", "last")]
REFUSED = replace(DONE[0], code=403)
EARLIER = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("log", "broken"),
    [
        pytest.param(DONE, False, id="sound"),
        pytest.param([*DONE, replace(REFUSED, received=NOW - EARLIER)], False, id="refused before the daemon started"),
        pytest.param([], True, id="empty"),
        pytest.param(DONE[:-1], True, id="lacks the binding"),
        pytest.param(DONE[1:], True, id="lacks a read"),
        pytest.param([replace(one, received=NOW - EARLIER) for one in DONE], True, id="of an earlier daemon"),
        pytest.param([*DONE, event("delete", "pods")], True, id="beyond the role"),
        pytest.param([*DONE, REFUSED], True, id="refused"),
    ],
)
def test_the_rights_of_the_daemon_are_judged_by_a_log_that_has_what_it_did(log: list[AuditEvent], broken: bool) -> None:
    cluster: Any = SimpleNamespace(audit=lambda: log, allowed=lambda: ALLOWED)
    team: Any = SimpleNamespace(name="team", pod=lambda _name: None, bound=lambda: {"last"})
    with fails(broken):
        test_placement.test_the_daemon_uses_no_right_that_its_role_does_not_give(
            cluster, cast(Any, SimpleNamespace(started=NOW)), team
        )


ONE, OTHER = ([replace(one, user=f"converged:placement:{host}") for one in DONE] for host in NODES)


@pytest.mark.parametrize(
    ("log", "broken"),
    [
        pytest.param([*ONE, *OTHER], False, id="sound"),
        pytest.param([], True, id="empty"),
        pytest.param(ONE, True, id="lacks a replica"),
        pytest.param([*ONE, *OTHER, replace(ONE[0], verb="delete")], True, id="beyond the role"),
        pytest.param([*ONE, *OTHER, replace(ONE[0], code=403)], True, id="refused"),
    ],
)
def test_the_rights_of_replicas_are_judged_by_a_log_that_has_all_of_them(log: list[AuditEvent], broken: bool) -> None:
    cluster: Any = SimpleNamespace(audit=lambda _users: log, allowed=lambda: ALLOWED)
    with fails(broken):
        test_placement_role.test_it_asks_the_api_for_nothing_that_its_role_does_not_give(cluster, NOTHING)


# What eight nodes cost


@pytest.mark.parametrize(
    ("sees", "up", "broken"),
    [
        pytest.param(1.0, 30.0, False, id="sound"),
        pytest.param(1.0, 70.0, True, id="too much"),
        pytest.param(0.0, 70.0, True, id="the work in containers is not seen"),
    ],
)
def test_the_processor_time_of_containers_must_be_seen(
    sees: float, up: float, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = [up]

    def ssh(host: str, argv: list[str]) -> Completed:
        spent[0] += 2.0 if argv[0] == "python3" else 0.0
        return Completed(0, "\n".join(map(str, range(8))), "")

    bed = SimpleNamespace(ssh=ssh)
    monkeypatch.setattr(test_testbed_life, "api", SimpleNamespace(bring_up=lambda *_options: bed))
    monkeypatch.setattr(test_testbed_life, "machine", SimpleNamespace(ask=lambda *_question: sees * spent[0]))
    monkeypatch.setattr(test_testbed_life, "processor_seconds", lambda: 0.0)
    with fails(broken):
        test_testbed_life.test_eight_nodes_cost_less_than_a_minute_and_run_one_job_together()
