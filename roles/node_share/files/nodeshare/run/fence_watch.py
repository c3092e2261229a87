# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Behind a start of the kubelet: it gives its pods all that the node has, and the fence is drawn again as it does.

Nothing tells when it has set up its cgroups: it may wait long for its runtime. So what pods may have is looked at, a
few small files, and drawn again when it has changed; closely at first, and not for ever. The kubelet may write amid a
draw, too, and even amid the next. So a draw counts as done when three behind it have found what it left.
"""

from typing import Callable, Mapping, NamedTuple, Optional

from ..host.host import Host, HostError
from ..model.node.state import OPEN, NodeState
from ..model.settings import PLACEHOLDER, SPLIT, Settings
from ..store.files import StoreError
from ..store.lease_store import LeaseStore
from ..store.lock import Lock
from ..store.state_store import StateStore

WATCHED = 90.0  # seconds; whatever comes later a repair finds
CLOSELY = 20.0
QUICK, SLOW = 0.05, 0.5
SETTLED = 3  # draws in a row that change nothing
BUSY = 1.0  # until the next try, where somebody else is at work on the node


class Watched(NamedTuple):
    """How often it was drawn, and what went wrong the last time."""

    drawn: int
    error: str


class Refencing:
    """One watch."""

    def __init__(self, settings: Settings, world: Host, store: LeaseStore, memories: StateStore) -> None:
        self.settings = settings
        self.world = world
        self.store = store
        self.memories = memories

    def watch(self, *, work_lock: Callable[[float], Lock]) -> Watched:
        """Draws at once, and whenever what pods may have is not what it was then. What fails is tried again."""
        began, count, error = self.world.now(), 0, ""
        left: Optional[Mapping[str, str]] = None
        settled = 0
        while True:
            spent = self.world.now() - began
            try:
                found = self.world.allowance()
                # a kubelet that waits for its runtime has not made its cgroups yet; in the end that is told
                if (found != left or settled < SETTLED) and (found or spent >= WATCHED):
                    self._draw(work_lock)
                    before, left = left, self.world.allowance()
                    settled = settled + 1 if before == found == left else 0
                    count += found != left
                error = ""
            except (HostError, StoreError) as reason:
                left, settled, error = None, 0, str(reason)
            if spent >= WATCHED:
                return Watched(count, error)
            self.world.sleep(QUICK if spent < CLOSELY and not error else SLOW)

    def _draw(self, work_lock: Callable[[float], Lock]) -> None:
        if self.settings.mode == PLACEHOLDER:
            with self.store.locked():
                leases = self.store.leases()
                if (leases or self.settings.fence == SPLIT) and not self._memory().forgotten:
                    self.world.draw_fence(leases)
            return
        with work_lock(BUSY):  # who has it may be about to give all cores back
            with self.store.locked():
                memory = self._memory()
            held = memory.confined and memory.phase != OPEN  # on an open node it only could not be given back
            if held and memory.boot_id == self.world.boot_id() and not memory.forgotten:
                self.world.confine(self.settings.housekeeping_cpus)

    def _memory(self) -> NodeState:
        return self.memories.load(boot_id=self.world.boot_id())[0]
