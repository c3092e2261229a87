# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler: what the loop talks to.

    scheduler = Scheduler(configuration, scheduler_name="placement")
    scheduler.apply(event)                          # every event, results of actions too
    decision = scheduler.decide(now, expired)       # actions of one slice; `more`: call again at once
    scheduler.explain("team", "pod")
    scheduler.queues()

It reads no clock: `now` is monotonic seconds, and `expired` says when the slice has lasted long enough.
"""

from collections.abc import Callable
from dataclasses import dataclass

from placement.model.action import Action
from placement.model.event import Event
from placement.model.report import Explanation, QueueReport
from placement.policy.configuration import Configuration
from placement.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and whether there is more to decide without waiting for an event."""

    actions: tuple[Action, ...]
    more: bool


class Scheduler:
    """One cluster and the policy over it."""

    def __init__(self, configuration: Configuration, *, scheduler_name: str, default_queue: str = "default") -> None:
        self.cluster = Cluster()
        self.configuration = configuration
        self.scheduler_name = scheduler_name
        self.default_queue = default_queue

    def configure(self, configuration: Configuration) -> None:
        """From the next slice on, schedule by this configuration."""
        self.configuration = configuration

    def apply(self, event: Event) -> None:
        """Takes in what is true now."""
        self.cluster.apply(event)

    def decide(self, now: float, expired: Callable[[], bool]) -> Decision:
        """One slice of work."""
        return Decision((), False)

    def explain(self, namespace: str, name: str) -> Explanation | None:
        """Why the pod is where it is; None where it is not known."""
        return None

    def queues(self) -> list[QueueReport]:
        """All queues, parents before children."""
        return []
