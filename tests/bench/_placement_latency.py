# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that is farther away: a process between that passes on what is sent to it so much later.

It knows nothing of TLS or HTTP, so it costs little. Requests are late; answers and watches come at once. Requests on
one connection do not wait for each other here.
"""

import asyncio
import contextlib
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml

_PIECE: Final = 1 << 16
_READY_SECONDS: Final = 30.0
# What is under way on one connection and not yet passed on, in pieces.
_MOST_WAITING: Final = 1 << 14


@contextmanager
def farther_away(kubeconfig: Path, folder: Path, seconds: float) -> Iterator[Path]:
    """Give a kubeconfig whose server is reached so much later; its certificate must name 127.0.0.1."""
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster = content["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(server.hostname, server.port, seconds, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(_READY_SECONDS):
            raise SystemExit(f"the process between did not start within {_READY_SECONDS:g} s")
        cluster["server"] = f"https://127.0.0.1:{ours.recv()}"
        written = folder / "farther-away.conf"
        written.touch(mode=0o600)
        written.write_text(yaml.safe_dump(content), encoding="utf-8")
        yield written
    finally:
        process.terminate()
        process.join(_READY_SECONDS)


def _serve(host: str, port: int, seconds: float, ready: "Connection[int, None]") -> None:
    async def run() -> None:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection(host, port)
            with contextlib.suppress(OSError):
                await asyncio.gather(_pass_on(reader, far_writer, seconds), _pass_on(far_reader, writer, 0.0))

        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    asyncio.run(run())


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Write each piece when its time has come; the reader does not wait for that."""
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_WAITING)

    async def take() -> None:
        loop = asyncio.get_running_loop()
        piece = b"more"
        while piece:
            piece = await reader.read(_PIECE)
            await pieces.put((loop.time() + seconds, piece))

    async def give() -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(due - loop.time()) if seconds else None
            if not piece:
                writer.close()
                return
            writer.write(piece)
            await writer.drain()

    await asyncio.gather(take(), give())
