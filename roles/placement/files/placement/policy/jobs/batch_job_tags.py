# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods were bound for which job of the batch system: what the API keeps of that, at the pods themselves. Pure.

A Binding writes it together with the node, over whatever the pod's owner has written there. The owner can change it
later, and with it the pod's group and queue. So what is read first of a pod that has its node holds for as long as the
pod is there, also that it has no tag. A later change is noticed.
"""

from placement.model.objects.pod import Pod


class BatchJobTags:
    """By pods and by tags."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.pods: dict[str, dict[str, None]] = {}
        # Pods that were bound for none; and those that have another by now than they were bound with, or one at all.
        self.bare: dict[str, None] = {}
        self.altered: dict[str, None] = {}

    def note(self, pod: Pod) -> None:
        """Read the tag of a pod as it is now."""
        known = self.of.get(pod.uid, "" if pod.uid in self.bare else None)
        if known is not None:
            if pod.tag != known:
                self.altered[pod.uid] = None
        elif pod.node and pod.tag:
            self.of[pod.uid] = pod.tag
            self.pods.setdefault(pod.tag, {})[pod.uid] = None
        elif pod.node:
            self.bare[pod.uid] = None

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self.altered.pop(uid, None)
        self.bare.pop(uid, None)
        tag = self.of.pop(uid, None)
        if tag is None:
            return
        del self.pods[tag][uid]
        if not self.pods[tag]:
            del self.pods[tag]
