# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pods are queued by: groups, queues and priorities, whatever API they came from."""

from dataclasses import dataclass
from typing import Final

from placement.model.amounts.quantity import Amounts
from placement.model.rules.selector import LabelPairs
from placement.model.rules.topology import TopologyRequest

# The APIs that groups and queues come in; where one name is found in several, the first of these counts.
UPSTREAM: Final = "scheduling.k8s.io/v1beta1"
# What Kubernetes 1.36 serves in its place.
UPSTREAM_ALPHA: Final = "scheduling.k8s.io/v1alpha2"
CONVERGED: Final = "scheduling.converged.hpc/v1alpha1"
INCUBATOR: Final = "scheduling.incubator.k8s.io/v1alpha1"
SIGS: Final = "scheduling.sigs.dev/v1alpha2"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
COSCHEDULING: Final = "scheduling.x-k8s.io/v1alpha1"
DIALECTS: Final = (UPSTREAM, UPSTREAM_ALPHA, CONVERGED, INCUBATOR, SIGS, VOLCANO, COSCHEDULING)


# What chooses the nodes of a queue's pods: the scores of nodes, the tree of racks, or the batch system PBS.
COLUMNS: Final = "columns"
GRAPH: Final = "graph"
PBS: Final = "pbs"
PLACERS: Final = (COLUMNS, GRAPH, PBS)

# What phases say of groups that have never been let in, and of those that have ended, in the words of all dialects.
NOT_LET_IN: Final = frozenset({"", "Pending"})
ENDED: Final = frozenset({"Completed", "Finished", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang: all of `min_member` start or none. `dialect` is the API group and version it was written in."""

    uid: str
    namespace: str
    name: str
    version: int
    dialect: str
    min_member: int = 1
    # How many of them must at least be of each task, by the task's name (Volcano's `minTaskMember`).
    min_tasks: tuple[tuple[str, int], ...] = ()
    queue: str = ""
    priority_class: str = ""
    created: str = ""
    # What must be free before the group is let in (Volcano's `minResources`).
    min_resources: Amounts = ()
    # Where this dialect writes the gang's size, for conditions.
    member_field: str = "spec.minMember"
    # The phase that the API has: a dialect with an Inqueue phase is not let in twice.
    phase: str = ""
    # Its priority where the API has that itself, and whether pods of lower priority may be evicted for it.
    priority: int | None = None
    preempts: bool = True
    # Fields that demand what is not served, each with what was found and what was expected.
    unsupported: tuple[str, ...] = ()
    # Where its pods are to be together.
    topology: TopologyRequest | None = None

    @property
    def has_priority(self) -> bool:
        """Whether the group says its priority; where it does not, its pods do."""
        return self.priority is not None or bool(self.priority_class)


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
    # What chooses the nodes of its pods, and the match policy of the tree where that does.
    placed_by: str = COLUMNS
    match_policy: str = ""
    # As in a group; of what a queue of another API demands.
    unsupported: tuple[str, ...] = ()

    @property
    def backed(self) -> bool:
        """Whether a batch system chooses the nodes, and each group is a job there."""
        return self.placed_by == PBS


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
