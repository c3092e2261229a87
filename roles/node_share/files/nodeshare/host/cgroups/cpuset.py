# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Confines kubepods to some of the CPUs, beside jobs or while a node is quiesced, and gives them back.

What was there is written down first. On cgroup v2 one value at the top is enough. On v1 a parent must always hold
its children's CPUs, so one shrinks from the leaves up and grows from the top down.
"""

import errno
import json
import os
import time
from typing import Dict, FrozenSet, List

from ...model.cpu_list import CpusetError, format_cpus, parse_cpus
from ...store import files
from . import kubepods

TRIES = 5
OURS = ""  # on record beside the groups' own values: the one that we gave last


class Cpuset:
    def __init__(self, *, cgroup: str, saved: str) -> None:
        self.cgroup = cgroup
        self.saved = saved

    def confine(self, cpus: str) -> None:
        """Every group gets what it had of `cpus`; one that had nothing of them gets what its parent gets.

        A container may start at the same moment: its group, with all CPUs, then keeps its parent from shrinking.
        """
        for left in reversed(range(TRIES)):
            try:
                self._confine(format_cpus(parse_cpus(cpus)))
                return
            except CpusetError:
                if not left:
                    raise
            time.sleep(0.01)

    def _confine(self, cpus: str) -> None:
        before = self._saved()
        ours = before.get(OURS)
        for top in self._tops():
            groups = self._groups(top)
            values = {group: _get(group) for group in groups}
            # what has the value that we gave last, and is not on record, was made under it
            found = {group: value for group, value in values.items() if group not in before and value != ours}
            if found or cpus != ours:
                before.update(found)
                before[OURS] = cpus
                # a power cut ends the groups as well
                files.write(self.saved, json.dumps(before, sort_keys=True).encode("utf-8"), synced=False)
            wanted = _wanted(groups, before, parse_cpus(cpus))
            for group in groups:
                if not parse_cpus(wanted[group]) <= parse_cpus(values[group]):
                    values[group] = format_cpus(parse_cpus(wanted[group]) | parse_cpus(values[group]))
                    _put(group, values[group])
            for group in reversed(groups):
                if values[group] != wanted[group]:
                    _put(group, wanted[group])

    def release(self) -> None:
        """Give every group back what it had. Raises CpusetError for what stays confined; that is on record still.

        A value that the kernel takes no more, because a CPU in it is offline, becomes what the parent has of it.
        """
        before = self._saved()
        errors: List[str] = []
        for top in self._tops():
            for group in self._groups(top):
                parent = _get(os.path.dirname(group))
                # a group that was made meanwhile has inherited the confinement: it gets what its parent has
                wanted = before.get(group, parent if group != top else None)
                if wanted is None or _get(group) == wanted:
                    continue
                try:
                    _put(group, wanted)
                except CpusetError as error:
                    left = parse_cpus(wanted) & parse_cpus(parent)
                    try:
                        _put(group, format_cpus(left) if left else parent)
                    except CpusetError:
                        errors.append(str(error))
        if errors:
            raise CpusetError("; ".join(errors[:3]))
        files.remove(self.saved)

    def found(self) -> bool:
        """Return whether a kubelet has made the cgroup of all pods, with CPUs that can be set."""
        return bool(self._tops())

    def look(self) -> Dict[str, str]:
        """Return what the uppermost groups have now: those that a kubelet writes when it starts."""
        found: Dict[str, str] = {}
        for top in self._tops():
            below = [] if _is_v2(top) else [entry.path for entry in os.scandir(top) if entry.is_dir()]
            found.update((group, _get(group)) for group in (top, *below))
        return found

    def _tops(self) -> List[str]:
        tops = kubepods.tops(self.cgroup, ("", "cpuset"))
        return [top for top in tops if os.path.exists(os.path.join(top, "cpuset.cpus"))]

    def _groups(self, top: str) -> List[str]:
        """Parents before children; on cgroup v2 the top alone, for it bounds what is below."""
        if _is_v2(top):
            return [top]
        return [directory for directory, _names, _files in os.walk(top)]

    def _saved(self) -> Dict[str, str]:
        try:
            content = files.read(self.saved)
            data = json.loads(content.decode("utf-8")) if content else {}
            return {str(group): str(value) for group, value in data.items()}
        except (files.StoreError, ValueError, AttributeError):
            return {}  # then every group gets what its parent has


def _wanted(groups: List[str], before: Dict[str, str], cpus: FrozenSet[int]) -> Dict[str, str]:
    wanted: Dict[str, str] = {}
    for group in groups:
        own = parse_cpus(before.get(group, "")) & cpus
        wanted[group] = format_cpus(own) if own else wanted.get(os.path.dirname(group), format_cpus(cpus))
    return wanted


def _is_v2(group: str) -> bool:
    return os.path.exists(os.path.join(group, "cgroup.controllers"))


def _get(group: str) -> str:
    try:
        with open(os.path.join(group, "cpuset.cpus")) as stream:
            return stream.readline().strip()
    except OSError:
        return ""


def _put(group: str, cpus: str) -> None:
    """Set the CPUs of a group. On v2 the kernel empties no group with processes: it gets all that its parent has."""
    path = os.path.join(group, "cpuset.cpus")
    try:
        with open(path, "r+") as stream:
            stream.write(cpus + "\n")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return  # the pod has ended meanwhile: before the file was opened, or after
        everything = "" if cpus else _comes_to(os.path.dirname(group))
        if not everything:
            raise CpusetError("{}: cannot set {}: {}".format(path, cpus or "all CPUs", error.strerror)) from error
        _put(group, everything)


def _comes_to(group: str) -> str:
    """Return what a group of v2 may use; empty if no file tells."""
    try:
        with open(os.path.join(group, "cpuset.cpus.effective")) as stream:
            return stream.readline().strip()
    except OSError:
        return ""
