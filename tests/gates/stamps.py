# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which gates have passed on exactly these inputs; such a gate is not run again.

The key of a gate covers its files (see `file_sets`), the environment, and for gates on beds the programs and images
that beds are made of. The stamp of a passed run lies in the cache, below the gate's name and key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pbs_double import real as pbs
from testbed import spark_image
from testbed.binaries import BIN_DIR_VARIABLE
from testbed.cgroups import host_version
from testbed.errors import BedError
from testbed.images import MANIFEST
from testbed.kube_go import WHEEL, WHEEL_VERSION, go_environment, places, probe
from testbed.machine_recipe import DiskRecipe
from testbed.paths import cache_dir
from testbed.recipe import LAYERS, SUITES, Recipe
from torque_double import real as torque

from gates.file_sets import FileMap
from gates.gate import Context, Gate, listed_files
from gates.interpreters import full_version, interpreters

KEPT_SECONDS = 14 * 24 * 3600.0
# A file of a stamp that a kill has left unfinished is older than this.
UNFINISHED_SECONDS = 600.0
ENGINE_PACKAGES = ("podman", "conmon", "crun", "runc", "netavark", "aardvark-dns", "qemu-system-x86")


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
        """Return what the gate's outcome depends on, as one digest; None for a gate that always runs.

        A bed with programs from a folder of the user's own proves nothing about those of the project: no key either.
        """
        if gate.reads is None or (gate.on_bed and self.environ.get(BIN_DIR_VARIABLE)):
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
        for pattern, seconds in (("*/*.json", KEPT_SECONDS), ("*/.*.json.*", UNFINISHED_SECONDS)):
            for path in self.folder.glob(pattern):
                with contextlib.suppress(FileNotFoundError):  # another run was faster
                    if time.time() - path.stat().st_mtime > seconds:
                        path.unlink()

    def _path(self, gate: Gate, key: str) -> Path:
        return self.folder / gate.name / f"{key[:32]}.json"

    @cached_property
    def _environment(self) -> list[str]:
        """The pinned tools, the interpreters, the kernel, OpenPBS and Torque or their doubles."""
        tools = [
            Path(self.environ[name]).name for name in ("VIRTUAL_ENV", "CONVERGED_IMPORTER_VENV") if name in self.environ
        ]
        found = interpreters(self.environ, lowest=(3, 6))
        pythons = [f"{path} {full_version(path)}" for path in found.values()]
        # A bed that was kept is used again, so that nothing shows whether it comes up.
        kept = f"kept beds: {self.environ.get('CONVERGED_KEEP_BED', '')}"
        return [sys.version, platform.release(), *tools, *pythons, _pbs(self.environ), _torque(self.environ), kept]

    def _beds(self) -> list[str]:
        """The tool chain, the container engine, and the contents of those node images in the cache that are ours."""
        folder = Path(self.environ["CONVERGED_CACHE"]) / "images"
        manifests = [path for name in image_keys() if (path := folder / name / MANIFEST).exists()]
        return [*self._machine, *(f"{path.parent.name} {self._hash(path)}" for path in manifests)]

    @cached_property
    def _machine(self) -> list[str]:
        """What of the machine makes and runs beds; asked once a run."""
        return [_go(), _engine(self.environ)]

    def _hash(self, path: Path) -> str:
        state = path.stat()
        known = (str(path), state.st_mtime_ns, state.st_size)
        if known not in self._hashes:
            mode = "x" if state.st_mode & 0o100 else "-"
            self._hashes[known] = mode + hashlib.sha256(path.read_bytes()).hexdigest()
        return self._hashes[known]


def image_keys() -> list[str]:
    """Return the names of all images that a bed of this checkout can have; a cache has those of others, too."""
    nodes = [Recipe(debian, layer).key for debian in SUITES for layer in ("", *LAYERS)]
    return [*nodes, *(DiskRecipe(selinux=selinux).key for selinux in (False, True)), spark_image.key()]


def _pbs(environ: Mapping[str, str]) -> str:
    """Return which OpenPBS is installed, and whether this run may start it; tests run on its double otherwise."""
    return _batch_system("PBS", pbs.place(environ), pbs.SERVER_PROGRAM)


def _torque(environ: Mapping[str, str]) -> str:
    """Return the same for Torque."""
    return _batch_system("Torque", torque.place(environ), torque.SERVER_PROGRAM)


def _batch_system(name: str, root: Path | None, server: str) -> str:
    if root is None:
        return f"the double of {name}"
    state = (root / server).stat()
    return f"{root} {state.st_mtime_ns} {state.st_size} user {os.geteuid()}"


def _go() -> str:
    """Return the version of the tool chain that builds the beds' programs."""
    cache = cache_dir()
    found = (probe(program, go_environment(cache)) for program in places())
    return next((go.version for go in found if go), f"{WHEEL} {WHEEL_VERSION}")


def _engine(environ: Mapping[str, str]) -> str:
    """Return the versions of the packages that run containers, and of the machine's cgroups."""
    try:
        cgroups = f"cgroup v{host_version()}"
    except BedError as error:
        cgroups = str(error)
    argv: Sequence[str] = ["dpkg-query", "--show", *ENGINE_PACKAGES]
    try:
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environ).stdout
    except OSError:
        said = "no dpkg"
    return f"{cgroups}\n{said}"
