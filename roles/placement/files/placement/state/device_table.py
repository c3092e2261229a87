# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of each node, from the slices in which drivers publish them.

A pool counts where it is whole, as for kube-scheduler: all its slices of the newest generation are there, and no two of
its devices have one name. A driver that changes a pool replaces its slices one after another, and what it has meanwhile
is not known.
"""

from collections import Counter
from collections.abc import Iterator

from placement.model.device_slices import DeviceSlice, DevicesOfPool
from placement.model.messages.event import Object

# Driver and name.
Pool = tuple[str, str]


class DeviceTable:
    """Slices by node and pool; nothing is kept of a slice that has gone."""

    def __init__(self) -> None:
        self._at: dict[str, dict[Pool, dict[str, DeviceSlice]]] = {}
        # Slices of each generation of a pool, those without a device in one node as well.
        self._numbers: dict[Pool, Counter[int]] = {}
        # UIDs of those that were read and cannot be any more: what they say is old.
        self._unreadable: set[str] = set()

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Note a slice that has come, changed or gone; other objects do not matter."""
        if isinstance(old, DeviceSlice):
            self._drop(old)
        if isinstance(new, DeviceSlice):
            self._add(new)

    def lose(self, item: Object | None) -> None:
        """Note that the slice has changed and cannot be read, so its pool is not whole until it can be, or is gone."""
        if isinstance(item, DeviceSlice) and item.uid not in self._unreadable:
            self._unreadable.add(item.uid)
            self._uncount(item)

    def of(self, node: str) -> tuple[DevicesOfPool, ...]:
        """Return the devices of the node by pool, as far as their pools are whole."""
        found = []
        for (driver, pool), slices in sorted(self._at.get(node, {}).items()):
            newest, missing = self._newest((driver, pool), slices)
            if not missing:
                devices = (device for item in newest for device in item.devices if node in (item.node, device.node))
                found.append(DevicesOfPool(driver, pool, tuple(sorted(devices))))
        return tuple(found)

    def findings(self, node: str) -> Iterator[str]:
        """Yield one sentence for each pool of the node that is not whole."""
        for (driver, pool), slices in sorted(self._at.get(node, {}).items()):
            _newest, missing = self._newest((driver, pool), slices)
            if missing:
                yield f"node {node}: pool {pool} of {driver} is left out: {missing}"

    def __len__(self) -> int:
        """Count what is remembered, in nodes and pools."""
        return len(self._at) + len(self._numbers) + len(self._unreadable)

    def _newest(self, pool: Pool, slices: dict[str, DeviceSlice]) -> tuple[list[DeviceSlice], str]:
        """Return the slices of the newest generation, and what is wrong with them, if anything."""
        lost = next((slices[uid].name for uid in sorted(slices) if uid in self._unreadable), "")
        if lost:
            return [], f"slice {lost} cannot be read"
        generation = max(item.generation for item in slices.values())
        newest = [slices[uid] for uid in sorted(slices) if slices[uid].generation == generation]
        of, numbers = newest[0].of, self._numbers[pool]
        # A pool of the same name may be another node's own, so the node's slices are counted first.
        if len(newest) != of:
            if max(numbers) > generation:
                return newest, f"generation {max(numbers)} replaces it"
            if numbers[generation] != of:
                return newest, f"{numbers[generation]} of {of} slices of generation {generation}"
        names = Counter(device.name for item in newest for device in item.devices)
        name, number = max(names.items(), key=lambda each: each[1], default=("", 0))
        return newest, f"{number} devices are called {name}" if number > 1 else ""

    def _add(self, item: DeviceSlice) -> None:
        pool = item.driver, item.pool
        self._numbers.setdefault(pool, Counter())[item.generation] += 1
        for node in item.nodes:
            self._at.setdefault(node, {}).setdefault(pool, {})[item.uid] = item

    def _drop(self, item: DeviceSlice) -> None:
        if item.uid in self._unreadable:
            self._unreadable.remove(item.uid)
        else:
            self._uncount(item)
        pool = item.driver, item.pool
        for node in item.nodes:
            pools = self._at[node]
            del pools[pool][item.uid]
            if not pools[pool]:
                del pools[pool]
            if not pools:
                del self._at[node]

    def _uncount(self, item: DeviceSlice) -> None:
        pool = item.driver, item.pool
        numbers = self._numbers[pool]
        numbers[item.generation] -= 1
        if not numbers[item.generation]:
            del numbers[item.generation]
        if not numbers:
            del self._numbers[pool]
