# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of pods that cri_bridge answers by itself, on the wire: real processes stand for containers."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cri_bridge.cache.processes import pid_of
from cri_bridge.wire.methods import METHODS, SERVED, Changes
from cri_kit.definitions import V1ALPHA2, message_class
from cri_kit.runtime import PATIENCE, Running, Runtime, bridge, free_port

PATHS = {method.name: path for path, method in SERVED.items()}
LISTS = ("ListPodSandbox", "ListContainers")
STATUSES = {"PodSandboxStatus": "pod_sandbox_id", "ContainerStatus": "container_id"}
# So short that an answer which is not settled is asked for again, and not zero, which turns everything off.
SHORT = ("--cache-seconds", "0.000001")
LONG = ("--cache-seconds", "60")


class Pods:
    """Sandboxes and containers of a runtime, each of which is a process that sleeps."""

    def __init__(self, runtime: Runtime, *, containerd: bool = False) -> None:
        self.processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self.left_out: set[str] = set()
        self.without_number: set[str] = set()
        self._containerd = containerd
        runtime.answers["ListPodSandbox"] = lambda request, _: self._list("PodSandboxStatus")
        runtime.answers["ListContainers"] = lambda request, _: self._list("ContainerStatus")
        for kind in STATUSES:
            runtime.answers[kind] = lambda request, context, kind=kind: self._status(kind, request, context)

    def start(self, kind: str, name: str) -> subprocess.Popen[bytes]:
        self.processes[kind, name] = made = subprocess.Popen(["sleep", "600"])
        return made

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait(PATIENCE)

    def _state(self, kind: str, name: str) -> int:
        lives = self.processes[kind, name].poll() is None
        return {"PodSandboxStatus": 0 if lives else 1, "ContainerStatus": 1 if lives else 2}[kind]

    def _list(self, kind: str) -> bytes:
        word, field = {"PodSandboxStatus": ("PodSandbox", "items"), "ContainerStatus": ("Containers", "containers")}[
            kind
        ]
        answer = message_class(V1ALPHA2, f"List{word}Response")()
        for each, name in list(self.processes):
            if each == kind and name not in self.left_out:
                getattr(answer, field).add(id=name, state=self._state(kind, name))
        data: bytes = answer.SerializeToString()
        return data

    def _status(self, kind: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        asked = message_class(V1ALPHA2, f"{kind}Request").FromString(request)
        name = getattr(asked, STATUSES[kind])
        if (kind, name) not in self.processes:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{name} is not found")
        answer = message_class(V1ALPHA2, f"{kind}Response")()
        answer.status.id, answer.status.state = name, self._state(kind, name)
        number = 0 if name in self.without_number else self.processes[kind, name].pid
        if asked.verbose:
            answer.info.update({"info": json.dumps({"pid": number})} if self._containerd else {"pid": str(number)})
        data: bytes = answer.SerializeToString()
        return data


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    made = Runtime(tmp_path / "runtime.sock")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def pods(runtime: Runtime) -> Iterator[Pods]:
    made = Pods(runtime)
    yield made
    made.end()


@pytest.fixture
def running(runtime: Runtime, tmp_path: Path) -> Iterator[Running]:
    with bridge(tmp_path, runtime.address, *SHORT) as made:
        yield made


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit, "what was waited for did not come"
        time.sleep(0.02)


def is_given_again(running: Running, runtime: Runtime, method: str, request: bytes = b"") -> bool:
    """Call twice; return whether the runtime heard nothing of the second call."""
    running.call(PATHS[method], request)
    before = runtime.calls(method)
    running.call(PATHS[method], request)
    return runtime.calls(method) == before


def settle(running: Running, runtime: Runtime) -> None:
    until(lambda: all(is_given_again(running, runtime, method) for method in LISTS))


@pytest.mark.parametrize("containerd", [False, True], ids=["as Singularity-CRI", "as containerd"])
def test_lists_are_given_again_while_the_processes_of_all_pods_run(
    containerd: bool, runtime: Runtime, tmp_path: Path
) -> None:
    pods = Pods(runtime, containerd=containerd)
    with bridge(tmp_path, runtime.address, *SHORT) as running:
        for number in range(5):
            pods.start("PodSandboxStatus", f"s{number}")
            pods.start("ContainerStatus", f"c{number}")
        settle(running, runtime)
        request = message_class(V1ALPHA2, "ContainerStatusRequest")(container_id="c3").SerializeToString()
        assert is_given_again(running, runtime, "ContainerStatus", request)
        pods.end()


@pytest.mark.parametrize("kind", STATUSES)
def test_the_end_of_a_process_is_seen_without_a_question(
    kind: str, pods: Pods, runtime: Runtime, tmp_path: Path
) -> None:
    pods.start("PodSandboxStatus", "s")
    pods.start("ContainerStatus", "c")
    port = free_port()
    with bridge(tmp_path, runtime.address, *SHORT, "--metrics", f"127.0.0.1:{port}") as running:
        settle(running, runtime)
        process = pods.processes[kind, {"PodSandboxStatus": "s", "ContainerStatus": "c"}[kind]]
        process.kill()
        process.wait(PATIENCE)
        until(lambda: gauge(port, "cached_answers") == 0)
        assert gauge(port, "watched_processes") == 1


def gauge(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    return float(next(line for line in text.splitlines() if line.startswith(f"cri_bridge_{name} ")).split()[1])


@pytest.mark.parametrize("kind", STATUSES)
def test_the_next_list_shows_what_has_ended_and_is_settled_again(
    kind: str, pods: Pods, running: Running, runtime: Runtime
) -> None:
    pods.start("PodSandboxStatus", "s")
    pods.start("ContainerStatus", "c")
    settle(running, runtime)
    process = pods.processes[kind, {"PodSandboxStatus": "s", "ContainerStatus": "c"}[kind]]
    process.kill()
    process.wait(PATIENCE)
    method = {"PodSandboxStatus": "ListPodSandbox", "ContainerStatus": "ListContainers"}[kind]
    field = {"PodSandboxStatus": "items", "ContainerStatus": "containers"}[kind]
    ended = {"PodSandboxStatus": 1, "ContainerStatus": 2}[kind]

    def shows_it() -> bool:
        data = running.call(PATHS[method])
        answer = message_class(V1ALPHA2, f"{method}Response").FromString(data)
        return [each.state for each in getattr(answer, field)] == [ended]

    until(shows_it)
    # What has ended changes no more.
    settle(running, runtime)


def test_a_container_without_a_process_number_is_asked_for_each_time(
    pods: Pods, running: Running, runtime: Runtime
) -> None:
    pods.without_number.add("c")
    pods.start("ContainerStatus", "c")
    pods.start("ContainerStatus", "other")
    # The control: the other container is watched in the end, so nothing else keeps the list from being settled.
    until(lambda: is_given_again(running, runtime, "ContainerStatus", status_of("other")))
    assert not any(is_given_again(running, runtime, "ListContainers") for _unused in range(20))


def status_of(name: str) -> bytes:
    data: bytes = message_class(V1ALPHA2, "ContainerStatusRequest")(container_id=name).SerializeToString()
    return data


def test_a_list_that_leaves_out_a_live_container_is_not_given_again(
    pods: Pods, running: Running, runtime: Runtime
) -> None:
    pods.start("ContainerStatus", "a")
    pods.start("ContainerStatus", "b")
    settle(running, runtime)
    pods.left_out.add("b")
    running.call(PATHS["StartContainer"])  # makes the kept list void
    assert not any(is_given_again(running, runtime, "ListContainers") for _unused in range(20))
    pods.left_out.clear()
    until(lambda: is_given_again(running, runtime, "ListContainers"))


@pytest.mark.parametrize(
    ("what", "whole"),
    [
        ({}, True),
        ({"state": {"state": 1}}, True),
        ({"state": {"state": 2}}, False),
        ({"label_selector": {"a": "b"}}, False),
        ({"id": "c"}, False),
    ],
    ids=str,
)
def test_only_a_list_of_all_that_runs_can_be_settled(
    what: dict[str, Any], whole: bool, pods: Pods, running: Running, runtime: Runtime
) -> None:
    pods.start("PodSandboxStatus", "s")
    pods.start("ContainerStatus", "c")
    settle(running, runtime)
    request = message_class(V1ALPHA2, "ListContainersRequest")(filter=what).SerializeToString()
    if whole:
        until(lambda: is_given_again(running, runtime, "ListContainers", request))
    else:
        assert not any(is_given_again(running, runtime, "ListContainers", request) for _unused in range(20))


def test_the_process_of_a_container_that_is_gone_is_watched_no_more(
    pods: Pods, running: Running, runtime: Runtime
) -> None:
    pods.start("ContainerStatus", "a")
    pods.start("ContainerStatus", "b")
    settle(running, runtime)
    kept = pods.processes.pop(("ContainerStatus", "b"))  # its process runs on, as one that the runtime has let go
    running.call(PATHS["RemoveContainer"])
    until(lambda: is_given_again(running, runtime, "ListContainers"))
    kept.kill()
    kept.wait(PATIENCE)


def test_a_runtime_that_starts_again_is_asked_anew(runtime: Runtime, tmp_path: Path) -> None:
    with bridge(tmp_path, runtime.address, *LONG) as running:
        for method in ("Version", *LISTS, "ListImages"):
            assert is_given_again(running, runtime, method)
        runtime.stop()
        until(lambda: fails(lambda: running.call(PATHS["Status"])))
        runtime.start()
        until(lambda: not fails(lambda: running.call(PATHS["Status"])))
        runtime.received.clear()
        for method in ("Version", *LISTS, "ListImages"):
            running.call(PATHS[method])
        assert {each.method for each in runtime.received} >= {"Version", *LISTS, "ListImages"}


def fails(call: Callable[[], Any]) -> bool:
    try:
        call()
    except grpc.RpcError:
        return True
    return False


@pytest.mark.parametrize("name", [each.name for each in METHODS if each.changes is Changes.STATE])
def test_after_each_call_that_changes_pods_the_runtime_is_asked_anew(
    name: str, runtime: Runtime, tmp_path: Path
) -> None:
    with bridge(tmp_path, runtime.address, *LONG) as running:
        for method in ("ListContainers", "ListImages"):
            assert is_given_again(running, runtime, method)
        running.call(PATHS[name])
        before = runtime.calls("ListContainers"), runtime.calls("ListImages")
        running.call(PATHS["ListContainers"])
        running.call(PATHS["ListImages"])
        assert (runtime.calls("ListContainers"), runtime.calls("ListImages")) == (before[0] + 1, before[1])


def test_an_answer_from_the_middle_of_a_change_is_not_given_after_it(runtime: Runtime, tmp_path: Path) -> None:
    called, go_on = threading.Event(), threading.Event()

    def wait(request: bytes, context: grpc.ServicerContext) -> bytes:
        called.set()
        go_on.wait(PATIENCE)
        return b""

    runtime.answers["StartContainer"] = wait
    with bridge(tmp_path, runtime.address, *LONG) as running:
        call = running.channel.unary_unary(PATHS["StartContainer"]).future(b"", timeout=PATIENCE)
        assert called.wait(PATIENCE)
        assert is_given_again(running, runtime, "ListContainers")
        go_on.set()
        assert call.result(PATIENCE) == b""
        before = runtime.calls("ListContainers")
        running.call(PATHS["ListContainers"])
        assert runtime.calls("ListContainers") == before + 1


def test_an_error_is_not_given_again(runtime: Runtime, tmp_path: Path) -> None:
    def fail(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.INTERNAL, "no")
        return b""

    with bridge(tmp_path, runtime.address, *LONG) as running:
        runtime.answers["ListContainers"] = fail
        assert fails(lambda: running.call(PATHS["ListContainers"]))
        del runtime.answers["ListContainers"]
        running.call(PATHS["ListContainers"])
        assert runtime.calls("ListContainers") == 2


@pytest.mark.parametrize(
    ("info", "number"),
    [
        ({"pid": "12"}, 12),
        ({"info": '{"pid": 13, "removing": false}'}, 13),
        ({"pid": "0"}, 0),
        ({"pid": "many"}, 0),
        ({"info": "no JSON"}, 0),
        ({"info": "[1]"}, 0),
        ({"info": '{"pid": "14"}'}, 0),
        ({}, 0),
    ],
)
def test_the_number_of_a_process_is_read_from_what_runtimes_say(info: dict[str, str], number: int) -> None:
    assert pid_of(info) == number
