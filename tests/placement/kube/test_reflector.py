# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List and watch: whatever ends a watch, in the end the daemon knows what a fresh list says."""

import itertools
import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from placement.kube.dialects import BY_NAME
from placement.kube.transport.http1 import TooLong
from placement.kube.watch.reflector import ABSENT_SECONDS, DOUBT_SECONDS, Backwards, Health, Reflector, Source
from placement.kube.watch.watched_resources import sources
from placement.model.messages.action import Bind
from placement.model.messages.event import Deleted, Relisted, Unreadable, Upserted
from placement.model.objects.volume import VolumeAttachment
from placement.model.objects.workload import INCUBATOR, UPSTREAM, UPSTREAM_ALPHA, Namespace, PodGroup
from placement.state.cluster import Cluster
from placement_kit.fake_api import LOST, ScriptedConnection
from placement_kit.simulated import Simulated

PLAIN = Source("namespaces", Namespace, "/api/v1/namespaces")
SHARED = Source("podgroups", PodGroup, f"/apis/{INCUBATOR}/podgroups", BY_NAME[INCUBATOR].read_group, shared=True)


# What an API server says of a resource that it does not have.
UNSERVED = (404, b"404 page not found\n")


def item(name: str, version: int, **more) -> dict:
    return {"metadata": {"uid": name, "name": name, "namespace": "team", "resourceVersion": str(version)}, **more}


def page(version: int, *items, more: str = "") -> tuple[int, dict]:
    return 200, {"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)}


def event(kind: str, found: dict) -> dict:
    return {"type": kind, "object": found}


def bookmark(version: int) -> dict:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class Waits(threading.Event):
    """Nobody waits, and how long they would have is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = []

    def wait(self, timeout=None):
        self.seconds.append(timeout)
        return False


def told(source: Source, *script, stop=None, clock=time.monotonic) -> tuple[list, ScriptedConnection, list]:
    """Everything the reflector tells until the script is at its end."""
    stop = stop or threading.Event()
    connection = ScriptedConnection(*script)
    events, refused = [], []
    reflector = Reflector(
        source,
        connection,
        events.extend,
        stop=stop,
        log=lambda *_words: None,
        refused=lambda _source, refusal: refused.append(refusal),
        clock=clock,
    )
    connection.script.append(StopIteration())
    real_pop = connection.script.pop
    assert real_pop is not None

    def run() -> None:
        with pytest.raises(StopIteration):
            reflector.run()

    def lines(path):
        if isinstance(connection.script[0], StopIteration):
            raise connection.script[0]
        return ScriptedConnection.lines(connection, path)

    connection.lines = lines
    run()
    return events, connection, refused


def test_pages_are_one_list_and_the_watch_begins_at_its_version():
    events, connection, _refused = told(PLAIN, page(9, item("a", 3), more="t"), page(9, item("b", 4)), [bookmark(9)])
    assert [type(found) for found in events] == [Relisted]
    assert [found.name for found in events[0].items] == ["a", "b"]
    assert "resourceVersion=9" in connection.asked[2][1]


def test_1_4_15_a_watch_goes_on_after_a_cut_from_the_last_version_it_has_seen():
    events, connection, _refused = told(
        PLAIN, page(9), [event("ADDED", item("a", 12)), bookmark(15), LOST], [event("DELETED", item("a", 17))]
    )
    assert events[1:] == [events[1], Deleted(Namespace, "a", 17)]
    assert isinstance(events[1], Upserted)
    watches = [path for method, path, _body in connection.asked if method == "WATCH"]
    assert ["resourceVersion=9" in watches[0], "resourceVersion=15" in watches[1]] == [True, True]


GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}


@pytest.mark.parametrize(
    "watches",
    [[(410,)], [[GONE]], [[b'{"type":"ADDED","obj']], [[], [], []]],
    ids=["as the answer", "as an event", "an event cut in two", "as watches that end without a word"],
)
def test_a_version_that_is_too_old_leads_to_a_new_list(watches, monkeypatch):
    monkeypatch.setattr("placement.kube.watch.reflector._AT_ONCE", 0.05)
    events, _connection, _refused = told(
        PLAIN, page(9, item("a", 3)), *watches, page(20, item("b", 19)), [bookmark(20)]
    )
    assert [event.version for event in events if isinstance(event, Relisted)] == [9, 20]


def test_what_a_new_list_lacks_is_gone_from_a_shared_source_by_name():
    events, _connection, _refused = told(
        SHARED, page(9, item("a", 3), item("b", 4)), (410,), page(20, item("b", 4)), []
    )
    assert Deleted(PodGroup, "a", 20) in events
    assert not any(isinstance(event, Relisted) for event in events)


def test_an_api_that_is_taken_away_takes_its_objects_along():
    cluster = Cluster()
    for there in (item("a", 3), odd("b", 4)):
        clock = iter([100.0, 101.0, 100.0 + DOUBT_SECONDS]).__next__
        events, _connection, _refused = told(
            SHARED, page(9, there), UNSERVED, UNSERVED, UNSERVED, stop=Waits(), clock=clock
        )
        assert [type(event) for event in events[1:]] == [Deleted]
        for event in events:
            cluster.apply(event)
    assert not any(cluster.objects.get(PodGroup, {}))
    assert not cluster.unreadable[PodGroup]


def test_an_api_that_is_served_again_has_its_objects_as_they_were():
    cluster = Cluster()
    clock = iter([100.0, 100.0 + DOUBT_SECONDS]).__next__
    lists = [page(9, item("a", 3), odd("b", 4)), page(20, item("a", 3), odd("b", 4))]
    script = [lists[0], UNSERVED, UNSERVED, lists[1], []]
    events, _connection, _refused = told(SHARED, *script, stop=Waits(), clock=clock)
    assert [type(event) for event in events] == [Upserted, Unreadable, Deleted, Deleted, Upserted, Unreadable]
    for event in events:
        cluster.apply(event)
    assert [*cluster.objects[PodGroup]] == ["a"]
    assert [*cluster.unreadable[PodGroup]] == ["b"]


NEWER = {"volumeattachments", "noderesourcetopologies", "resourceslices"}
ATTACHMENTS = next(source for source in sources() if source.name == "volumeattachments")
FORBIDDEN = (
    403,
    {"kind": "Status", "reason": "Forbidden", "message": "x is forbidden: User y cannot list", "code": 403},
)


def fail(*_words) -> None:
    pytest.fail("nothing is to be told")


def attempts(source: Source, *script, step=DOUBT_SECONDS, told=fail) -> tuple[Health, list]:
    """How the source is doing once the script is at its end, and what was logged."""
    logged = []
    connection = ScriptedConnection(*script, StopIteration())
    reflector = Reflector(
        source,
        connection,
        told,
        stop=Waits(),
        log=lambda name, text: logged.append((name, text)),
        refused=fail,
        clock=itertools.count(100.0, step).__next__,
    )
    with pytest.raises(StopIteration):
        reflector.run()
    return reflector.health, logged


@pytest.mark.parametrize("source", [source for source in sources() if source.name in NEWER])
def test_a_daemon_with_an_older_cluster_role_does_without_what_is_new_and_says_so_once(source):
    health, logged = attempts(source, *[FORBIDDEN] * 20)
    assert (health.absent, health.synced) == (True, True)
    assert logged == [(source.name, "not permitted: the role `placement` gives the right; going on without")]


@pytest.mark.parametrize("source", [source for source in sources() if source.name not in NEWER])
def test_a_daemon_does_not_go_on_without_a_right_that_it_needs(source):
    health, _logged = attempts(source, *[FORBIDDEN] * 20)
    assert (health.absent, health.synced) == (False, False)


@pytest.mark.parametrize("answer", [(403, b"<html>Forbidden</html>"), (403, {"message": "no entry"})])
def test_a_proxy_s_403_is_no_reason_to_go_on_without(answer):
    health, _logged = attempts(ATTACHMENTS, *[answer] * 20)
    assert (health.absent, health.synced) == (False, False)


def test_a_right_that_is_missing_for_a_moment_is_waited_for():
    health, logged = attempts(ATTACHMENTS, *[FORBIDDEN] * 5, step=1.0)
    assert (health.absent, health.synced, logged) == (False, False, [])


def attachment(name: str) -> dict:
    return item(name, 3, spec={"nodeName": "n0", "source": {"persistentVolumeName": "v"}})


def test_what_may_not_be_read_any_more_is_kept_and_compared_once_the_right_is_there_again():
    clock = itertools.count(100.0, DOUBT_SECONDS).__next__
    script = [page(9, attachment("a"), attachment("b")), *[FORBIDDEN] * 9, page(20, attachment("a")), []]
    events, _connection, _refused = told(ATTACHMENTS, *script, stop=Waits(), clock=clock)
    assert [type(event) for event in events] == [Upserted, Upserted, Deleted, Upserted]
    assert events[2] == Deleted(VolumeAttachment, "b", 20)


def test_a_right_that_is_taken_away_is_logged_once_and_does_not_stop_the_daemon():
    health, logged = attempts(ATTACHMENTS, page(9, attachment("a")), *[FORBIDDEN] * 9, told=lambda _events: None)
    assert (health.absent, health.synced) == (True, True)
    assert [text for _name, text in logged] == [
        "cannot be read any more; what there was is kept until that is certain",
        "not permitted: the role `placement` gives the right; going on with what was read before",
    ]


def test_what_is_not_served_after_it_was_forbidden_gets_a_doubt_of_its_own():
    clock = iter([100.0, 200.0, 201.0, 202.0, 300.0]).__next__
    script = [page(9, attachment("a")), FORBIDDEN, FORBIDDEN, UNSERVED, FORBIDDEN, UNSERVED]
    events, _connection, _refused = told(ATTACHMENTS, *script, stop=Waits(), clock=clock)
    assert [type(event) for event in events] == [Upserted]
    clock = iter([100.0, 200.0, 201.0, 300.0]).__next__
    script = [page(9, attachment("a")), FORBIDDEN, FORBIDDEN, UNSERVED, UNSERVED]
    events, _connection, _refused = told(ATTACHMENTS, *script, stop=Waits(), clock=clock)
    assert [type(event) for event in events] == [Upserted, Deleted]


def test_pods_are_placed_by_a_daemon_with_an_older_cluster_role():
    simulated = Simulated(scheduler_name="placement")
    resources = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    there = {
        "nodes": item("n0", 3, status=resources),
        "pods": item("p0", 4, spec={"schedulerName": "placement", "containers": containers}),
    }
    for source in sources():
        found = [there[source.name]] if source.name in there else []
        script = [FORBIDDEN] * 3 if source.dispensable else [page(9, *found), []]
        clock = itertools.count(100.0, DOUBT_SECONDS).__next__
        for event in told(source, *script, stop=Waits(), clock=clock)[0]:
            simulated.tell(event)
    assert [(action.name, action.node) for action in simulated.run_once() if isinstance(action, Bind)] == [("p0", "n0")]


FOREIGN = [
    pytest.param((404, b"<html>404 Not Found</html>"), id="a page"),
    pytest.param((404, b"default backend - 404"), id="plain text"),
    pytest.param((404, b""), id="nothing"),
    pytest.param((404, {"message": "no Route matched with those values"}), id="JSON"),
]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_proxy_s_404_does_not_take_an_api_away(foreign):
    clock = itertools.count(100.0, DOUBT_SECONDS).__next__
    script = [page(9, item("a", 3)), *[foreign] * 5, [event("DELETED", item("a", 12))]]
    events, connection, _refused = told(SHARED, *script, stop=Waits(), clock=clock)
    # It goes on from its version, and hears of what happened meanwhile.
    assert [type(found) for found in events] == [Upserted, Deleted]
    assert [method for method, _path, _body in connection.asked] == ["GET"] + ["WATCH"] * 6


@pytest.mark.parametrize("said", [UNSERVED, *FOREIGN])
def test_what_every_api_server_serves_is_never_taken_for_absent(said):
    connection = ScriptedConnection(*[said] * 5, StopIteration())
    reflector = Reflector(
        PLAIN, connection, fail, stop=Waits(), log=lambda *_words: None, refused=fail, clock=itertools.count().__next__
    )
    with pytest.raises(StopIteration):
        reflector.run()
    assert (reflector.health.absent, reflector.health.synced) == (False, False)
    assert reflector.health.error.startswith("404: ")


@pytest.mark.parametrize("source", [PLAIN, SHARED])
def test_a_list_from_before_what_was_heard_ends_the_daemon_and_is_not_believed(source):
    # Version 30 was heard of by a bookmark.
    script = [page(9, item("a", 3)), [bookmark(30)], (410,), page(29, item("b", 12))]
    with pytest.raises(Backwards, match=r"at version 29, and this daemon has seen version 30: etcd was restored"):
        told(source, *script, stop=Waits())


def test_a_watch_that_tells_nothing_to_its_end_is_asked_about(monkeypatch):
    # As from a version that a restored cluster has yet to reach: even bookmarks are held back.
    monkeypatch.setattr("placement.kube.watch.reflector._AT_ONCE", 0.0)
    script = [page(9, item("a", 3)), [], page(9), [event("ADDED", item("b", 12))], [], page(11)]
    with pytest.raises(Backwards, match="at version 11, and this daemon has seen version 12"):
        told(PLAIN, *script, stop=Waits())


def test_a_watch_that_tells_nothing_is_asked_about_in_the_version_that_is_served(monkeypatch):
    monkeypatch.setattr("placement.kube.watch.reflector._AT_ONCE", 0.0)
    source = next(source for source in sources() if source.older is not None)
    _events, connection, _refused = told(source, UNSERVED, page(9), [], page(9), stop=Waits())
    asked = [path.partition("?")[0] for _method, path, _body in connection.asked]
    assert asked == [source.path, *[source.older.path] * 3]


def test_a_version_that_the_server_has_not_reached_leads_to_a_list():
    ahead = (504, {"kind": "Status", "message": "Timeout: Too large resource version: 30, current: 9", "code": 504})
    with pytest.raises(Backwards):
        told(PLAIN, page(30), ahead, page(9), stop=Waits())
    events, _connection, _refused = told(PLAIN, page(30), ahead, page(31), [], stop=Waits())
    assert [event.version for event in events] == [30, 31]


def test_silence_between_two_slips_is_no_time_in_which_it_is_not_served():
    clock = iter([100.0, 100.0 + 12 * DOUBT_SECONDS]).__next__
    script = [page(9, item("a", 3)), UNSERVED, LOST, UNSERVED, page(20, item("a", 3)), []]
    events, _connection, _refused = told(SHARED, *script, stop=Waits(), clock=clock)
    assert [type(event) for event in events] == [Upserted, Upserted]


@pytest.mark.parametrize("slip", [[UNSERVED], [UNSERVED, UNSERVED, LOST, UNSERVED]])
def test_what_is_not_served_for_a_moment_is_kept(slip):
    # Each slip is short, and a while after the one before.
    asked = sum(answer != LOST for answer in slip)
    clock = iter([100.0 * turn + 1.0 * tick for turn in (1, 2) for tick in range(asked)]).__next__
    lists = [page(9, item("a", 3)), page(20, item("a", 3)), page(30, item("a", 3))]
    script = [lists[0], *slip, lists[1], *slip, lists[2], []]
    events, _connection, _refused = told(SHARED, *script, stop=Waits(), clock=clock)
    assert [type(event) for event in events] == [Upserted] * 3


def test_an_api_that_is_not_served_is_asked_for_less_and_less_often_and_found_soon_after_a_slip():
    waits = Waits()
    told(SHARED, *[UNSERVED] * 20, page(9), [bookmark(10), LOST], stop=waits)
    assert waits.seconds[0] < 0.1
    assert sum(waits.seconds[:8]) < 15
    assert all(ABSENT_SECONDS / 2 <= seconds <= ABSENT_SECONDS for seconds in waits.seconds[12:20])
    assert waits.seconds[20] < 0.1


def test_an_unreadable_object_is_handed_to_who_answers_it():
    events, _connection, refused = told(SHARED, page(9), [event("ADDED", odd("a", 12))])
    assert isinstance(events[-1], Unreadable)
    assert [refusal.field for refusal in refused] == ["spec.minMember"]


def test_a_line_that_is_too_long_is_not_asked_for_again():
    script = [page(9, item("a", 3)), [TooLong("long", sent=True)], page(20, item("b", 19)), [bookmark(20)]]
    events, _connection, _refused = told(PLAIN, *script)
    assert [found.version for found in events] == [9, 20]


def test_a_list_that_was_cut_short_is_none():
    whole = json.dumps(page(9, item("a", 3), item("b", 4))[1]).encode()
    cuts = [(200, whole[:size]) for size in range(0, len(whole), 40)]
    events, _connection, _refused = told(SHARED, *cuts, page(9, item("c", 5)), [], stop=Waits())
    assert [found.item.name for found in events] == ["c"]


def odd(name: str, version: int) -> dict:
    return item(name, version, spec={"minMember": "many"})


def test_what_is_listed_but_cannot_be_read_is_there():
    events, _connection, refused = told(
        SHARED, page(9, item("a", 3)), [event("MODIFIED", odd("a", 12))], (410,), page(20, odd("a", 12)), []
    )
    assert [type(found) for found in events] == [Upserted, Unreadable, Unreadable]
    assert len(refused) == 2


def test_what_could_not_be_read_in_the_first_list_is_told_and_its_end_too():
    events, _connection, _refused = told(SHARED, page(9, odd("a", 3), item("b", 4)), (410,), page(20, item("b", 4)), [])
    assert [type(found) for found in events] == [Upserted, Unreadable, Deleted, Upserted]
    assert events[2] == Deleted(PodGroup, "a", 20)


# Of each of three groups, what it is after each step, and whether a watch or a new list tells of the step.
STEPS = st.lists(
    st.tuples(st.booleans(), st.tuples(*[st.sampled_from(["good", "odd", "gone"])] * 3)), min_size=1, max_size=6
)


@given(STEPS)
def test_by_a_watch_or_by_a_list_the_same_is_known(steps):
    version, script, there = 10, [page(10)], {}
    lives, names = [0, 0, 0], [""] * 3
    for listed, states in steps:
        changes = []
        for number, state in enumerate(states):
            version += 1
            if state == "gone":
                old = there.pop(names[number], None)
                lives[number] += old is not None
                changes += [event("DELETED", item(names[number], version))] if old else []
                continue
            names[number] = f"g{number}-{lives[number]}"
            made = {"good": item, "odd": odd}[state](names[number], version)
            changes.append(event("MODIFIED", made))
            there[names[number]] = (state, made)
        version += 1
        anew = [(410,), page(version, *(made for _state, made in there.values()))]
        script += anew if listed else [changes or [bookmark(version)]]
    cluster = Cluster()
    for found in told(SHARED, *script, stop=Waits())[0]:
        cluster.apply(found)
    read = {uid: "good" for uid in cluster.objects.get(PodGroup, {}) if uid not in cluster.unreadable.get(PodGroup, {})}
    assert read | dict.fromkeys(cluster.unreadable.get(PodGroup, {}), "odd") == {
        name: state for name, (state, _made) in there.items()
    }


def test_an_overloaded_server_is_asked_again():
    events, _connection, _refused = told(PLAIN, (429, b""), (503, b""), LOST, page(9, item("a", 3)), [])
    assert [type(event) for event in events] == [Relisted]


OLDER = Source("older", PodGroup, f"/apis/{UPSTREAM_ALPHA}/podgroups", BY_NAME[UPSTREAM_ALPHA].read_group, shared=True)
NEWER = Source("newer", PodGroup, f"/apis/{UPSTREAM}/podgroups", BY_NAME[UPSTREAM].read_group, shared=True, older=OLDER)


class Over(Exception):
    """The script is at its end."""


def dialects(events: list) -> list[str]:
    return [event.item.dialect for event in events if isinstance(event, Upserted)]


def test_of_two_versions_the_newer_is_read_where_it_is_served():
    events, connection, _refused = told(NEWER, page(9, item("a", 3)), [event("ADDED", item("b", 12))])
    assert dialects(events) == [UPSTREAM, UPSTREAM]
    assert not any(UPSTREAM_ALPHA in path for _method, path, _body in connection.asked)


def test_the_older_version_is_read_where_the_newer_is_not_served():
    events, connection, _refused = told(NEWER, UNSERVED, page(9, item("a", 3)), [event("ADDED", item("b", 12))])
    assert dialects(events) == [UPSTREAM_ALPHA, UPSTREAM_ALPHA]
    assert [UPSTREAM_ALPHA in path for _method, path, _body in connection.asked] == [False, True, True]


@pytest.mark.parametrize("foreign", [(404, b""), (404, b"<html>404 Not Found</html>"), (503, b"")])
def test_a_proxy_s_answer_is_no_reason_to_read_an_older_version(foreign):
    events, _connection, _refused = told(NEWER, foreign, page(9, item("a", 3)), [], stop=Waits())
    assert dialects(events) == [UPSTREAM]


def test_an_api_that_serves_neither_version_is_absent_until_it_serves_one():
    events, _connection, _refused = told(NEWER, UNSERVED, UNSERVED, UNSERVED, page(9, item("a", 3)), [], stop=Waits())
    assert dialects(events) == [UPSTREAM_ALPHA]


def test_groups_are_read_anew_by_the_newer_version_when_an_upgrade_takes_the_older_away():
    events, _connection, _refused = told(
        NEWER,
        UNSERVED,
        page(9, item("a", 3)),
        UNSERVED,
        page(9, item("a", 3)),
        [event("MODIFIED", item("a", 12))],
        stop=Waits(),
    )
    assert dialects(events) == [UPSTREAM_ALPHA, UPSTREAM, UPSTREAM]
    cluster = Cluster()
    seen = []
    for told_of in events:
        cluster.apply(told_of)
        seen += [found.dialect for found in cluster.objects.get(PodGroup, {}).values()]
    assert seen == [UPSTREAM_ALPHA, UPSTREAM, UPSTREAM]


def test_an_unreadable_group_is_answered_in_the_version_that_it_was_read_in():
    connection = ScriptedConnection(UNSERVED, page(9, item("a", 3, spec=3)), [Over()])
    answered = []
    reflector = Reflector(
        NEWER,
        connection,
        lambda _events: None,
        stop=threading.Event(),
        log=lambda *_words: None,
        refused=lambda source, _refusal: answered.append(source),
    )
    with pytest.raises(Over):
        reflector.run()
    assert answered == [OLDER]
