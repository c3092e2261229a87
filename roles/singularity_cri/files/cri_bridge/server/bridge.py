# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serves CRI v1 and forwards to CRI v1alpha2: calls in, calls out, and what stands between them.

Messages pass as bytes. A call that the kubelet gives up is given up at the runtime too; deadline, status code, details
and metadata pass on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Awaitable, Callable, Final, Mapping

import grpc
from google.protobuf.message import DecodeError

from cri_bridge import translation
from cri_bridge.cache.answer_cache import AnswerCache
from cri_bridge.cache.processes import Processes
from cri_bridge.host.memory import Trimmer
from cri_bridge.server.metrics import Metrics
from cri_bridge.wire.methods import SERVED, Changes, Kept, Method, Way

LOG = logging.getLogger("cri_bridge")
# As the kubelet and containerd have it, in both directions.
MOST_BYTES: Final = 16 * 1024 * 1024
_SIZES: Final = (("grpc.max_receive_message_length", MOST_BYTES), ("grpc.max_send_message_length", MOST_BYTES))
# A runtime that starts again is found soon: grpc itself would wait up to two minutes between tries.
_RECONNECTION: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
# A Go server refuses the authority that grpc makes of a socket's path.
TO_RUNTIME: Final = (
    *_SIZES,
    *_RECONNECTION,
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
TO_KUBELET: Final = (*_SIZES, ("grpc.so_reuseport", 0))
Context = Any  # grpc.aio.ServicerContext of bytes


class _Refusal(Exception):
    """A call is to end with this status code, these details and this metadata."""

    def __init__(self, code: grpc.StatusCode, details: str, trailing: tuple[tuple[str, str | bytes], ...] = ()) -> None:
        super().__init__(details)
        self.code = code
        self.details = details
        self.trailing = trailing


class Bridge:
    """The calls of one kubelet to one runtime."""

    def __init__(
        self,
        *,
        channel: grpc.aio.Channel,
        seccomp_profile: str,
        cache_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics = Metrics()
        self._channel = channel
        self._clock = clock
        self._requests = translation.requests(seccomp_profile)
        self._cache = AnswerCache(seconds=cache_seconds, clock=clock)
        self._processes = Processes(ask=self.ask, ended=self._ended)
        self._memory = Trimmer()
        self._keeping = cache_seconds > 0
        self._calls: dict[str, Any] = {
            method.name: channel.unary_unary(method.called) for method in SERVED.values() if method.way is Way.FORWARD
        }

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what the server calls for each method."""
        return _Handlers({path: self._handle(method) for path, method in SERVED.items()})

    async def ask(self, method: str, request: bytes, seconds: float) -> bytes:
        """Ask the runtime on the bridge's own account; raise LookupError for an object that it does not know."""
        try:
            answer: bytes = await self._calls[method](request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise LookupError(error.details()) from error
            raise
        return answer

    async def healthy(self, seconds: float = 2.0) -> str:
        """Return why the runtime does not answer, or nothing."""
        try:
            await self.ask("Version", b"", seconds)
        except (grpc.aio.AioRpcError, LookupError) as error:
            return said(error)
        return ""

    async def follow_connection(self) -> None:
        """Forget all kept answers whenever the connection to the runtime is lost; runs until it is cancelled."""
        state = self._channel.get_state(try_to_connect=True)
        while True:
            await self._channel.wait_for_state_change(state)
            before, state = state, self._channel.get_state(try_to_connect=True)
            if before is grpc.ChannelConnectivity.READY:
                LOG.warning("the connection to the runtime is lost")
                self._lost()
            elif state is grpc.ChannelConnectivity.READY:
                LOG.info("connected to the runtime")

    def gauges(self) -> Mapping[str, tuple[str, float]]:
        """Return what the bridge holds now."""
        return {
            "cached_answers": ("Answers that are kept.", len(self._cache)),
            "watched_processes": ("Processes of pods that are watched.", len(self._processes)),
        }

    def _lost(self) -> None:
        self._cache.clear()
        self._processes.forget()

    def _ended(self) -> None:
        self._cache.forget(Changes.STATE)

    def _handle(self, method: Method) -> Callable[[bytes, Context], Awaitable[bytes]]:
        answer = {Way.FORWARD: self._forward, Way.ANSWER: self._answer, Way.REFUSE: self._refuse}[method.way]

        async def counted(request: bytes, context: Context) -> bytes:
            begin = self._clock()
            code = "UNKNOWN"
            refusal = None
            try:
                given = await answer(method, request, context)
                code = "OK"
            except _Refusal as error:
                refusal, code = error, error.code.name
            except asyncio.CancelledError:
                code = "CANCELLED"
                raise
            finally:
                self.metrics.called(method.name, code, self._clock() - begin)
            # A call is counted before the kubelet has its answer, so a scrape after the answer shows it.
            if refusal is not None:
                await context.abort(refusal.code, refusal.details, refusal.trailing)
            return given

        return counted

    async def _answer(self, method: Method, request: bytes, context: Context) -> bytes:
        return translation.runtime_config()

    async def _refuse(self, method: Method, request: bytes, context: Context) -> bytes:
        text = f"cri_bridge: the runtime speaks CRI v1alpha2, which has no {method.name}"
        raise _Refusal(grpc.StatusCode.UNIMPLEMENTED, text)

    async def _forward(self, method: Method, request: bytes, context: Context) -> bytes:
        kept = self._keeping and method.kept is not Kept.NOT
        if kept:
            known = self._cache.given(method, request)
            if known is not None:
                self.metrics.hit(method.name)
                return known
            asked = self._cache.asked(method, request)
        rewritten = _rewritten(self._requests.get(method.name), request, grpc.StatusCode.INVALID_ARGUMENT)
        received = await self._send(method, rewritten, context)
        self._memory.passed(len(request) + len(received))
        answer = _rewritten(translation.ANSWERS.get(method.name), received, grpc.StatusCode.INTERNAL)
        if kept:
            settled = method.kept is Kept.SETTLED and self._processes.settles(method.name, request, answer)
            self._cache.keep(asked, answer, settled=settled)
        return answer

    async def _send(self, method: Method, request: bytes, context: Context) -> bytes:
        """Ask the runtime for the kubelet: in the kubelet's time, and with its metadata."""
        well = False
        self._cache.begin(method.changes)
        try:
            answer: bytes = await self._calls[method.name](
                request, timeout=context.time_remaining(), metadata=_passed(context.invocation_metadata())
            )
            well = True
        except grpc.aio.AioRpcError as error:
            raise _Refusal(error.code(), error.details() or "", _passed(error.trailing_metadata())) from error
        finally:
            self._cache.end(method.changes, well=well)
        return answer


def _rewritten(rewrite: translation.Rewrite | None, data: bytes, otherwise: grpc.StatusCode) -> bytes:
    if rewrite is None:
        return data
    try:
        return rewrite(data)
    except (DecodeError, translation.Unreadable) as error:
        raise _Refusal(otherwise, f"cri_bridge: cannot read the message: {error}") from error


def _passed(metadata: Any) -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata that is not gRPC's own."""
    return tuple((key, value) for key, value in metadata or () if not key.startswith(("grpc-", "user-agent", ":")))


def said(error: Exception) -> str:
    """Return an error in one line."""
    if isinstance(error, (grpc.aio.AioRpcError, grpc.Call)):
        return f"{error.code().name}: {' '.join((error.details() or '').split())}"
    return " ".join(str(error).split())


class _Handlers(grpc.GenericRpcHandler):
    """Finds a method's handler by its path; grpc answers UNIMPLEMENTED for every other path."""

    def __init__(self, calls: Mapping[str, Callable[[bytes, Context], Awaitable[bytes]]]) -> None:
        self._handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            path: grpc.unary_unary_rpc_method_handler(call) for path, call in calls.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        return self._handlers.get(handler_call_details.method)
