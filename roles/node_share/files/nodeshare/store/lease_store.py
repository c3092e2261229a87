# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The leases of this node: one file per run of a batch job, which lives until that run has ended.

A lease file is the only thing that says "a batch job owns this node". It is in memory: no job outlives the boot, and
no begin waits for a disk. Begin and end may come twice, in any order, at the same time, or never; the rules that keep
this right:

- `end` touches only its own run, and not even that when both know a start time and the lease's is later. After a loss
  of the controller's state a job id is given out again, with the same run.
- `end` leaves an *ended mark* for a bounded time. A `begin` that meets its own mark came late. Where both know the same
  start time it is that very run, and is dropped. Otherwise it may also be a new job with a used id, and a job that runs
  beside pods is worse than a node held too long. It becomes a `doubtful` lease, which holds the node like any other.
  Repair may drop it without asking once the mark's life is over and no process of the job is seen.
- A file that cannot be read is a lease that we know by its name only: reported, and held.
- Where there is no room for a lease, its empty file holds a whole node by its name. Otherwise the lease counts for the
  rest of its call, and the next one that hears of the job tries again.
- An `end` removes its lease although its mark cannot be written.
"""

import json
import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..model.jobs import job_key
from ..model.jobs.job_key import JobKey
from ..model.jobs.lease import Ended, Lease
from . import files, lock
from .files import StoreError

TICK = 0.03  # a file system's clock is coarser than ours: by 10 ms where the kernel ticks slowest
LEASE_SUFFIX = ".lease"
ENDED_SUFFIX = ".ended"
_NOTHING_SAID = (None, None, (), False, "")


class LeaseStore:
    """Files below one root-only directory in memory. Callers hold `locked()` around every change.

    `whole_nodes`: a job has all of its node, and its name says enough where there is no room for its lease.
    """

    def __init__(
        self,
        directory: str,
        *,
        whole_nodes: bool = False,
        lock_seconds: float = 5.0,
        at_point: Callable[[str], None] = lambda point: None,
    ) -> None:
        self.directory = directory
        self.whole_nodes = whole_nodes
        self.lock_seconds = lock_seconds
        self.at_point = at_point  # named points of the writes, for tests that kill the process there
        self.read: Dict[str, Tuple[Tuple[int, int], Lease]] = {}  # one call looks at the same many files several times
        self.last: Tuple[int, Tuple[Lease, ...]] = (0, ())  # what was found, and the directory's time of change then
        self.unwritten: Dict[JobKey, Lease] = {}

    def prepare(self) -> None:
        """Make the directory."""
        if not os.path.isdir(self.directory):
            files.make_private_dir(self.directory)

    def locked(self) -> lock.Lock:
        return lock.Lock(os.path.join(self.directory, "lock"), seconds=self.lock_seconds)

    def leases(self) -> Tuple[Lease, ...]:
        """All that hold the node, unreadable ones and unwritten ones included. An interrupted end counts as ended."""
        if not self.unwritten:
            return self._written()
        others = tuple(lease for lease in self._written() if lease.key not in self.unwritten)
        return others + tuple(lease for lease in self.unwritten.values() if not self._ended(lease))

    def _written(self) -> Tuple[Lease, ...]:
        changed = self._changed()
        if changed and changed == self.last[0]:
            return self.last[1]
        found: List[Lease] = []
        names = frozenset(self._names())
        for name in names:
            if not name.endswith(LEASE_SUFFIX):
                continue
            lease = self._read_again(name)
            mark = name[: -len(LEASE_SUFFIX)] + ENDED_SUFFIX
            if mark in names and not lease.corrupt and not lease.doubtful and self._ends(mark, lease):
                continue
            found.append(lease)
        self.last = (changed, tuple(sorted(found, key=lambda lease: (lease.began, lease.key))))
        return self.last[1]

    def _changed(self) -> int:
        """When a name in the directory came or went; 0 while another change could still bear the same time."""
        try:
            changed = os.stat(self.directory).st_mtime_ns
        except OSError:
            return 0
        return changed if abs(time.time() - changed / 1e9) > TICK else 0

    def begin(self, lease: Lease, *, mark_life: float, adopted: bool = False) -> str:
        """Record a lease. Answers `new`, `known`, `doubtful`, or `ended` (nothing recorded: that run is over).

        `named`: recorded by its name alone, for want of room.

        A job that was adopted, or gave a part of the node back, is told again with its share: `changed`. An `adopted`
        one is of a list that may be older than what the batch system's script has told. A job that has cores again is
        the exception, because no script may have told that it goes on.
        """
        known = self._find(lease.key)
        if (
            known is not None
            and not known.corrupt
            and known.boot_id == lease.boot_id
            and (known.start == lease.start or lease.start is None)
            and not self._ended(known)
        ):
            told = known.share() != _NOTHING_SAID and not (known.cores == 0 and lease.cores)
            if lease.share() in (known.share(), _NOTHING_SAID) or (adopted and told):
                return "known"
            return self._record(_with_share_of(lease, known), "changed")
        mark = self._read_mark(job_key.file_name(lease.key) + ENDED_SUFFIX)
        answer = "new"
        if mark is not None and mark.boot_id == lease.boot_id and lease.began - mark.at < mark_life:
            if mark.start is not None and lease.start is not None:
                if lease.start <= mark.start:
                    return "ended"
            elif adopted:
                return "ended"
            else:
                lease, answer = lease._replace(doubtful=True), "doubtful"
        self.at_point("begin:before-write")
        answer = self._record(lease, answer)
        self.at_point("begin:after-write")
        return answer

    def keep(self, lease: Lease) -> None:
        """Keep a lease that could not be recorded: it counts while this process lives and no end of it is on record."""
        self.unwritten.setdefault(lease.key, lease)

    def end(self, ended: Ended) -> str:
        """End one run. Answers `ended`, `unknown` (a mark is left) or `later` (the lease is of a later start).

        `unmarked`: ended, and a begin of this run that comes late will be taken for one in time.
        """
        known = self._find(ended.key)
        if known is not None and known.start is not None and ended.start is not None and known.start > ended.start:
            return "later"
        if known is not None and ended.start is None:
            ended = ended._replace(start=known.start)
        self.at_point("end:before-mark")
        unwritten: Optional[StoreError] = None
        try:
            self._write(job_key.file_name(ended.key) + ENDED_SUFFIX, _ended_to_json(ended))
        except StoreError as error:
            unwritten = error
        self.at_point("end:after-mark")
        removed = files.remove(os.path.join(self.directory, job_key.file_name(ended.key) + LEASE_SUFFIX))
        self.at_point("end:after-remove")
        if unwritten is not None:
            if not removed:
                raise unwritten
            return "unmarked"
        return "ended" if removed else "unknown"

    def version_of(self, key: JobKey) -> Tuple[int, int]:
        """Return what tells the lease's file from any that is written in its place; zeros where there is none."""
        try:
            found = os.lstat(os.path.join(self.directory, job_key.file_name(key) + LEASE_SUFFIX))
        except OSError:
            return (0, 0)
        return (found.st_ino, found.st_ctime_ns)

    def drop(self, lease: Lease) -> None:
        self.unwritten.pop(lease.key, None)
        files.remove(os.path.join(self.directory, job_key.file_name(lease.key) + LEASE_SUFFIX))

    def tidy(self, *, boot_id: str, now: float, mark_life: float) -> None:
        """Finish interrupted ends, and remove marks whose life is over and temporary files of killed writers."""
        names = self._names()
        for name in names:
            path = os.path.join(self.directory, name)
            if name.startswith(".new.") and name.endswith((LEASE_SUFFIX, ENDED_SUFFIX)):  # others write here as well
                files.remove(path)
            elif name.endswith(ENDED_SUFFIX):
                lease_name = name[: -len(ENDED_SUFFIX)] + LEASE_SUFFIX
                lease = self._read_lease(lease_name) if lease_name in names else None
                if lease is not None and not lease.corrupt and not lease.doubtful and self._ends(name, lease):
                    files.remove(os.path.join(self.directory, lease_name))
                mark = self._read_mark(name)
                if mark is None or mark.boot_id != boot_id or now - mark.at >= mark_life:
                    files.remove(path)

    def _names(self) -> List[str]:
        try:
            return sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError("{}: cannot list: {}".format(self.directory, error.strerror)) from error

    def _find(self, key: JobKey) -> Optional[Lease]:
        name = job_key.file_name(key) + LEASE_SUFFIX
        return self._read_lease(name) if os.path.lexists(os.path.join(self.directory, name)) else None

    def _ended(self, lease: Lease) -> bool:
        return not lease.doubtful and self._ends(job_key.file_name(lease.key) + ENDED_SUFFIX, lease)

    def _ends(self, mark_name: str, lease: Lease) -> bool:
        """Whether this mark is of the run that the lease stands for, and not of an earlier life of its id."""
        mark = self._read_mark(mark_name)
        if mark is None or mark.boot_id != lease.boot_id:
            return False
        if mark.start is not None and lease.start is not None:
            return mark.start >= lease.start
        return mark.at >= lease.began

    def _read_again(self, name: str) -> Lease:
        """From memory where it is the file that was read: each write makes a file of its own."""
        try:
            found = os.lstat(os.path.join(self.directory, name))
        except OSError:
            return self._read_lease(name)
        known = self.read.get(name)
        stamp = (found.st_ino, found.st_ctime_ns)
        if known is None or known[0] != stamp:
            known = self.read[name] = (stamp, self._read_lease(name))
        return known[1]

    def _read_lease(self, name: str) -> Lease:
        try:
            key = job_key.from_file_name(name[: -len(LEASE_SUFFIX)])
        except job_key.JobIdError:
            return Lease(JobKey("unknown", name[:80], 0), "", 0.0, corrupt=True)
        try:
            content = files.read(os.path.join(self.directory, name))
            return _lease_from_json(key, json.loads((content or b"").decode("utf-8")))
        except (StoreError, ValueError, KeyError, TypeError):
            return Lease(key, "", 0.0, corrupt=True)

    def _read_mark(self, name: str) -> Optional[Ended]:
        try:
            key = job_key.from_file_name(name[: -len(ENDED_SUFFIX)])
            content = files.read(os.path.join(self.directory, name))
            if content is None:
                return None
            data = json.loads(content.decode("utf-8"))
            return Ended(key, str(data["boot_id"]), float(data["at"]), _whole(data.get("start")))
        except (StoreError, ValueError, KeyError, TypeError):
            return None

    def _record(self, lease: Lease, answer: str) -> str:
        name = job_key.file_name(lease.key) + LEASE_SUFFIX
        path = os.path.join(self.directory, name)
        try:
            self._write(name, _lease_to_json(lease))
        except StoreError:
            self.unwritten[lease.key] = lease
            if self.whole_nodes and (files.claim(path) or os.path.lexists(path)):
                return "named"
            raise
        self.unwritten.pop(lease.key, None)
        return answer

    def _write(self, name: str, data: Dict[str, Any]) -> None:
        content = json.dumps(data, sort_keys=True).encode("utf-8")
        files.write(os.path.join(self.directory, name), content, synced=False)


def _whole(value: Any) -> Optional[int]:
    if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        raise ValueError("not a count: {!r}".format(value))
    return value


def _lease_to_json(lease: Lease) -> Dict[str, Any]:
    data = lease._asdict()
    return {name: data[name] for name in data if name not in ("key", "corrupt")}


def _lease_from_json(key: JobKey, data: Dict[str, Any]) -> Lease:
    return Lease(
        key,
        str(data["boot_id"]),
        float(data["began"]),
        _whole(data.get("start")),
        _whole(data.get("cores")),
        _whole(data.get("memory")),
        tuple(str(device) for device in data.get("devices") or ()),
        data.get("exclusive") is True,
        data.get("doubtful") is True,
        cgroup=str(data.get("cgroup") or ""),
    )


def _with_share_of(lease: Lease, known: Lease) -> Lease:
    return known._replace(
        cores=lease.cores,
        memory=lease.memory,
        devices=lease.devices,
        exclusive=lease.exclusive,
        cgroup=lease.cgroup,
    )


def _ended_to_json(ended: Ended) -> Dict[str, Any]:
    return {"boot_id": ended.boot_id, "at": ended.at, "start": ended.start}
