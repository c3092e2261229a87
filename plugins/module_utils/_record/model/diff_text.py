# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How states are shown to people in steps and diffs. Pure."""

from __future__ import annotations

from .items import FILE, PathState


def attributes(state: PathState) -> str:
    """Return owner and mode in words."""
    return f"owner {state.uid}:{state.gid} mode {state.mode:04o}"


def size(count: int) -> str:
    """Return a content's size in words."""
    return f"{count} bytes"


def digest(state: PathState) -> str:
    """Return what stands for a content that a diff cannot show."""
    return f"sha256 {state.sha256}, {size(state.size)}" if state.kind == FILE else ""


def is_text(data: bytes) -> bool:
    """Return whether a diff can show a content."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
