# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter that says what a share mode asks of a node."""

from __future__ import annotations

import typing as t

from ansible_collections.converged.hpc.plugins.module_utils import _share_mode


class FilterModule:
    """The filters of this file by their names in templates."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"share_mode_on_node": _share_mode.on_node}
