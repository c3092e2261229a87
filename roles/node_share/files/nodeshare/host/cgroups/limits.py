# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caps what all pods together may use of memory and processor time, and gives it back.

The kubelet writes these values when it starts; ours count from what it wrote last. Memory is never set below what is
used at the moment, without page cache. On cgroup v1 the kernel would refuse a lower limit, on v2 it would kill.

Page cache of pods that have ended counts as used until the kernel takes it back. It does so while a limit is being
written, and so a lower limit is written in steps.
"""

import errno
import json
import os
import time
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...store import files
from . import kubepods


class LimitsError(Exception):
    """A limit could not be set; the message names the file."""


class BusyError(LimitsError):
    """The kernel of cgroup v1 cannot take back enough for this limit. The limit of before holds."""


class Kind(NamedTuple):
    """The files of one cgroup version, and in memory.stat the fields of page cache and of what is not on disk yet."""

    limit: str
    usage: str
    cache: Tuple[str, str]
    unwritten: Tuple[str, str]
    weight: str
    lightest: int


class Used(NamedTuple):
    """Bytes of memory that pods use, and how much of it is page cache that needs no disk to be taken back."""

    whole: int
    cache: int

    def least(self) -> int:
        """Return the smallest limit that ends no process: pods that run need some page cache."""
        return self.whole - max(0, self.cache - CACHE)


class Saved(NamedTuple):
    """What is on record of a file: what it had before, what it is to have, and what else it may have from us."""

    before: str
    ours: str
    way: Tuple[str, ...] = ()

    def is_by_us(self, now: str) -> bool:
        return now == self.ours or now in self.way


class Wanted(NamedTuple):
    """For one file: what it had before us, what it is to have, what it has, and the bytes that are used."""

    before: str
    ours: str
    now: str
    used: int = 0

    def steps(self) -> List[str]:
        """Return what to write one after the other, so that the kernel takes STEP bytes back at a time."""
        way = range(_whole_pages(self.used), int(self.ours), -STEP)
        return [str(value) for value in way if not self.now.isdigit() or value < int(self.now)] + [self.ours]


PAGE = 65536  # the largest there is: the kernel must not round what we compare with later
CACHE = 512 << 20  # bytes of page cache that no limit takes from pods
STEP = 1 << 30
SECONDS = 3.0  # for all steps of one call; a step that has begun ends
LONGEST = 1 << 16  # bytes of memory.stat
V1 = Kind(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
    ("total_dirty", "total_writeback"),
    "cpu.shares",
    2,
)
V2 = Kind(
    "memory.max", "memory.current", ("inactive_file", "active_file"), ("file_dirty", "file_writeback"), "cpu.weight", 1
)


class Limits:
    def __init__(
        self, *, cgroup: str, saved: str, total: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.cgroup = cgroup
        self.saved = saved
        self.total = total  # bytes of memory that the machine has
        self.clock = clock

    def cap(self, *, memory: int, weight: int, of: int) -> None:
        """Memory without `memory` bytes, and `weight` of `of` parts of the time."""
        saved = self._saved()
        wanted = {}
        for path, kind, usage in self._places():
            now = _get(path)
            before = _before(saved.get(path), now)
            if usage:
                whole = min(int(before), self.total()) if before.isdigit() else self.total()
                used = _used(usage, kind)
                least = max(whole - memory, used.least())
                wanted[path] = Wanted(before, str(_whole_pages(least)), now, used.whole)
            elif before.isdigit() and of > 0:
                wanted[path] = Wanted(before, str(max(kind.lightest, int(before) * weight // of)), now)
        self._set(wanted, saved, {})

    def hold(self, *, margin: int) -> None:
        """Let pods have the memory that they use now and `margin` bytes more, once: what they gain later is no measure.

        Page cache does not count as used: a pod that comes could fill it with memory of its own.
        """
        saved = self._saved()
        wanted = {}
        for path, kind, usage in self._places():
            if usage:
                now, used, held = _get(path), _used(usage, kind), saved.get(path)
                before = _before(held, now)
                most = int(held.ours) if held and held.ours.isdigit() else used.whole - used.cache + margin
                ours = _whole_pages(max(most, used.least()))
                if not before.isdigit() or ours < int(before):
                    wanted[path] = Wanted(before, str(ours), now, used.whole)
        self._set(wanted, saved, saved)

    def _set(self, wanted: Mapping[str, Wanted], saved: Mapping[str, Saved], others: Mapping[str, Saved]) -> None:
        """Set what is not so yet, on record first.

        When time is up, or the kernel can take no more back, the step that was reached stays, and a later call goes on.
        """
        kept = dict(others)
        for path, one in wanted.items():
            kept[path] = Saved(one.before, one.ours, () if one.now == one.ours else (one.now,))
        if kept != saved:
            self._record(kept)
        give_up = self.clock() + SECONDS
        for path, one in wanted.items():
            now = one.now
            for value in one.steps() if now != one.ours else ():
                if now != one.now and self.clock() >= give_up:
                    break
                if value != one.ours:
                    kept[path] = Saved(one.before, one.ours, (now, value))
                    self._record(kept)
                try:
                    _put(path, value)
                except BusyError:
                    if now == one.before:
                        raise  # no limit of ours holds
                    break
                now = value

    def _record(self, kept: Mapping[str, Saved]) -> None:
        content = {path: [one.before, one.ours, *one.way] for path, one in kept.items()}
        files.write(self.saved, json.dumps(content, sort_keys=True).encode("utf-8"), synced=False)

    def release(self) -> None:
        """Give back what was capped. Raises LimitsError for what stays capped; that is on record still."""
        errors: List[str] = []
        for path, one in self._saved().items():
            try:
                if one.is_by_us(_get(path)):
                    _put(path, one.before)
            except LimitsError as error:
                errors.append(str(error))
        if errors:
            raise LimitsError("; ".join(errors[:3]))
        files.remove(self.saved)

    def found(self) -> bool:
        """Return whether a kubelet has made the cgroup of all pods, with a limit of memory that can be set."""
        return any(usage for _path, _kind, usage in self._places())

    def look(self) -> Dict[str, str]:
        """Return what is set now."""
        return {path: _get(path) for path, _kind, _usage in self._places()}

    def _places(self) -> List[Tuple[str, Kind, str]]:
        """(file, its kind, the file that tells what is used) of the hierarchies that are mounted."""
        found = []
        for hierarchy, kind in (("memory", V1), ("", V2)):
            for top in kubepods.tops(self.cgroup, (hierarchy,)):
                found.append((os.path.join(top, kind.limit), kind, os.path.join(top, kind.usage)))
        for hierarchy, kind in (("cpu", V1), ("", V2)):
            for top in kubepods.tops(self.cgroup, (hierarchy,)):
                found.append((os.path.join(top, kind.weight), kind, ""))
        return [place for place in found if os.path.exists(place[0])]

    def _saved(self) -> Dict[str, Saved]:
        try:
            content = files.read(self.saved)
            data = json.loads(content.decode("utf-8")) if content else {}
            return {
                str(path): Saved(str(before), str(ours), tuple(str(value) for value in way))
                for path, (before, ours, *way) in data.items()
            }
        except (files.StoreError, ValueError, AttributeError, TypeError):
            return {}


def _before(saved: Optional[Saved], now: str) -> str:
    """Return what the file has without us: what is on record, or what the kubelet has written since."""
    return saved.before if saved is not None and saved.is_by_us(now) else now


def _used(usage: str, kind: Kind) -> Used:
    """Read what is used. Without memory.stat, all of it counts as memory that cannot be taken back."""
    whole = _number(usage)
    try:
        with open(os.path.join(os.path.dirname(usage), "memory.stat"), encoding="ascii", errors="replace") as stream:
            lines = stream.read(LONGEST).splitlines()
    except OSError:
        return Used(whole, 0)
    told = {name: int(value) for name, _blank, value in (line.partition(" ") for line in lines) if value.isdigit()}
    cache = sum(told.get(name, 0) for name in kind.cache) - sum(told.get(name, 0) for name in kind.unwritten)
    return Used(whole, min(whole, max(0, cache)))


def _whole_pages(count: int) -> int:
    return -(-count // PAGE) * PAGE


def _get(path: str) -> str:
    try:
        with open(path) as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def _number(path: str) -> int:
    text = _get(path)
    return int(text) if text.isdigit() else 0


def _put(path: str, value: str) -> None:
    try:
        with open(path, "r+") as stream:
            stream.write(value + "\n")
    except FileNotFoundError:
        pass  # the kubelet has taken its cgroup away
    except OSError as error:
        kind = BusyError if error.errno == errno.EBUSY else LimitsError
        raise kind("{}: cannot set {}: {}".format(path, value, error.strerror)) from error
