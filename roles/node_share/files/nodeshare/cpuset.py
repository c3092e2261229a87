# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Confines kubepods to the housekeeping CPUs while a node is quiesced, and gives them back.

What was there is written down first. On cgroup v2 one value at the top is enough. On v1 a parent must always hold
its children's CPUs, so one shrinks from the leaves up and grows from the top down.
"""

import json
import os
from typing import Dict, List

from . import durable


class CpusetError(Exception):
    """A cpuset could not be changed; the message names the file."""


class Cpuset:
    def __init__(self, *, cgroup: str, saved: str) -> None:
        self.cgroup = cgroup
        self.saved = saved

    def confine(self, cpus: str) -> None:
        before = self._saved()
        for top in self._tops():
            groups = self._groups(top)
            values = {group: _get(group) for group in groups}
            before.update({group: value for group, value in values.items() if group not in before and value != cpus})
            if before:
                # a power cut ends the groups as well
                durable.write(self.saved, json.dumps(before, sort_keys=True).encode("utf-8"), synced=False)
            for group in reversed(groups):
                if values[group] != cpus:
                    _put(group, cpus)

    def release(self) -> None:
        before = self._saved()
        for top in self._tops():
            for group in self._groups(top):
                parent = _get(os.path.dirname(group))
                # a group that was made meanwhile has inherited the confinement: it gets what its parent has
                wanted = before.get(group, parent if group != top else None)
                if wanted is not None and _get(group) != wanted:
                    _put(group, wanted)
        durable.remove(self.saved)

    def _tops(self) -> List[str]:
        places = [
            os.path.join(self.cgroup, hierarchy, name)
            for hierarchy in ("", "cpuset")
            for name in ("kubepods", "kubepods.slice")
        ]
        return [path for path in places if os.path.exists(os.path.join(path, "cpuset.cpus"))]

    def _groups(self, top: str) -> List[str]:
        """Parents before children; on cgroup v2 the top alone, for it bounds what is below."""
        if os.path.exists(os.path.join(top, "cgroup.controllers")):
            return [top]
        return [directory for directory, _names, _files in os.walk(top)]

    def _saved(self) -> Dict[str, str]:
        try:
            content = durable.read(self.saved)
            data = json.loads(content.decode("utf-8")) if content else {}
            return {str(group): str(value) for group, value in data.items()}
        except (durable.StoreError, ValueError, AttributeError):
            return {}  # then every group gets what its parent has


def _get(group: str) -> str:
    try:
        with open(os.path.join(group, "cpuset.cpus")) as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _put(group: str, cpus: str) -> None:
    path = os.path.join(group, "cpuset.cpus")
    try:
        with open(path, "r+") as stream:
            stream.write(cpus + "\n")
    except FileNotFoundError:
        pass  # the pod has ended meanwhile
    except OSError as error:
        raise CpusetError("{}: cannot set {}: {}".format(path, cpus or "all CPUs", error.strerror)) from error
