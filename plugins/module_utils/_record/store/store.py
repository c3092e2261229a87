# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record on disk: baselines that are written once, and a journal that is only added to.

    lock                  who changes this node now
    live/format           which format this is
    live/baseline/000001  what a set of things was like before we touched them, its last line a checksum
    live/blobs/<sha256>   contents, named by their digest
    live/journal          one line per event, each with its checksum: who claims what, what we were about to write
    kept/<sha256>/<path>  what the site had made of a file of ours before it was written again or put back

Write-ahead: blob, baseline, directory and journal are on disk before the change they speak of. A journal line without
its end is what a crash left of an event whose change never began; anything else that does not add up is an error.
"""

from __future__ import annotations

import hashlib
import os
import typing as t
import uuid

from ..host.host import Host, reason
from ..host.paths import check, discard, staging
from ..model.errors import RecordError
from ..model.items import JSON
from ..model.replay import Entry, View
from . import encoding
from .folders import make_directory

_FOLDERS = ("baseline", "blobs")
_UNREADABLE = (KeyError, TypeError, ValueError)


class Store:
    """The record of one node in one directory."""

    def __init__(self, host: Host, root: str) -> None:
        self._host = host
        self.root = check(root)
        self.id = ""
        self._live = f"{root}/live"
        self._journal = f"{self._live}/journal"
        self._journal_end = 0
        self._events = 0
        self._segments = 0

    # Reading

    def exists(self) -> bool:
        """Return whether a record was begun: its first file is written before anything else."""
        return self._there("format")

    def load(self) -> View:
        """Return what the record says; an empty view where there is none."""
        view = View()
        if not self.exists():
            return view
        try:
            self.id = encoding.record_id(self.part("format"))
        except _UNREADABLE as error:
            raise self._damaged("format", error) from error
        for name in self._names("baseline"):
            self._load_segment(view, f"baseline/{name}")
        self._load_journal(view)
        for key in view.doubled():
            raise self._damaged("baseline", f"{key} has two baselines")
        return view

    def _load_segment(self, view: View, name: str) -> None:
        try:
            number, entries = encoding.segment(self.part(name))
        except _UNREADABLE as error:
            raise self._damaged(name, error) from error
        for entry in entries:
            view.add_baseline(entry)
        self._segments = max(self._segments, number)

    def _load_journal(self, view: View) -> None:
        data = self.part("journal") if self._there("journal") else b""
        whole = data[: data.rfind(b"\n") + 1]
        for at, line in enumerate(whole.splitlines(), 1):
            try:
                view.replay(encoding.journal_event(at, line))
            except _UNREADABLE as error:
                raise self._damaged("journal", f"line {at}: {error}") from error
            self._events = at
        self._journal_end = len(whole)

    def _there(self, name: str) -> bool:
        return self._host.lstat(f"{self._live}/{name}") is not None

    def _names(self, folder: str) -> t.List[str]:
        return [name for name in self._host.names(f"{self._live}/{folder}") if not name.startswith(".")]

    def blob(self, sha256: str) -> bytes:
        """Return a content, checked."""
        data = self.part(f"blobs/{sha256}")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise self._damaged(f"blobs/{sha256}", "its content does not match its name")
        return data

    def blob_chunks(self, sha256: str) -> t.Iterator[bytes]:
        """Yield a content piece by piece; the caller checks the digest when it writes it."""
        return self._host.chunks(f"{self._live}/blobs/{sha256}")

    def has_blob(self, sha256: str) -> bool:
        """Return whether a content is here."""
        return self._there(f"blobs/{sha256}")

    def parts(self) -> t.Dict[str, int]:
        """Return every file of the record and its size, by its name below `live`."""
        names = [f"{folder}/{name}" for folder in _FOLDERS for name in self._names(folder)]
        found = {name: self._host.lstat(f"{self._live}/{name}") for name in ("format", *names, "journal")}
        return {name: state.st_size for name, state in found.items() if state is not None}

    def part(self, name: str) -> bytes:
        """Return one file of the record."""
        path = f"{self._live}/{name}"
        try:
            return self._host.read(path)
        except FileNotFoundError as error:
            raise RecordError(
                f"record {self.root}: {path} is missing: restore it from the controller's copy"
            ) from error
        except OSError as error:
            raise RecordError(f"record {self.root}: cannot read {path}: {reason(error)}") from error

    def _damaged(self, name: str, what: object) -> RecordError:
        return RecordError(f"record {self._live}/{name} is damaged: {what}; put it back from the controller's copy")

    # Writing

    def begin(self) -> None:
        """Make the record's directories; the format file last, so that a record is whole or none."""
        if self.exists():
            self.finish_removal()
            return
        self._make_folders()
        self.id = uuid.uuid4().hex
        self._write(f"{self._live}/format", [encoding.format_file(self.id)])
        self._host.sync_directory(self.root)

    def _make_folders(self) -> None:
        """Make empty folders: without the format file, what lies there is what a killed run took of a copy."""
        self.remove()
        for path in (self._live, *(f"{self._live}/{name}" for name in _FOLDERS)):
            make_directory(self._host, path, 0o700)

    def put_blob(self, path: str) -> str:
        """Copy a file of the node into the record."""
        return self._put(self._host.chunks(path), path)

    def put_text(self, data: bytes) -> str:
        """Put a content that we made into the record."""
        sha256 = hashlib.sha256(data).hexdigest()
        return sha256 if self.has_blob(sha256) else self._put([data], "a text")

    def _put(self, chunks: t.Iterable[bytes], source: str) -> str:
        blobs = f"{self._live}/blobs"
        temporary = f"{blobs}/.new"
        if self._host.lstat(temporary) is not None:
            self._host.remove(temporary)
        try:
            sha256 = self._host.make_file(temporary, chunks)
        except OSError as error:
            raise RecordError(f"record {self.root}: cannot keep a copy of {source}: {reason(error)}") from error
        self._host.rename(temporary, f"{blobs}/{sha256}")
        self._host.sync_directory(blobs)
        return sha256

    def add_baselines(self, view: View, entries: t.Sequence[t.Tuple[str, t.Any, bool]]) -> None:
        """Write what `key`s were like: once, and never again while they are ours."""
        if not entries:
            return
        number = self._segments + 1
        items = [
            {"key": key, "at": at, "state": state, "secret": secret} for at, (key, state, secret) in enumerate(entries)
        ]
        path = f"{self._live}/baseline/{number:06d}"
        discard(self._host, path)
        self._effect("baseline", self._host.make_file, staging(path), [encoding.segment_file(number, items)])
        self._effect("baseline", self._host.publish, staging(path), path)
        self._host.sync_directory(os.path.dirname(path))
        self._host.remove(staging(path))
        self._segments = number
        for item in items:
            view.add_baseline(Entry.from_json(item, number))

    def append(self, view: View, events: t.Sequence[JSON]) -> None:
        """Add to the journal, on disk before this returns."""
        if not events:
            return
        data = b""
        for event in events:
            self._events += 1
            data += encoding.journal_line(self._events, event)
            view.replay(event)
        new = not self._there("journal")
        self._effect("journal", lambda: self._host.append(self._journal, data, at=self._journal_end))
        if new:
            self._host.sync_directory(self._live)
        self._journal_end += len(data)

    def adopt(self, parts: t.Mapping[str, t.Iterable[bytes]]) -> None:
        """Take a copy of a record that was lost; the format file comes last, as in `begin`."""
        self._make_folders()
        for name in sorted(parts, key=lambda name: name == "format"):
            self._write(f"{self._live}/{name}", parts[name])

    def _write(self, path: str, data: t.Iterable[bytes]) -> None:
        discard(self._host, path)
        self._effect(path, self._host.make_file, staging(path), data)
        self._host.rename(staging(path), path)
        self._host.sync_directory(os.path.dirname(path))

    def _effect(self, what: str, do: t.Callable[..., t.Any], *args: t.Any) -> None:
        try:
            do(*args)
        except OSError as error:
            raise RecordError(
                f"record {self.root}: cannot write {what}: {reason(error)}; nothing of it was changed"
            ) from error

    # Removing

    def remove(self) -> None:
        """End the record in one step; what was kept for the site stays."""
        self.finish_removal()
        if self._host.lstat(self._live) is not None:
            self._host.rename(self._live, f"{self.root}/removed")
        self.finish_removal()

    def finish_removal(self) -> None:
        """Delete a record that was ended."""
        removed = f"{self.root}/removed"
        if self._host.lstat(removed) is None:
            return
        inner = [f"{removed}/{name}" for name in _FOLDERS]
        for folder in (*inner, removed):
            for name in self._host.names(folder):
                if f"{folder}/{name}" not in inner:
                    self._host.remove(f"{folder}/{name}")
            if self._host.lstat(folder) is not None:
                self._host.remove_directory(folder)
