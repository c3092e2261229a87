# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that says where the placeholders of a node stand, by what its kubelet reads."""

from __future__ import annotations

import base64
import typing as t

from ansible_collections.converged.hpc.plugins.module_utils import _share_mode
from ansible_collections.converged.hpc.plugins.module_utils._preflight.gather import parse

FIELD = "staticPodPath"


def placeholder_directory(read: t.Mapping[str, t.Any]) -> str:
    """Return the directory of placeholders on a node where a task has `read` the kubelet's configuration.

    The task is one of `share_node_info`, or of `slurp` for the file. Without a file the node is new.
    """
    fields = (read.get("found") or {}).get("kubelet_file") or {}
    if "content" in read:
        fields = parse.top_level(base64.b64decode(read["content"]).decode("utf-8", "replace"), (FIELD,))
    return _share_mode.placeholder_directory(str(fields.get(FIELD) or ""))


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"placeholder_directory": placeholder_directory}
