# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter for the directory of a node's placeholders, which follows from the kubelet's configuration."""

from __future__ import annotations

import base64
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils import _share_mode
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import parse

FIELD = "staticPodPath"
# How slurp says that there is no such file, under every ansible-core.
NO_FILE = "not found: /var/lib/kubelet/config.yaml"


def placeholder_directory(readings: t.Iterable[t.Mapping[str, t.Any]]) -> str:
    """Return the directory of placeholders on a node, by the first reading that has the kubelet's configuration.

    A reading is the result of a task: of share_node_info, or of slurp for the kubelet's file. A node without that file
    is new. The directory is empty if no reading has the answer: a file that could not be read says nothing.
    """
    for reading in readings:
        fields = _fields(reading)
        if fields is not None:
            return _share_mode.placeholder_directory(str(fields.get(FIELD) or ""))
    return ""


def _fields(reading: t.Mapping[str, t.Any]) -> t.Optional[t.Mapping[str, t.Any]]:
    if "content" in reading:
        return parse.top_level(base64.b64decode(reading["content"]).decode("utf-8", "replace"), (FIELD,))
    if "found" in reading:
        return reading["found"].get("kubelet_file") or {}
    return {} if NO_FILE in str(reading.get("msg", "")) else None


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"placeholder_directory": placeholder_directory}
