# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hook that records, on a cluster, and what it has written down."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from pbs_double.cluster import Cluster, until
from pbs_double.installed import Installed, Record


class Recorder(Installed):
    """Hooks of one program that say in the file ``log`` of their configuration, as JSON, what they have seen."""

    def __init__(self, pbs: Cluster, folder: Path, program: Path) -> None:
        super().__init__(pbs, folder, program)
        self._log = folder / "nothing"
        self._told = 0

    def install(self, name: str, order: int) -> None:
        """A hook that all hosts have."""
        self.make(name, order)
        self.tell(name, {})

    def tell(self, name: str, do: t.Mapping[str, str], evaluate: t.Sequence[str] = ()) -> None:
        """What it does from now on; what it has seen is forgotten."""
        self._told += 1
        self._log = self.folder / f"{self._told}.seen"
        self.configure(name, {"log": str(self._log), "do": do, "evaluate": list(evaluate)})

    def seen(self) -> list[Record]:
        """All that hooks have seen since they were told something."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    def of(self, name: str) -> list[str]:
        """Where a job's hooks have run, in this order; hosts do not wait for each other."""
        mine = [each for each in self.seen() if each.get("job", {}).get("id") == f"str {name}"]
        return [f"{each['event']}@{each['host']}" for each in mine]

    def record(self, what: str) -> Record:
        """The first of an event on a host."""
        found = until(lambda: [each for each in self.seen() if f"{each['event']}@{each['host']}" == what])
        first: Record = found[0]
        return first
