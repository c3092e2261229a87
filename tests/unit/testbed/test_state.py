# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a bed survives a kill at any point, and from it everything can be removed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from testbed import api
from testbed.cgroups import Way
from testbed.down import remove_folder
from testbed.errors import BedError
from testbed.state import Bed, BedStore, Record, Thing, bed_names, file_lock

Beds = Callable[..., Bed]


class Killed(BaseException):
    """Stands for kill -9: nothing below may catch it."""


class Machine:
    """What really exists, and a power supply that fails at a chosen moment."""

    def __init__(self, *, lives: int) -> None:
        self.things: set[Thing] = set()
        self.lives = lives

    def tick(self) -> None:
        """One more moment at which a kill may come."""
        self.lives -= 1
        if self.lives < 0:
            raise Killed

    def up(self, store: BedStore, record: Record, wanted: list[Thing]) -> None:
        store.save(record)
        for thing in wanted:
            store.record(thing.kind, thing.name)
            self.tick()
            self.things.add(thing)
            self.tick()

    def down(self, store: BedStore) -> None:
        found = store.load()
        left = list(found.things) if found else []
        while found and left:
            self.tick()
            self.things.discard(left.pop())
            self.tick()
            store.save(dataclasses.replace(found, things=tuple(left)))
        remove_folder(store.path.parent, last=store.path)


things = st.lists(
    st.builds(Thing, st.sampled_from(["container", "network", "mount"]), st.text("abc", min_size=1, max_size=3)),
    unique=True,
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=things, kills=st.lists(st.integers(0, 60), max_size=6))
def test_down_removes_everything_however_often_up_and_down_are_killed(
    paper_bed: Beds, monkeypatch: pytest.MonkeyPatch, wanted: list[Thing], kills: list[int]
) -> None:
    bed = paper_bed(name="b")
    store, machine = BedStore("b"), Machine(lives=0)
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        machine.tick()
        real_fsync(descriptor)
        machine.tick()

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        for turn, lives in enumerate(kills):
            machine.lives = lives
            try:
                if turn % 2 == 0 and store.load() is None:
                    machine.up(store, Record(bed), wanted)
                else:
                    machine.down(store)
            except Killed:
                found = store.load()
                assert machine.things <= set(found.things if found else ())
        machine.lives = 10_000
        machine.down(store)
    assert machine.things == set()
    assert not store.path.parent.exists()


@pytest.mark.parametrize("way", list(Way))
def test_a_record_reads_back_as_it_was_written(paper_bed: Beds, way: Way) -> None:
    record = Record(paper_bed(name="b", way=way, nodes=3), (Thing("network", "b"), Thing("mount", "/x")))
    BedStore("b").save(record)
    assert BedStore("b").load() == record


def test_a_bed_of_another_checkout_is_read_by_what_is_known_here(paper_bed: Beds) -> None:
    store, record = BedStore("b"), Record(paper_bed(name="b"))
    store.save(record)
    data = json.loads(store.path.read_text())
    data["bed"]["colour"] = data["bed"]["hosts"][0]["colour"] = "red"
    store.path.write_text(json.dumps(data))
    assert store.load() == record


def test_a_thing_is_on_record_once(paper_bed: Beds) -> None:
    store = BedStore("b")
    store.save(Record(paper_bed(name="b")))
    store.record("container", "b-n1")
    store.record("container", "b-n1")
    assert store.existing().things == (Thing("container", "b-n1"),)


def test_a_missing_bed_is_named_with_those_that_exist(paper_bed: Beds) -> None:
    BedStore("other").save(Record(paper_bed(name="other")))
    assert bed_names() == ["other"]
    with pytest.raises(BedError, match="no bed 'b' .there are: other"):
        BedStore("b").existing()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no record of a bed .*testbed down b"),
        ("[]", "no record of a bed"),
        ('{"format": 1}', "no record of a bed"),
        ('{"format": 1, "things": [1], "bed": {}}', "no record of a bed"),
        ('{"format": 99}', "format 99, expected 1; .*testbed down b"),
    ],
)
def test_a_spoilt_record_is_named(cache: Path, text: str, message: str) -> None:
    store = BedStore("b")
    store.path.parent.mkdir(parents=True)
    store.path.write_text(text)
    with pytest.raises(BedError, match=message):
        store.load()


def test_an_unknown_host_is_refused_with_those_there_are(paper_bed: Beds) -> None:
    bed = paper_bed(name="b")
    assert bed.host("b-n2") == bed.host("n2")
    with pytest.raises(BedError, match="no host 'n9'; it has ctl kube n1 n2"):
        bed.host("n9")


def test_a_lock_names_its_holder(cache: Path) -> None:
    with (
        file_lock("x", timeout=1, what="bed 'x'"),
        pytest.raises(BedError, match=f"bed 'x': process {os.getpid()} is working on it"),
        file_lock("x", timeout=0, what="bed 'x'"),
    ):
        pytest.fail("two holders of one lock")


HOLDER = """
import sys
from testbed.run import run
from testbed.state import file_lock
with file_lock("x", timeout=1, what="x"):
    run(["sh", "-c", 'touch "$1/runs"; until test -e "$1/end"; do sleep 0.05; done', "sh", sys.argv[1]], timeout=60)
"""


def test_a_lock_outlives_its_killed_holder_until_the_last_command_has_ended(cache: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(api.TESTS)}
    try:
        with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], env=environment) as holder:
            while not (tmp_path / "runs").exists():
                assert holder.poll() is None
                time.sleep(0.05)
            holder.send_signal(signal.SIGKILL)
        with pytest.raises(BedError, match="is working on it"), file_lock("x", timeout=0, what="x"):
            pytest.fail("the command of the killed holder still runs")
    finally:
        (tmp_path / "end").touch()
    with file_lock("x", timeout=120, what="x"):
        pass
