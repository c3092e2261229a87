# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How well the resource graph places gangs: racks spanned, fragmentation, and gangs that wait though they would fit.

`python -m bench.placement_racks` plays the same gangs for each way to choose: they come one a second, hold their nodes
for a while, and end. A gang that finds no place waits and is tried again, the oldest first, whenever another ends.
`nodes by name` knows no racks and is what the others are compared with. Whether a waiting gang would have fit is found
by plain sums over the pods that run, not by the graph. It exits with 1 if a gang waits that would have fit.
"""

import statistics
import sys
from random import Random
from typing import Final, NamedTuple

from bench._figures import count, parser_of, table
from bench.placement_graph import GIB, RACKS, checked, cluster_of
from placement.graph.matching.match import choose
from placement.graph.request import Part, Request, Selection
from placement.graph.tree.tree import Graph
from placement.model.amounts.quantity import Amounts
from placement.model.messages.event import Deleted, Upserted
from placement.model.objects.pod import Pod, PodSpec

NODES: Final = 320
IN_RACK: Final = 16
CORES: Final = 32


class Gang(NamedTuple):
    """One gang: how many pods of how many cores, and for how many seconds it runs."""

    pods: int
    cores: int
    lasts: int


class Quality(NamedTuple):
    """What became of all gangs."""

    # Racks of each gang that started.
    spanned: list[int]
    # Seconds that each gang waited.
    waited: list[int]
    # Of the free cores, by second, the part that is outside the rack with most of them.
    fragments: list[float]
    # Gangs that were refused, although one rack had the room, or, where racks do not matter, the cluster.
    wrong: int


def drawn(number: int, seed: int) -> list[Gang]:
    """Return gangs of 2 to 48 pods; together they ask for a little less than there is."""
    random = Random(seed)
    return [
        Gang(random.choice([2, 4, 8, 8, 16, 16, 32, 48]), random.choice([4, 8, 16, 32]), random.randint(15, 75))
        for _unused in range(number)
    ]


class Play:
    """Nodes in racks, the gangs that run on them, and those that wait."""

    def __init__(self, gangs: list[Gang], policy: str, within: tuple[str, ...], *, required: bool) -> None:
        self._gangs, self._policy, self._within, self._required = gangs, policy, within, required
        capacity = (("cpu", 1000 * CORES), ("memory", 128 * GIB), ("pods", 110))
        self._cluster = cluster_of(NODES, capacity, NODES // IN_RACK)
        self.graph = Graph(self._cluster.columns, RACKS)
        self._rack_of = {
            node.name: dict(node.labels)["rack"] for node in self._cluster.columns.nodes if node is not None
        }
        self.free = dict.fromkeys(self._rack_of, CORES)
        self._version = 1
        # Pods with their cores by the second in which they end.
        self._running: dict[int, list[tuple[Pod, int]]] = {}

    def end(self, second: int) -> None:
        """Delete the pods that end now."""
        for pod, cores in self._running.pop(second, []):
            self._version += 1
            self._cluster.apply(Deleted(Pod, pod.uid, self._version))
            self.free[pod.node] += cores

    def start(self, index: int, second: int) -> int:
        """Start the gang if it finds a place; return how many racks it spans, 0 if it finds none."""
        gang = self._gangs[index]
        amounts: Amounts = (("cpu", 1000 * gang.cores),)
        part = Part(count=gang.pods, request=amounts)
        request = Request(parts=(part,), within=self._within, required=self._required, policy=self._policy)
        found = choose(self.graph, request, [None])
        if not isinstance(found, Selection):
            return 0
        racks = set()
        for number, row in enumerate(found.parts[0].each()):
            node = self._cluster.columns.nodes[row]
            assert node is not None
            self._version += 1
            name = f"{index}-{number}"
            pod = Pod(
                uid=name,
                namespace="team",
                name=name,
                version=self._version,
                spec=PodSpec(),
                request=amounts,
                node=node.name,
            )
            self._cluster.apply(Upserted(pod))
            self.free[node.name] -= gang.cores
            racks.add(self._rack_of[node.name])
            self._running.setdefault(second + gang.lasts, []).append((pod, gang.cores))
        return len(racks)

    def would_fit(self, index: int) -> bool:
        """Return whether one rack, or the cluster where racks do not matter, has the room that the gang asks for."""
        gang = self._gangs[index]
        room: dict[str, int] = {}
        for name, cores in self.free.items():
            place = self._rack_of[name] if self._required else "cluster"
            room[place] = room.get(place, 0) + cores // gang.cores
        return max(room.values()) >= gang.pods

    def fragment(self) -> float | None:
        """Return the part of the free cores that is outside the rack with most of them; None if none are free."""
        by_rack: dict[str, int] = {}
        for name, cores in self.free.items():
            by_rack[self._rack_of[name]] = by_rack.get(self._rack_of[name], 0) + cores
        total = sum(by_rack.values())
        return 1 - max(by_rack.values()) / total if total else None


def play(gangs: list[Gang], policy: str, within: tuple[str, ...], *, required: bool) -> Quality:
    """Let the gangs come and go."""
    site = Play(gangs, policy, within, required=required)
    # The gangs that wait; each comes in the second of its number.
    waiting: list[int] = []
    result, wrong, second = Quality([], [], [], 0), 0, 0
    while second < len(gangs) or waiting:
        site.end(second)
        left: list[int] = []
        for index in [*waiting, second] if second < len(gangs) else waiting:
            racks = site.start(index, second)
            if racks:
                result.spanned.append(racks)
                result.waited.append(second - index)
            else:
                left.append(index)
                wrong += site.would_fit(index)
        waiting = left
        fragment = site.fragment()
        if fragment is not None:
            result.fragments.append(fragment)
        second += 1
    checked(site.graph)
    if min(site.free.values()) < 0:
        raise SystemExit("a node holds more than it has")
    return result._replace(wrong=wrong)


def main() -> int:
    """The command line."""
    parser = parser_of(__doc__, "--gangs 200 --rounds 1")
    parser.add_argument("--gangs", type=count, default=1000, help="how many gangs come (default: 1000)")
    parser.add_argument("--rounds", type=count, default=5, help="rounds of other gangs each (default: 5)")
    options = parser.parse_args()
    ways = {
        "nodes by name": ("first", (), False),
        "rack preferred, first": ("first", ("rack",), False),
        "rack preferred, locality": ("locality", ("rack",), False),
        "rack required, first": ("first", ("rack",), True),
        "rack required, locality": ("locality", ("rack",), True),
    }
    rows, wrong = [], 0
    for name, (policy, within, required) in ways.items():
        found = [
            # A gang of 48 pods with whole nodes fits no rack of 16, so it cannot require one.
            play([fitting_a_rack(gang) for gang in drawn(options.gangs, seed)], policy, within, required=required)
            for seed in range(1, options.rounds + 1)
        ]
        wrong += sum(each.wrong for each in found)
        in_one = [100 * each.spanned.count(1) / len(each.spanned) for each in found]
        rows.append(
            [
                name,
                f"{statistics.median(statistics.mean(each.spanned) for each in found):.2f}",
                f"{statistics.median(in_one):.0f} %",
                f"{statistics.median(100 * statistics.mean(each.fragments) for each in found):.0f} %",
                f"{statistics.median(statistics.mean(each.waited) for each in found):.1f} s",
                str(sum(each.wrong for each in found)),
            ]
        )
    print(f"{options.rounds} rounds of {options.gangs} gangs, {NODES} nodes of {CORES} cores in racks of {IN_RACK}\n")
    head = (
        "choice",
        "racks a gang",
        "in one rack",
        "free outside the best rack",
        "mean wait",
        "waited though they fit",
    )
    print(table(head, rows))
    return 1 if wrong else 0


def fitting_a_rack(gang: Gang) -> Gang:
    """Return the gang with as many pods as one rack can hold."""
    return gang._replace(pods=min(gang.pods, IN_RACK * (CORES // gang.cores)))


if __name__ == "__main__":
    sys.exit(main())
