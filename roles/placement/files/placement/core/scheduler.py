# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler: what the loop talks to.

    scheduler = Scheduler(configuration, scheduler_name="placement")
    scheduler.set_epoch(epoch)                      # and again now and then: the clock may be set
    scheduler.follow()                              # while somebody else decides
    decision = scheduler.decide(now, expired)       # actions of one slice; `more`: call again at once

And while nothing is `under_way`:

    scheduler.apply(event)                          # every event, results of actions too
    scheduler.explain("team", "pod")                # in steps, each of them while nothing is under way
    scheduler.queues()

It reads no clock: `now` is monotonic seconds, `epoch` the seconds since 1970 at which they began, and `expired` says
when the slice has lasted long enough. Without events it wants to be called once a second, for what is written no more
often than that.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from placement.core.explain import Explainer
from placement.core.node_backoff import NodeBackoff
from placement.core.overcommitted_nodes import OvercommittedNodes
from placement.core.undetermined_bindings import UndeterminedBindings
from placement.graph.topology import Topology
from placement.graph.tree.source import GraphSource
from placement.model.batch import BackingSettings
from placement.model.messages.action import (
    Action,
    Bind,
    BindVolume,
    Evict,
    GroupStatus,
    PodCondition,
    QueueStatus,
    SelectNode,
)
from placement.model.messages.event import (
    BatchEvent,
    BindFailed,
    Deleted,
    Event,
    EvictRefused,
    Object,
    Relisted,
    StatusWriteFailed,
    Undetermined,
    Unsent,
    Upserted,
)
from placement.model.messages.report import Explanation, QueueReport
from placement.model.node_zones import NodeZones
from placement.model.objects.pod import TERMINAL, Pod
from placement.model.slicing import SlicedWork, Steps
from placement.policy.actions.allocate import allocate
from placement.policy.actions.backfill import backfill
from placement.policy.actions.bind_pipelined import bind_pipelined
from placement.policy.actions.enqueue import enqueue
from placement.policy.actions.evict_partial_gangs import evict_partial_gangs
from placement.policy.actions.preempt import preempt
from placement.policy.actions.reclaim import reclaim
from placement.policy.actions.reserve import reserve
from placement.policy.backing.reconcile import reconcile
from placement.policy.cache.job_cache import JobCache
from placement.policy.framework.placers.graph_placer import GraphPlacer
from placement.policy.framework.placers.host_selector import HostSelector
from placement.policy.framework.session import PARTIAL_GANG_SECONDS, ActionRun, RefusedEviction, Session, Unplaceable
from placement.policy.framework.status_reporter import StatusReporter
from placement.policy.jobs.batch_jobs import mark_of
from placement.policy.jobs.group_key import group_key
from placement.policy.jobs.job import Status
from placement.policy.plugins.configuration import Configuration
from placement.policy.plugins.plugin_set import PluginSet
from placement.policy.plugins.site_filter import Faults
from placement.policy.preemption.disruption_budgets import DisruptionBudgets
from placement.policy.queues.reservations import RESERVE_AFTER, Reservations
from placement.state.cluster import Cluster, Shape
from placement.state.nodes.node_columns import RESTING

ACTIONS: Final[dict[str, ActionRun]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
}
# Seconds until a pod that could not be evicted is asked again.
_SPARED: Final = 30.0
# Seconds until a budget that has refused is tried again: others may leave in vain together with its pod.
_REFUSING: Final = 3600.0

# Seconds until jobs are tried again that a plugin of the site may have refused by what only it knows.
_JUDGED: Final = 30.0
# Seconds until all jobs are tried again, whatever has happened, as kube-scheduler does: hints may err, and time alone
# may open a node.
_ALL_TRIED: Final = 300.0

# A list of more objects than this is taken in over several slices, and so many steps of it while another decides.
_AT_ONCE: Final = 512
_FOLLOWED: Final = 16

# Times the steps of an action by its name, and those of a whole cycle by none.
Timed = Callable[[str, Steps[None]], Steps[None]]


def _untimed(_action: str, steps: Steps[None]) -> Steps[None]:
    yield from steps


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, and whether there is more to decide without waiting for an event."""

    actions: tuple[Action, ...]
    more: bool


class Scheduler:
    """One cluster and the policy over it."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        scheduler_name: str,
        default_queue: str = "default",
        partial_gang_seconds: float = PARTIAL_GANG_SECONDS,
        reserve_after: float = RESERVE_AFTER,
        backing: BackingSettings | None = None,
        topology: Topology | None = None,
        timed: Timed = _untimed,
    ) -> None:
        self.cluster = Cluster()
        self.configuration = configuration
        plugins = PluginSet(configuration)
        # What plugins of the site did wrong.
        self.plugin_faults = Faults()
        self.cache = JobCache(self.cluster, plugins, scheduler_name=scheduler_name, default_queue=default_queue)
        reservations = Reservations(self.cluster.columns)
        reservations.reserve_after = reserve_after
        host_selector = HostSelector(self.cluster, plugins, reservations, self.plugin_faults)
        # Racks and switches; made at once where the settings name levels, else when something asks for it.
        tree = topology or Topology()
        self.graph = GraphSource(
            self.cluster.columns,
            tree,
            lambda name: self.cluster.objects.find(NodeZones, name) or tree.numa_nodes.get(name),
            self.cluster.devices,
        )
        graph_placer = GraphPlacer(self.cache, self.graph, host_selector)
        self.session = Session(
            self.cache, host_selector, graph_placer, plugins, partial_gang_seconds=partial_gang_seconds
        )
        self.session.batch_jobs.settings = backing or BackingSettings()
        self._reporter = StatusReporter(self.session)
        self._explainer = Explainer(self.session, self._reporter)
        self._resting = NodeBackoff()
        self.overfull = OvercommittedNodes(self.cluster)
        self._timed = timed
        self._cycle: SlicedWork[None] | None = None
        self._catching_up: SlicedWork[None] | None = None
        # A long list that is being taken in, and what has come since.
        self._listing: SlicedWork[None] | None = None
        self._coming: deque[Event] = deque()
        self._news = True
        # Whether everything has been taken in once since it was for somebody else to decide.
        self._whole = False
        self._judged = float("-inf")
        self._undetermined = UndeterminedBindings(self.cluster, self.cache)
        # When all jobs were last tried again, whatever had happened.
        self._all_tried = 0.0

    def configure(self, configuration: Configuration, *, partial_gang_seconds: float, reserve_after: float) -> None:
        """Schedule by this configuration from the next slice on; times are seconds (see the settings)."""
        self._take_back()
        self.session.partial_gang_seconds = partial_gang_seconds
        reservations = self.session.reservations
        reservations.reserve_after = reserve_after
        reservations.forget()
        self.configuration = configuration
        plugins = PluginSet(configuration)
        self.session.plugins = plugins
        self.session.host_selector.close()
        self.plugin_faults.begin_anew()
        self.session.host_selector = HostSelector(self.cluster, plugins, reservations, self.plugin_faults)
        self.session.graph_placer = GraphPlacer(self.cache, self.graph, self.session.host_selector)
        self.cache.reconfigure(plugins)
        self._cycle = None
        self._news = True

    def set_epoch(self, epoch: float) -> None:
        """Judge times of the API by this value of seconds since 1970 at which monotonic time began."""
        if self.session.reservations.set_epoch(epoch):
            # A planned start may be past by now.
            self.cache.versions.room += bool(self.cluster.columns.planned)
            self._news = True

    @property
    def under_way(self) -> bool:
        """Whether a slice has ended in the middle of what has to be one piece: a statement, a search, a long list.

        Nothing should be applied or asked then: it is for further slices to bring it to its end, and they are few.
        """
        return self.cache.in_transaction or self._listing is not None

    def _assure_rest(self) -> None:
        if self.cache.in_transaction:
            raise RuntimeError("something is under way that has to be one piece; decide until it is over")

    def _take_back(self) -> None:
        """Others decide from now on, or by other rules: what is under way is taken back."""
        self._catch_up(lambda: False)
        if self._cycle is not None and self.cache.in_transaction:
            self._cycle.close()
            self._cycle, self._news = None, True
        self.cache.sync()

    def _catch_up(self, expired: Callable[[], bool]) -> bool:
        """Go on with catching up; return whether that is over."""
        if self._catching_up is not None and not self._catching_up.advance(expired):
            return False
        self._catching_up = None
        return True

    def apply(self, event: Event) -> None:
        """Apply an event, while nothing is under way; the next slices take in a long list."""
        self._assure_rest()
        if self._listing is not None:
            self._coming.append(event)
        elif isinstance(event, Relisted):
            self._listing = SlicedWork(self.cluster.relist(event, self._is_of_no_use))
            self._news = True
            if len(event.items) <= _AT_ONCE:
                self._take_in(lambda: False)
        else:
            self._apply(event)

    def _take_in(self, expired: Callable[[], bool]) -> bool:
        """Go on with a long list and with what has come since; return whether all of that is taken in."""
        while self._listing is not None:
            if not self._listing.advance(expired):
                return False
            self._listing = None
            waiting, self._coming = self._coming, deque()
            for event in waiting:
                self.apply(event)
        return True

    def _apply(self, event: Event) -> None:
        if isinstance(event, BatchEvent):
            backing = self.session.batch_jobs
            backing.mark = backing.mark or mark_of(self.cluster, self.cache.scheduler_name)
            backing.take(event)
            self._news = True
            return
        if isinstance(event, StatusWriteFailed):
            self._reporter.failed(event.uid)
            return
        if isinstance(event, Unsent):
            self._undo(event.action)
            return
        if isinstance(event, Undetermined):
            self._undetermined.note(event.action, self.session.now)
            return
        if isinstance(event, Upserted) and isinstance(event.item, Pod) and event.item.rejected:
            self._turned_away(event.item)
        self.cluster.apply(self._without_ended(event))
        if isinstance(event, Upserted) and isinstance(event.item, Pod):
            self._note_tag(event.item.uid)
        if isinstance(event, EvictRefused):
            self._note_refused_eviction(event)
        elif isinstance(event, BindFailed) and (task := self.cache.jobs.tasks.get(event.uid)) and not task.is_archived:
            self.cache.queue.back_off(task.job, self.session.now)
            said = f"{task} could not be bound to node {event.node}: {event.message}"
            self.session.set_back(task.job, Unplaceable("BindingFailed", said))
        self._news = True

    def _without_ended(self, event: Event) -> Event:
        """Return the event; a foreign pod that has ended counts as gone."""
        if isinstance(event, Upserted) and self._is_of_no_use(event.item):
            return Deleted(Pod, event.item.uid, event.item.version)
        return event

    def _is_of_no_use(self, item: Object) -> bool:
        """Return whether this is a foreign pod that has ended, and in no group; those of ours count in their jobs."""
        if not isinstance(item, Pod) or item.phase not in TERMINAL:
            return False
        return item.spec.scheduler_name != self.cache.scheduler_name and not group_key(item).named

    def _undo(self, action: Action) -> None:
        """Undo the plan of an action that was not carried out.

        It is no failure of the pod or node, and the action may be decided again.
        """
        match action:
            case Bind() | BindVolume():
                self.cluster.apply(BindFailed(action.uid, action.node, ""))
            case Evict():
                self.cluster.apply(EvictRefused(action.uid, ""))
            case SelectNode():
                provisioning = self.session.provisioning
                for uid, waiting in provisioning.items():
                    if any(claim.uid == action.uid for claim in waiting.claims):
                        provisioning[uid] = replace(waiting, until=self.session.now)
            case PodCondition() | GroupStatus() | QueueStatus():
                self._reporter.failed(action.uid)
        self._news = True

    def _note_tag(self, uid: str) -> None:
        """Note at once for which job a pod was bound: its owner may have changed that by the pod's next event."""
        entry = self.cluster.pods.by_uid.get(uid)
        if entry is not None and entry.pod.spec.scheduler_name == self.cache.scheduler_name:
            self.cache.tags.note(entry.pod)

    def _note_refused_eviction(self, refused: EvictRefused) -> None:
        """Note that the API refused to evict a pod."""
        now, task = self.session.now, self.cache.jobs.tasks.get(refused.uid)
        self.session.refused_evictions += 1
        self.session.unevictable[refused.uid] = RefusedEviction(refused.message, now + _SPARED)
        if task is None or not refused.budget:
            return
        for budget in DisruptionBudgets(self.cache).of(task):
            self.session.exhausted_budgets[budget] = now + _REFUSING

    def _turned_away(self, pod: Pod) -> None:
        """Let the node that rejected a pod of ours rest, so that the pod's successor is not rejected at once.

        It rests for pods of the same namespace and request alone where the reason lies in what they ask for. Otherwise
        the pods of one user would keep all others off. If the pod does not fit by our own figures, its owner or another
        scheduler has put it there, and the node is as it was.
        """
        task = self.cache.jobs.tasks.get(pod.uid)
        columns = self.cluster.columns
        row = columns.rows.get(pod.node)
        if row is None or columns.axis.request(pod.request).unknown or (columns.free[:, row] < 0).any():
            return
        if task is not None and task.status is not Status.FAILED:
            shape = (pod.namespace, pod.request) if pod.unsuited else None
            self._resting.turned_away((pod.node, shape), self.session.now)
            self._rest(pod.node, shape, rests=True)

    def _rest(self, node: str, shape: Shape | None, *, rests: bool) -> None:
        """Close the node, to all pods or to those of this shape, or open it again."""
        if shape is None:
            self.cluster.close(node, RESTING, closed=rests)
        else:
            self.cluster.set_unsuited(node, shape, unsuited=rests)

    def follow(self) -> bool:
        """Apply events without deciding; return whether more can be taken in at once."""
        self._whole = False
        steps = iter(range(_FOLLOWED))
        if not self._take_in(lambda: next(steps, None) is None):
            return True
        self._take_back()
        # What had to come to its end there has decided more, which is not sent.
        unsent, self.session.actions = self.session.actions, []
        for action in unsent:
            self._undo(action)
        # The daemon that decides now gives the same room to other pods. By the time this one decides again, the watch
        # has shown which of these bindings landed.
        for binding in self._undetermined.take_all():
            self._undo(binding)
        self._reporter.forget_settled()
        return self.cache.arriving

    def decide(self, now: float, expired: Callable[[], bool], *, hurry: bool = False) -> Decision:
        """One slice of work; in a hurry, because something waits to be applied, it ends with what is under way."""
        session = self.session
        if not self._take_in(expired):
            return Decision((), True)
        hurry = hurry and self.cache.in_transaction and self._catching_up is None
        session.now = session.reservations.now = self.cache.queue.now = now
        if self._catching_up is None and not self.cache.in_transaction:
            session.slice += 1
            self._forgive(now)
            self._catching_up = SlicedWork(self.cache.sync_steps())
        if self._catching_up is not None:
            done = self._catch_up(expired)
            self._whole = self._whole or (done and not self.cache.arriving)
            if not done or not self._whole:
                # Of pods that are there the nodes know at once, but their queues do not: all shares would be wrong.
                return Decision((), True)
            session.actions += self.overfull.look(now, session.provisioning)
        if self._cycle is None:
            volumes = (wait.until for wait in session.provisioning.values())
            waits = chain((self.cache.queue.next_lapse,), session.deadlines.values(), volumes)
            due = session.reservations.is_due() or any(until <= now for until in waits)
            if not self._news and not self.cache.queue.dirty and not due:
                return self._decided(more=self.cache.arriving)
            self._news = session.unfinished = False
            self._cycle = SlicedWork(self._timed("", self._run()))
        until = (lambda: expired() or not self.cache.in_transaction) if hurry else expired
        if self._cycle.advance(until):
            self._cycle = None
            self._news = (
                self._news or session.unfinished or self.cache.arriving or bool(self.cache.admission.to_refresh)
            )
        return self._decided(more=self._cycle is not None or self._news)

    def _decided(self, *, more: bool) -> Decision:
        actions, self.session.actions = tuple(self.session.actions), []
        return Decision(actions, more)

    def _forgive(self, now: float) -> None:
        """Evictions, bindings, nodes that rested and statuses that could not be written are tried again."""
        self._news |= self.cache.queue.flush_backoff(now) | self._reporter.say_again()
        if self._whole:
            self._send_undetermined(now)
        spared, refusing = self.session.unevictable, self.session.exhausted_budgets
        for node, shape in self._resting.rested(now):
            self._rest(node, shape, rests=False)
            self.cache.versions.room += 1
            self._news = True
        if self._all_tried + _ALL_TRIED <= now:
            self._all_tried = now
            self.cache.versions.room += 1
            self._news = True
        if self.session.host_selector.may_change and self._judged + _JUDGED <= now:
            self._judged = now
            self.cache.versions.room += 1
            self._news = True
        late = [uid for uid, pod in spared.items() if pod.until <= now or uid not in self.cluster.pods.by_uid]
        for uid in late:
            del spared[uid]
        overdue = [uid for uid, until in refusing.items() if until <= now]
        for uid in overdue:
            del refusing[uid]
        if late or overdue:
            jobs = self.cache.jobs.by_key
            self.cache.queue.dirty.update({key: jobs[key] for key in self.session.blocked if key in jobs})
            self.session.blocked.clear()
            self.cache.versions.room += 1
            self.cache.versions.evictability += 1
            self._news = True

    def _send_undetermined(self, now: float) -> None:
        """Send the undetermined bindings again that are due, and undo the plans of those that lost their node."""
        again, lost = self._undetermined.take_due(now, self.session.feasibility)
        self.session.actions += again
        for binding in lost:
            self._undo(binding)

    def _run(self) -> Steps[None]:
        """One cycle: the configured actions in their order, then what is to be told."""
        if self.graph.graph is None and self.graph.topology.levels:
            yield from self.graph.obtain()
        yield from bind_pipelined(self.session)
        yield from evict_partial_gangs(self.session)
        yield from reconcile(self.session)
        yield from reserve(self.session)
        for name in self.session.plugins.actions:
            yield from self._timed(name, ACTIONS[name](self.session))
        if "reclaim" in self.session.plugins.actions:
            # Where reclaim stands before allocate, it has not seen yet what allocate could not place.
            yield from self._timed("reclaim", reclaim(self.session))
        if self.cache.arriving:
            # What is said of half a gang is not true a moment later, and its bindings would wait until it is written.
            return
        for action in self._reporter.run():
            if action is not None:
                self.session.actions.append(action)
            yield

    def explain(self, namespace: str, name: str) -> Steps[Explanation | None]:
        """Why the pod is where it is; None where it is not known. Between two steps others may have a turn."""
        self._assure_rest()
        self.cache.sync()
        place = yield from self._explainer.place(namespace, name)
        self._assure_rest()
        self.cache.sync()
        together = yield from self._explainer.must_end_together(namespace, name)
        self._assure_rest()
        self.cache.sync()
        return self._explainer.pod(namespace, name, place, together)

    def queues(self) -> list[QueueReport]:
        """All queues, parents before children."""
        self._assure_rest()
        self.cache.sync()
        return self._explainer.queues()
