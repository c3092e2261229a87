# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the bridge alters in requests and answers: pure functions from bytes to bytes.

Fields that are not named here keep their value, unknown ones too. A message that needs no change is returned as it is.
"""

from __future__ import annotations

from typing import Any, Callable, Final

from cri_bridge.wire import messages

# The old API's words for profiles.
UNCONFINED: Final = "unconfined"
RUNTIME_DEFAULT: Final = "runtime/default"
LOCALHOST: Final = "localhost/"
# What an empty field of Version is filled with: the kubelet refuses an empty one.
_OF_VERSION: Final = {
    "version": "0.1.0",
    "runtime_name": "unknown",
    "runtime_version": "0.0.0",
    "runtime_api_version": "v1alpha2",
}
Rewrite = Callable[[bytes], bytes]


class Unreadable(Exception):
    """Bytes that are not the message which the method calls for."""


def requests(seccomp_profile: str = "") -> dict[str, Rewrite]:
    """Return what alters requests, by method; the file holds the profile that stands for RuntimeDefault, if given."""
    default = LOCALHOST + seccomp_profile if seccomp_profile else RUNTIME_DEFAULT

    def sandbox(data: bytes) -> bytes:
        request = messages.parse("RunPodSandboxRequest", data)
        context = request.config.linux.security_context
        changed = _translated(context, "seccomp", "seccomp_profile_path", default)
        return _bytes(request, data, changed)

    def container(data: bytes) -> bytes:
        request = messages.parse("CreateContainerRequest", data)
        context = request.config.linux.security_context
        changed = _translated(context, "seccomp", "seccomp_profile_path", default)
        changed = _translated(context, "apparmor", "apparmor_profile", RUNTIME_DEFAULT) or changed
        return _bytes(request, data, changed)

    return {
        "RunPodSandbox": sandbox,
        "CreateContainer": container,
        "UpdateContainerResources": _without_oom_score,
    }


def _translated(context: Any, new: str, old: str, default: str) -> bool:
    """Write the old string of a profile; return whether it was missing."""
    if not context.HasField(new) or getattr(context, old):
        return False
    profile = getattr(context, new)
    kinds = {
        messages.number("ProfileType", "RuntimeDefault"): default,
        messages.number("ProfileType", "Unconfined"): UNCONFINED,
        messages.number("ProfileType", "Localhost"): LOCALHOST + profile.localhost_ref,
    }
    if profile.profile_type not in kinds:
        raise Unreadable(f"{new} has profile_type {profile.profile_type}; known are {sorted(kinds)}")
    setattr(context, old, kinds[profile.profile_type])
    return True


def _without_oom_score(data: bytes) -> bytes:
    """Drop oom_score_adj: Singularity-CRI writes it to oom_adj, which refuses it, so a resize would never end."""
    request = messages.parse("UpdateContainerResourcesRequest", data)
    changed = request.linux.oom_score_adj != 0
    if changed:
        request.linux.ClearField("oom_score_adj")
    return _bytes(request, data, changed)


def _filled_version(data: bytes) -> bytes:
    answer = messages.parse("VersionResponse", data)
    empty = [field for field in _OF_VERSION if not getattr(answer, field)]
    for field in empty:
        setattr(answer, field, _OF_VERSION[field])
    return _bytes(answer, data, bool(empty))


def _filled_filesystems(data: bytes) -> bytes:
    """Copy the file systems of images to those of containers, which the old API does not have."""
    answer = messages.parse("ImageFsInfoResponse", data)
    changed = bool(answer.image_filesystems) and not answer.container_filesystems
    if changed:
        answer.container_filesystems.extend(answer.image_filesystems)
    return _bytes(answer, data, changed)


def _bytes(message: Any, before: bytes, changed: bool) -> bytes:
    after: bytes = message.SerializeToString() if changed else before
    return after


def runtime_config() -> bytes:
    """Return the answer to RuntimeConfig: the runtime makes its cgroups itself, not by systemd."""
    answer = messages.new("RuntimeConfigResponse")
    answer.linux.cgroup_driver = messages.number("CgroupDriver", "CGROUPFS")
    data: bytes = answer.SerializeToString()
    return data


ANSWERS: Final[dict[str, Rewrite]] = {"Version": _filled_version, "ImageFsInfo": _filled_filesystems}
