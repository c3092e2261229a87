# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bed's parts do right now, asked of the parts themselves and not of our own record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from testbed import controlplane, machines, nodes, pbs, torque
from testbed.down import podman_of
from testbed.errors import BedError
from testbed.kube_config import LOAD_LABEL
from testbed.podman import Podman
from testbed.state import Bed

# Slurm's words for a node that takes jobs; a trailing * means that it does not answer.
SLURM_GOOD = frozenset({"idle", "mixed", "allocated", "completing"})


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a bed, its state in the part's own word, and whether that is good."""

    kind: str
    name: str
    state: str
    good: bool


def parts(bed: Bed) -> list[Part]:
    """Containers, machines, batch nodes, API server and cluster nodes."""
    podman = podman_of(bed)
    states = podman.states(f"{bed.name}-")
    containers = [(host.container, states.get(host.container, "missing")) for host in bed.hosts if not host.machine]
    found = [Part("container", name, state, state == "running") for name, state in containers]
    found += [Part("machine", name, state, state == "running") for name, state in machines.states(bed).items()]
    if bed.wlm == "slurm":
        found += slurm_parts(podman, bed)
    if bed.wlm == "pbs":
        found += pbs_parts(podman, bed)
    if bed.wlm == "torque":
        found += torque_parts(podman, bed)
    if bed.kube:
        found += kube_parts(bed)
    return found


def slurm_parts(podman: Podman, bed: Bed) -> list[Part]:
    """Batch nodes as slurmctld sees them."""
    try:
        states = nodes.slurm_states(podman, bed)
    except BedError as error:
        return [Part("slurmctld", "ctl", str(error), False)]
    controller = Part("slurmctld", "ctl", "up", True)
    return [controller, *(Part("slurm node", name, state, state in SLURM_GOOD) for name, state in states.items())]


def pbs_parts(podman: Podman, bed: Bed) -> list[Part]:
    """Batch nodes as PBS sees them."""
    try:
        states = pbs.states(podman, bed)
    except BedError as error:
        return [Part("PBS server", "ctl", str(error), False)]
    found = [Part("PBS node", name, state, set(state.split(",")) <= pbs.GOOD) for name, state in states.items()]
    return [Part("PBS server", "ctl", "up", True), *found]


def torque_parts(podman: Podman, bed: Bed) -> list[Part]:
    """Batch nodes as Torque sees them."""
    try:
        states = torque.states(podman, bed)
    except BedError as error:
        return [Part("Torque server", "ctl", str(error), False)]
    found = [Part("Torque node", name, state, set(state.split(",")) <= torque.GOOD) for name, state in states.items()]
    return [Part("Torque server", "ctl", "up", True), *found]


def kube_parts(bed: Bed) -> list[Part]:
    """The API server, and the nodes that have joined."""
    try:
        api = controlplane.admin(bed)
        # Nodes for load have no machines behind them, and are too many to list.
        members = api.items(f"/api/v1/nodes?labelSelector={quote('!' + LOAD_LABEL)}")
    except (BedError, OSError) as error:
        return [Part("API server", "kube", str(error), False)]
    return [Part("API server", "kube", "ready", True), *(kube_node(member) for member in members)]


def kube_node(member: dict[str, Any]) -> Part:
    """One Node object; a new one has no conditions yet."""
    conditions = member.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return Part("cluster node", member["metadata"]["name"], "Ready" if ready else "NotReady", ready)


def faults(found: list[Part]) -> list[str]:
    """What is not as it should be, in words."""
    return [f"{part.kind} {part.name} is {part.state}" for part in found if not part.good]
