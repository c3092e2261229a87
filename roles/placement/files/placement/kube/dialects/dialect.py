# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a dialect is: where its objects are, how they are read, and what of a status its API defines."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from placement.kube.fields.metadata import Sharing
from placement.model.messages.action import GroupStatus, QueueStatus
from placement.model.objects.workload import PodGroup, Queue

Json = dict[str, Any]
Raw = bytes | msgspec.Raw

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One API group and version. A `None` says that the API has no such thing.

    `group_status` and `queue_status` give the status to write; the time is that of the change, as the API writes it.
    """

    name: str
    read_group: Callable[[Raw, Sharing], PodGroup] | None = None
    read_queue: Callable[[Raw, Sharing], Queue] | None = None
    group_status: Callable[[GroupStatus, str], Json] | None = None
    queue_status: Callable[[QueueStatus, str], Json] | None = None
    # Built-in APIs merge conditions by their type; those of a CRD are replaced as a list.
    patch: str = MERGE_PATCH
    # Older CRDs of a dialect may lack the subresource for the status, which is then written with the object.
    may_lack_subresource: bool = False
    # The version of the same objects that an older API server serves in place of this one.
    older: "Dialect | None" = None

    @property
    def path(self) -> str:
        """Where the API serves this group and version."""
        return f"/apis/{self.name}"

    def group_path(self, namespace: str, name: str) -> str:
        """Where one group is."""
        return f"{self.path}/namespaces/{namespace}/podgroups/{name}"

    def queue_path(self, name: str) -> str:
        """Where one queue is."""
        return f"{self.path}/queues/{name}"
