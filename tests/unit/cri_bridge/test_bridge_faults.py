# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cri_bridge when something goes wrong: errors, deadlines, large messages, and a side that dies or starts again."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cri_bridge.server.bridge import MOST_BYTES
from cri_kit.runtime import PATIENCE, Running, Runtime, at_once, bridge

STATUS = "/runtime.v1.RuntimeService/Status"
EXEC_SYNC = "/runtime.v1.RuntimeService/ExecSync"
LIST_IMAGES = "/runtime.v1.ImageService/ListImages"
CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    made = Runtime(tmp_path / "runtime.sock")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def running(runtime: Runtime, tmp_path: Path) -> Iterator[Running]:
    with bridge(tmp_path, runtime.address) as made:
        yield made


def code_of(call: Callable[[], Any]) -> grpc.StatusCode:
    """Return the status code that a call ends with."""
    try:
        call()
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()  # type: ignore[attr-defined]
        return code
    return grpc.StatusCode.OK


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit, "what was waited for did not come"
        time.sleep(0.02)


def test_every_status_code_and_its_details_pass(running: Running, runtime: Runtime) -> None:
    for code in CODES:
        details = f"why {code.name}: ünd\nmore"

        def fail(request: bytes, context: grpc.ServicerContext, code: Any = code, details: str = details) -> bytes:
            context.set_trailing_metadata((("reason-bin", b"\0\1"), ("reason", code.name)))
            context.abort(code, details)
            return b""

        runtime.answers["Status"] = fail
        with pytest.raises(grpc.RpcError) as caught:
            running.call(STATUS)
        assert (caught.value.code(), caught.value.details()) == (code, details)
        trailing = dict(caught.value.trailing_metadata())
        assert (trailing["reason"], trailing["reason-bin"]) == (code.name, b"\0\1")


def test_the_metadata_of_a_call_passes(running: Running, runtime: Runtime) -> None:
    running.call(STATUS, metadata=(("traceparent", "00-1-2-01"), ("blob-bin", b"\0\xff")))
    assert runtime.received[0].metadata["traceparent"] == "00-1-2-01"
    assert runtime.received[0].metadata["blob-bin"] == b"\0\xff"


def test_the_runtime_has_the_time_that_the_kubelet_gives(running: Running, runtime: Runtime) -> None:
    running.call(STATUS, timeout=1000)
    running.call(STATUS, timeout=None)
    given = [each.remaining for each in runtime.received]
    assert given[0] is not None
    # gRPC writes a timeout with few digits, and rounds it up.
    assert 1000 - PATIENCE < given[0] <= 1000 * 1.02
    assert given[1] is None


def held(runtime: Runtime, method: str) -> tuple[threading.Event, threading.Event, threading.Event]:
    """Have a method wait; return events: it was called, the call was given up, and let it go on."""
    called, given_up, go_on = threading.Event(), threading.Event(), threading.Event()

    def wait(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(given_up.set)
        called.set()
        go_on.wait(PATIENCE)
        return b""

    runtime.answers[method] = wait
    return called, given_up, go_on


def test_a_call_past_its_deadline_ends_at_the_runtime_too(running: Running, runtime: Runtime) -> None:
    _called, given_up, go_on = held(runtime, "ExecSync")
    assert code_of(lambda: running.call(EXEC_SYNC, timeout=1)) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert given_up.wait(PATIENCE)
    go_on.set()
    assert code_of(lambda: running.call(STATUS)) is grpc.StatusCode.OK


def test_a_call_that_the_kubelet_gives_up_ends_at_the_runtime_too(running: Running, runtime: Runtime) -> None:
    called, given_up, go_on = held(runtime, "ExecSync")
    call = running.channel.unary_unary(EXEC_SYNC).future(b"")
    assert called.wait(PATIENCE)
    call.cancel()
    assert given_up.wait(PATIENCE)
    go_on.set()


def test_a_runtime_that_hangs_in_one_call_answers_others(running: Running, runtime: Runtime) -> None:
    called, _given_up, go_on = held(runtime, "ExecSync")
    call = running.channel.unary_unary(EXEC_SYNC).future(b"", timeout=PATIENCE)
    assert called.wait(PATIENCE)
    assert code_of(lambda: running.call(STATUS)) is grpc.StatusCode.OK
    assert not call.done()
    go_on.set()
    assert call.result(PATIENCE) == b""


def test_messages_of_16_mebibytes_pass_both_ways(running: Running, runtime: Runtime) -> None:
    large = b"\x0a" + bytes(MOST_BYTES - 1)
    runtime.answer("ListImages", large)
    assert running.call(LIST_IMAGES, large) == large
    assert runtime.received[0].request == large


def test_a_larger_message_is_refused_and_the_bridge_goes_on(running: Running, runtime: Runtime) -> None:
    runtime.answer("ListImages", bytes(MOST_BYTES + 1))
    assert code_of(lambda: running.call(LIST_IMAGES)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert code_of(lambda: running.call(LIST_IMAGES, bytes(MOST_BYTES + 1))) is grpc.StatusCode.RESOURCE_EXHAUSTED
    runtime.answer("ListImages", b"")
    assert running.call(LIST_IMAGES) == b""


def test_a_hundred_calls_are_under_way_at_once_and_each_gets_its_own_answer(running: Running, runtime: Runtime) -> None:
    gate = threading.Barrier(100)

    def echo(request: bytes, context: grpc.ServicerContext) -> bytes:
        gate.wait(PATIENCE)
        return request[::-1]

    runtime.answers["ExecSync"] = echo
    requests = [f"call {number} ".encode() * 100 for number in range(100)]
    answers = at_once(100, lambda number: running.call(EXEC_SYNC, requests[number]))
    assert answers == [request[::-1] for request in requests]


def test_a_runtime_that_is_not_there_yet_is_found_when_it_comes(tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "runtime.sock")
    with bridge(tmp_path, runtime.address) as running:
        assert code_of(lambda: running.call(STATUS)) is grpc.StatusCode.UNAVAILABLE
        runtime.start()
        until(lambda: code_of(lambda: running.call(STATUS)) is grpc.StatusCode.OK)
        runtime.stop()


def test_a_runtime_that_dies_in_a_call_ends_it_and_is_found_again(running: Running, runtime: Runtime) -> None:
    called, _given_up, go_on = held(runtime, "ExecSync")
    call = running.channel.unary_unary(EXEC_SYNC).future(b"", timeout=PATIENCE)
    assert called.wait(PATIENCE)
    runtime.stop()
    assert call.exception(PATIENCE).code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    go_on.set()
    assert code_of(lambda: running.call(STATUS)) is grpc.StatusCode.UNAVAILABLE
    runtime.start()
    until(lambda: code_of(lambda: running.call(STATUS)) is grpc.StatusCode.OK)


def test_a_bridge_that_is_killed_leaves_nothing_that_the_next_one_stumbles_on(runtime: Runtime, tmp_path: Path) -> None:
    with bridge(tmp_path, runtime.address) as running:
        running.call(STATUS)
        assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    assert (tmp_path / "bridge.sock").is_socket()
    with bridge(tmp_path, runtime.address) as running:
        running.call(STATUS)
    assert runtime.calls("Status") == 2


def test_the_kubelet_finds_a_bridge_that_has_started_again(runtime: Runtime, tmp_path: Path) -> None:
    with bridge(tmp_path, runtime.address) as first:
        first.call(STATUS)
        first.process.kill()
        first.process.wait(PATIENCE)
        assert code_of(lambda: first.call(STATUS)) is grpc.StatusCode.UNAVAILABLE
        with bridge(tmp_path, runtime.address):
            until(lambda: code_of(lambda: first.call(STATUS)) is grpc.StatusCode.OK)


def test_sigterm_ends_the_bridge_well_and_frees_its_socket(runtime: Runtime, tmp_path: Path) -> None:
    with bridge(tmp_path, runtime.address) as running:
        called, given_up, go_on = held(runtime, "ExecSync")
        call = running.channel.unary_unary(EXEC_SYNC).future(b"", timeout=PATIENCE)
        assert called.wait(PATIENCE)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 0
        assert given_up.wait(PATIENCE)
        assert call.exception(PATIENCE) is not None
        go_on.set()
    assert not (tmp_path / "bridge.sock").exists()


def test_only_root_may_connect(running: Running, tmp_path: Path) -> None:
    assert (tmp_path / "bridge.sock").stat().st_mode & 0o777 == 0o600
    running.call(STATUS)
