# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods are queued by: groups, queues and priorities, whatever API they came from."""

from dataclasses import dataclass

from placement.model.quantity import Amounts
from placement.model.selector import LabelPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang: all of `min_member` start or none. `dialect` is the API group and version it was written in."""

    uid: str
    namespace: str
    name: str
    version: int
    dialect: str
    min_member: int = 1
    queue: str = ""
    priority_class: str = ""
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A share of the cluster; `namespaces=None` admits all namespaces."""

    uid: str
    name: str
    version: int
    dialect: str
    weight: int = 1
    capability: Amounts = ()
    guarantee: Amounts = ()
    reclaimable: bool = True
    parent: str = ""
    is_open: bool = True
    priority: int = 0
    namespaces: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A name for a priority."""

    uid: str
    name: str
    version: int
    value: int
    is_default: bool = False
    preempts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace with the labels that namespace selectors read."""

    uid: str
    name: str
    version: int
    labels: LabelPairs = ()
