# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of sandboxes and containers, watched by the kernel: which objects run, and the moment when one ends.

A pidfd becomes readable when its process ends; it costs nothing until then. The number of the process comes from the
runtime's verbose status. Without pidfd (before Linux 5.3) or without such a number nothing is ever settled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from typing import Awaitable, Callable, Final

from google.protobuf.message import DecodeError

from cri_bridge.wire import messages

LOG = logging.getLogger("cri_bridge")
SANDBOX: Final = "PodSandboxStatus"
CONTAINER: Final = "ContainerStatus"
# A sandbox that is ready, a container that runs, and what has ended for good, by the query of one object.
_LIVE: Final = {
    SANDBOX: messages.number("PodSandboxState", "SANDBOX_READY"),
    CONTAINER: messages.number("ContainerState", "CONTAINER_RUNNING"),
}
_ENDED: Final = {
    SANDBOX: messages.number("PodSandboxState", "SANDBOX_NOTREADY"),
    CONTAINER: messages.number("ContainerState", "CONTAINER_EXITED"),
}
_ID: Final = {SANDBOX: "pod_sandbox_id", CONTAINER: "container_id"}
_LISTS: Final = {"ListPodSandbox": (SANDBOX, "items"), "ListContainers": (CONTAINER, "containers")}
ASK_SECONDS: Final = 10.0
# Queries for process numbers at a time: each forks a program of the engine.
AT_ONCE: Final = 2
Key = tuple[str, str]  # kind, id
# Ask the runtime by method and request, within these seconds; raises LookupError for an object that it does not know.
Ask = Callable[[str, bytes, float], Awaitable[bytes]]


class Processes:
    """Watched processes, by object."""

    def __init__(self, *, ask: Ask, ended: Callable[[], None]) -> None:
        self._ask, self._ended = ask, ended
        self._watched: dict[Key, int] = {}  # pidfds
        self._unwatchable: set[Key] = set()
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)

    def __len__(self) -> int:
        return len(self._watched)

    def settles(self, method: str, request: bytes, answer: bytes) -> bool:
        """Return whether each live object of this answer is watched; begin to watch those that are not."""
        try:
            kind, whole = _asked_for(method, request)
            objects = _objects(method, kind, answer)
        except DecodeError:
            return False
        settled = True
        for key, state in objects.items():
            if state == _ENDED[key[0]]:
                if key in self._watched:
                    self._close(key)
                continue
            if key not in self._watched:
                settled = False
                if state == _LIVE[key[0]]:
                    self._begin(key)
        if method not in _LISTS:
            return settled
        # A watched process runs, so its object is not gone: a list of all live objects without it is one from which the
        # runtime left it out because its query failed. What other lists lack cannot be told.
        missing = [key for key in self._watched if whole and key[0] == kind and key not in objects]
        for key in missing:
            self._begin(key)
        if whole:
            self._unwatchable -= {key for key in self._unwatchable if key[0] == kind and key not in objects}
        return settled and whole and not missing

    def forget(self) -> None:
        """Stop watching everything."""
        for task in self._asking.values():
            task.cancel()
        self._asking.clear()
        for key in list(self._watched):
            self._close(key)
        self._unwatchable.clear()

    def _begin(self, key: Key) -> None:
        if key not in self._asking and key not in self._unwatchable:
            self._asking[key] = asyncio.get_running_loop().create_task(self._find(key))

    async def _find(self, key: Key) -> None:
        try:
            async with self._turn:
                await self._watch(key)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  an object that cannot be watched is asked for each second instead
            LOG.debug("%s %s is not watched: %s", *key, error)
        finally:
            if self._asking.get(key) is asyncio.current_task():
                del self._asking[key]

    async def _watch(self, key: Key) -> None:
        """Open the process, then ask again: the same number means that it was not taken by another process between."""
        pid = await self._pid(key)
        if key in self._watched:
            if pid is None:
                self._close(key)
                self._ended()
            return
        if pid is None:
            return
        if pid <= 1 or not hasattr(os, "pidfd_open"):
            self._unwatchable.add(key)
            return
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError as error:
            self._unwatchable.add(key)
            LOG.debug("pidfd_open(%d): %s", pid, error)
            return
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, descriptor)
            if await self._pid(key) != pid or key in self._watched:
                return
            undo.pop_all()
        self._watched[key] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._gone, key)

    async def _pid(self, key: Key) -> int | None:
        """Return the process number that the runtime names; 0 if it names none, None if the object does not run."""
        kind, name = key
        request = messages.new(kind + "Request")
        setattr(request, _ID[kind], name)
        request.verbose = True
        try:
            data = await self._ask(kind, request.SerializeToString(), ASK_SECONDS)
        except LookupError:
            return None
        answer = messages.parse(kind + "Response", data)
        return pid_of(dict(answer.info)) if answer.status.state == _LIVE[kind] else None

    def _gone(self, key: Key) -> None:
        self._close(key)
        self._ended()

    def _close(self, key: Key) -> None:
        descriptor = self._watched.pop(key)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)


def _asked_for(method: str, request: bytes) -> tuple[str, bool]:
    """Return the kind of object that a query is for, and whether it asks for all live objects of this kind."""
    if method not in _LISTS:
        return method, False
    kind = _LISTS[method][0]
    wanted = messages.parse(method + "Request", request).filter
    every_state = not wanted.HasField("state") or wanted.state.state == _LIVE[kind]
    wanted.ClearField("state")
    return kind, every_state and not wanted.SerializeToString()


def _objects(method: str, kind: str, answer: bytes) -> dict[Key, int]:
    """Return the objects of an answer, with their states."""
    found = messages.parse(method + "Response", answer)
    items = getattr(found, _LISTS[method][1]) if method in _LISTS else [found.status]
    return {(kind, item.id): item.state for item in items}


def pid_of(info: dict[str, str]) -> int:
    """Return the process number in the verbose information: Singularity-CRI's own key, or containerd's JSON; or 0."""
    try:
        found = int(info["pid"]) if "pid" in info else json.loads(info.get("info", "{}")).get("pid", 0)
    except (ValueError, AttributeError):
        return 0
    return found if isinstance(found, int) else 0
