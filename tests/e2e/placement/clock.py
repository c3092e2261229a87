# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clocks that can be put on under a running process, and under no other."""

from __future__ import annotations

from pathlib import Path

from testbed.run import run

SOURCE = Path(__file__).with_name("stepped_clock.c")


class Clock:
    """`variables` go into the environment of whoever is to go by it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        library, self._seconds = folder / "stepped_clock.so", folder / "seconds"
        run(["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], timeout=300)
        self._wall = self._slept = 0
        self._write()
        self.variables = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._seconds)}

    def step(self, seconds: int) -> None:
        """Put the wall clock so far from the right time."""
        self._wall = seconds
        self._write()

    def sleep(self, seconds: int) -> None:
        """Let so much time pass at once, as for a machine that sleeps."""
        self._wall += seconds
        self._slept += seconds
        self._write()

    def _write(self) -> None:
        data = b"".join(seconds.to_bytes(8, "little", signed=True) for seconds in (self._wall, self._slept))
        # The processes have the file mapped: it must not be replaced, nor be empty for a moment.
        with self._seconds.open("r+b" if self._seconds.exists() else "wb") as file:
            file.write(data)
