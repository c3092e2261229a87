# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods were bound for which job of the batch system: what the API keeps of that, at the pods themselves. Pure.

A Binding writes it together with the node, over whatever the pod's owner has written there. He can change it later, and
with it his group and his queue. So what is read first of a pod that has its node holds for as long as the pod is there,
and that somebody has changed it is known.
"""

from placement.model.pod import Pod


class Tags:
    """By pods and by tags."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.pods: dict[str, dict[str, None]] = {}
        # Pods that have another by now, or none.
        self.altered: dict[str, None] = {}

    def note(self, pod: Pod) -> None:
        """The pod is as given."""
        known = self.of.get(pod.uid)
        if known is None:
            if pod.tag and pod.node:
                self.of[pod.uid] = pod.tag
                self.pods.setdefault(pod.tag, {})[pod.uid] = None
        elif pod.tag != known:
            self.altered[pod.uid] = None

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        tag = self.of.pop(uid, None)
        if tag is None:
            return
        self.altered.pop(uid, None)
        del self.pods[tag][uid]
        if not self.pods[tag]:
            del self.pods[tag]
