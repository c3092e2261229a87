# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler with an API that does at once what it decides, without faults and without time."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from placement.core.scheduler import Decision, Scheduler
from placement.graph.topology import Topology
from placement.model.messages.action import Action, Bind, Evict, GroupStatus, PodCondition, QueueStatus
from placement.model.messages.event import Deleted, Event, Object, Upserted
from placement.model.messages.report import Explanation
from placement.model.objects.node import Node
from placement.model.objects.pod import Phase, Pod
from placement.policy.plugins.configuration import DEFAULT, Configuration
from placement.policy.queues.reservations import RESERVE_AFTER

OURS = "placement"


class Simulated:
    """What the API server and the kubelets would make of the decisions."""

    def __init__(
        self,
        configuration: Configuration = DEFAULT,
        *,
        scheduler_name: str = OURS,
        reserve_after: float = RESERVE_AFTER,
        epoch: float | None = None,
        topology: Topology | None = None,
    ) -> None:
        self.scheduler = Scheduler(
            configuration, scheduler_name=scheduler_name, reserve_after=reserve_after, topology=topology
        )
        if epoch is not None:
            self.scheduler.set_epoch(epoch)
        self.pods: dict[str, Pod] = {}
        self.actions: list[Action] = []
        self.version = 1000
        self.now = 0.0
        # What a pod is as soon as it is bound; Pending while its image comes.
        self.once_bound = Phase.RUNNING
        # What has come while something was under way; as in the loop's inbox.
        self.waiting: deque[Event] = deque()
        # UIDs of deleted objects that the scheduler had not been told of when it last decided.
        self._untold: set[str] = set()

    def see(self, *items: Object) -> None:
        """Objects appear or change, at a new version."""
        for item in items:
            self.version += 1
            item = replace(item, version=self.version)
            if isinstance(item, Pod):
                self.pods[item.uid] = item
            self.tell(Upserted(item))

    def gone(self, *items: Object) -> None:
        """Objects are deleted."""
        for item in items:
            self.version += 1
            self.pods.pop(item.uid, None)
            self.tell(Deleted(type(item), item.uid, self.version))

    def finish(self, *names: str, phase: Phase = Phase.SUCCEEDED) -> None:
        """Pods end by themselves."""
        for name in names:
            self.see(replace(self.named(name), phase=phase))

    def named(self, name: str) -> Pod:
        """The pod of this name."""
        return next(pod for pod in self.pods.values() if pod.name == name)

    def tell(self, event: Event) -> None:
        """Something has happened; while something is under way that has to wait."""
        self.waiting.append(event)
        self._take_in()

    def _take_in(self) -> None:
        while self.waiting and not self.scheduler.under_way:
            self.scheduler.apply(self.waiting.popleft())

    def _waiting_deletions(self) -> set[str]:
        return {event.uid for event in self.waiting if isinstance(event, Deleted)}

    def decide(self, expired: Callable[[], bool] = lambda: False) -> Decision:
        """One slice; nothing of it is carried out."""
        self._take_in()
        self._untold = self._waiting_deletions()
        return self.scheduler.decide(self.now, expired, hurry=bool(self.waiting))

    def follow(self) -> None:
        """Another decides from now on, and what has come is taken in."""
        self.scheduler.follow()
        self._take_in()
        self.scheduler.follow()

    def finish_what_is_under_way(self) -> list[Action]:
        """What is decided until then."""
        decided: list[Action] = []
        while self.scheduler.under_way:
            decided += self.decide(lambda: not self.scheduler.under_way).actions
        return decided

    def run(self) -> list[Action]:
        """Decides and carries out until there is nothing more to do; the answer is all that was decided."""
        decided: list[Action] = []
        for _unused in range(10_000):
            decision = self.decide()
            decided += decision.actions
            for action in decision.actions:
                self.carry_out(action)
            if (
                not decision.more
                and not self.waiting
                and not any(isinstance(action, Bind | Evict) for action in decision.actions)
            ):
                self.actions += decided
                return decided
        raise AssertionError("the scheduler does not come to rest")

    def run_once(self, expired: Callable[[], bool] = lambda: False) -> list[Action]:
        """What one slice decides; nothing of it is carried out."""
        return list(self.decide(expired).actions)

    def carry_out(self, action: Action) -> None:
        """Binds and mostly starts, evicts and ends; statuses are only noted."""
        if isinstance(action, Bind | Evict) and action.uid not in self.pods:
            # It was deleted while this was decided, and that news waited then. It may have been taken in since, with
            # what an earlier action of the same decision told.
            assert action.uid in self._untold | self._waiting_deletions()
            return
        if isinstance(action, Bind):
            pod = self.pods[action.uid]
            assert not pod.node, f"{pod.name} is bound twice"
            tag = pod.tag if action.tag is None else action.tag
            self.see(replace(pod, node=action.node, phase=self.once_bound, tag=tag))
        elif isinstance(action, Evict):
            self.gone(self.pods[action.uid])

    def explain(self, namespace: str, name: str) -> Explanation | None:
        """What `why` answers, when nothing happens between its steps."""
        steps = self.scheduler.explain(namespace, name)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                found: Explanation | None = ended.value
                return found

    def placements(self) -> dict[str, str]:
        """Nodes by the names of the pods that are on one."""
        return {pod.name: pod.node for pod in self.pods.values() if pod.node and pod.charged}

    def conditions(self) -> dict[str, str]:
        """The last message of each pod that was told anything."""
        return {action.name: action.message for action in self.actions if isinstance(action, PodCondition)}

    def groups(self) -> dict[str, GroupStatus]:
        """The last status of each group."""
        return {action.name: action for action in self.actions if isinstance(action, GroupStatus)}

    def queues(self) -> dict[str, QueueStatus]:
        """The last status of each queue."""
        return {action.name: action for action in self.actions if isinstance(action, QueueStatus)}

    def check(self) -> None:
        """No node is given more than it has, and none of its gangs runs without its minimum."""
        columns = self.scheduler.cluster.columns
        for name, row in columns.rows.items():
            node = columns.nodes[row]
            assert isinstance(node, Node)
            used: dict[str, int] = {"pods": 0}
            for pod in self.pods.values():
                if pod.node == name and pod.charged:
                    used["pods"] += 1
                    for resource, amount in pod.request:
                        used[resource] = used.get(resource, 0) + amount
            offered = dict(node.allocatable)
            assert all(amount <= offered.get(resource, 0) for resource, amount in used.items()), (name, used, offered)
