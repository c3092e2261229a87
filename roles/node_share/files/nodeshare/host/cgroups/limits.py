# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caps what all pods together may use of memory and processor time, and gives it back.

The kubelet writes these values when it starts; ours count from what it wrote last. Memory is never set below what is
used at the moment: on cgroup v1 the kernel would refuse, on v2 it would kill.
"""

import json
import os
from typing import Callable, Dict, List, Mapping, NamedTuple, Tuple

from ...store import files


class LimitsError(Exception):
    """A limit could not be set; the message names the file."""


class Kind(NamedTuple):
    """The files of one cgroup version: of memory its limit and its usage, of the processor its weight."""

    limit: str
    usage: str
    weight: str
    lightest: int


PAGE = 65536  # the largest there is: the kernel must not round what we compare with later
V1 = Kind("memory.limit_in_bytes", "memory.usage_in_bytes", "cpu.shares", 2)
V2 = Kind("memory.max", "memory.current", "cpu.weight", 1)


class Limits:
    def __init__(self, *, cgroup: str, saved: str, total: Callable[[], int]) -> None:
        self.cgroup = cgroup
        self.saved = saved
        self.total = total  # bytes of memory that the machine has

    def cap(self, *, memory: int, weight: int, of: int) -> None:
        """Memory without `memory` bytes, and `weight` of `of` parts of the time."""
        saved = self._saved()
        wanted = {}
        for path, kind, usage in self._places():
            now = _get(path)
            before, ours = saved.get(path, (now, ""))
            if now != ours:
                before = now  # the kubelet has written it since
            if usage:
                whole = min(int(before), self.total()) if before.isdigit() else self.total()
                least = max(whole - memory, _number(usage))
                wanted[path] = (before, str(-(-least // PAGE) * PAGE), now)
            elif before.isdigit() and of > 0:
                wanted[path] = (before, str(max(kind.lightest, int(before) * weight // of)), now)
        self._set(wanted, saved, {})

    def hold(self, *, margin: int) -> None:
        """Let pods have the memory that they use now and `margin` bytes more, once: what they gain later is no measure.

        Page cache counts as used, which the kernel takes back where a job needs it.
        """
        saved = self._saved()
        wanted = {}
        for path, _kind, usage in self._places():
            if usage:
                now, used = _get(path), _number(usage)
                before, ours = saved.get(path, (now, ""))
                if now != ours:
                    before = now  # the kubelet has written it since
                most = max(int(ours), used) if ours.isdigit() else used + margin
                most = -(-most // PAGE) * PAGE
                if not before.isdigit() or most < int(before):
                    wanted[path] = (before, str(most), now)
        self._set(wanted, saved, saved)

    def _set(
        self,
        wanted: Mapping[str, Tuple[str, str, str]],
        saved: Mapping[str, Tuple[str, str]],
        others: Mapping[str, Tuple[str, str]],
    ) -> None:
        """Set what is not so yet, on record first: by file what it had before, what it gets and what it has now."""
        kept = dict(others, **{path: (before, ours) for path, (before, ours, _now) in wanted.items()})
        if kept != saved:
            files.write(self.saved, json.dumps(kept, sort_keys=True).encode("utf-8"), synced=False)
        for path, (_before, ours, now) in wanted.items():
            if now != ours:
                _put(path, ours)

    def release(self) -> None:
        """Give back what was capped. Raises LimitsError for what stays capped; that is on record still."""
        errors: List[str] = []
        for path, (before, ours) in self._saved().items():
            try:
                if _get(path) == ours:
                    _put(path, before)
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
        for name in ("kubepods", "kubepods.slice"):
            for hierarchy, kind in (("memory", V1), ("", V2)):
                group = os.path.join(self.cgroup, hierarchy, name)
                found.append((os.path.join(group, kind.limit), kind, os.path.join(group, kind.usage)))
            for hierarchy, kind in (("cpu", V1), ("", V2)):
                found.append((os.path.join(self.cgroup, hierarchy, name, kind.weight), kind, ""))
        return [place for place in found if os.path.exists(place[0])]

    def _saved(self) -> Dict[str, Tuple[str, str]]:
        try:
            content = files.read(self.saved)
            data = json.loads(content.decode("utf-8")) if content else {}
            return {str(path): (str(before), str(ours)) for path, (before, ours) in data.items()}
        except (files.StoreError, ValueError, AttributeError, TypeError):
            return {}


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
        raise LimitsError("{}: cannot set {}: {}".format(path, value, error.strerror)) from error
