# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what `containerd_events.py` has written on a node, and judge whether it can have missed the start of a pod."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class Recording:
    """The lines of one node, oldest first."""

    lines: Sequence[dict[str, Any]]

    @classmethod
    def parse(cls, text: str) -> Recording:
        """Read the log; a last line that is still being written does not count."""
        whole = text[: text.rfind("\n") + 1]
        return cls([json.loads(line) for line in whole.splitlines()])

    def started(self, *, since: float, until: float) -> set[str]:
        """Return the pods of which a container started in that time; a container of no pod is `''`."""
        return {str(one["pod"]) for one in self._starts() if since <= one["at"] <= until}

    def heard_after(self, at: float) -> set[str]:
        """Return the pods whose start after that time was heard when it happened."""
        return {str(one["pod"]) for one in self._starts() if one["heard"] and one["at"] > at}

    def fault(self, *, since: float) -> str:
        """Return why a start after `since` may be missing; empty if none can be.

        Every time must be covered by a recorder that listens, or by a containerd that is not there.
        """
        turns = [one for one in self.lines if one["what"] in ("hears", "gone")]
        if not turns:
            return "the recorder has never heard anything"
        if turns[0]["at"] > since:
            return f"the recorder listens only since {turns[0]['at']:.3f}"
        for earlier, later in pairwise(turns):
            if earlier["what"] == later["what"]:
                return f"the recorder died between {earlier['at']:.3f} and {later['at']:.3f}"
            if later["what"] == "hears" and later["since"] < earlier["at"]:
                return f"the recorder heard nothing from {earlier['at']:.3f} to {later['at']:.3f}, and containerd ran"
        return ""

    def _starts(self) -> list[dict[str, Any]]:
        return [one for one in self.lines if one["what"] == "start"]
