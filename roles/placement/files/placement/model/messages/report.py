# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to people: why a pod waits, and how the queues stand."""

from dataclasses import dataclass

from placement.model.amounts.quantity import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReason:
    """One reason and the number of nodes that have it, with a few of them by name."""

    reason: str
    nodes: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a pod is where it is."""

    uid: str
    namespace: str
    name: str
    state: str
    node: str = ""
    group: str = ""
    queue: str = ""
    # One is next; nothing has a position that is not waiting.
    position: int = 0
    waiting: int = 0
    # The rule that limits, in one sentence.
    limit: str = ""
    nodes: tuple[NodeReason, ...] = ()
    # Pods that would have to end first, and on which node, one sentence each.
    must_end: tuple[str, ...] = ()
    # Which nodes are kept for its job, or for jobs that come before it and for which, one sentence each.
    kept: tuple[str, ...] = ()
    # What is known of its own job of the batch system, or of others' on its node or in its way, one sentence each.
    batch: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """How a queue stands; amounts are those of the queue and all below it."""

    name: str
    parent: str
    weight: int
    priority: int
    is_open: bool
    # Allocated by deserved, in thousandths, of the resource where that is greatest.
    share: int
    allocated: Amounts
    deserved: Amounts
    requested: Amounts
    guarantee: Amounts
    capability: Amounts
    pending_groups: int
    running_groups: int
    pending_pods: int
    # Seconds until the batch system expects to start the first of its jobs that wait; None where it says nothing.
    begins: float | None = None
    problem: str = ""
