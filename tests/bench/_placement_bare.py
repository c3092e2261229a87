# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bare loop: the daemon's own connections, watches, decoding and Events, with no scheduler between them.

Pods go to nodes in turn, whatever they ask for. What it reaches is what the API server and the client allow; the
daemon's figure is read against it.
"""

import sys
from collections.abc import Callable
from typing import Any

from placement.app.cli import main
from placement.app.process import wiring
from placement.core.scheduler import Decision, Scheduler
from placement.model.messages.action import Bind
from placement.model.messages.event import Event, Relisted, Upserted
from placement.model.objects.node import Node
from placement.model.objects.pod import Pod
from placement.policy.plugins.configuration import Configuration


class Turns(Scheduler):
    """Binds every pod that comes to the next node."""

    def __init__(self, configuration: Configuration, *, scheduler_name: str, **more: Any) -> None:
        super().__init__(configuration, scheduler_name=scheduler_name, **more)
        self._name = scheduler_name
        self._pods: dict[str, Pod] = {}
        self._done: set[str] = set()
        self._nodes: dict[str, None] = {}
        self._order: list[str] = []

    def apply(self, event: Event) -> None:
        """Notes pods without a node, and nodes."""
        items = event.items if isinstance(event, Relisted) else [event.item] if isinstance(event, Upserted) else []
        for item in items:
            if isinstance(item, Node):
                self._nodes[item.name] = None
            elif isinstance(item, Pod) and item.spec.scheduler_name == self._name and not item.node:
                self._pods[item.uid] = item

    def decide(self, now: float, expired: Callable[[], bool], *, hurry: bool = False) -> Decision:
        """A slice of bindings; nothing is ever under way."""
        binds = []
        if len(self._order) != len(self._nodes):
            self._order = list(self._nodes)
        while self._pods and self._order and not expired():
            uid, pod = self._pods.popitem()
            if uid in self._done:
                continue
            self._done.add(uid)
            node = self._order[len(self._done) % len(self._order)]
            binds.append(Bind(uid=uid, namespace=pod.namespace, name=pod.name, node=node))
        return Decision(tuple(binds), bool(self._pods))


if __name__ == "__main__":
    wiring.Scheduler = Turns  # type: ignore[attr-defined]
    sys.exit(main())
