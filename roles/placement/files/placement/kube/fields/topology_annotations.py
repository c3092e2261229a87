# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What annotations of groups and pods ask of racks and switches: our own names, and those of Kueue's topology.

An annotation of a group is about all of its pods. One of a pod is about the pods of its sub-group, which are all pods
of the group unless they name several.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from placement.kube.fields.field_error import demand
from placement.model.rules.topology import MATCH_POLICIES, TopologyRequest

_OURS: Final = "converged.hpc/"
_REQUIRED: Final = "converged.hpc/required-topology"
_PREFERRED: Final = "converged.hpc/preferred-topology"
_EXCLUSIVE: Final = "converged.hpc/exclusive-nodes"
_PER_NODE: Final = "converged.hpc/pods-per-node"
_EVEN: Final = "converged.hpc/spread-evenly"
_POLICY: Final = "converged.hpc/match-policy"
_SUB_GROUP: Final = "converged.hpc/sub-group"
_OWN: Final = (_REQUIRED, _PREFERRED, _EXCLUSIVE, _PER_NODE, _EVEN, _POLICY, _SUB_GROUP)

_KUEUE: Final = "kueue.x-k8s.io/podset-"
_KUEUE_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
_KUEUE_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
_KUEUE_ANYWHERE: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
_KUEUE_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
# What Kueue knows and is not served here: slices of a pod set, and rules for their spread.
_KUEUE_MORE: Final = (
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology-constraints",
    "kueue.x-k8s.io/podset-slice-size",
    "kueue.x-k8s.io/podset-topology-spreading",
)
# Labels by which Kueue tells its pod sets apart, and pods for which it has chosen the nodes itself.
KUEUE_POD_SET: Final = "kueue.x-k8s.io/podset"
KUEUE_CHOSEN: Final = "kueue.x-k8s.io/tas"

# The API allows more pods on a node than any node can have.
_MOST_PER_NODE: Final = 1 << 20
# Levels that one annotation may list.
_MOST_LEVELS: Final = 16
_LONGEST: Final = 253


def read_topology(
    annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None = None
) -> tuple[TopologyRequest | None, tuple[str, ...]]:
    """Return what the annotations ask, and a sentence for each that asks for what cannot be served."""
    if not annotations or not any(key.startswith((_OURS, _KUEUE)) for key in annotations):
        return None, ()
    return _Reader(annotations, labels or {}).read()


class _Reader:
    """Reads the annotations of one object."""

    def __init__(self, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        self._annotations = annotations
        self._labels = labels
        self._problems: list[str] = []

    def read(self) -> tuple[TopologyRequest | None, tuple[str, ...]]:
        """Return the request and the problems."""
        kueue = self._labels.get(KUEUE_CHOSEN) != "true" and any(key.startswith(_KUEUE) for key in self._annotations)
        own = any(key in self._annotations for key in _OWN)
        if not own and not kueue:
            return None, ()
        required, preferred = self._levels(_REQUIRED), self._levels(_PREFERRED)
        sub_group = self._annotations.get(_SUB_GROUP, "")[:_LONGEST]
        field = _REQUIRED if required else _PREFERRED
        if kueue:
            asked = [key for key in (_KUEUE_REQUIRED, _KUEUE_PREFERRED, _KUEUE_ANYWHERE) if key in self._annotations]
            self._problems += self._contradictions(asked, own_levels=bool(required or preferred))
            if not required and not preferred:
                required, preferred = self._levels(_KUEUE_REQUIRED), self._levels(_KUEUE_PREFERRED)
                field = _KUEUE_REQUIRED if required else _KUEUE_PREFERRED
            pod_set = self._annotations.get(_KUEUE_GROUP) or self._labels.get(KUEUE_POD_SET, "")
            sub_group = sub_group or pod_set[:_LONGEST]
        per_node = self._number(_PER_NODE)
        even = self._flag(_EVEN)
        if per_node and even:
            self._problems.append(demand(_EVEN, "true", f"nothing beside {_PER_NODE}"))
        request = TopologyRequest(
            required=required,
            preferred=preferred,
            exclusive=self._flag(_EXCLUSIVE),
            per_node=per_node,
            even=even,
            policy=self._policy(),
            sub_group=sub_group,
            field=field,
        )
        return request, tuple(self._problems)

    def _contradictions(self, asked: list[str], *, own_levels: bool) -> Iterator[str]:
        if own_levels:
            yield from (demand(key, self._annotations[key], f"nothing beside {_REQUIRED}") for key in asked)
        for key in asked[1:]:
            yield demand(key, self._annotations[key], f"nothing beside {asked[0]}")
        for key in _KUEUE_MORE:
            if key in self._annotations:
                yield demand(key, self._annotations[key], "nothing")

    def _levels(self, key: str) -> tuple[str, ...]:
        text = self._annotations.get(key)
        if text is None:
            return ()
        names = tuple(name.strip() for name in text.split(","))
        if len(names) > _MOST_LEVELS or not all(0 < len(name) <= _LONGEST for name in names):
            self._problems.append(demand(key, text, "names of levels with commas between them"))
            return ()
        return names

    def _flag(self, key: str) -> bool:
        text = self._annotations.get(key, "false")
        if text not in ("true", "false"):
            self._problems.append(demand(key, text, "true or false"))
        return text == "true"

    def _number(self, key: str) -> int:
        text = self._annotations.get(key)
        if text is None:
            return 0
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:11]) <= _MOST_PER_NODE):
            self._problems.append(demand(key, text, f"a number from 1 to {_MOST_PER_NODE}"))
            return 0
        return int(text[:11])

    def _policy(self) -> str:
        name = self._annotations.get(_POLICY, "")
        if name and name not in MATCH_POLICIES:
            self._problems.append(demand(_POLICY, name, f"one of {', '.join(MATCH_POLICIES)}"))
            return ""
        return name
