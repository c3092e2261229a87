# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disruption budgets by the label sets that they count: asked for every pod of every node when room is made."""

from placement.model.messages.event import Object
from placement.model.objects.disruption import DisruptionBudget
from placement.model.rules.affinity import PodMatcher
from placement.state.affinity.labelsets import LabelSet, LabelSets, keys_of
from placement.state.affinity.matchers import MatcherIndex


class BudgetTable:
    """All budgets; the answer for a label set is kept with the label set."""

    def __init__(self, labelsets: LabelSets) -> None:
        self._labelsets = labelsets
        self._budgets: dict[str, DisruptionBudget] = {}
        self._index: MatcherIndex[str] = MatcherIndex()
        # Moves when a label set may be counted by other budgets than it was.
        self._generation = 0

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Take in that an object is new, different or gone; most news of a budget is its status."""
        before = old if isinstance(old, DisruptionBudget) else None
        after = new if isinstance(new, DisruptionBudget) else None
        if after is not None:
            self._budgets[after.uid] = after
        if before is None and after is None:
            return
        if before is not None and after is not None and before.selector == after.selector:
            return
        self._generation += 1
        if after is not None:
            matcher = _matcher(after)
            self._labelsets.read(keys_of((matcher,)))
            self._index.add(matcher, after.uid)
        if before is not None:
            matcher = _matcher(before)
            self._index.discard(matcher, before.uid)
            self._labelsets.unread(keys_of((matcher,)))
            if after is not None:
                self._index.add(_matcher(after), after.uid)
            else:
                del self._budgets[before.uid]

    def of(self, labelset: LabelSet) -> tuple[str, ...]:
        """Return the UIDs of the budgets that count pods of this label set."""
        if labelset.guarded_at != self._generation:
            labelset.guarded_at = self._generation
            labels = dict(labelset.labels)
            found = self._index.candidates(labelset.namespace, labelset.labels)
            labelset.guarded = tuple(
                [uid for uid in found if (has := self._budgets[uid].selector) is not None and has.matches(labels)]
            )
        return labelset.guarded

    def allowed(self, uid: str) -> int:
        """Return how many more pods of a budget may be evicted, as the API last said; 0 if the budget is not known."""
        budget = self._budgets.get(uid)
        return max(0, budget.allowed) if budget is not None else 0


def _matcher(budget: DisruptionBudget) -> PodMatcher:
    return PodMatcher(frozenset({budget.namespace}), budget.selector)
