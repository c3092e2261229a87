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

import errno
import hashlib
import json
import os
import re
import typing as t
import uuid

from .errors import RecordError
from .host import Host, reason
from .model import JSON
from .paths import check, staging
from .view import Entry, View

FORMAT = re.compile(rb"converged\.hpc record 1 ([0-9a-f]{32})\n")
PARENT = "converged"


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

    def load(self) -> View:
        """What the record says; an empty view where there is none."""
        view = View()
        if not self.exists():
            return view
        self._load_format()
        for name in self._segment_names():
            self._load_segment(view, name)
        self._load_journal(view)
        for key in view.doubled():
            raise self._damaged("baseline", f"{key} has two baselines")
        return view

    def _load_format(self) -> None:
        data = self._read(f"{self._live}/format")
        found = FORMAT.fullmatch(data)
        if found is None:
            raise self._damaged("format", f"expected 'converged.hpc record 1' and its id, found {data[:60]!r}")
        self.id = found.group(1).decode()

    def exists(self) -> bool:
        """A record was begun: its first file is written before anything else."""
        return self._host.lstat(f"{self._live}/format") is not None

    def blob(self, sha256: str) -> bytes:
        """A content, checked."""
        data = self._read(f"{self._live}/blobs/{sha256}")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise self._damaged(f"blobs/{sha256}", "its content does not match its name")
        return data

    def blob_chunks(self, sha256: str) -> t.Iterator[bytes]:
        """A content piece by piece; who writes it checks the digest."""
        return self._host.chunks(f"{self._live}/blobs/{sha256}")

    def has_blob(self, sha256: str) -> bool:
        """Whether a content is here."""
        return self._host.lstat(f"{self._live}/blobs/{sha256}") is not None

    def parts(self) -> t.Dict[str, int]:
        """Every file of the record and its size, by its name below `live`."""
        names = ["format"] if self.exists() else []
        names += [f"baseline/{name}" for name in self._segment_names()]
        names += [f"blobs/{name}" for name in self._host.names(f"{self._live}/blobs") if not name.startswith(".")]
        names += ["journal"] if self._host.lstat(self._journal) is not None else []
        return {name: t.cast(os.stat_result, self._host.lstat(f"{self._live}/{name}")).st_size for name in names}

    def part(self, name: str) -> bytes:
        """One file of the record."""
        return self._read(f"{self._live}/{name}")

    def _segment_names(self) -> t.List[str]:
        return [name for name in self._host.names(f"{self._live}/baseline") if not name.startswith(".")]

    def _load_segment(self, view: View, name: str) -> None:
        where = f"baseline/{name}"
        payload, checksum = _divide(self._read(f"{self._live}/{where}").rstrip(b"\n").rpartition(b"\n"))
        if hashlib.sha256(payload).hexdigest().encode() != checksum:
            raise self._damaged(where, "its checksum does not match")
        try:
            data = json.loads(payload)
            number = int(data["segment"])
            for item in data["entries"]:
                view.add_baseline(Entry.from_json(item, number))
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(where, str(error)) from error
        self._segments = max(self._segments, number)

    def _load_journal(self, view: View) -> None:
        data = self._read(self._journal) if self._host.lstat(self._journal) is not None else b""
        whole = data[: data.rfind(b"\n") + 1]
        for at, line in enumerate(whole.splitlines(), 1):
            checksum, payload = _divide(line.partition(b" "))
            if hashlib.sha256(payload).hexdigest()[:16].encode() != checksum:
                raise self._damaged("journal", f"line {at} does not match its checksum")
            try:
                event = json.loads(payload)
                if event["n"] != at:
                    raise ValueError(f"line {at} is event {event['n']}: lines are missing")
                view.replay(event)
            except (KeyError, TypeError, ValueError) as error:
                raise self._damaged("journal", f"line {at}: {error}") from error
            self._events = at
        self._journal_end = len(whole)

    def _read(self, path: str) -> bytes:
        try:
            return self._host.read(path)
        except FileNotFoundError as error:
            raise RecordError(
                f"record {self.root}: {path} is missing: restore it from the controller's copy"
            ) from error
        except OSError as error:
            raise RecordError(f"record {self.root}: cannot read {path}: {reason(error)}") from error

    def _damaged(self, name: str, what: str) -> RecordError:
        return RecordError(f"record {self._live}/{name} is damaged: {what}; put it back from the controller's copy")

    # Writing

    def begin(self) -> None:
        """Makes the record's directories; the format file last, so that a record is whole or none."""
        if self.exists():
            self.finish_removal()
            return
        self._make_folders()
        self.id = uuid.uuid4().hex
        self._write(f"{self._live}/format", [f"converged.hpc record 1 {self.id}\n".encode()])
        self._host.sync_directory(self.root)

    def _make_folders(self) -> None:
        """Empty ones: without the format file, what lies there is what a killed run took of a copy."""
        self.remove()
        for path in (self._live, *(f"{self._live}/{name}" for name in _FOLDERS)):
            make_directory(self._host, path, 0o700)

    def put_blob(self, path: str) -> str:
        """Copies a file of the node into the record."""
        return self._put(self._host.chunks(path), path)

    def put_text(self, data: bytes) -> str:
        """Puts a content that we made into the record."""
        sha256 = hashlib.sha256(data).hexdigest()
        return sha256 if self.has_blob(sha256) else self._put([data], "")

    def _put(self, chunks: t.Iterable[bytes], source: str) -> str:
        blobs = f"{self._live}/blobs"
        temporary = f"{blobs}/.new"
        if self._host.lstat(temporary) is not None:
            self._host.remove(temporary)
        try:
            sha256 = self._host.make_file(temporary, chunks)
        except OSError as error:
            raise RecordError(
                f"record {self.root}: cannot keep a copy of {source or 'a text'}: {reason(error)}"
            ) from error
        self._host.rename(temporary, f"{blobs}/{sha256}")
        self._host.sync_directory(blobs)
        return sha256

    def add_baselines(self, view: View, entries: t.Sequence[t.Tuple[str, t.Any, bool]]) -> None:
        """Writes what `key`s were like: once, and never again while they are ours."""
        if not entries:
            return
        number = self._segments + 1
        items = [
            {"key": key, "at": at, "state": state, "secret": secret} for at, (key, state, secret) in enumerate(entries)
        ]
        payload = json.dumps({"segment": number, "entries": items}, sort_keys=True).encode()
        path = f"{self._live}/baseline/{number:06d}"
        temporary = staging(path)
        if self._host.lstat(temporary) is not None:
            self._host.remove(temporary)
        self._effect(
            "baseline",
            self._host.make_file,
            temporary,
            [payload, b"\n", hashlib.sha256(payload).hexdigest().encode(), b"\n"],
        )
        self._effect("baseline", self._host.publish, temporary, path)
        self._host.sync_directory(os.path.dirname(path))
        self._host.remove(temporary)
        self._segments = number
        for item in items:
            view.add_baseline(Entry.from_json(item, number))

    def append(self, view: View, events: t.Sequence[JSON]) -> None:
        """Adds to the journal, on disk before this returns."""
        if not events:
            return
        data = b""
        for event in events:
            self._events += 1
            payload = json.dumps(dict(event, n=self._events), sort_keys=True).encode()
            data += hashlib.sha256(payload).hexdigest()[:16].encode() + b" " + payload + b"\n"
            view.replay(event)
        new = self._host.lstat(self._journal) is None
        self._effect("journal", lambda: self._host.append(self._journal, data, at=self._journal_end))
        if new:
            self._host.sync_directory(self._live)
        self._journal_end += len(data)

    def adopt(self, parts: t.Mapping[str, t.Iterable[bytes]]) -> None:
        """Takes a copy of a record that was lost; the format file comes last, as in `begin`."""
        self._make_folders()
        for name in sorted(parts, key=lambda name: name == "format"):
            self._write(f"{self._live}/{name}", parts[name])

    def _write(self, path: str, data: t.Iterable[bytes]) -> None:
        temporary = staging(path)
        if self._host.lstat(temporary) is not None:
            self._host.remove(temporary)
        self._effect(path, self._host.make_file, temporary, data)
        self._host.rename(temporary, path)
        self._host.sync_directory(os.path.dirname(path))

    def _effect(self, what: str, do: t.Callable[..., t.Any], *args: t.Any) -> None:
        try:
            do(*args)
        except OSError as error:
            raise RecordError(
                f"record {self.root}: cannot write {what}: {reason(error)}; nothing of it was changed"
            ) from error

    # Removing

    def make_root(self) -> None:
        """The directory itself; above it only our own may be missing."""
        above = os.path.dirname(self.root)
        if os.path.basename(above) == PARENT:
            make_directory(self._host, above, 0o755)
        elif self._host.lstat(above) is None:
            raise RecordError(f"record {self.root}: {above} does not exist: make it or choose another record_dir")
        make_directory(self._host, self.root, 0o700)

    def remove(self) -> None:
        """Ends the record in one step; what was kept for the site stays."""
        self.finish_removal()
        if self._host.lstat(self._live) is not None:
            self._host.rename(self._live, f"{self.root}/removed")
        self.finish_removal()

    def finish_removal(self) -> None:
        """Deletes a record that was ended."""
        removed = f"{self.root}/removed"
        if self._host.lstat(removed) is None:
            return
        for folder in (*(f"{removed}/{name}" for name in _FOLDERS), removed):
            for name in self._host.names(folder):
                if f"{folder}/{name}" not in [f"{removed}/{inner}" for inner in _FOLDERS]:
                    self._host.remove(f"{folder}/{name}")
            if self._host.lstat(folder) is not None:
                self._host.remove_directory(folder)

    def remove_root(self) -> None:
        """Takes away the directory itself, and the one above it where that is ours, unless something is kept there."""
        for path in (self.root, os.path.dirname(self.root)):
            if path != self.root and os.path.basename(path) != PARENT:
                return
            if self._host.lstat(path) is None or self._host.names(path):
                return
            try:
                self._host.remove_directory(path)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:  # somebody else has just begun
                    raise RecordError(f"cannot remove {path}: {reason(error)}") from error


def _divide(parts: t.Tuple[bytes, bytes, bytes]) -> t.Tuple[bytes, bytes]:
    return parts[0], parts[2]


_FOLDERS = ("baseline", "blobs")


def make_directory(host: Host, path: str, mode: int) -> None:
    """Unless it is there."""
    if host.lstat(path) is None:
        try:
            host.make_directory(path, mode)
        except OSError as error:
            raise RecordError(f"cannot make {path}: {reason(error)}") from error
