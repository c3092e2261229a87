# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests that jobs wait for, side by side in one array: one comparison tells of many whether they fit."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from placement.model.amounts.quantity import Amounts
from placement.state.nodes.vectors import ResourceAxis

_FIRST_CAPACITY: Final = 64
# Pairs of a request and a node in one comparison: so many cost little more than one.
_AT_ONCE: Final = 1024
# What is not asked for is less than anything.
_NOTHING: Final = np.iinfo(np.int64).min


class RequestIndex:
    """Find those of many different requests that some node has room for."""

    def __init__(self, axis: ResourceAxis) -> None:
        self._axis = axis
        # By column, and the column of each request.
        self._requests: list[Amounts] = []
        self._columns: dict[Amounts, int] = {}
        # By resource and column; the columns behind the last request are spare.
        self._least = np.full((len(axis), _FIRST_CAPACITY), _NOTHING, np.int64)

    def add(self, request: Amounts) -> None:
        """Keep a request that is not kept yet."""
        column = self._columns[request] = len(self._requests)
        self._requests.append(request)
        if column == self._least.shape[1]:
            self._least = np.pad(self._least, ((0, 0), (0, column)))
        self._write(self._least, column)

    def discard(self, request: Amounts) -> None:
        """Forget a request that is kept; the last one moves to its column."""
        column, last = self._columns.pop(request), self._requests.pop()
        if column < len(self._requests):
            self._requests[column] = last
            self._columns[last] = column
            self._least[:, column] = self._least[:, len(self._requests)]

    def fitting(self, free: NDArray[np.int64]) -> Iterator[list[Amounts]]:
        """Yield the requests that some node has room for, in parts of which many are empty.

        What is free is given by resource and node. The caller may discard the requests of a part before the next.
        """
        if len(self._least) < len(free):
            yield from self._follow_axis()
        at_once = max(1, _AT_ONCE // free.shape[1])
        # From the end, so that the last request has been compared when it moves to the column of a discarded one.
        for start in reversed(range(0, len(self._requests), at_once)):
            least = self._least[:, start : min(start + at_once, len(self._requests))]
            fits = np.logical_and.reduce(free[:, None, :] >= least[:, :, None])
            found = np.logical_or.reduce(fits, axis=1).nonzero()[0]
            yield [self._requests[start + column] for column in found.tolist()]

    def _follow_axis(self) -> Iterator[list[Amounts]]:
        """Write all columns again, with the resources that nodes have begun to offer; yield an empty part for each."""
        least = np.full((len(self._axis), self._least.shape[1]), _NOTHING, np.int64)
        for column in range(len(self._requests)):
            self._write(least, column)
            yield []
        self._least = least

    def _write(self, least: NDArray[np.int64], column: int) -> None:
        asked = self._axis.request(self._requests[column]).least[: len(least), 0]
        least[: len(asked), column] = asked
        least[len(asked) :, column] = _NOTHING
