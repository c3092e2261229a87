# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An index of matchers: which of thousands of rules may be about a pod with these labels.

Nearly every selector requires one label with one value (`app=x`), and nearly every rule names one namespace. An item is
kept under these two, so a pod finds its few candidates by its own namespace and labels, however many items there are.
"""

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

from placement.model.rules.affinity import PodMatcher
from placement.model.rules.selector import LabelPairs, LabelSelector, Operator

T = TypeVar("T", bound=Hashable)
# What a pod must have to be found: a label with this value, a label of this key, or nothing.
Bucket = tuple[str, str] | str | None

# A requirement of more values than this is not worth as many buckets.
_MOST_VALUES: Final = 16


def buckets(selector: LabelSelector) -> tuple[Bucket, ...]:
    """Return what pods that the selector matches must have at least one of."""
    best: tuple[Bucket, ...] = (None,)
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) <= _MOST_VALUES:
            if best[0] is None or isinstance(best[0], str) or len(requirement.values) < len(best):
                best = tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
                if len(best) <= 1:
                    break
        elif requirement.operator is Operator.EXISTS and best[0] is None:
            best = (requirement.key,)
    return best


class MatcherIndex(Generic[T]):
    """Items with a matcher each, by namespace and bucket; None stands for all namespaces."""

    def __init__(self) -> None:
        self._items: dict[str | None, dict[Bucket, dict[T, None]]] = {}

    def add(self, matcher: PodMatcher, item: T) -> None:
        """Keep the item under what its matcher requires; a matcher that matches no pod is not kept."""
        for namespace, bucket in _places(matcher):
            self._items.setdefault(namespace, {}).setdefault(bucket, {})[item] = None

    def discard(self, matcher: PodMatcher, item: T) -> None:
        """Forget an item that was added with this matcher."""
        for namespace, bucket in _places(matcher):
            found = self._items[namespace]
            del found[bucket][item]
            if not found[bucket]:
                del found[bucket]
            if not found:
                del self._items[namespace]

    def candidates(self, namespace: str, labels: LabelPairs) -> Iterator[T]:
        """Yield each item once that may be about a pod of this namespace and these labels."""
        for where in (namespace, None):
            found = self._items.get(where)
            if found is None:
                continue
            for bucket in (None, *labels, *(key for key, _value in labels)):
                items = found.get(bucket)
                if items is not None:
                    yield from items


def _places(matcher: PodMatcher) -> list[tuple[str | None, Bucket]]:
    if matcher.selector is None:
        return []
    # A namespace selector can match any namespace tomorrow.
    namespaces = [None] if matcher.namespace_selector is not None else sorted(matcher.namespaces)
    return [(namespace, bucket) for namespace in namespaces for bucket in buckets(matcher.selector)]
