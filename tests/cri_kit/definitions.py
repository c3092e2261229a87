# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definitions of CRI as Kubernetes publishes them, and the part of them that the bridge ships.

`published/` holds two files of Kubernetes (Apache License 2.0), unaltered: v1 as kubelet 1.36 speaks it, and v1alpha2
of 1.12, which Singularity-CRI was built with. They are taken from the Go module proxy by an ordinary go client:

    sh tests/bootstrap/enter.sh exec python -m cri_kit fetch
    sh tests/bootstrap/enter.sh exec python -m cri_kit write

The second command writes `cri_bridge/wire/definitions.py`: names, numbers and types of the fields that the bridge
reads or writes, and nothing else. The code that protoc generates is not shipped, because it runs only beside protobuf
of its own major version or the next one, and sites install different ones.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc_tools.protoc  # type: ignore[import-untyped]
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from testbed.kube_go import find_go, go_environment, places
from testbed.paths import cache_dir

HERE = Path(__file__).resolve().parent
PUBLISHED = HERE / "published"
WRITTEN = HERE.parents[1] / "roles/singularity_cri/files/cri_bridge/wire/definitions.py"
V1, V1ALPHA2 = "v1", "v1alpha2"
# Module, version and path of each file. k8s.io/cri-api has v1alpha2 of 1.14 and newer only.
SOURCES = {
    V1: ("k8s.io/cri-api", "v0.36.3", "pkg/apis/runtime/v1/api.proto"),
    V1ALPHA2: ("k8s.io/kubernetes", "v1.12.10", "pkg/kubelet/apis/cri/runtime/v1alpha2/api.proto"),
}
# What the bridge reads or writes, by message of v1.
WANTED: dict[str, tuple[str, ...]] = {
    "VersionResponse": ("version", "runtime_name", "runtime_version", "runtime_api_version"),
    "RuntimeConfigResponse": ("linux",),
    "LinuxRuntimeConfiguration": ("cgroup_driver",),
    "ImageFsInfoResponse": ("image_filesystems", "container_filesystems"),
    "FilesystemUsage": (),
    "RunPodSandboxRequest": ("config",),
    "PodSandboxConfig": ("linux",),
    "LinuxPodSandboxConfig": ("security_context",),
    "LinuxSandboxSecurityContext": ("seccomp_profile_path", "seccomp"),
    "SecurityProfile": ("profile_type", "localhost_ref"),
    "CreateContainerRequest": ("config",),
    "ContainerConfig": ("linux",),
    "LinuxContainerConfig": ("security_context",),
    "LinuxContainerSecurityContext": ("apparmor_profile", "seccomp_profile_path", "seccomp", "apparmor"),
    "UpdateContainerResourcesRequest": ("linux",),
    "LinuxContainerResources": ("oom_score_adj",),
    "ListPodSandboxRequest": ("filter",),
    "PodSandboxFilter": ("state",),
    "PodSandboxStateValue": ("state",),
    "ListPodSandboxResponse": ("items",),
    "PodSandbox": ("id", "state"),
    "PodSandboxStatusRequest": ("pod_sandbox_id", "verbose"),
    "PodSandboxStatusResponse": ("status", "info"),
    "PodSandboxStatus": ("id", "state"),
    "ListContainersRequest": ("filter",),
    "ContainerFilter": ("state",),
    "ContainerStateValue": ("state",),
    "ListContainersResponse": ("containers",),
    "Container": ("id", "state"),
    "ContainerStatusRequest": ("container_id", "verbose"),
    "ContainerStatusResponse": ("status", "info"),
    "ContainerStatus": ("id", "state"),
}
# An option of Go's generators, for which protoc would want another file.
_GOGO = re.compile(r"\s*\[\s*\(gogoproto\.\w+\)\s*=\s*[^\]]*\]|^(import|option)\b[^;]*gogo[^;]*;$", re.MULTILINE)
_TYPES = {
    descriptor_pb2.FieldDescriptorProto.TYPE_STRING: "string",
    descriptor_pb2.FieldDescriptorProto.TYPE_BOOL: "bool",
    descriptor_pb2.FieldDescriptorProto.TYPE_INT64: "int64",
}
_HEAD = '''\
# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of CRI v1 that the bridge reads or writes, by message: name, number, type.

Written by `python -m cri_kit write` from the definitions of Kubernetes (Apache License 2.0). Do not edit by hand.
"""

from __future__ import annotations

from typing import Final
'''


def fetch() -> None:
    """Replace the published files by those of the Go module proxy."""
    go = find_go(cache=cache_dir(), among=places())
    environ = {**os.environ, **go_environment(cache_dir())}
    for name, (module, version, path) in SOURCES.items():
        argv = [str(go.program), "mod", "download", "-json", f"{module}@{version}"]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(argv, cwd=folder, env=environ, capture_output=True, timeout=600, check=True)
        target = PUBLISHED / f"{name}.proto"
        shutil.copyfile(Path(json.loads(done.stdout)["Dir"], path), target)
        target.chmod(0o644)


@functools.cache
def described(version: str) -> descriptor_pb2.FileDescriptorProto:
    """Return what protoc reads in a published file."""
    text = _GOGO.sub("", (PUBLISHED / f"{version}.proto").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "api.proto").write_text(text, encoding="utf-8")
        words = ["protoc", f"--proto_path={folder}", f"--descriptor_set_out={folder}/set", "api.proto"]
        if grpc_tools.protoc.main(words) != 0:
            raise ValueError(f"protoc does not read {version}.proto")
        found = descriptor_pb2.FileDescriptorSet.FromString(Path(folder, "set").read_bytes())
    return found.file[0]


@functools.cache
def _pool(version: str) -> Any:
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(described(version))
    return pool


def message_class(version: str, name: str) -> Any:
    """Return the class of a message with all fields of this version."""
    return message_factory.GetMessageClass(_pool(version).FindMessageTypeByName(f"runtime.{version}.{name}"))


def methods(version: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield each method of a version: service, name, request, answer."""
    for service in described(version).service:
        for method in service.method:
            yield service.name, method.name, method.input_type.split(".")[-1], method.output_type.split(".")[-1]


def wanted(version: str = V1) -> str:
    """Return the text of definitions.py; raise KeyError for a field that this version does not have."""
    messages = {each.name: each for each in described(version).message_type}
    enums: dict[str, descriptor_pb2.EnumDescriptorProto] = {}
    for enum in described(version).enum_type:
        enums[enum.name] = enum
    for each in described(version).message_type:
        for enum in each.enum_type:
            enums[enum.name] = enum
    used: set[str] = set()
    lines = [_HEAD, "MESSAGES: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {"]
    for name, fields in WANTED.items():
        known = {field.name: field for field in messages[name].field}
        entries = []
        for field in sorted((known[field] for field in fields), key=lambda field: field.number):
            entries.append(f'("{field.name}", {field.number}, "{_type(messages[name], field, used)}")')
        lines += _entry(name, entries)
    lines += ["}", "ENUMS: Final[dict[str, dict[str, int]]] = {"]
    for name in sorted(used):
        lines.append(f'    "{name}": {{' + ", ".join(f'"{v.name}": {v.number}' for v in enums[name].value) + "},")
    return "\n".join([*lines, "}", ""])


def _entry(name: str, entries: Sequence[str]) -> list[str]:
    line = f'    "{name}": ({", ".join(entries)}{"," if len(entries) == 1 else ""}),'
    if len(line) <= 120:
        return [line]
    return [f'    "{name}": (', *(f"        {entry}," for entry in entries), "    ),"]


def _type(owner: descriptor_pb2.DescriptorProto, field: descriptor_pb2.FieldDescriptorProto, used: set[str]) -> str:
    last = field.type_name.split(".")[-1]
    if field.type == field.TYPE_ENUM:
        used.add(last)
        return f"enum {last}"
    if field.type != field.TYPE_MESSAGE:
        return _TYPES[field.type]
    if any(nested.name == last and nested.options.map_entry for nested in owner.nested_type):
        return "map of string"
    return f"repeated {last}" if field.label == field.LABEL_REPEATED else last


def fields_of(sent: message.Message) -> dict[int, tuple[str, Any]]:
    """Return the fields that are set, by number: name and value."""
    return {field.number: (field.name, value) for field, value in sent.ListFields()}
