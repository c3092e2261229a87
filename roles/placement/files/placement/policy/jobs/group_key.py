# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which group a pod belongs to, whatever API its group was written in.

Where several say something the first of these counts: `spec.schedulingGroup`, the annotation of kube-batch, that of
Volcano, the label of the coscheduling plugin. Then comes the pod's controller, and at last the pod by itself.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from placement.model.objects.pod import Pod
from placement.model.objects.workload import COSCHEDULING, INCUBATOR, SIGS, UPSTREAM, UPSTREAM_ALPHA, VOLCANO
from placement.model.rules.selector import LabelPairs

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
GROUP_MIN_MEMBER: Final = "scheduling.k8s.io/group-min-member"
# By which Fluence knows how many pods a group has that no object describes.
FLUENCE_SIZE: Final = "fluence.group-size"
VOLCANO_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
# Annotations and labels by which any scheduler knows a gang's members; nodeshare has the same names in the same order.
GANG_NAMES: Final = (GROUP_NAME, VOLCANO_GROUP_NAME, COSCHEDULING_LABEL, "pod-group.scheduling.sigs.k8s.io")
# The name of Volcano's own scheduler, which lets the groups of Volcano's Jobs in; only then these get pods.
VOLCANO_SCHEDULER: Final = "volcano"
# The annotation by which Volcano's controller says of which task of its Job a pod is.
TASK_NAME: Final = "volcano.sh/task-spec"
# In which queue pods belong that have no group which says so; the Queue decides whether it admits their namespace.
QUEUE_NAMES: Final = ("scheduling.converged.hpc/queue", "scheduling.volcano.sh/queue-name")


class Source(IntEnum):
    """What ties pods together."""

    UPSTREAM = 0
    ANNOTATION = 1
    LABEL = 2
    OWNER = 3
    POD = 4


# The APIs in which a group is looked up, by what named it; the first that has it counts.
LOOKED_UP: Final = {
    Source.UPSTREAM: (UPSTREAM, UPSTREAM_ALPHA),
    Source.ANNOTATION: (INCUBATOR, SIGS, VOLCANO),
    Source.LABEL: (COSCHEDULING,),
}
SOURCE_OF: Final = {dialect: source for source, dialects in LOOKED_UP.items() for dialect in dialects}


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """What pods of one group have in common."""

    source: Source
    namespace: str
    name: str

    @property
    def named(self) -> bool:
        """Whether the pods name a group, which may or may not exist."""
        return self.source < Source.OWNER

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def value_of(pairs: LabelPairs, key: str) -> str:
    """Return the value of a label or annotation; empty if it is missing."""
    return next((value for name, value in pairs if name == key), "")


def gang_of(pod: Pod) -> str:
    """Return the gang of a pod, whichever scheduler is to place it; empty if it names none."""
    named = (value_of(pairs, name) for pairs in (pod.annotations, pod.labels) for name in GANG_NAMES)
    return pod.scheduling_group or next(filter(None, named), "")


def group_key(pod: Pod) -> GroupKey:
    """Return the group of a pod."""
    if pod.scheduling_group:
        return GroupKey(Source.UPSTREAM, pod.namespace, pod.scheduling_group)
    if pod.annotations:
        name = value_of(pod.annotations, GROUP_NAME) or value_of(pod.annotations, VOLCANO_GROUP_NAME)
        if name:
            return GroupKey(Source.ANNOTATION, pod.namespace, name)
    name = value_of(pod.labels, COSCHEDULING_LABEL) if pod.labels else ""
    if name:
        return GroupKey(Source.LABEL, pod.namespace, name)
    if pod.owner:
        return GroupKey(Source.OWNER, pod.namespace, pod.owner)
    return GroupKey(Source.POD, pod.namespace, pod.uid)
