# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Contents on the controller: files, directories and texts, by their digest."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import typing as t
from dataclasses import dataclass

from ..model.errors import RecordError

_CHUNK = 1 << 20
_SHOWN = 1 << 16
_NOT_SENT = ("__pycache__", ".git")


@dataclass(frozen=True)
class Source:
    """A content: in a file of the controller, or here."""

    sha256: str
    size: int
    path: str = ""
    data: bytes = b""

    @staticmethod
    def of_bytes(data: bytes) -> Source:
        """Return a source with a content that is here."""
        return Source(hashlib.sha256(data).hexdigest(), len(data), data=data)

    @staticmethod
    def of_file(path: str) -> Source:
        """Return a source with the content of a file."""
        total, size = hashlib.sha256(), 0
        try:
            with open(path, "rb") as file:
                for chunk in iter(lambda: file.read(_CHUNK), b""):
                    total.update(chunk)
                    size += len(chunk)
        except OSError as error:
            raise RecordError(f"src {path}: cannot read it: {error.strerror}") from error
        return Source(total.hexdigest(), size, path=path)

    def add_to(self, archive: tarfile.TarFile, name: str) -> None:
        """Add the content to a bundle."""
        member = tarfile.TarInfo(name)
        member.size = self.size
        if not self.path:
            archive.addfile(member, io.BytesIO(self.data))
            return
        with open(self.path, "rb") as file:
            archive.addfile(member, file)

    def shown(self) -> str:
        """Return what a diff shows: the text, or what it is instead."""
        data = self.data
        if self.path and self.size <= _SHOWN:
            with open(self.path, "rb") as file:
                data = file.read()
        if self.size <= _SHOWN and b"\0" not in data:
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError:
                pass
        return f"sha256 {self.sha256}, {self.size} bytes\n"


def expand(path: str, src: t.Optional[str], content: t.Any) -> t.Iterator[t.Tuple[str, t.Optional[Source]]]:
    """Yield every file that one item stands for, and without a source every directory."""
    if src is None:
        text = content if isinstance(content, str) else json.dumps(content, indent=2, sort_keys=True) + "\n"
        yield path, Source.of_bytes(text.encode("utf-8", "surrogateescape"))
    elif not os.path.isdir(src):
        yield path, Source.of_file(src)
    else:
        yield from _tree(path, src)


def _tree(path: str, src: str) -> t.Iterator[t.Tuple[str, t.Optional[Source]]]:
    yield path, None
    for name in sorted(os.listdir(src)):
        inner = os.path.join(src, name)
        if name in _NOT_SENT:
            continue
        if os.path.islink(inner):
            raise RecordError(f"src {inner}: is a link: name links in links")
        if os.path.isdir(inner):
            yield from _tree(f"{path}/{name}", inner)
        else:
            yield f"{path}/{name}", Source.of_file(inner)
