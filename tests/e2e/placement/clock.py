# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wall clock that can be set under a running process, and under no other."""

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
        self.step(0)
        self.variables = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._seconds)}

    def step(self, seconds: int) -> None:
        """Puts it so far from the right time."""
        data = seconds.to_bytes(8, "little", signed=True)
        # The processes have the file mapped: it must not be replaced, nor be empty for a moment.
        with self._seconds.open("r+b" if self._seconds.exists() else "wb") as file:
            file.write(data)
