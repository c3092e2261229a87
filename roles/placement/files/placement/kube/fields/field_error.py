# Copyright (c) 2026, converged.hpc maintainers
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An error in one field of an object, on its way to become a `Refusal`; it never leaves this package."""


class FieldError(ValueError):
    """`field` is the path as the API writes it; `reason` fits behind it in one sentence."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def shown(text: object, *, limit: int = 80) -> str:
    """Quote a value from outside for a message, cut to `limit` characters."""
    quoted = repr(text)
    return quoted if len(quoted) <= limit else quoted[: limit - 1] + "…"


def demand(field: str, found: object, expected: str = "nothing") -> str:
    """Return the sentence about a field that demands what is not served: its name, what was found, what is expected."""
    return f"{field}: found {shown(found)}, expected {expected}"
