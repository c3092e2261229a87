# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors, node selectors, taints and tolerations as records, and whether they match.

The odd corners are kube-scheduler's own. No selector matches nothing while an empty one matches everything. An empty
node selector term matches no node. A term with an invalid requirement never matches, whatever the others say.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Label sets are hashable, so that equal ones are stored once; matching takes the mapping.
LabelPairs = tuple[tuple[str, str], ...]
LabelMap = Mapping[str, str]

NODE_NAME_FIELD: Final = "metadata.name"
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
# Keeps pods of other queues off nodes that are for backed ones: these need not tolerate it, and those cannot.
BACKED_TAINT: Final = "converged.hpc/backed"

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_DNS_PREFIX: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


class Operator(StrEnum):
    """Operators of label and node selector requirements."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: LabelMap) -> bool:
        """Whether these labels satisfy the condition."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        have, limit = parse_int64(value), parse_int64(self.values[0]) if len(self.values) == 1 else None
        if have is None or limit is None:
            return False
        return have > limit if self.operator is Operator.GT else have < limit

    def error(self) -> str | None:
        """Why the API machinery would not compile this requirement, or None."""
        if not is_label_key(self.key):
            return f"{self.key!r} is not a label key"
        if self.operator in (Operator.IN, Operator.NOT_IN) and not self.values:
            return f"{self.operator} needs a value"
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and self.values:
            return f"{self.operator} takes no value"
        if self.operator in (Operator.GT, Operator.LT) and (
            len(self.values) != 1 or parse_int64(self.values[0]) is None
        ):
            return f"{self.operator} needs exactly one integer"
        bad = next((value for value in self.values if not is_label_value(value)), None)
        return None if bad is None else f"{bad!r} is not a label value"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of the requirements; without any it matches everything. Where the API has none at all, use `None`."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: LabelMap) -> bool:
        """Whether every requirement holds."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def keys(self) -> frozenset[str]:
        """Return the label keys that can change the answer."""
        return frozenset(requirement.key for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Conditions on a node's labels and on its name; all must hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def label_values(self) -> tuple[str, tuple[str, ...]] | None:
        """Return key and values if one label decides; a caller with many such terms need not ask them one by one."""
        match self.expressions:
            case (Requirement(key=key, operator=Operator.IN, values=values),) if not self.fields:
                return key, values
        return None

    def error(self) -> str | None:
        """Why no node can match, or None: an invalid term is skipped, the other terms still count."""
        for field in self.fields:
            if field.operator not in (Operator.IN, Operator.NOT_IN):
                return f"operator {field.operator} in matchFields"
            if len(field.values) != 1:
                return "matchFields needs exactly one value"
        return next(filter(None, (expression.error() for expression in self.expressions)), None)

    def matches(self, name: str, labels: LabelMap) -> bool:
        """Whether the node of this name and these labels is meant; an empty term means none."""
        if not (self.expressions or self.fields) or self.error() is not None:
            return False
        fields = {NODE_NAME_FIELD: name}
        return all(expression.matches(labels) for expression in self.expressions) and all(
            (fields.get(field.key, "") == field.values[0]) is (field.operator is Operator.IN) for field in self.fields
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """`spec.nodeSelector` and the required node affinity of a pod together."""

    labels: LabelPairs = ()
    # None: no required affinity. An empty tuple is an affinity that no node satisfies.
    terms: tuple[NodeSelectorTerm, ...] | None = None

    def matches(self, name: str, labels: LabelMap) -> bool:
        """Whether the pod may run on a node of this name and these labels."""
        if any(labels.get(key) != value for key, value in self.labels):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)


ANY_NODE: Final = NodeSelector()


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a node."""

    key: str
    value: str
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """What lets a pod disregard a taint; the effect stays text because an unknown one simply tolerates nothing."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint; `Lt` and `Gt` do not, their feature gate is off by default."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


def untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: tuple[Effect, ...] = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE),
) -> Taint | None:
    """Return the first taint of these effects that no toleration covers."""
    covering = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(toleration.tolerates(taint) for toleration in covering):
            return taint
    return None


def parse_int64(text: str) -> int | None:
    """Parse what Go's ParseInt reads: no blanks, no underscores, 64 bits. Return None for other text."""
    if len(text) > 64 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def is_label_value(text: str) -> bool:
    """Empty, or at most 63 letters, digits, `-`, `_`, `.`, beginning and ending with a letter or digit."""
    return not text or _NAME.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return whether the text is a name as above, with an optional DNS prefix before a slash."""
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= 253 and _DNS_PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None
