# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node remembers between two calls."""

from typing import NamedTuple, Optional, Tuple

OPEN = "open"  # pods may be here
TAKING = "taking"  # pods are being sent away, or may have come back
HELD = "held"  # proven free of pods since
QUIESCE = "quiesce"
STOP = "stop"


class NodeState(NamedTuple):
    """`phase` is how far the node is; `way` how a held node is served; `stopped` is ours to start again.

    `keep` are the pods (by uid) that stay on a held node, as the API last told. `asked` is, per lease without a sign of
    life, when to ask the batch system next and how long to wait after that. `unconfirmed`: the API may show pods that
    were ended without their kubelet. `forgotten`: all has been given back, leases or not, and a kubelet that starts
    meanwhile keeps what it has.
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
