# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods of CRI v1 and what the bridge does with each: the one table of the bridge.

A method that is missing here gets UNIMPLEMENTED as well, so a later CRI adds nothing silently.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

V1: Final = "runtime.v1"
V1ALPHA2: Final = "runtime.v1alpha2"
RUNTIME: Final = "RuntimeService"
IMAGES: Final = "ImageService"


class Way(enum.Enum):
    """What happens to a call."""

    FORWARD = "forward"  # request and answer pass, edited where `translation.py` names the method
    ANSWER = "answer"  # the bridge answers by itself
    REFUSE = "refuse"  # UNIMPLEMENTED: the old API has no such method


class Kept(enum.Enum):
    """How long the answer of a query may be given again."""

    NOT = "not"
    SHORT = "short"  # for the seconds of the option
    SETTLED = "settled"  # longer, while no process of a listed object can have ended unseen


class Changes(enum.Enum):
    """Which kept answers a call makes void."""

    NOTHING = "nothing"
    STATE = "state"
    IMAGES = "images"


@dataclass(frozen=True)
class Method:
    """One method of CRI v1."""

    service: str
    name: str
    way: Way = Way.FORWARD
    kept: Kept = Kept.NOT
    changes: Changes = Changes.NOTHING

    @property
    def served(self) -> str:
        """Return the path that the kubelet calls."""
        return f"/{V1}.{self.service}/{self.name}"

    @property
    def called(self) -> str:
        """Return the path that the runtime is called by."""
        return f"/{V1ALPHA2}.{self.service}/{self.name}"


def _runtime(name: str, way: Way = Way.FORWARD, kept: Kept = Kept.NOT, changes: Changes = Changes.NOTHING) -> Method:
    return Method(RUNTIME, name, way, kept, changes)


def _images(name: str, way: Way = Way.FORWARD, kept: Kept = Kept.NOT, changes: Changes = Changes.NOTHING) -> Method:
    return Method(IMAGES, name, way, kept, changes)


METHODS: Final = (
    _runtime("Version", kept=Kept.SHORT),
    _runtime("Status"),
    _runtime("RunPodSandbox", changes=Changes.STATE),
    _runtime("StopPodSandbox", changes=Changes.STATE),
    _runtime("RemovePodSandbox", changes=Changes.STATE),
    _runtime("PodSandboxStatus", kept=Kept.SETTLED),
    _runtime("ListPodSandbox", kept=Kept.SETTLED),
    _runtime("CreateContainer", changes=Changes.STATE),
    _runtime("StartContainer", changes=Changes.STATE),
    _runtime("StopContainer", changes=Changes.STATE),
    _runtime("RemoveContainer", changes=Changes.STATE),
    _runtime("ListContainers", kept=Kept.SETTLED),
    _runtime("ContainerStatus", kept=Kept.SETTLED),
    _runtime("UpdateContainerResources", changes=Changes.STATE),
    _runtime("ReopenContainerLog"),
    _runtime("ExecSync"),
    _runtime("Exec"),
    _runtime("Attach"),
    _runtime("PortForward"),
    _runtime("ContainerStats", kept=Kept.SHORT),
    _runtime("ListContainerStats", kept=Kept.SHORT),
    _runtime("UpdateRuntimeConfig", changes=Changes.STATE),
    _runtime("RuntimeConfig", Way.ANSWER),
    _runtime("PodSandboxStats", Way.REFUSE),
    _runtime("ListPodSandboxStats", Way.REFUSE),
    _runtime("CheckpointContainer", Way.REFUSE),
    _runtime("GetContainerEvents", Way.REFUSE),
    _runtime("ListMetricDescriptors", Way.REFUSE),
    _runtime("ListPodSandboxMetrics", Way.REFUSE),
    _runtime("UpdatePodSandboxResources", Way.REFUSE),
    _runtime("StreamPodSandboxes", Way.REFUSE),
    _runtime("StreamContainers", Way.REFUSE),
    _runtime("StreamContainerStats", Way.REFUSE),
    _runtime("StreamPodSandboxStats", Way.REFUSE),
    _runtime("StreamPodSandboxMetrics", Way.REFUSE),
    _images("ListImages", kept=Kept.SHORT),
    _images("ImageStatus"),
    _images("PullImage", changes=Changes.IMAGES),
    _images("RemoveImage", changes=Changes.IMAGES),
    _images("ImageFsInfo", kept=Kept.SHORT),
    _images("StreamImages", Way.REFUSE),
)
SERVED: Final = {method.served: method for method in METHODS}
BY_NAME: Final = {method.name: method for method in METHODS}
