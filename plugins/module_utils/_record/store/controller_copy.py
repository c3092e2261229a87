# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The copy of a record on the controller: which parts there are, which are missing, and how they travel.

Parts have fixed names, and only a journal grows; so names and sizes say whether a copy is complete. A record has an id:
a copy of another one is an older history of the same host and is set aside, never mixed.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import typing as t

from ..model.errors import RecordError

_PART = re.compile(r"format|journal|baseline/[0-9]{6}|blobs/[0-9a-f]{64}")


def fingerprint(identity: str, parts: t.Mapping[str, int]) -> str:
    """Return a digest that is the same on both sides when the copy is complete."""
    text = "\n".join([identity, *(f"{name} {size}" for name, size in sorted(parts.items()))])
    return hashlib.sha256(text.encode()).hexdigest()


def check_name(name: str) -> str:
    """Return a part's name from the other side; refuse one that leads anywhere else."""
    if not _PART.fullmatch(name):
        raise RecordError(f"record: {name!r} is no part of a record")
    return name


def pack(path: str, parts: t.Mapping[str, bytes]) -> None:
    """Make a file that holds `parts`, for the owner of its folder alone."""
    folder = os.stat(os.path.dirname(path))
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
        with tarfile.open(fileobj=file, mode="w:") as archive:
            for name, data in parts.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        file.flush()
        os.fsync(file.fileno())


def unpack(path: str) -> t.Dict[str, bytes]:
    """Return the parts in a file that `pack` made; refuse a blob that does not match its name."""
    found: t.Dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None:
                    found[check_name(member.name)] = file.read()
    except (OSError, tarfile.TarError) as error:
        raise RecordError(f"the record's parts did not arrive whole: {error}: run again") from error
    for name, data in found.items():
        if name.startswith("blobs/") and name != f"blobs/{hashlib.sha256(data).hexdigest()}":
            raise RecordError(f"record: {name} did not arrive whole: run again")
    return found


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class LocalCopy:
    """The copy of one host's record, in a folder on the controller that only its owner reads."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def identity(self) -> str:
        """Return the id of the record that this is a copy of; nothing where there is none."""
        try:
            with open(f"{self.folder}/format", encoding="ascii") as file:
                return file.read().split()[-1]
        except (FileNotFoundError, IndexError):
            return ""

    def parts(self) -> t.Dict[str, int]:
        """Return names and sizes of all parts."""
        found = {}
        for inner in ("", "baseline/", "blobs/"):
            folder = f"{self.folder}/{inner}"
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
                if _PART.fullmatch(inner + name):
                    found[inner + name] = os.stat(folder + name).st_size
        return found

    def read(self) -> t.Dict[str, bytes]:
        """Read all parts."""
        found = {}
        for name in self.parts():
            with open(f"{self.folder}/{name}", "rb") as file:
                found[name] = file.read()
        return found

    def is_complete(self, identity: str, wanted: str) -> bool:
        """Return whether this is a copy of that record, as it is now."""
        return self.identity() == identity and fingerprint(identity, self.parts()) == wanted

    def merge(self, identity: str, parts: t.Mapping[str, bytes], *, stamp: str) -> None:
        """Add parts; the format file, which makes it a copy, comes last."""
        if self.identity() not in ("", identity):
            self.set_aside(f"older-{stamp}")
        for inner in ("", "baseline", "blobs"):
            os.makedirs(os.path.join(self.folder, inner), mode=0o700, exist_ok=True)
        for name in sorted(parts, key=lambda name: (name == "format", name)):
            path = f"{self.folder}/{check_name(name)}"
            with os.fdopen(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(parts[name])
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".new", path)
            if name.startswith("blobs/") and name != f"blobs/{_digest(path)}":
                raise RecordError(f"{path} does not hold what was written: remove it and run again")

    def set_aside(self, why: str) -> None:
        """Keep the copy under another name: its record has ended."""
        if os.path.isdir(self.folder):
            os.rename(self.folder, f"{self.folder}.{why}")
