# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which edit of ours a text shows, and the text without it. Pure."""

from __future__ import annotations

import hashlib
import typing as t

from . import lines
from .view import Pair, View


def current_pair(view: View, this: str, role: str, text: bytes, text_of: t.Callable[[str], bytes]) -> t.Optional[Pair]:
    """The edit that `text` shows: the last one, unless a run ended after it was recorded and before it was written."""
    found = hashlib.sha256(text).hexdigest()
    pairs = view.edit_of(this, role, found)
    while pairs and found == pairs[-1].before and found != pairs[-1].ours:
        pairs = pairs[:-1]
    if len(pairs) < 2 or found == pairs[-1].ours:
        return pairs[-1] if pairs else None
    conflicts = [len(undo_pair(pair, text, text_of).conflicts) for pair in pairs]
    return pairs[max(at for at, count in enumerate(conflicts) if count == min(conflicts))]


def undo_pair(pair: Pair, text: bytes, text_of: t.Callable[[str], bytes]) -> lines.Undone:
    """`text` without what this edit did."""
    return lines.undo(ours=text_of(pair.ours), without=text_of(pair.without), now=text)
