# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A refusal: what is wrong with an object or why a pod does not fit, as a value and not as an exception.

It becomes the condition on the object, the Event, the log line and the label of a metric, so it is one sentence.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An object that could not be read. Identity is kept as far as it was readable, to answer on the right object."""

    kind: str
    field: str
    reason: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    version: int = 0
    # Of a pod that could not be read but is on a node: what else it holds there is unknown.
    node: str = ""
    # Whose pod it is: only its own scheduler answers it.
    scheduler_name: str = ""

    def __str__(self) -> str:
        who = "/".join(filter(None, (self.namespace, self.name))) or "(no name)"
        return f"{self.kind} {who}: {self.field}: {self.reason}"
