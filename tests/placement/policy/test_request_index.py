# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that are compared many at once, against a look at each of them."""

import random
from itertools import islice

import numpy as np
from placement.model.amounts.quantity import CPU, EPHEMERAL_STORAGE, MEMORY, Amounts
from placement.policy.cache.scheduling_queue.request_index import RequestIndex
from placement.state.nodes.vectors import PODS_INDEX, ResourceAxis

# They have no place on the axis before some node offers them.
EXTENDED = ("example.com/gpu", "example.com/fpga", "example.com/port")
NAMES = (CPU, MEMORY, EPHEMERAL_STORAGE, *EXTENDED)


class Compared:
    """An index, and all that it must have kept."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._axis = ResourceAxis()
        self._index = RequestIndex(self._axis)
        self._kept: dict[Amounts, None] = {}

    def step(self) -> None:
        """Let requests come, one of them go, nodes offer a resource more, or nodes have room."""
        draw = self._draw
        what = draw.choice(("come", "go", "go", "room", "room", "offer"))
        if what == "come":
            # Now and then so many that the array is full.
            for _unused in range(draw.choice((1, 5, 100))):
                names = sorted(draw.sample(NAMES, draw.randint(0, 3)))
                self._add(tuple((name, draw.choice((0, 1, 2, 3, 50))) for name in names))
        elif what == "go" and self._kept:
            request = draw.choice([*self._kept, [*self._kept][-1]])
            del self._kept[request]
            self._index.discard(request)
        elif what == "offer" and draw.random() < 0.2:
            for name in self._axis.unknown_names(tuple((name, 1) for name in EXTENDED))[:1]:
                self._axis.add(name)
        elif what == "room":
            self._room()

    def _add(self, request: Amounts) -> None:
        if request not in self._kept:
            self._kept[request] = None
            self._index.add(request)

    def _room(self) -> None:
        draw = self._draw
        nodes = [[draw.randint(-1, 4) for _unused in self._axis.names] for _unused in range(draw.randint(1, 3))]
        fitting = {request for request in self._kept if any(self._fits(request, room) for room in nodes)}
        # Of many nodes with the same room, so that few requests are compared at once.
        free = np.repeat(np.array(nodes).T, draw.choice((1, 100, 400, 1100)), axis=1)
        # The caller may give up between two parts.
        parts = draw.choice((None, None, None, 1, 3))
        found: list[Amounts] = []
        for part in islice(self._index.fitting(free), parts):
            for request in part:
                self._index.discard(request)
                del self._kept[request]
                found.append(request)
        assert len(set(found)) == len(found)
        assert set(found) == fitting if parts is None else fitting.issuperset(found)

    def _fits(self, request: Amounts, room: list[int]) -> bool:
        names = self._axis.names
        asked = [(names.index(name), amount) for name, amount in request if name in names and amount]
        return room[PODS_INDEX] >= 1 and all(room[index] >= amount for index, amount in asked)


def test_requests_that_fit_are_those_that_a_look_at_each_finds(chosen: random.Random) -> None:
    for _unused in range(40):
        compared = Compared(chosen)
        for _step in range(50):
            compared.step()
