# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bridge's own HTTP endpoint: /metrics for Prometheus and /healthz, which asks the runtime."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from cri_bridge.server.bridge import Bridge

REQUEST_SECONDS: Final = 5.0
MOST_HEADERS: Final = 8192
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


async def serve(bridge: Bridge, host: str, port: int) -> asyncio.AbstractServer:
    """Listen on this address; raise OSError if it is in use."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_SECONDS)
            writer.write(await _answer(bridge, head.split(b"\r\n", 1)[0].decode("latin-1")))
            await asyncio.wait_for(writer.drain(), REQUEST_SECONDS)
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=MOST_HEADERS)


async def _answer(bridge: Bridge, line: str) -> bytes:
    words = line.split(" ")
    if len(words) != 3 or words[0] != "GET":
        return _http("405 Method Not Allowed", "only GET\n")
    path = words[1].split("?", 1)[0]
    if path == "/metrics":
        return _http("200 OK", bridge.metrics.text(bridge.gauges()))
    if path == "/healthz":
        reason = await bridge.healthy()
        return (
            _http("503 Service Unavailable", f"the runtime does not answer: {reason}\n")
            if reason
            else _http("200 OK", "ok\n")
        )
    return _http("404 Not Found", "there are /metrics and /healthz\n")


def _http(status: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {_TEXT}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
