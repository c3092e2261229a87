# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodeshare remembers of its own doings between two calls.

Written ahead of every effect: after a kill at any point the next call sees at least what may have been done. It
says which services *we* stopped, so that one which the administrator had stopped is never started.
"""

import json
import os
from typing import Any, Dict, Tuple

from ..model.node.state import HELD, OPEN, QUIESCE, STOP, TAKING, NodeState
from . import files


class StateStore:
    """What holds for this boot is in memory: state.json, and the fence. Two things outlive the boot on disk.

    The fence is what the services' own units look at (ConditionPathExists=!.../closed/%n). `closed/UNIT` exists exactly
    while we keep that unit stopped. So no other tool's `systemctl start` lets pods onto a node that is served by stop.
    A unit that the administrator had stopped is not fenced: starting it is the administrator's right, and the next
    repair sees it.

    `keep` copies to disk that the node is switched off, and the fence. A node that is served by stop, or switched off,
    stays so through a reboot until a repair has looked. No begin or end writes to the disk, which may be full,
    read-only, or busy for minutes.
    """

    def __init__(self, directory: str, disk: str) -> None:
        self.path = os.path.join(directory, "state.json")
        self.fence = os.path.join(directory, "closed")
        self.disk = disk
        self.disk_fence = os.path.join(disk, "closed")
        self.disk_off = os.path.join(disk, "off")

    def load(self, *, boot_id: str) -> Tuple[NodeState, str]:
        """Return the state, and a remark if it could not be read: then the fence tells what we had stopped."""
        try:
            content = files.read(self.path)
            if content is not None:
                return self._with_fence(_from_json(json.loads(content.decode("utf-8")))), ""
        except (files.StoreError, ValueError, KeyError, TypeError) as error:
            remark = "{}: unreadable ({}); judged by the fence".format(self.path, error)
            return self._by_fence(boot_id, self.fenced()), remark
        try:
            stopped = self.kept()
        except files.StoreError as error:
            return self._by_fence(boot_id, self.fenced()), str(error)
        if not stopped and not os.path.lexists(self.disk_off):
            return self._with_fence(NodeState(boot_id)), ""
        return self._with_fence(
            self._by_fence("", stopped)._replace(unconfirmed=bool(stopped))
        ), ""  # of an earlier boot

    def _with_fence(self, memory: NodeState) -> NodeState:
        """Return the state with the units that a call has fenced and could not record: only their fence names them."""
        lost = tuple(unit for unit in self.fenced() if unit not in memory.stopped)
        if not lost:
            return memory
        return memory._replace(phase=TAKING, way=STOP, confined=True, stopped=memory.stopped + lost)

    def _by_fence(self, boot_id: str, stopped: Tuple[str, ...]) -> NodeState:
        way = STOP if stopped else QUIESCE
        off = os.path.lexists(self.disk_off)
        return NodeState(boot_id, phase=TAKING, way=way, stopped=stopped, confined=True, off=off)

    def save(self, memory: NodeState) -> str:
        """Fence before the record when closing, after it when opening: never open a unit that is on record as ours.

        Answers what is without a fence, and why.
        """
        remark = self.raise_fence(memory.stopped)
        files.write_with_room(self.path, json.dumps(memory._asdict(), sort_keys=True).encode("utf-8"))
        for unit in self.fenced():
            if unit not in memory.stopped:
                files.remove(os.path.join(self.fence, unit))
        return remark

    def keep(self, *, boot_id: str) -> None:
        """Write to disk what must outlive the boot, if it is not there yet. May take minutes: hold no lock.

        Another call may change the memory meanwhile; the last word counts, else that of the next repair.
        """
        for _again in range(3):
            memory, remark = self.load(boot_id=boot_id)
            if remark:
                raise files.StoreError(remark)
            have = self.kept()
            for unit in memory.stopped:
                if unit not in have:
                    _mark(self.disk, self.disk_fence, unit, synced=True)
            for unit in have:
                if unit not in memory.stopped:
                    files.remove(os.path.join(self.disk_fence, unit), synced=True)
            if memory.off and not os.path.lexists(self.disk_off):
                _mark(self.disk, self.disk, os.path.basename(self.disk_off), synced=True)
            elif not memory.off:
                files.remove(self.disk_off, synced=True)
            now = self.load(boot_id=boot_id)[0]
            if (now.off, now.stopped) == (memory.off, memory.stopped):
                break

    def raise_fence(self, units: Tuple[str, ...]) -> str:
        """Fence these units. Answers why one is stopped without a fence: no job waits for that."""
        remark = ""
        for unit in units:
            try:
                if not os.path.lexists(os.path.join(self.fence, unit)):
                    _mark(os.path.dirname(self.fence), self.fence, unit, synced=False)
            except files.StoreError as error:
                if not files.claim(os.path.join(self.fence, unit)):
                    remark = "stopped without a fence: {}".format(error)
        return remark

    def fenced(self) -> Tuple[str, ...]:
        return _marks(self.fence)

    def kept(self) -> Tuple[str, ...]:
        """Return the units that the fence on disk names."""
        return _marks(self.disk_fence)

    def lift(self, units: Tuple[str, ...]) -> None:
        """Take both fences away: the units may start."""
        for unit in units:
            files.remove(os.path.join(self.fence, unit))
            if os.path.lexists(os.path.join(self.disk_fence, unit)):
                files.remove(os.path.join(self.disk_fence, unit))


def _mark(parent: str, directory: str, name: str, *, synced: bool) -> None:
    for path in (parent, directory):
        if not os.path.isdir(path):
            files.make_private_dir(path)
    content = b"kept stopped for the batch system: see `nodeshare show`\n"
    files.write(os.path.join(directory, name), content, synced=synced)


def _marks(directory: str) -> Tuple[str, ...]:
    try:
        return tuple(sorted(name for name in os.listdir(directory) if not name.startswith(".new.")))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise files.StoreError("{}: cannot list: {}".format(directory, error.strerror)) from error


def _from_json(data: Dict[str, Any]) -> NodeState:
    if data["phase"] not in (OPEN, TAKING, HELD) or data["way"] not in ("", QUIESCE, STOP):
        raise ValueError("unknown phase or way")
    idle = data["idle_since"]
    return NodeState(
        str(data["boot_id"]),
        data["phase"],
        data["way"],
        tuple(str(unit) for unit in data["stopped"]),
        data["confined"] is True,
        data["off"] is True,
        None if idle is None else float(idle),
        int(data["comebacks"]),
        tuple(str(uid) for uid in data["keep"]),
        tuple((str(key), float(at), float(pause)) for key, at, pause in data["asked"]),
        tuple((str(name), int(amount)) for name, amount in data.get("room") or ()),
        data.get("unconfirmed") is True,
        data.get("forgotten") is True,
    )
