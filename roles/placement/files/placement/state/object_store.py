# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that have no table of their own, by kind, by UID and by name."""

from collections.abc import Iterator
from typing import TypeVar, cast

from placement.model.messages.event import Object

T = TypeVar("T", bound=Object)


class ObjectTable(dict[type[Object], dict[str, Object]]):
    """Objects by UID by kind; names are looked up through an index of each kind that is asked for by name."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[type[Object], dict[tuple[str, str], Object]] = {}
        # Moves by kind whenever an object of it has come, changed or gone.
        self._changes: dict[type[Object], int] = {}

    def put(self, item: Object) -> None:
        """Store the object in place of an earlier one."""
        self.setdefault(type(item), {})[item.uid] = item
        self._changes[type(item)] = self.changes(type(item)) + 1
        names = self._names.get(type(item))
        if names is not None:
            _name(names, item)

    def drop(self, kind: type[Object], uid: str) -> Object:
        """Remove and return the object; a younger namesake keeps the name."""
        item = self[kind].pop(uid)
        self._changes[kind] = self.changes(kind) + 1
        names = self._names.get(kind, {})
        if names.get(_key(item)) is item:
            del names[_key(item)]
        return item

    def changes(self, kind: type[Object]) -> int:
        """How often an object of this kind has come, changed or gone, to see whether an answer is still true."""
        return self._changes.get(kind, 0)

    def every(self, kind: type[T]) -> Iterator[T]:
        """All objects of one kind."""
        for item in self.get(_any(kind), {}).values():
            if isinstance(item, kind):
                yield item

    def find(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """Return the object of this name; None if there is none."""
        names = self._names.get(_any(kind))
        if names is None:
            names = self._names[_any(kind)] = {}
            for item in self.get(_any(kind), {}).values():
                _name(names, item)
        found = names.get((namespace, name))
        return found if isinstance(found, kind) else None


def _key(item: Object) -> tuple[str, str]:
    return getattr(item, "namespace", ""), item.name


def _name(names: dict[tuple[str, str], Object], item: Object) -> None:
    """Names are given once at a time, so of two namesakes the older is gone, whatever has been heard of that."""
    known = names.get(_key(item))
    if known is None or known.version <= item.version:
        names[_key(item)] = item


def _any(kind: type[T]) -> type[Object]:
    # The checker does not see that a kind bound to the union is one of its members.
    return cast("type[Object]", kind)
