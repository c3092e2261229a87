# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was decided, one JSON object a line, for people; it is never read back as truth.

Files rotate by size. A disk that is full costs lines, which are told of, and never a decision.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from placement.model.messages.action import Action


class Journal:
    """One file and its predecessors `.1`, `.2`, ...; written by one thread."""

    def __init__(
        self,
        path: Path,
        *,
        most_bytes: int,
        files: int,
        lost: Callable[[int, OSError], None],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._files = files
        self._lost = lost
        self._clock = clock
        self._file: TextIO | None = None
        self._size = 0

    def note(self, actions: tuple[Action, ...]) -> None:
        """Write what has been decided."""
        now = self._clock().isoformat(timespec="milliseconds")
        lines = [
            json.dumps({"time": now, "action": type(action).__name__} | _fields(action), default=dataclasses.asdict)
            for action in actions
        ]
        self.write(lines)

    def write(self, lines: list[str]) -> None:
        """Write lines and flush them to the kernel."""
        if not lines:
            return
        text = "\n".join(lines) + "\n"
        try:
            if self._file is None:
                self._open()
            # One that could not rotate may be just as full when it is opened again.
            if self._size and self._size + len(text) > self._most_bytes:
                self._rotate()
            assert self._file is not None
            self._file.write(text)
            self._file.flush()
            self._size += len(text)
        except OSError as error:
            self._lost(len(lines), error)
            self.close()

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            # What cannot be flushed has been counted as lost.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._file = open(descriptor, "a", encoding="utf-8")  # noqa: SIM115 -- kept open
        self._size = os.fstat(descriptor).st_size

    def _rotate(self) -> None:
        self.close()
        for number in range(self._files - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
            if newer.exists():
                newer.replace(older)
        if self._files == 1:
            self._path.unlink(missing_ok=True)
        self._open()


def _fields(action: Action) -> dict[str, object]:
    return {name: getattr(action, name) for name in type(action).__slots__}
