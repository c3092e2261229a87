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
    sign of life, when to ask the batch system next and how long to wait after that.
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


class MemoryStore:
    """state.json, and beside it the fence `closed`, which exists exactly while services must stay stopped.

    The fence is what the services' own units look at (ConditionPathExists), so that neither a reboot nor another
    tool's `systemctl start` lets pods onto a node that is served by stop.
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "state.json")
        self.fence = os.path.join(directory, "closed")

    def load(self, *, boot_id: str, services: Tuple[str, ...]) -> Tuple[Memory, str]:
        """The memory, and a remark where it could not be read. Unreadable with a fence means: we had stopped all."""
        try:
            content = durable.read(self.path)
            if content is None:
                return Memory(boot_id), ""
            return _from_json(json.loads(content.decode("utf-8"))), ""
        except (durable.StoreError, ValueError, KeyError, TypeError) as error:
            remark = "{}: unreadable ({}); judged by the fence".format(self.path, error)
        if os.path.lexists(self.fence):
            return Memory(boot_id, phase=TAKING, way=STOP, stopped=services), remark
        return Memory(boot_id, phase=TAKING, way=QUIESCE, confined=True), remark

    def save(self, memory: Memory) -> None:
        """Fence first when closing, fence last when opening: never open services without a record of them."""
        closing = bool(memory.stopped or memory.off)
        if closing and not os.path.lexists(self.fence):
            durable.write(self.fence, b"nodeshare keeps these services stopped: see `nodeshare show`\n")
        durable.write(self.path, json.dumps(memory._asdict(), sort_keys=True).encode("utf-8"))
        if not closing:
            durable.remove(self.fence)

    def lift_fence(self) -> None:
        durable.remove(self.fence)


def _from_json(data: Dict[str, Any]) -> Memory:
    if data["phase"] not in (OPEN, TAKING, HELD) or data["way"] not in ("", QUIESCE, STOP):
        raise ValueError("unknown phase or way")
    idle = data["idle_since"]
    return Memory(
        str(data["boot_id"]), data["phase"], data["way"], tuple(str(unit) for unit in data["stopped"]),
        data["confined"] is True, data["off"] is True, None if idle is None else float(idle),
        int(data["comebacks"]), tuple(str(uid) for uid in data["keep"]),
        tuple((str(key), float(at), float(pause)) for key, at, pause in data["asked"]))
