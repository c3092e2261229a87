# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check finds, and what all findings of a node come to. Pure.

PRIVATE to the collection.
"""

from __future__ import annotations

import typing as t

JSON = t.Mapping[str, t.Any]

REFUSE, WARN, NOTE = "refuse", "warn", "note"
LEVELS = (REFUSE, WARN, NOTE)
CLUSTER = "(cluster)"


class Finding(t.NamedTuple):
    """One thing that is so, and what to do about it."""

    level: str
    code: str
    text: str
    advice: str = ""

    @property
    def words(self) -> str:
        """What is so, and what to do."""
        return self.text + (f": {self.advice}" if self.advice else "")

    def __str__(self) -> str:
        return f"{self.level} [{self.code}] {self.words}"


Findings = t.Iterator[Finding]


def refuse(code: str, text: str, advice: str) -> Finding:
    """Make a finding with which the node cannot be shared."""
    return Finding(REFUSE, code, text, advice)


def warn(code: str, text: str, advice: str = "") -> Finding:
    """Make a finding with which the node can be shared, and that the site should know."""
    return Finding(WARN, code, text, advice)


def note(code: str, text: str, advice: str = "") -> Finding:
    """Make a finding that asks for nothing to be done."""
    return Finding(NOTE, code, text, advice)


class Machine(t.NamedTuple):
    """One node: what the inventory wants of it, what was found on it, and which release of the kubelet it will run."""

    wanted: JSON
    found: JSON
    kubelet: str = ""
    server: str = ""
    min_free: float = 0.0

    @property
    def kubelet_config(self) -> JSON:
        """What the site wants in its KubeletConfiguration."""
        config: t.Optional[JSON] = self.wanted.get("kubelet_config")
        return config or {}

    @property
    def joined_by_us(self) -> bool:
        """It is a node of ours already."""
        return "node_kubelet" in self.found["record"]

    def active(self, *units: str) -> t.List[str]:
        """Return those of the units that run."""
        states = self.found["units"]
        return [unit for unit in units if states.get(unit) in ("active", "activating", "reloading")]


# What hosts are judged for.
SHARED = "fit to be shared"
SCRIPTS = "fit for scripts that do nothing"
CONTROLLER = "fit for the service of batch controllers"
ALONE = "stays with jobs alone"
LEFT_OUT = "left out of this run"
UNJUDGED = "not judged"


class Verdict(t.NamedTuple):
    """All findings of one node, the gravest first, and what it is fit for where none of them is a refusal."""

    findings: t.Tuple[Finding, ...]
    fit: str = SHARED

    @property
    def refusals(self) -> t.Tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == REFUSE)

    @property
    def word(self) -> str:
        """The verdict itself."""
        return "refused" if self.refusals else self.fit


def verdict(findings: t.Iterable[Finding], *, accepted: t.Container[str], fit: str = SHARED) -> Verdict:
    """Return the verdict of findings: a refusal that the site accepts becomes a warning, and still says what it is."""
    judged = [
        finding._replace(level=WARN) if finding.level == REFUSE and finding.code in accepted else finding
        for finding in dict.fromkeys(findings)
    ]
    return Verdict(tuple(sorted(judged, key=lambda finding: LEVELS.index(finding.level))), fit)


def release(text: str) -> t.Tuple[int, int]:
    """Return major and minor of v1.36.3, 1.6.20~ds1 or 6.18.0-1; (0, 0) where there is none."""
    parts = text.lstrip("v").split(".")
    digits = ["".join(char for char in part if char.isdigit()) for part in (*parts, "0", "0")[:2]]
    return (int(digits[0] or 0), int(digits[1] or 0))


def shown(values: t.Sequence[str]) -> str:
    """Return a list in words, however long it is."""
    return ", ".join(values[:8]) + (f" and {len(values) - 8} more" if len(values) > 8 else "")
