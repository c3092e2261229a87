# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that lends the state of the double out over TCP. It runs on the host that has the state's folder."""

from __future__ import annotations

import contextlib
import functools
import socketserver
import typing as t
from pathlib import Path

from pbs_double.lending import held, received, send

PORT: t.Final = 15010
# A host that loses its power while it has the state never answers.
_LENT_SECONDS: t.Final = 30.0


class Lender(socketserver.ThreadingTCPServer):
    """Lends the state of a folder out."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, folder: Path, address: tuple[str, int]) -> None:
        super().__init__(address, functools.partial(_Lending, folder))


def run(_host: str, folder: str, _arguments: list[str]) -> int:
    """Lend the state of a folder out, until the process is ended."""
    with Lender(Path(folder), ("", PORT)) as lender:
        lender.serve_forever()
    return 0


class _Lending(socketserver.BaseRequestHandler):
    """Sends the state to one host, and keeps what that host sends back; without an answer the state stays as it was."""

    def __init__(self, folder: Path, *given: t.Any) -> None:
        self._folder = folder
        super().__init__(*given)

    def handle(self) -> None:
        self.request.settimeout(_LENT_SECONDS)
        with contextlib.suppress(OSError, EOFError), held(self._folder) as copy:
            send(self.request, copy.content)
            copy.keep(received(self.request))
