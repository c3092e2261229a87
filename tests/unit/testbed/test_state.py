# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a bed survives a kill at any point, and everything can be removed, with a record or without one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from testbed import api, down, network, parallel, podman, sysctls
from testbed.cgroups import Way
from testbed.errors import BedError
from testbed.paths import bed_dir
from testbed.podman import ContainerSpec, Podman
from testbed.run import Completed
from testbed.state import Bed, BedStore, bed_names, file_lock

Beds = Callable[..., Bed]


class Killed(BaseException):
    """Stands for kill -9: nothing below may catch it."""


class Engine:
    """What exists on a machine, and a power supply that fails at a chosen moment.

    It answers podman, umount, ip and iptables as `testbed` calls them. A container is first in the storage alone, where
    it has a name and nothing else, and is podman's a moment later. The link and the rule of a network stay when its
    last container goes.
    """

    def __init__(self) -> None:
        self.containers: set[str] = set()
        self.networks: dict[str, dict[str, str]] = {}
        self.subnets: dict[str, str] = {}
        self.links: set[str] = set()
        self.rules: list[str] = []
        self.mounts: list[str] = []
        self.sysctls: set[str] = set()
        self.lives = 0

    def tick(self) -> None:
        """One more moment at which a kill may come."""
        self.lives -= 1
        if self.lives < 0:
            raise Killed

    def run(self, argv: Sequence[str], **_settings: object) -> Completed:
        words = list(argv)[list(argv).index("podman") + 1 :] if "podman" in argv else list(argv)
        self.tick()
        out = self.answer(words)
        self.tick()
        return Completed(0, out, "")

    def answer(self, words: list[str]) -> str:
        match words:
            case ["create", "--name", name, *_]:
                self.containers.add(name)
            case ["ps", "--all", "--external", *_]:
                # The filter holds for podman's own only, and what a kill has left is not its own.
                return json.dumps([{"Names": [name]} for name in sorted(self.containers)])
            case ["rm", *_, name]:
                self.containers.discard(name)
            case ["network", "create", *_, name]:
                labels = (words[at + 1] for at, word in enumerate(words) if word == "--label")
                self.networks[name] = dict(label.split("=") for label in labels)
                self.subnets[name] = words[words.index("--subnet") + 1]
                self.links.add(f"podman-{name}")
                self.rules.append(f"-A POSTROUTING -s {self.subnets[name]} -j NETAVARK-{name}")
            case ["network", "inspect", name]:
                return json.dumps(
                    [{"network_interface": f"podman-{name}", "subnets": [{"subnet": self.subnets[name]}]}]
                )
            case ["iptables-save", "--table", table]:
                return "\n".join(self.rules if table == "nat" else [])
            case ["iptables", "--wait", _, "--table", "nat", "--delete", *rule]:
                self.rules.remove(" ".join(["-A", *rule]))
            case ["iptables", "--wait", _, "--table", "nat", "--flush" | "--delete-chain", _]:
                return ""
            case ["ip", "-json", "link"]:
                return json.dumps([{"ifname": name} for name in sorted(self.links)])
            case ["ip", "link", "delete", name]:
                self.links.remove(name)
            case ["network", "ls", "--filter", wanted, *_]:
                key, _equal, value = wanted.removeprefix("label=").partition("=")
                found = [(name, labels) for name, labels in self.networks.items() if labels.get(key) == value]
                return json.dumps([{"name": name, "labels": labels} for name, labels in found])
            case ["network", "exists", _]:
                return ""
            case ["network", "rm", *_, name]:
                del self.networks[name]
            case ["umount", "--lazy", path]:
                self.mounts.remove(path)
            case _:
                pytest.fail(f"the engine was not told of {words}")
        return ""

    def up(self, store: BedStore, bed: Bed) -> None:
        """Make all that a bed has, in the order of `up`."""
        store.save(bed)
        self.tick()
        self.sysctls.add(bed.name)
        self.tick()
        for part in ("namespace", "namespace/mnt"):
            self.mounts.append(str(bed.dir / part))
            self.tick()
        podman = Podman(bed.way)
        podman.network_create(bed.network, subnet=bed.subnet, gateway=bed.gateway)
        for host in bed.hosts:
            podman.create(ContainerSpec(host.container, host.name, "image", bed.network, host.ip))

    def left(self) -> set[str]:
        return {*self.containers, *self.networks, *self.links, *self.rules, *self.mounts, *self.sysctls}


OTHERS = {"b-n1-n1", "b-x-ctl", "a-n1", "bb-n1", "b-"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kills=st.lists(st.integers(0, 60), max_size=6), spoilt=st.booleans())
def test_down_removes_everything_however_often_up_and_down_are_killed(
    paper_bed: Beds, monkeypatch: pytest.MonkeyPatch, kills: list[int], spoilt: bool
) -> None:
    bed, engine, real_fsync = paper_bed(name="b"), Engine(), os.fsync
    store = BedStore("b")
    engine.containers |= OTHERS
    engine.networks["of-another"] = {podman.LABEL: "other"}
    engine.networks["of-another-cache"] = {podman.LABEL: "b", podman.CACHE_LABEL: "/else"}
    engine.mounts.append(str(bed_dir("b-x") / "namespace"))
    known = engine.left()

    def fsync(descriptor: int) -> None:
        engine.tick()
        real_fsync(descriptor)
        engine.tick()

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        patched.setattr(podman, "run", engine.run)
        patched.setattr(down, "run", engine.run)
        patched.setattr(network, "run", engine.run)
        patched.setattr(down, "mounts", lambda: list(engine.mounts))
        patched.setattr(sysctls, "release", engine.sysctls.discard)
        patched.setattr(parallel, "AT_ONCE", 1)
        Podman(bed.way).storage_dir.mkdir(parents=True, exist_ok=True)
        for turn, lives in enumerate(kills):
            engine.lives = lives
            with contextlib.suppress(Killed):
                if turn % 2 == 0 and not bed_dir("b").exists():
                    engine.up(store, bed)
                else:
                    down.remove(store)
            assert engine.left() == known or bed_dir("b").exists()
        if spoilt and store.path.exists():
            store.path.write_text("{")
        engine.lives = 10_000
        down.remove(store)
    assert engine.left() == known
    assert not bed_dir("b").exists()


GONE = Completed(125, "", "Error: determining buildah container for container 0a1b: container not known")
REFUSED = Completed(125, "", "Error: database is locked")


def test_containers_are_listed_again_when_one_of_another_bed_goes_meanwhile(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Completed(0, json.dumps([{"Names": ["b-n1"]}, {"Names": ["c-n1"]}, {"Names": None}]), "")
    answers = iter([GONE, GONE, listed])
    monkeypatch.setattr(podman, "run", lambda _argv, **_settings: next(answers))
    assert Podman(Way.V1).all_names("b-") == ["b-n1"]
    assert not list(answers)


@pytest.mark.parametrize(("answer", "times"), [(REFUSED, 1), (GONE, podman.LISTINGS)])
def test_what_podman_refuses_is_said_and_no_list_of_containers(
    cache: Path, monkeypatch: pytest.MonkeyPatch, answer: Completed, times: int
) -> None:
    asked = []

    def run(argv: Sequence[str], *, check: bool, **_settings: object) -> Completed:
        asked.append(argv)
        assert not check
        return answer

    monkeypatch.setattr(podman, "run", run)
    with pytest.raises(BedError, match=answer.err):
        Podman(Way.V1).all_names("b-")
    assert len(asked) == times


@pytest.mark.parametrize("way", list(Way))
def test_a_record_reads_back_as_it_was_written(paper_bed: Beds, way: Way) -> None:
    bed = paper_bed(name="b", way=way, nodes=3)
    BedStore("b").save(bed)
    assert BedStore("b").load() == bed


def test_a_bed_of_another_checkout_is_read_by_what_is_known_here(paper_bed: Beds) -> None:
    store, bed = BedStore("b"), paper_bed(name="b")
    store.save(bed)
    data = json.loads(store.path.read_text())
    data["bed"]["colour"] = data["bed"]["hosts"][0]["colour"] = "red"
    store.path.write_text(json.dumps(data))
    assert store.load() == bed


def test_a_missing_bed_is_named_with_those_that_exist(paper_bed: Beds) -> None:
    BedStore("other").save(paper_bed(name="other"))
    assert bed_names() == ["other"]
    with pytest.raises(BedError, match="no bed 'b' .there are: other"):
        BedStore("b").existing()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no record of a bed .*testbed down b"),
        ("[]", "no record of a bed"),
        ('{"format": 1}', "no record of a bed"),
        ('{"format": 1, "bed": {}}', "no record of a bed"),
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
