# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of `torque_node`: what was only planned is no change."""

from __future__ import annotations

from ansible_collections.converged.hpc.plugins.plugin_utils._planned import ActionModule

__all__ = ["ActionModule"]
