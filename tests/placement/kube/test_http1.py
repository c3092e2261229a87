# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server's HTTP, however it comes."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement.kube.transport.credentials import Endpoint
from placement.kube.transport.http1 import Connection, HttpError, NoAnswer, TooLong
from placement_kit.fake_api import answer, chunked, served


@contextmanager
def connected(server, timeout: float = 300.0, idle_limit: float = 300.0) -> Iterator[Connection]:
    client = Connection(server, timeout=timeout, idle_limit=idle_limit)
    try:
        yield client
    finally:
        client.close()


def raises_timeout():
    return pytest.raises(NoAnswer, match="timed out")


def cut(data: bytes, places: list[int]) -> list[bytes | None]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[left:right] for left, right in itertools.pairwise(edges)]


@settings(max_examples=max(10, settings().max_examples * 2 // 5))
@given(
    lines=st.lists(st.binary(min_size=1, max_size=40).map(lambda b: b.replace(b"\n", b"x")), max_size=8),
    chunk=st.integers(1, 50),
    places=st.lists(st.integers(0, 10_000), max_size=6),
)
def test_a_watch_gives_the_same_lines_however_it_is_cut(lines, chunk, places):
    body = b"".join(line + b"\n" for line in lines)
    stream = chunked(body[start : start + chunk] for start in range(0, len(body), chunk))
    with served(cut(stream, places)) as server, connected(server) as client:
        found = [line for group in client.lines("/watch") for line in group]
    assert found == lines


@pytest.mark.parametrize("body", [b"", b"{}", b"x" * 300_000])
def test_two_answers_come_over_one_connection(body):
    with served([answer(body)], [chunked([body[:7], body[7:]])]) as server, connected(server) as client:
        assert client.request("GET", "/a").body == body
        assert client.request("GET", "/b").body == body


def test_a_kept_connection_that_was_closed_is_opened_again_for_reading():
    with served([answer(b"1"), b""], [answer(b"2")]) as server, connected(server) as client:
        assert client.request("GET", "/a").body == b"1"
        assert client.request("GET", "/b").body == b"2"


def test_a_write_that_met_a_closed_connection_may_have_landed_and_is_not_repeated():
    with served([answer(b"1")], [b""], [answer(b"2")]) as server, connected(server) as client:
        client.request("GET", "/a")
        with pytest.raises(NoAnswer) as caught:
            client.request("POST", "/b", b"{}")
    assert caught.value.sent
    assert len(server.requests) == 2


def test_nothing_was_sent_where_nobody_listens():
    with served() as server:
        endpoint = server.endpoint()
    with pytest.raises(NoAnswer) as caught:
        Connection(type("Gone", (), {"endpoint": lambda self: endpoint})(), timeout=1).request("POST", "/", b"{}")
    assert not caught.value.sent


def test_silence_ends_a_request():
    with served([b"HTTP/1.1 200 OK\r\nContent-Le", None]) as server, connected(server, 0.2) as client, raises_timeout():
        client.request("GET", "/")


def test_silence_ends_a_watch():
    started = chunked([b'{"a":1}\n'])[:-5]
    with served([started, None]) as server, connected(server) as client:
        lines = client.lines("/watch")
        assert [line for _unused in range(2) for line in next(lines)] == [b'{"a":1}']
        client._socket.settimeout(0.2)
        with raises_timeout():
            next(lines)


def test_a_watch_that_ended_as_it_should_leaves_its_connection_to_the_next():
    with served([chunked([b"1\n"])], [chunked([b"2\n"])]) as server, connected(server) as client:
        for number in (b"1", b"2"):
            assert [line for group in client.lines("/watch") for line in group] == [number]
    assert server.connections == 1


def test_a_watch_that_is_left_early_takes_its_connection_along():
    with served([chunked([b"1\n", b"2\n"])], [answer(b"3")]) as server, connected(server) as client:
        lines = client.lines("/watch")
        next(lines)
        lines.close()
        assert client.request("GET", "/a").body == b"3"
    assert server.connections == 2


@pytest.mark.parametrize(("idle_limit", "connections"), [(300.0, 1), (0.0, 2)])
def test_a_connection_that_was_idle_for_long_is_not_trusted_with_a_write(idle_limit, connections):
    with served([answer(b"1")], [answer(b"2")]) as server, connected(server, idle_limit=idle_limit) as client:
        for body in (b"1", b"2"):
            assert client.request("POST", "/a", b"{}").body == body
    assert server.connections == connections


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_whom_the_server_does_not_know_any_more_it_sees_with_new_credentials_next_time(method):
    class Rotating:
        def __init__(self, server) -> None:
            self._server = server
            self._tokens = ["old", "new"]

        def endpoint(self) -> Endpoint:
            return replace(self._server.endpoint(), authorization=f"Bearer {self._tokens.pop(0)}")

    with (
        served([answer(b"", 200)], [answer(b"", 401)], [answer(b"", 200)]) as server,
        connected(Rotating(server)) as client,
    ):
        assert [client.request(method, "/lease", b"{}").status for _unused in range(3)] == [200, 401, 200]
    assert [b"Bearer new" in head for head in server.requests] == [False, False, True]


def test_a_watch_that_is_refused_says_with_what():
    with served([answer(b"too old", 410)]) as server, connected(server) as client, pytest.raises(HttpError) as caught:
        next(client.lines("/watch"))
    assert caught.value.answer.status == 410


def test_the_server_may_ask_for_time():
    with served([answer(b"", 429, "Retry-After: 7")]) as server, connected(server) as client:
        assert client.request("GET", "/").retry_after == 7


@pytest.mark.parametrize("rubbish", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * 70_000])
def test_what_is_no_http_is_no_answer(rubbish):
    with served([rubbish, b""]) as server, connected(server) as client, pytest.raises(NoAnswer):
        client.request("GET", "/")


# What a proxy that speaks HTTP/1.0 behind says of a body that ends with its connection, and what it may not say.
CLOSING = ["HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n"]


@pytest.mark.parametrize("head", CLOSING)
def test_a_body_without_a_length_ends_with_its_connection(head):
    body = b'{"items":' + b" " * 300_000 + b"[]}"
    with served([head.encode(), body[:9], body[9:], b""], [answer(b"2")]) as server, connected(server) as client:
        assert client.request("GET", "/a").body == body
        assert client.request("POST", "/b", b"{}").body == b"2"
    assert server.connections == 2


def test_a_watch_without_a_length_ends_with_its_connection_and_what_it_broke_off_is_no_line():
    stream = CLOSING[0].encode() + b"1\n2\n"
    with served([stream, b"3\n4", b""], [chunked([b"5\n"])]) as server, connected(server) as client:
        for numbers in ([b"1", b"2", b"3"], [b"5"]):
            assert [line for group in client.lines("/watch") for line in group] == numbers


def test_a_body_without_a_length_may_not_stop_without_an_end():
    with served([CLOSING[0].encode() + b"{", None]) as server, connected(server, 0.2) as client, raises_timeout():
        client.request("GET", "/")


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_can_have_no_body_is_not_waited_for(status):
    bare = f"HTTP/1.1 {status} Whatever\r\n\r\n".encode()
    with served([bare], [answer(b"2")]) as server, connected(server) as client:
        assert (client.request("DELETE", "/a").status, client.request("DELETE", "/b").body) == (status, b"2")
    assert server.connections == 1


def test_interim_answers_are_passed_over():
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    with served([interim, interim + answer(b"1")], [interim * 9]) as server, connected(server) as client:
        assert client.request("GET", "/a").body == b"1"
        with pytest.raises(NoAnswer, match="interim"):
            client.request("POST", "/b", b"{}")


@pytest.mark.parametrize("header", ["Content-Length: -1", "Content-Length: 1, 2", "Transfer-Encoding: gzip, chunked"])
def test_a_body_whose_end_cannot_be_told_is_no_answer(header):
    head = f"HTTP/1.1 200 OK\r\n{header}\r\n\r\n".encode()
    with served([head, b""]) as server, connected(server) as client, pytest.raises(NoAnswer):
        client.request("GET", "/")


def test_a_line_that_is_too_long_is_told_from_other_failures(monkeypatch):
    monkeypatch.setattr("placement.kube.transport.http1.MAX_LINE", 1000)
    with served([chunked([b"1\n", b"x" * 900, b"x" * 900])]) as server, connected(server) as client:
        lines = client.lines("/watch")
        with pytest.raises(TooLong):
            list(lines)
