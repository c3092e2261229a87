# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of the bridge: socket, server, readiness, signals, end; and the check of a bridge that runs."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from typing import Any, Final

import grpc

from cri_bridge.host import memory
from cri_bridge.host.sockets import OwnSocket, Refused, notify, path_of
from cri_bridge.server import web
from cri_bridge.server.bridge import TO_KUBELET, TO_RUNTIME, Bridge, said
from cri_bridge.wire.methods import BY_NAME

# How long calls under way may take to end after SIGTERM.
GRACE_SECONDS: Final = 3.0
CHECK_SECONDS: Final = 5.0


def run(given: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT; raise Refused if an address cannot be had."""
    memory.use_one_arena()
    os.umask(0o177)  # the socket is root's alone from its first moment
    own = OwnSocket(path_of(given.listen))
    try:
        own.take()
        asyncio.run(_serve(given, own))
    finally:
        own.release()


async def _serve(given: argparse.Namespace, own: OwnSocket) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with contextlib.AsyncExitStack() as stack:
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(given.backend, options=list(TO_RUNTIME)))
        bridge = Bridge(channel=channel, seccomp_profile=given.seccomp_profile or "", cache_seconds=given.cache_seconds)
        server = grpc.aio.server(options=list(TO_KUBELET))
        server.add_generic_rpc_handlers((bridge.handler(),))
        try:
            server.add_insecure_port(given.listen)
        except RuntimeError as error:
            raise Refused(f"cannot listen on {given.listen}: {error}") from error
        own.protect()
        if given.metrics:
            stack.push_async_callback(_closed, await _web(bridge, *given.metrics))
        await server.start()
        stack.push_async_callback(server.stop, GRACE_SECONDS)
        following = asyncio.ensure_future(bridge.follow_connection())
        stack.push_async_callback(_cancelled, following)
        notify(os.environ, "READY=1")
        await stopped.wait()
        notify(os.environ, "STOPPING=1")


async def _web(bridge: Bridge, host: str, port: int) -> asyncio.AbstractServer:
    try:
        return await web.serve(bridge, host, port)
    except OSError as error:
        raise Refused(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


async def _closed(server: asyncio.AbstractServer) -> None:
    server.close()


async def _cancelled(task: asyncio.Future[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def check(address: str) -> int:
    """Ask the bridge there for the runtime's version; return 0 if it answers, otherwise say why not and return 1."""
    path_of(address)
    with grpc.insecure_channel(address, options=list(TO_RUNTIME)) as channel:
        try:
            call: Any = channel.unary_unary(BY_NAME["Version"].served)
            call(b"", timeout=CHECK_SECONDS)
        except grpc.RpcError as error:
            sys.stderr.write(f"cri_bridge: {address} does not answer: {said(error)}\n")
            return 1
    return 0
