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
    """state.json, and beside it the fence: `closed/UNIT` exists exactly while we keep that unit stopped.

    The fence is what the services' own units look at (ConditionPathExists=!.../closed/%n), so that neither a reboot
    nor another tool's `systemctl start` lets pods onto a node that is served by stop. A unit that the administrator
    had stopped is not fenced: starting it is the administrator's right, and the next repair sees it.
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "state.json")
        self.fence = os.path.join(directory, "closed")
        self.loses = True  # what is on record, as far as known, must outlive a power cut

    def load(self, *, boot_id: str) -> Tuple[Memory, str]:
        """The memory, and a remark where it could not be read: then the fence tells what we had stopped."""
        try:
            content = durable.read(self.path)
            memory = Memory(boot_id) if content is None else _from_json(json.loads(content.decode("utf-8")))
            self.loses = bool(memory.off or memory.stopped)
            return memory, ""
        except (durable.StoreError, ValueError, KeyError, TypeError) as error:
            remark = "{}: unreadable ({}); judged by the fence".format(self.path, error)
        stopped = self.fenced()
        way = STOP if stopped else QUIESCE
        return Memory(boot_id, phase=TAKING, way=way, stopped=stopped, confined=True), remark

    def save(self, memory: Memory) -> None:
        """Fence before the record when closing, after it when opening: never open a unit that is on record as ours.

        Where nothing is stopped, a power cut takes all that is on record with it: the node is judged anew then.
        """
        self.raise_fence(memory.stopped)
        synced = bool(memory.off or memory.stopped or self.loses)
        durable.write(self.path, json.dumps(memory._asdict(), sort_keys=True).encode("utf-8"), synced=synced)
        self.loses = bool(memory.off or memory.stopped)
        self.lift(tuple(unit for unit in self.fenced() if unit not in memory.stopped))

    def raise_fence(self, units: Tuple[str, ...]) -> None:
        for unit in units:
            path = os.path.join(self.fence, unit)
            if not os.path.lexists(path):
                if not os.path.isdir(self.fence):
                    durable.make_private_dir(self.fence)
                durable.write(path, b"kept stopped for the batch system: see `nodeshare show`\n")

    def fenced(self) -> Tuple[str, ...]:
        try:
            return tuple(sorted(name for name in os.listdir(self.fence) if not name.startswith(".new.")))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise durable.StoreError("{}: cannot list: {}".format(self.fence, error.strerror)) from error

    def lift(self, units: Tuple[str, ...]) -> None:
        for unit in units:
            durable.remove(os.path.join(self.fence, unit))


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
