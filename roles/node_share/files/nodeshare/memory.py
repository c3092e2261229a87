# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodeshare remembers of its own doings between two calls.

Written ahead of every effect: after a kill at any point the next call sees at least what may have been done. It
says which services *we* stopped, so that one which the administrator had stopped is never started.
"""

import json
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import durable

OPEN = "open"  # pods may be here
TAKING = "taking"  # pods are being sent away, or may have come back
HELD = "held"  # proven free of pods since
QUIESCE = "quiesce"
STOP = "stop"


class Memory(NamedTuple):
    """`phase` is how far the node is; `way` how a held node is served; `stopped` is ours to start again.

    `keep` are the pods (by uid) that stay on a held node, as the API last told; `asked` is, per lease without a
    sign of life, when to ask the batch system next and how long to wait after that. `unconfirmed`: the API may show
    pods that were ended without their kubelet. `forgotten`: all has been given back, leases or not, and a kubelet that
    starts meanwhile keeps what it has.
    """

    boot_id: str
    phase: str = OPEN
    way: str = ""
    stopped: Tuple[str, ...] = ()
    confined: bool = False
    off: bool = False
    idle_since: Optional[float] = None
    comebacks: int = 0
    keep: Tuple[str, ...] = ()
    asked: Tuple[Tuple[str, float, float], ...] = ()
    room: Tuple[Tuple[str, int], ...] = ()  # what placeholders may have at most, as the API last told
    unconfirmed: bool = False
    forgotten: bool = False


class MemoryStore:
    """What holds for this boot is in memory: state.json, and the fence. Two things outlive the boot on disk.

    The fence is what the services' own units look at (ConditionPathExists=!.../closed/%n): `closed/UNIT` exists exactly
    while we keep that unit stopped, so no other tool's `systemctl start` lets pods onto a node that is served by stop.
    A unit that the administrator had stopped is not fenced: starting it is the administrator's right, and the next
    repair sees it.

    `keep` copies to disk that the node is switched off, and the fence: a node that is served by stop, or switched off,
    stays so through a reboot until a repair has looked. No begin or end writes to the disk, which may be full,
    read-only, or busy for minutes.
    """

    def __init__(self, directory: str, disk: str) -> None:
        self.path = os.path.join(directory, "state.json")
        self.fence = os.path.join(directory, "closed")
        self.disk = disk
        self.disk_fence = os.path.join(disk, "closed")
        self.disk_off = os.path.join(disk, "off")
        self.earlier = os.path.join(disk, "state.json")  # of releases that had all of it on disk

    def load(self, *, boot_id: str) -> Tuple[Memory, str]:
        """The memory, and a remark where it could not be read: then the fence tells what we had stopped."""
        for path in (self.path, self.earlier):
            try:
                content = durable.read(path)
                if content is not None:
                    return _from_json(json.loads(content.decode("utf-8"))), ""
            except (durable.StoreError, ValueError, KeyError, TypeError) as error:
                return self._by_fence(boot_id, self.fenced()), "{}: unreadable ({}); judged by the fence".format(
                    path, error
                )
        try:
            stopped = self.kept()
        except durable.StoreError as error:
            return self._by_fence(boot_id, ()), str(error)
        if not stopped and not os.path.lexists(self.disk_off):
            return Memory(boot_id), ""
        return self._by_fence("", stopped)._replace(unconfirmed=bool(stopped)), ""  # of an earlier boot

    def _by_fence(self, boot_id: str, stopped: Tuple[str, ...]) -> Memory:
        way = STOP if stopped else QUIESCE
        off = os.path.lexists(self.disk_off)
        return Memory(boot_id, phase=TAKING, way=way, stopped=stopped, confined=True, off=off)

    def save(self, memory: Memory) -> str:
        """Fence before the record when closing, after it when opening: never open a unit that is on record as ours.

        Answers what is without a fence, and why.
        """
        remark = self.raise_fence(memory.stopped)
        durable.write_with_room(self.path, json.dumps(memory._asdict(), sort_keys=True).encode("utf-8"))
        for unit in self.fenced():
            if unit not in memory.stopped:
                durable.remove(os.path.join(self.fence, unit))
        return remark

    def keep(self, *, boot_id: str) -> None:
        """Write to disk what must outlive the boot, if it is not there yet. May take minutes: hold no lock.

        Another call may change the memory meanwhile; the last word counts, else that of the next repair.
        """
        for _again in range(3):
            memory, remark = self.load(boot_id=boot_id)
            if remark:
                raise durable.StoreError(remark)
            have = self.kept()
            for unit in memory.stopped:
                if unit not in have:
                    _mark(self.disk, self.disk_fence, unit, synced=True)
            for unit in have:
                if unit not in memory.stopped:
                    durable.remove(os.path.join(self.disk_fence, unit), synced=True)
            if memory.off and not os.path.lexists(self.disk_off):
                _mark(self.disk, self.disk, os.path.basename(self.disk_off), synced=True)
            elif not memory.off:
                durable.remove(self.disk_off, synced=True)
            now = self.load(boot_id=boot_id)[0]
            if (now.off, now.stopped) == (memory.off, memory.stopped):
                break
        if os.path.lexists(self.path):
            durable.remove(self.earlier)

    def raise_fence(self, units: Tuple[str, ...]) -> str:
        """Fence these units. Answers why one is stopped without a fence: no job waits for that."""
        remark = ""
        for unit in units:
            try:
                if not os.path.lexists(os.path.join(self.fence, unit)):
                    _mark(os.path.dirname(self.fence), self.fence, unit, synced=False)
            except durable.StoreError as error:
                if not durable.claim(os.path.join(self.fence, unit)):
                    remark = "stopped without a fence: {}".format(error)
        return remark

    def fenced(self) -> Tuple[str, ...]:
        return _marks(self.fence)

    def kept(self) -> Tuple[str, ...]:
        """The units that the fence on disk names."""
        return _marks(self.disk_fence)

    def lift(self, units: Tuple[str, ...]) -> None:
        """Take both fences away: the units may start."""
        for unit in units:
            durable.remove(os.path.join(self.fence, unit))
            if os.path.lexists(os.path.join(self.disk_fence, unit)):
                durable.remove(os.path.join(self.disk_fence, unit))


def _mark(parent: str, directory: str, name: str, *, synced: bool) -> None:
    for path in (parent, directory):
        if not os.path.isdir(path):
            durable.make_private_dir(path)
    content = b"kept stopped for the batch system: see `nodeshare show`\n"
    durable.write(os.path.join(directory, name), content, synced=synced)


def _marks(directory: str) -> Tuple[str, ...]:
    try:
        return tuple(sorted(name for name in os.listdir(directory) if not name.startswith(".new.")))
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise durable.StoreError("{}: cannot list: {}".format(directory, error.strerror)) from error


def _from_json(data: Dict[str, Any]) -> Memory:
    if data["phase"] not in (OPEN, TAKING, HELD) or data["way"] not in ("", QUIESCE, STOP):
        raise ValueError("unknown phase or way")
    idle = data["idle_since"]
    return Memory(
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
