# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of CRI v1 that the bridge reads or writes, by message: name, number, type.

Written by `python -m cri_kit write` from the definitions of Kubernetes (Apache License 2.0). Do not edit by hand.
"""

from __future__ import annotations

from typing import Final

MESSAGES: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "VersionResponse": (
        ("version", 1, "string"),
        ("runtime_name", 2, "string"),
        ("runtime_version", 3, "string"),
        ("runtime_api_version", 4, "string"),
    ),
    "RuntimeConfigResponse": (("linux", 1, "LinuxRuntimeConfiguration"),),
    "LinuxRuntimeConfiguration": (("cgroup_driver", 1, "enum CgroupDriver"),),
    "ImageFsInfoResponse": (
        ("image_filesystems", 1, "repeated FilesystemUsage"),
        ("container_filesystems", 2, "repeated FilesystemUsage"),
    ),
    "FilesystemUsage": (),
    "RunPodSandboxRequest": (("config", 1, "PodSandboxConfig"),),
    "PodSandboxConfig": (("linux", 8, "LinuxPodSandboxConfig"),),
    "LinuxPodSandboxConfig": (("security_context", 2, "LinuxSandboxSecurityContext"),),
    "LinuxSandboxSecurityContext": (("seccomp_profile_path", 7, "string"), ("seccomp", 9, "SecurityProfile")),
    "SecurityProfile": (("profile_type", 1, "enum ProfileType"), ("localhost_ref", 2, "string")),
    "CreateContainerRequest": (("config", 2, "ContainerConfig"),),
    "ContainerConfig": (("linux", 15, "LinuxContainerConfig"),),
    "LinuxContainerConfig": (("security_context", 2, "LinuxContainerSecurityContext"),),
    "LinuxContainerSecurityContext": (
        ("apparmor_profile", 9, "string"),
        ("seccomp_profile_path", 10, "string"),
        ("seccomp", 15, "SecurityProfile"),
        ("apparmor", 16, "SecurityProfile"),
    ),
    "UpdateContainerResourcesRequest": (("linux", 2, "LinuxContainerResources"),),
    "LinuxContainerResources": (("oom_score_adj", 5, "int64"),),
    "ListPodSandboxRequest": (("filter", 1, "PodSandboxFilter"),),
    "PodSandboxFilter": (("state", 2, "PodSandboxStateValue"),),
    "PodSandboxStateValue": (("state", 1, "enum PodSandboxState"),),
    "ListPodSandboxResponse": (("items", 1, "repeated PodSandbox"),),
    "PodSandbox": (("id", 1, "string"), ("state", 3, "enum PodSandboxState")),
    "PodSandboxStatusRequest": (("pod_sandbox_id", 1, "string"), ("verbose", 2, "bool")),
    "PodSandboxStatusResponse": (("status", 1, "PodSandboxStatus"), ("info", 2, "map of string")),
    "PodSandboxStatus": (("id", 1, "string"), ("state", 3, "enum PodSandboxState")),
    "ListContainersRequest": (("filter", 1, "ContainerFilter"),),
    "ContainerFilter": (("state", 2, "ContainerStateValue"),),
    "ContainerStateValue": (("state", 1, "enum ContainerState"),),
    "ListContainersResponse": (("containers", 1, "repeated Container"),),
    "Container": (("id", 1, "string"), ("state", 6, "enum ContainerState")),
    "ContainerStatusRequest": (("container_id", 1, "string"), ("verbose", 2, "bool")),
    "ContainerStatusResponse": (("status", 1, "ContainerStatus"), ("info", 2, "map of string")),
    "ContainerStatus": (("id", 1, "string"), ("state", 3, "enum ContainerState")),
}
ENUMS: Final[dict[str, dict[str, int]]] = {
    "CgroupDriver": {"SYSTEMD": 0, "CGROUPFS": 1},
    "ContainerState": {"CONTAINER_CREATED": 0, "CONTAINER_RUNNING": 1, "CONTAINER_EXITED": 2, "CONTAINER_UNKNOWN": 3},
    "PodSandboxState": {"SANDBOX_READY": 0, "SANDBOX_NOTREADY": 1},
    "ProfileType": {"RuntimeDefault": 0, "Unconfined": 1, "Localhost": 2},
}
