# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was built, and whether it is still what lies on disk.

The programs are 400 MB together, and hashing them takes longer than starting the cluster made of them. So the
manifest keeps size and modification time beside the SHA-256: equal size and time are believed, anything else is
hashed, and `full=True` (the test bed's `status --verify`) hashes all.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from testbed.errors import BedError
from testbed.state import write_synced

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One program as it was when its build had succeeded."""

    version: str
    sha256: str
    size: int
    mtime_ns: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """One program that is not what the manifest says, and how it differs."""

    name: str
    found: str


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def describe(path: Path, *, version: str, seconds: float) -> Entry:
    """Make the manifest's entry for a program that has just been built."""
    stat = path.stat()
    return Entry(
        version=version,
        sha256=sha256(path),
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        seconds=round(seconds, 1),
    )


def load(folder: Path) -> dict[str, Entry]:
    """Read a folder's manifest; a folder without one has nothing finished in it."""
    path = folder / MANIFEST
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {name: Entry(**entry) for name, entry in raw["programs"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BedError(f"{path} cannot be read ({error}); remove {folder} to have the programs built again") from error


def save(folder: Path, entries: dict[str, Entry]) -> None:
    """Replace the manifest; the folder is synced with it, so what was renamed before is durable too."""
    text = json.dumps({"programs": {name: asdict(entries[name]) for name in sorted(entries)}}, indent=2) + "\n"
    write_synced(folder / MANIFEST, text)


def faults(folder: Path, entries: dict[str, Entry], *, full: bool = False) -> list[Fault]:
    """Compare the programs with the manifest and name those that differ."""
    found = ((name, difference(folder / name, entry, full=full)) for name, entry in sorted(entries.items()))
    return [Fault(name, text) for name, text in found if text]


def refresh(folder: Path, entries: dict[str, Entry]) -> None:
    """Take over the times of programs that were touched (copied, restored) but not changed, to spare the next hash."""
    current = {name: replace(entry, mtime_ns=(folder / name).stat().st_mtime_ns) for name, entry in entries.items()}
    if current != entries:
        save(folder, current)


def difference(path: Path, entry: Entry, *, full: bool) -> str:
    """Say how a program differs from its entry; an empty text means that it does not."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return "is missing"
    if stat.st_size != entry.size:
        return f"has {stat.st_size} bytes, not {entry.size}"
    if not full and stat.st_mtime_ns == entry.mtime_ns:
        return ""
    actual = sha256(path)
    return "" if actual == entry.sha256 else f"has SHA-256 {actual[:12]}..., not {entry.sha256[:12]}..."
