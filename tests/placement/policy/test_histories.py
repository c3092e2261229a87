# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever happens in any order: no node is overfilled, no gang starts in part, no sum drifts, nothing is raised."""

import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from placement.core.scheduler import Scheduler
from placement.graph.topology import Topology
from placement.graph.tree.audit import audit
from placement.model.messages.action import Action, Bind, Evict
from placement.model.messages.event import BindFailed, EvictRefused, Object
from placement.model.objects.node import Node
from placement.model.objects.pod import HostPort, Pod
from placement.model.objects.workload import COLUMNS, DIALECTS, GRAPH, INCUBATOR, VOLCANO, PodGroup, Queue
from placement.model.rules.affinity import PodAffinityTerm, PodMatcher, TopologySpread
from placement.model.rules.selector import NodeSelector
from placement.model.rules.topology import MATCH_POLICIES, TopologyRequest
from placement.policy.cache.equivalence_cache import Failure, FailureCache, FutileSearches
from placement.policy.cache.job_cache import JobCache
from placement.policy.jobs.group_key import VOLCANO_SCHEDULER
from placement.policy.jobs.job import COUNTS_IN_SHARE, Status
from placement.policy.plugins.configuration import load
from placement.policy.preemption.candidates import CandidateFinder
from placement_kit.builders import amounts, budget, gang, labelled, mine, node, pairs, pod, priority_class
from placement_kit.builders import queue as queue_of
from placement_kit.naive import NaiveCluster
from placement_kit.simulated import OURS, Simulated

T = TypeVar("T")
QUEUES = ("default", "a", "b", "c")
GROUPS = ("g0", "g1", "g2")
PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder")
ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim")

AMOUNTS = ((), (("cpu", 2000),), (("cpu", 6000), ("pods", 3)), (("memory", 4),), (("cpu", -1),), (("cpu", 2**60),))
MEMBERS: tuple[dict[str, Any], ...] = (
    {},
    {"owner": "set"},
    *({"annotations": (("scheduling.converged.hpc/queue", name),)} for name in QUEUES),
    *({"annotations": (("scheduling.k8s.io/group-name", name),)} for name in GROUPS),
)
ODD_MEMBERS: tuple[dict[str, Any], ...] = (
    {"scheduling_group": "g0"},
    {"labels": (("scheduling.x-k8s.io/pod-group", "g1"),)},
    {"annotations": (("scheduling.k8s.io/group-min-member", "x"), ("scheduling.k8s.io/group-name", "g9"))},
)
PEERS = PodAffinityTerm(PodMatcher(frozenset({"team"}), labelled(app="x")), "zone")
SPECS: tuple[dict[str, Any], ...] = (
    {"selector": NodeSelector(pairs(zone="a"))},
    {"affinity": (PEERS,)},
    {"anti_affinity": (PEERS,)},
    {"host_ports": (HostPort("0.0.0.0", "TCP", 80),)},
    {"spread": (TopologySpread(topology_key="zone", matcher=PEERS.matcher),)},
    {"unsupported": ("spec.resourceClaims",)},
)
WISHES = (
    None,
    TopologyRequest(required=("zone",)),
    TopologyRequest(preferred=("zone",), required=("cluster",), even=True),
    TopologyRequest(preferred=("node",), policy="locality"),
    TopologyRequest(required=("nowhere",)),
    TopologyRequest(exclusive=True, per_node=2),
    TopologyRequest(tier=1, tier_required=True, sub_group="workers"),
)
REQUESTS = ((("cpu", 500),), (("cpu", 1000), ("memory", 1)), (("cpu", 2000),), (("cpu", 3000),))
ODD_REQUESTS = ((), (("nobody/has-it", 1),))


class History:
    """One random history, repeatable by its seed."""

    topology: Topology | None = None

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._oddity = self._any([0.0, 0.02, 0.2])
        # For some it is their own scheduler that groups of Volcano's wait for before they have pods.
        self.ours = VOLCANO_SCHEDULER if seed % 5 == 4 else OURS
        self.simulated = Simulated(
            load(self._configuration(), "test"), scheduler_name=self.ours, topology=self.topology
        )
        self.simulated.see(priority_class("high", 2), budget("some", allowed=1, app="x"))
        # Whether slices may end in the middle of statements and searches.
        self.cuts = True
        self._known: dict[str, Object] = {}
        self._made = 0
        self.decided: list[Action] = []
        self._see(self._node(), self._node())
        self._see(*(self._queue(name) for name in QUEUES), *(self._group(name) for name in GROUPS))

    def _any(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)

    def _mostly(self, usual: T, *others: T) -> T:
        """What is usual, more or less often: where much is odd, little is placed, and nobody has to leave."""
        return self._any(others) if self._random.random() < self._oddity else usual

    def _configuration(self) -> str:
        actions = self._random.sample(ACTIONS, self._mostly(5, 1, 2, 3, 4))
        plugins = self._random.sample(PLUGINS, len(PLUGINS))
        split = self._random.randint(1, 6)
        lines = [f'actions: "{", ".join(actions)}"', "tiers:"]
        for tier in (plugins[:split], plugins[split:]):
            lines += ["- plugins:", *(f"  - name: {name}" for name in tier)]
        return "\n".join(lines)

    def _queue(self, name: str) -> Queue:
        dialect = self._mostly(DIALECTS[0], *DIALECTS)
        return Queue(
            uid=f"queue-{name}-{dialect}",
            name=name,
            version=1,
            dialect=dialect,
            weight=self._mostly(1, 3, 0, -2, 2**31),
            capability=self._mostly((), *AMOUNTS),
            guarantee=self._mostly((), *AMOUNTS),
            reclaimable=self._mostly(True, False),
            parent=self._mostly("", "root", "nowhere", *QUEUES),
            is_open=self._mostly(True, False),
            priority=self._random.randint(-1, 1),
            namespaces=self._mostly(None, frozenset({"other"})),
        )

    def _group(self, name: str) -> PodGroup:
        namespace, dialect = self._mostly("team", "other"), self._mostly(INCUBATOR, *DIALECTS)
        return PodGroup(
            uid=f"group-{name}-{namespace}-{dialect}",
            namespace=namespace,
            name=name,
            version=1,
            dialect=dialect,
            min_member=self._mostly(self._any([1, 2, 3]), 0, -5, 2**40),
            queue=self._mostly(self._any(QUEUES), "", "nowhere"),
            priority_class=self._mostly(self._any(["", "high"]), "nowhere"),
            created=self._any(["", "2026-01-01T00:00:00Z"]),
            min_resources=self._mostly((), *AMOUNTS),
        )

    def _node(self) -> Node:
        return node(
            self._any(["n1", "n2", "n3", "n4"]),
            labels=self._any([(), pairs(zone="a"), pairs(zone="b")]),
            unschedulable=self._mostly(False, True),
            held_by=self._mostly("", "slurm/7"),
        )

    def _rules(self) -> dict[str, Any]:
        return self._mostly({}, *SPECS)

    def _pods(self) -> list[Pod]:
        self._made += 1
        name = f"p{self._made}"
        more = {**self._rules(), **self._mostly(self._any(MEMBERS), *ODD_MEMBERS)}
        more.setdefault("labels", self._any([(), pairs(app="x")]))
        one = pod(
            name,
            namespace=self._mostly("team", "other"),
            request=self._mostly(self._any(REQUESTS), *ODD_REQUESTS),
            scheduler_name=self._mostly(self.ours, "default-scheduler"),
            priority=self._random.randint(0, 2),
            preempts=self._mostly(True, False),
            gated=self._mostly(False, True),
            **more,
        )
        return [replace(one, uid=f"{name}-{index}", name=f"{name}-{index}") for index in range(self._any([1, 2, 3, 6]))]

    def step(self) -> None:
        """Something happens."""
        simulated = self.simulated
        simulated.now += 0.7
        kind = self._any(["node", "pods", "pods", "group", "queue", "gone", "end", "run", "run", "run"])
        items: Sequence[Object] = ()
        if kind == "node":
            items = [self._node()]
        elif kind == "pods":
            items = self._pods()
        elif kind == "group":
            items = [self._group(self._any(GROUPS))]
        elif kind == "queue":
            items = [self._queue(self._any(QUEUES))]
        elif kind == "gone" and self._known:
            simulated.gone(self._known.pop(self._any(sorted(self._known))))
        elif kind == "end" and simulated.placements():
            simulated.finish(self._any(sorted(simulated.placements())))
        elif kind == "run":
            self._run()
        self._see(*items)

    def _see(self, *items: Object) -> None:
        for item in items:
            self._known[item.uid] = item
        self.simulated.see(*items)

    def _run(self) -> None:
        simulated = self.simulated
        hurry = self._any([0.0, 0.3, 1.0])
        book = simulated.scheduler.cache
        self._carry_out(
            simulated.run_once(lambda: (self.cuts or not book.in_transaction) and self._random.random() < hurry)
        )

    def come_to_rest(self) -> None:
        """What is under way comes to its end, and everything that waited for that is taken in."""
        self._carry_out(self.simulated.finish_what_is_under_way())

    def _carry_out(self, decided: list[Action]) -> None:
        simulated = self.simulated
        self.decided += decided
        if not simulated.scheduler.cache.in_transaction:
            assert_sound(simulated.scheduler, decided)
        for action in decided:
            if self._random.random() < 0.7:
                simulated.carry_out(action)
            elif isinstance(action, Bind):
                simulated.tell(BindFailed(action.uid, action.node, "no"))
            elif isinstance(action, Evict):
                simulated.tell(EvictRefused(action.uid, "disruption budget team/some"))


class Ruled(History):
    """One in which rules about other pods and ports are not the exception."""

    def _rules(self) -> dict[str, Any]:
        return self._any((*SPECS[1:5], {}))


class Numbered(Ruled):
    """One in which members have an index each, and many may not share a zone with their siblings."""

    def _pods(self) -> list[Pod]:
        made = super()._pods()
        app = self._any(["x", f"app{self._made % 4}"])
        rules: dict[str, Any] = {}
        if self._random.random() < 0.4:
            # Some rules read the index, too.
            reads = labelled(app=app) if self._random.random() < 0.8 else labelled(app=app, index="0")
            rules["anti_affinity"] = (PodAffinityTerm(PodMatcher(frozenset({"team"}), reads), "zone"),)
        return [
            replace(
                one,
                labels=tuple(sorted({**dict(one.labels), "app": app, "index": str(index)}.items())),
                spec=replace(one.spec, **rules),
            )
            for index, one in enumerate(made)
        ]

    def _carry_out(self, decided: list[Action]) -> None:
        if not self.simulated.scheduler.cache.in_transaction:
            assert_apart(self.simulated.scheduler, decided)
        super()._carry_out(decided)


class Racked(History):
    """One in which groups ask for a zone or a node, and some queues are placed by the graph."""

    topology = Topology(levels=("zone",), labels=("zone",))

    def __init__(self, seed: int) -> None:
        # Of its own, so that the rest happens as without it.
        self._wishes = random.Random(seed)
        super().__init__(seed)

    def _queue(self, name: str) -> Queue:
        placed_by = self._wishes.choice([COLUMNS, GRAPH])
        policy = self._wishes.choice(["", *MATCH_POLICIES])
        return replace(super()._queue(name), placed_by=placed_by, match_policy=policy)

    def _group(self, name: str) -> PodGroup:
        return replace(super()._group(name), topology=self._wishes.choice(WISHES))

    def _pods(self) -> list[Pod]:
        wish = self._wishes.choice([None, None, None, *WISHES])
        return [replace(one, spec=replace(one.spec, topology=wish)) for one in super()._pods()]

    def _carry_out(self, decided: list[Action]) -> None:
        if not self.simulated.scheduler.cache.in_transaction:
            assert_together(self.simulated.scheduler, decided)
        super()._carry_out(decided)


def assert_together(scheduler: Scheduler, decided: list[Action]) -> None:
    """Members that are bound are in the zone of the others if their group needs that, and the graph has not drifted."""
    cluster = scheduler.cluster
    bound = {action.uid: action.node for action in decided if isinstance(action, Bind)}
    for job in {id(job): job for uid in bound if (job := scheduler.cache.jobs.tasks[uid].job)}.values():
        wish = job.group.topology if job.group is not None else None
        if wish is None or wish.required != ("zone",):
            continue

        def zone(name: str) -> str:
            there = cluster.columns.nodes[cluster.columns.rows[name]]
            return dict(there.labels).get("zone", "") if there is not None else ""

        held = [
            task for task in job.tasks.values() if task.status in COUNTS_IN_SHARE and task.node in cluster.columns.rows
        ]
        before = {zone(task.node) for task in held if task.uid not in bound}
        if len(before) <= 1 and "" not in before:
            assert len(before | {zone(node) for uid, node in bound.items() if uid in job.tasks}) == 1
    if scheduler.graph.graph is not None:
        assert audit(scheduler.graph.graph, cluster) == []


def assert_sums(scheduler: Scheduler) -> None:
    """The book is what a fresh look at the state would make of it."""
    cluster, book = scheduler.cluster, scheduler.cache
    book.admission.reconsider()
    while book.admission.to_refresh:
        book.sync()
    kept, departed = cluster.changed, cluster.pods.departed
    cluster.changed = {kind: dict.fromkeys(items) for kind, items in cluster.objects.items()}
    cluster.changed[Pod] = dict.fromkeys(cluster.pods.by_uid)
    fresh = JobCache(cluster, scheduler.session.plugins, scheduler_name=book.scheduler_name, default_queue="default")
    fresh.sync()
    cluster.changed, cluster.pods.departed = kept, departed

    def figures(of: JobCache) -> dict[str, object]:
        def nonzero(totals: dict[str, int]) -> dict[str, int]:
            return {name: amount for name, amount in totals.items() if amount}

        found: dict[str, object] = {
            queue.name: [nonzero(sums) for sums in (queue.allocated, queue.held, queue.pipelined, queue.requests)]
            for queue in of.tree.by_name.values()
        }
        for queue in of.tree.by_name.values():
            assert queue.begun == {key: job for key, job in queue.jobs.items() if nonzero(job.allocated)}
        found["jobs"] = {
            job.key: (job.counts, job.requesting, nonzero(job.allocated), job.queue, job.problem, job.foreign)
            for job in of.jobs.every_job()
        }
        return found | {"total": of.total}

    kept_figures, fresh_figures = figures(book), figures(fresh)
    assert_lines(book)
    for name, figure in fresh_figures.items():
        assert kept_figures[name] == figure, name
    assert kept_figures.keys() == fresh_figures.keys()


def assert_lines(book: JobCache) -> None:
    """Who is in line is found by its ticket, too, and what is kept for who is let in is what they ask for."""
    for queue in book.tree.by_name.values():
        lined_up = {
            job.key: job for _order, ticket, job in (*queue.order, *queue.best_effort) if ticket == job.position
        }
        assert queue.waiting == lined_up
        tickets = [job.position for job in queue.waiting.values()]
        assert tickets == sorted(tickets)
    for job in book.jobs.by_key.values():
        waits = job.group is not None and job.group.dialect == VOLCANO and book.queue.owns_group(job)
        if waits and book.admission.admits(job) and not job.inqueue:
            assert job.key in book.queue.gated
    reserved: Counter[str] = Counter()
    for job in book.jobs.by_key.values() if book.plugins.enqueues else ():
        if job.inqueue and job.group is not None and not job.occupied and job.problem is None:
            reserved.update(dict(job.group.min_resources))
    assert {name: amount for name, amount in book.queue.reserved.items() if amount} == {
        name: amount for name, amount in reserved.items() if amount
    }


def assert_sound(scheduler: Scheduler, decided: list[Action]) -> None:
    """Whoever is bound is bound together with its gang's minimum, and where there is room."""
    columns = scheduler.cluster.columns
    for action in decided:
        if isinstance(action, Bind):
            task = scheduler.cache.jobs.tasks[action.uid]
            job, row = task.job, columns.rows[action.node]
            wanted = columns.axis.request(task.pod.request).dense > 0
            assert (columns.free[wanted, row] >= 0).all()
            assert job.ready >= job.min_member or not scheduler.session.plugins.gangs
            tree = scheduler.cache.tree
            assert not tree.over_capability_with_leaving(tree.by_name[job.queue], dict(task.amounts))


def assert_apart(scheduler: Scheduler, decided: list[Action]) -> None:
    """Check, pod by pod, that anti-affinity allows each bound pod beside all others."""
    cluster = scheduler.cluster
    nodes = [item for item in cluster.columns.nodes if item is not None]
    entries = [entry for entry in cluster.pods.by_uid.values() if entry.charged]
    for action in decided:
        if isinstance(action, Bind):
            others = [replace(entry.pod, node=entry.at) for entry in entries if entry.pod.uid != action.uid]
            pod = cluster.pods.by_uid[action.uid].pod
            asked = replace(pod, spec=replace(pod.spec, affinity=(), spread=()))
            naive = NaiveCluster(nodes, others, {})
            assert naive.allowed(asked, naive.nodes[action.node]), (pod.name, action.node)


@given(st.integers(0, 2**32), st.integers(1, 40))
@example(1448, 12)  # the last member of a job in a closed queue ends
@example(85, 30)  # a member takes the place of another of its own gang, which is not whole
@example(327, 30)  # a gang grows while room is kept for it
@example(54422, 14)  # room appears for a job tried in vain, while others have not been tried
@example(625, 22)  # a queue goes while room is being made for a pod of it
def test_no_history_breaks_a_promise(seed: int, steps: int) -> None:
    lived(seed, steps)


@given(st.integers(0, 2**32), st.integers(1, 40))
@example(237484642, 8)  # a job goes while nodes are chosen that are kept for it
@example(4645, 8)  # a pod goes while its gang is placed, and that is taken in before the binding is carried out
def test_no_history_of_numbered_pods_that_keep_apart_breaks_a_promise(seed: int, steps: int) -> None:
    lived(seed, steps, kind=Numbered)


@given(st.integers(0, 2**32), st.integers(1, 40))
@example(15575, 30)  # the next pod of a group that nodes are to be kept for asks for a level that there is not
def test_no_history_of_groups_that_ask_for_zones_breaks_a_promise(seed: int, steps: int) -> None:
    lived(seed, steps, kind=Racked)


class Forgetful(FailureCache):
    """Remembers nothing."""

    def find(self, _generation: int, _tried: Hashable) -> Failure | None:
        return None


class Persistent(FutileSearches):
    """Searches again."""

    def known(self, _at: Hashable, _kind: Hashable) -> bool:
        return False


class Forgotten(dict[Hashable, CandidateFinder]):
    """Keeps no openings from one action run to the next."""

    def get(self, _key: Hashable, default: Any = None) -> Any:
        return default


class Impatient(dict[Any, dict[str, Hashable]]):
    """Looks in every cycle for room that is kept."""

    def setdefault(self, _key: Any, default: Any = None) -> Any:
        return default


@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([History, Ruled, Numbered, Racked]))
@example(4047, 12, Racked)  # the next pod of a group that nodes are to be kept for asks for a level that there is not
def test_what_is_not_tried_again_would_have_been_tried_in_vain(seed: int, steps: int, kind: type[History]) -> None:
    def moves(actions: list[Action]) -> list[Action]:
        return [action for action in actions if isinstance(action, Bind | Evict)]

    # What is not tried would be cut off nowhere.
    assert moves(lived(seed, steps, cuts=False, kind=kind)) == moves(
        lived(seed, steps, cuts=False, forgets=True, kind=kind)
    )


@pytest.mark.parametrize("seed", [139, 145, 267, 295, 338, 355, 387, 396])
def test_no_room_is_kept_for_ever(seed: int) -> None:
    lived(seed, 30, kind=Ruled)


def lived(
    seed: int, steps: int, *, forgets: bool = False, cuts: bool = True, kind: type[History] = History
) -> list[Action]:
    """All that is decided in one history, which must be sound at every step and come to rest."""
    history = kind(seed)
    history.cuts = cuts
    if not cuts:
        # Whoever searches more pauses elsewhere, and then others have their turn: that says nothing of what is known.
        history.simulated.scheduler.session.effort.spend(-(10**12))
    if forgets:
        session = history.simulated.scheduler.session
        session.failures = Forgetful()
        session.preempting.searches = session.reclaiming.searches = Persistent()
        session.finders, session.promises = Forgotten(), Impatient()
    for _unused in range(steps):
        history.step()
    simulated = history.simulated
    # Who asks is not shown half of what is being tried.
    history.come_to_rest()
    simulated.scheduler.queues()
    assert_sums(simulated.scheduler)
    simulated.run()
    assert_sums(simulated.scheduler)
    simulated.run()
    assert not any(isinstance(action, Bind | Evict) for action in simulated.run())
    # Nobody is leaving any more, so whom room was kept for has it, or waits like all others.
    assert not any(task.status is Status.PIPELINED for task in simulated.scheduler.cache.jobs.tasks.values())
    assert_forgetful(simulated.scheduler)
    return [*history.decided, *simulated.actions]


def assert_forgetful(scheduler: Scheduler) -> None:
    """Nothing is known of jobs that are no more."""
    for known in scheduler.cache.known:
        assert known.keys() <= scheduler.cache.jobs.by_key.keys()


def test_in_histories_pods_are_bound_and_evicted() -> None:
    kinds = Counter(
        action.reason if isinstance(action, Evict) else type(action).__name__
        for seed in range(60)
        for action in lived(seed, 30)
    )
    assert kinds["Bind"] > 200
    assert kinds["Preempted"] > 3
    assert kinds["Reclaimed"] > 3


class Flow:
    """Small jobs come and end all the time in front of and behind one gang that has the highest priority."""

    PATIENCE = 8.0
    LONGEST = 8

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        take = self._random.choice
        self._proportion = take((True, False))
        plugins = [name for name in PLUGINS if self._proportion or name != "proportion"]
        actions = ["allocate", "backfill", *self._random.sample(("preempt", "reclaim"), take((0, 1, 2)))]
        lines = [f'actions: "{", ".join(actions)}"', "tiers:", "- plugins:", *(f"  - name: {name}" for name in plugins)]
        self.simulated = Simulated(load("\n".join(lines), "test"), reserve_after=self.PATIENCE, epoch=0.0)
        self.cores = [take((2, 4, 8)) for _unused in range(self._random.randint(2, 6))]
        allocatable = (amounts(cpu=str(cores), memory="64Gi", pods="110") for cores in self.cores)
        self.simulated.see(*(node(f"n{index}", allocatable=each) for index, each in enumerate(allocatable)))
        self.simulated.see(queue_of("stream"), queue_of("others"), queue_of("head"), priority_class("high", 100))
        self._lasting: dict[str, int] = {}
        self._ends: dict[str, float] = {}
        self._made = 0
        self.evicted: list[Evict] = []

    def small(self) -> None:
        """A pod or a small gang comes; it never has the head's priority, nor lasts longer than the longest."""
        take = self._random.choice
        self._made += 1
        name, lasts = f"s{self._made}", self._random.randint(1, self.LONGEST)
        group = gang(name, 2, queue=take(("stream", "others"))) if take((False, False, True)) else None
        annotations = () if group else (("scheduling.converged.hpc/queue", take(("stream", "others"))),)
        deadline = lasts if take((True, False)) else None
        if group:
            self.simulated.see(group)
        for number in range(2 if group else 1):
            more: dict[str, Any] = {"group": name} if group else {"annotations": annotations}
            cpu = amounts(cpu=take(("500m", "1", "2")))
            member = mine(f"{name}-{number}", request=cpu, priority=take((0, 5)), deadline=deadline, **more)
            self._lasting[member.name] = lasts
            self.simulated.see(member)

    def head(self) -> list[str]:
        """A gang that fits the empty cluster comes, in a queue of its own where shares count."""
        each = self._random.randint(1, max(self.cores))
        places = sum(cores // each for cores in self.cores)
        members = self._random.randint(1, places)
        names = [f"head{number}" for number in range(members)]
        name = "head" if self._proportion else self._random.choice(("head", "stream"))
        self.simulated.see(gang("head", members, queue=name, priority_class="high"))
        request = amounts(cpu=str(each))
        self.simulated.see(*(mine(member, group="head", request=request, priority=100) for member in names))
        return names

    def second(self) -> None:
        """A second passes."""
        simulated = self.simulated
        simulated.now += 1.0
        for name in [name for name, end in self._ends.items() if end <= simulated.now]:
            del self._ends[name]
            if any(one.name == name for one in simulated.pods.values()):
                simulated.finish(name)
        for _unused in range(self._random.randint(0, 4)):
            self.small()
        self.evicted += [action for action in simulated.run() if isinstance(action, Evict)]
        for bound in list(simulated.pods.values()):
            if bound.node and bound.name in self._lasting:
                self._ends[bound.name] = simulated.now + self._lasting.pop(bound.name)
                began = datetime.fromtimestamp(simulated.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                simulated.see(replace(bound, started=began if bound.spec.deadline else ""))
        simulated.check()


@given(st.integers(0, 2**32))
def test_the_first_job_starts_within_the_patience_and_the_longest_pod_whatever_comes_meanwhile(seed: int) -> None:
    flow = Flow(seed)
    for _unused in range(6):
        flow.second()
    names = flow.head()
    seconds = 0
    while not all(flow.simulated.named(name).node for name in names):
        assert seconds <= flow.PATIENCE + flow.LONGEST + 3
        flow.second()
        seconds += 1


def test_in_such_histories_the_head_is_passed_without_a_reservation() -> None:
    passed = 0
    for seed in range(12):
        flow = Flow(seed)
        flow.simulated.scheduler.session.reservations.reserve_after = 1e6
        for _unused in range(6):
            flow.second()
        names = flow.head()
        for _unused in range(int(flow.PATIENCE) + flow.LONGEST + 3):
            flow.second()
        passed += not flow.simulated.named(names[0]).node and not flow.evicted
    assert passed >= 2
