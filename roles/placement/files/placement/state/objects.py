# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that have no table of their own, by kind, by UID and by name."""

from collections.abc import Iterator
from typing import TypeVar, cast

from placement.model.event import Object

T = TypeVar("T", bound=Object)


class ObjectTable(dict[type[Object], dict[str, Object]]):
    """Objects by UID by kind; names are looked up through an index of each kind, made when it has changed."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[type[Object], dict[tuple[str, str], Object]] = {}

    def renamed(self, kind: type[Object]) -> None:
        """Objects of this kind have come, changed or gone."""
        self._names.pop(kind, None)

    def every(self, kind: type[T]) -> Iterator[T]:
        """All objects of one kind."""
        for item in self.get(_any(kind), {}).values():
            if isinstance(item, kind):
                yield item

    def find(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """The object of this name."""
        names = self._names.get(_any(kind))
        if names is None:
            names = {(getattr(item, "namespace", ""), item.name): item for item in self.get(_any(kind), {}).values()}
            self._names[_any(kind)] = names
        found = names.get((namespace, name))
        return found if isinstance(found, kind) else None


def _any(kind: type[T]) -> type[Object]:
    # The checker does not see that a kind bound to the union is one of its members.
    return cast("type[Object]", kind)
