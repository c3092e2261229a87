# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Structured logs: one JSON object a line on standard error, where the journal of systemd finds them."""

import contextlib
import json
import sys
import threading
from datetime import UTC, datetime
from typing import Final, TextIO

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """Writes lines of at least one level; thread-safe."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self._level = LEVELS[level]
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()

    def debug(self, message: str, **fields: object) -> None:
        """For those who look for an error."""
        self._write("debug", message, fields)

    def info(self, message: str, **fields: object) -> None:
        """Log what an administrator wants to read afterwards."""
        self._write("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Log a fault that the daemon copes with."""
        self._write("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Log a fault that an administrator has to mend."""
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, object]) -> None:
        if LEVELS[level] < self._level:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "level": level, "message": message, **fields}, default=str)
        # Where nobody can be told, that is no reason to stop.
        with self._lock, contextlib.suppress(OSError):
            print(line, file=self._stream, flush=True)
