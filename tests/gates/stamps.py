# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which gates have passed on exactly these inputs; such a gate is not run again.

The key of a gate covers its files (see `file_sets`), the environment, and for gates on beds the programs and images
that beds are made of. The stamp of a passed run lies in the cache, below the gate's name and key.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gates.file_sets import FileMap
from gates.gate import Context, Gate, listed_files
from gates.interpreters import interpreters

# What a user may set that changes what tests run on.
VARIABLES = ("PBS_EXEC", "CONVERGED_BIN_DIR", "CONVERGED_KEEP_BED")
KEPT_SECONDS = 14 * 24 * 3600.0
GO_PLACES = ("go", "/usr/local/go/bin/go")


@dataclass(frozen=True, slots=True)
class Stamp:
    """A run that passed."""

    at: float  # seconds since the epoch
    seconds: float
    seed: int | None

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.at))
        seed = "kept seeds" if self.seed is None else f"seed {self.seed}"
        return f"passed at {when}, {seed}, {self.seconds:.0f} s"


@dataclass(frozen=True)
class Stamps:
    """The stamps of one machine, asked for one checkout. `fresh`: none is believed, all are written."""

    folder: Path
    files: FileMap
    checkout: Path
    environ: Mapping[str, str]
    fresh: bool = False
    _hashes: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def key(self, gate: Gate, context: Context) -> str | None:
        """Return what the gate's outcome depends on, as one digest; None for a gate that always runs."""
        if gate.reads is None:
            return None
        digest = hashlib.sha256()
        parts = [gate.name, str(context.seed), str(context.quick), *self._environment]
        parts += self._beds() if gate.on_bed else ()
        for part in parts:
            digest.update(part.encode() + b"\0")
        for path in self.files.inputs(gate.reads, listed_files(self.checkout)):
            digest.update(f"{path}\0{self._hash(self.checkout / path)}\0".encode())
        return digest.hexdigest()

    def find(self, gate: Gate, key: str | None) -> Stamp | None:
        """Return the stamp of a run that passed with this key."""
        if key is None or self.fresh:
            return None
        try:
            found = json.loads(self._path(gate, key).read_text(encoding="utf-8"))
            return Stamp(at=found["at"], seconds=found["seconds"], seed=found["seed"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # no stamp, or one that a full disk has cut short: the gate runs

    def write(self, gate: Gate, key: str | None, stamp: Stamp) -> None:
        """Keep the stamp of a run that passed."""
        if key is None:
            return
        path = self._path(gate, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(json.dumps({"at": stamp.at, "seconds": stamp.seconds, "seed": stamp.seed}), encoding="utf-8")
        fresh.replace(path)

    def remove_old(self) -> None:
        """Remove stamps that are older than two weeks: the machine has changed in ways that no key covers."""
        for path in self.folder.glob("*/*.json"):
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink(missing_ok=True)

    def _path(self, gate: Gate, key: str) -> Path:
        return self.folder / gate.name / f"{key[:32]}.json"

    @cached_property
    def _environment(self) -> list[str]:
        """The pinned tools, the interpreters and the kernel."""
        tools = [
            Path(self.environ[name]).name for name in ("VIRTUAL_ENV", "CONVERGED_IMPORTER_VENV") if name in self.environ
        ]
        found = interpreters(self.environ, lowest=(3, 6))
        pythons = [f"{path}" for path in found.values()]
        given = [f"{name}={self.environ.get(name, '')}" for name in VARIABLES]
        return [sys.version, platform.release(), *tools, *pythons, *given]

    def _beds(self) -> list[str]:
        """The tool chain, and the contents of the node images in the cache."""
        manifests = sorted((Path(self.environ["CONVERGED_CACHE"]) / "images").glob("*/manifest.json"))
        return [_go_version(), *(f"{path.parent.name} {self._hash(path)}" for path in manifests)]

    def _hash(self, path: Path) -> str:
        state = path.stat()
        known = (str(path), state.st_mtime_ns, state.st_size)
        if known not in self._hashes:
            mode = "x" if state.st_mode & 0o100 else "-"
            self._hashes[known] = mode + hashlib.sha256(path.read_bytes()).hexdigest()
        return self._hashes[known]


def _go_version() -> str:
    """The tool chain that builds the beds' programs; a machine without one takes a pinned one."""
    program = next((found for place in GO_PLACES if (found := shutil.which(place))), None)
    if program is None:
        return "no go"
    asked: Sequence[str] = [program, "env", "GOVERSION"]
    return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
