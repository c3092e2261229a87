# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the daemon decides to do; `kube` carries it out, and the result comes back as events."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """Put a pod on a node; the UID goes along, so that a namesake is never bound."""

    uid: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Ask a pod to leave, through the Eviction API."""

    uid: str
    namespace: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStatus:
    """Write part of an object's status."""

    api_version: str
    kind: str
    uid: str
    namespace: str
    name: str
    status: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """Tell the object's owner; one per change of reason."""

    kind: str
    uid: str
    namespace: str
    name: str
    reason: str
    message: str
    warning: bool = False


Action = Bind | Evict | PatchStatus | EmitEvent
